//! What operators are given: small, seldom empty, seldom extreme.

use streampool_conformance::hostile;
use streampool_device::MAX_RANK;
use streampool_tensor::{DType, Layout, Pool, Tensor};

use crate::common::Rng;

/// A source of arguments.
pub struct Given {
    pool: Pool,
    choices: Rng,
    /// The type of most tensors of a call.
    dtype: DType,
    /// Whether sizes are extreme now and then, and lie in little memory all the same.
    hostile: Option<Laid>,
}

/// How what is hostile lies in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Laid {
    /// Elements are seen often, backward and over one another.
    Anyhow,
    /// The same values one by one, where they are few.
    Dense,
}

/// Elements of memory that a hostile tensor is a view of.
const ROOM: usize = 4096;

impl Given {
    pub fn new(pool: &Pool, seed: u64) -> Given {
        let mut choices = Rng::new(seed);
        let dtype = match choices.below(4) {
            0 => DType::ALL[choices.below(DType::ALL.len())],
            1 => DType::F64,
            _ => DType::F32,
        };
        Given {
            pool: pool.clone(),
            choices,
            dtype,
            hostile: None,
        }
    }

    /// As [`new`](Self::new), but with numbers of somebody who wishes us ill.
    pub fn hostile(pool: &Pool, seed: u64, laid: Laid) -> Given {
        Given {
            hostile: Some(laid),
            ..Given::new(pool, seed)
        }
    }

    /// The size, or seldom an extreme one.
    fn extreme(&mut self, size: usize) -> usize {
        match self.hostile.is_some() && self.seldom(10) {
            true => self.one_of(&hostile::EXTREME),
            false => size,
        }
    }

    pub fn pool(&self) -> Pool {
        self.pool.clone()
    }

    /// Once in `times`.
    pub fn seldom(&mut self, times: usize) -> bool {
        self.choices.chance(times)
    }

    pub fn one_of<T: Copy>(&mut self, of: &[T]) -> T {
        self.choices.pick(of)
    }

    pub fn dtype(&mut self) -> DType {
        match self.seldom(6) {
            true => self.one_of(&DType::ALL),
            false => self.dtype,
        }
    }

    pub fn shape(&mut self) -> Vec<usize> {
        let rank = self.one_of(&[0, 1, 2, 2, 3, 3, 3, 4, 4, 5, 8]);
        let most = if rank > 5 { 2 } else { 5 };
        (0..rank)
            .map(|_| match self.seldom(12) {
                true => 0,
                false => {
                    let usual = 1 + self.choices.below(most);
                    self.extreme(usual)
                }
            })
            .collect()
    }

    /// A shape of so many axes, mostly.
    pub fn shape_of(&mut self, rank: usize) -> Vec<usize> {
        if self.seldom(10) {
            return self.shape();
        }
        (0..rank)
            .map(|_| match self.seldom(20) {
                true => 0,
                false => {
                    let usual = 1 + self.choices.below(6);
                    self.extreme(usual)
                }
            })
            .collect()
    }

    /// A tensor of this shape, mostly, of the call's type, mostly, lying in memory somehow.
    pub fn tensor(&mut self, shape: &[usize]) -> Tensor {
        let dtype = self.dtype();
        self.tensor_of(shape, dtype)
    }

    pub fn tensor_of(&mut self, shape: &[usize], dtype: DType) -> Tensor {
        let other = self.seldom(15).then(|| self.shape());
        let shape = other.as_deref().unwrap_or(shape);
        let shape = &shape[..shape.len().min(MAX_RANK)];
        if let Some(laid) = self.hostile {
            return self.wild(shape, dtype, laid);
        }
        let values: Vec<f32> = (0..shape.iter().product())
            .map(|_| match self.choices.below(40) {
                0 => self.one_of(&[f32::NAN, f32::INFINITY, -0.0, 1e30]),
                _ => self.choices.between(-40, 40) as f32 / 10.0,
            })
            .collect();
        let made = Tensor::from_slice(&self.pool, &values, shape).unwrap();
        let made = made.to_dtype(dtype).unwrap();
        self.laid(made)
    }

    /// Indices that are mostly inside `size`.
    pub fn indices(&mut self, shape: &[usize], size: usize) -> Tensor {
        let shape = &shape[..shape.len().min(MAX_RANK)];
        let size = size.max(1) as i64;
        let far = if self.seldom(8) { 3 } else { 0 };
        if let Some(laid) = self.hostile {
            let dtype = self.one_of(&[DType::I64, DType::I64, DType::I32, DType::U8]);
            return self.wild(shape, dtype, laid);
        }
        let values: Vec<i64> = (0..shape.iter().product())
            .map(|_| self.choices.between(-size - far, size - 1 + far))
            .collect();
        let made = Tensor::from_slice(&self.pool, &values, shape).unwrap();
        let dtype = self.one_of(&[DType::I64, DType::I64, DType::I32, DType::I32, DType::U8]);
        let made = made.to_dtype(dtype).unwrap();
        self.laid(made)
    }

    /// A view of little memory, of any shape that has one.
    fn wild(&mut self, shape: &[usize], dtype: DType, laid: Laid) -> Tensor {
        let shape: Vec<usize> = shape.iter().map(|&size| self.extreme(size)).collect();
        // Floats whose sums are exact, and other numbers of all kinds: as indices, a few of which are in range.
        let words: [u64; 7] = match dtype {
            DType::F16 => [0x3c00, 0xb800, 0x4000, 0, 0, 0, 0],
            DType::BF16 => [0x3f80, 0xbf00, 0x4000, 0, 0, 0, 0],
            DType::F64 => [1f64, -0.5, 2.0, 0.0, 0.0, 0.0, 0.0].map(f64::to_bits),
            DType::F32 => [0x3f80_0000, 0xbf00_0000, 0x4000_0000, 0, 0, 0, 0],
            DType::Bool => [1, 0, 1, 0, 0, 0, 0],
            _ => [0x3f80_0000, 0xbf00_0000, 1, 0, 0, 0, 0],
        };
        // Integers of any size are cut out of words of four bytes.
        let is_whole = dtype.is_float() || dtype == DType::Bool;
        let length = if is_whole { dtype.size() } else { 4 };
        let words = words.map(u64::to_le_bytes);
        let bytes = words.iter().flat_map(|word| &word[..length]).copied();
        let bytes: Vec<u8> = bytes.cycle().take(ROOM * dtype.size()).collect();
        let pool = self.pool();
        let stream = pool.current().unwrap();
        let mut buffer = stream.allocate(bytes.len()).unwrap();
        stream.upload(&mut buffer, &bytes).unwrap();
        let layout = hostile::layout(self.choices.bits(), &shape, ROOM);
        let layout = layout.unwrap_or(Layout::contiguous(&[1, 2]).unwrap());
        let made = Tensor::from_buffer(&pool, buffer, dtype, layout);
        // There is none where it begins beyond the memory.
        let made = made.unwrap_or_else(|_| Tensor::from_slice(&pool, &[1i32, 0], &[2]).unwrap());
        match laid {
            Laid::Dense if made.elem_count() <= ROOM => made.dense().unwrap_or(made),
            _ => made,
        }
    }

    /// The same values, otherwise in memory.
    fn laid(&mut self, made: Tensor) -> Tensor {
        if made.rank() == 0 {
            return made;
        }
        let axis = self.choices.below(made.rank()) as isize;
        match self.choices.below(6) {
            0 => {
                let turned = made.transpose(axis, 0).unwrap().contiguous().unwrap();
                turned.transpose(axis, 0).unwrap()
            }
            1 => {
                let back = made.flip(&[axis]).unwrap().contiguous().unwrap();
                back.flip(&[axis]).unwrap()
            }
            2 if made.rank() < 8 => {
                let shape = [made.shape(), &[2]].concat();
                let wide = made.unsqueeze(-1).unwrap().broadcast_to(&shape).unwrap();
                wide.contiguous().unwrap().select(-1, 1).unwrap()
            }
            3 => {
                let one = made
                    .narrow(axis, 0, made.shape()[axis as usize].min(1))
                    .unwrap();
                match one.elem_count() {
                    0 => made,
                    _ => one.broadcast_to(made.shape()).unwrap(),
                }
            }
            _ => made,
        }
    }

    /// A further tensor, mostly there.
    pub fn maybe(&mut self, shape: &[usize]) -> Option<Tensor> {
        (!self.seldom(3)).then(|| self.tensor(shape))
    }

    /// An axis, mostly one that there is.
    pub fn axis(&mut self, rank: usize) -> isize {
        match self.choices.below(15) {
            0 => self.one_of(&[isize::MIN, isize::MAX, 8, -9]),
            _ => {
                let rank = rank.max(1) as i64;
                self.choices.between(-rank, rank - 1) as isize
            }
        }
    }

    /// A small number, seldom an extreme one.
    pub fn count(&mut self, low: usize, high: usize) -> usize {
        let seldom = if self.hostile.is_some() { 8 } else { 25 };
        match self.choices.below(seldom) {
            0 if self.hostile.is_some() => self.one_of(&hostile::EXTREME),
            0 => self.one_of(&[0, 1 << 20, 1 << 40, usize::MAX / 2, usize::MAX]),
            _ => low + self.choices.below(high - low + 1),
        }
    }

    /// As many counts as wanted, mostly, or none.
    pub fn counts(&mut self, rank: usize, low: usize, high: usize) -> Vec<usize> {
        let rank = match self.choices.below(12) {
            0 => self.choices.below(5),
            1..4 => 0,
            _ => rank,
        };
        (0..rank).map(|_| self.count(low, high)).collect()
    }

    pub fn padding(&mut self, rank: usize, most: usize) -> Vec<(usize, usize)> {
        let counts = self.counts(rank, 0, most);
        counts
            .into_iter()
            .map(|before| (before, self.count(0, most)))
            .collect()
    }

    pub fn float(&mut self) -> f64 {
        match self.choices.below(12) {
            0 => self.one_of(&[f64::NAN, f64::INFINITY, -1.0, 0.0, 1e300]),
            _ => self.choices.between(1, 40) as f64 / 10.0,
        }
    }

    pub fn coin(&mut self) -> bool {
        self.seldom(2)
    }
}
