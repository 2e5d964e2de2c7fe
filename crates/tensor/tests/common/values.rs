//! Values by the words of the documentation, and tensors of the same values that lie otherwise in memory.

use half::{bf16, f16};
use streampool_tensor::{Element, Padding, Pool, Tensor};

use super::Rng;

/// A shape and its elements, row-major.
#[derive(Debug, Clone, PartialEq)]
pub struct Values<T> {
    pub shape: Vec<usize>,
    pub values: Vec<T>,
}

/// Every index of a shape, row-major.
pub fn indices(shape: &[usize]) -> Vec<Vec<usize>> {
    let count: usize = shape.iter().product();
    (0..count)
        .map(|element| {
            let (mut rest, mut index) = (element, vec![0; shape.len()]);
            for axis in (0..shape.len()).rev() {
                index[axis] = rest % shape[axis];
                rest /= shape[axis];
            }
            index
        })
        .collect()
}

impl<T: Element> Values<T> {
    /// The value of `shape` whose element at each index is what `at` says.
    pub fn from_fn(shape: &[usize], at: impl FnMut(Vec<usize>) -> T) -> Self {
        Values {
            shape: shape.to_vec(),
            values: indices(shape).into_iter().map(at).collect(),
        }
    }

    pub fn random(choices: &mut Rng, shape: &[usize], of: impl Fn(&mut Rng) -> T) -> Self {
        Values::from_fn(shape, |_| of(choices))
    }

    /// What a tensor holds.
    pub fn of(tensor: &Tensor) -> Self {
        Values {
            shape: tensor.shape().to_vec(),
            values: tensor.to_vec().unwrap(),
        }
    }

    pub fn at(&self, index: &[usize]) -> T {
        let place = index
            .iter()
            .zip(&self.shape)
            .fold(0, |place, (&index, &size)| place * size + index);
        self.values[place]
    }

    /// The element that is at an index of a shape it broadcasts to.
    pub fn broadcast_at(&self, index: &[usize]) -> T {
        let own = &index[index.len() - self.shape.len()..];
        let own: Vec<usize> = own
            .iter()
            .zip(&self.shape)
            .map(|(&index, &size)| if size == 1 { 0 } else { index })
            .collect();
        self.at(&own)
    }

    /// A tensor of these values, somehow laid out.
    pub fn tensor(&self, choices: &mut Rng, pool: &Pool) -> Tensor {
        let tensor = Tensor::from_slice(pool, &self.values, &self.shape).unwrap();
        disguised(choices, &tensor)
    }
}

/// A tensor of the same values that may lie otherwise in memory: in another order of axes, backwards, or as part
/// of something larger.
pub fn disguised(choices: &mut Rng, tensor: &Tensor) -> Tensor {
    let rank = tensor.rank();
    if rank == 0 {
        return tensor.clone();
    }
    let axis = choices.below(rank) as isize;
    match choices.below(5) {
        0 => {
            let other = choices.below(rank) as isize;
            let turned = tensor.transpose(axis, other).unwrap();
            let laid = turned.contiguous().unwrap();
            laid.transpose(axis, other).unwrap()
        }
        1 => {
            let turned = tensor.flip(&[axis]).unwrap().contiguous().unwrap();
            turned.flip(&[axis]).unwrap()
        }
        2 => {
            let mut amounts = vec![(0, 0); rank];
            amounts[axis as usize] = (2, 1);
            let larger = tensor.pad(&amounts, Padding::Constant(1.into())).unwrap();
            let size = tensor.shape()[axis as usize];
            larger.narrow(axis, 2, size).unwrap()
        }
        3 => {
            let twice = tensor.repeat_interleave(2, axis).unwrap();
            twice.slice(axis, .., 2).unwrap()
        }
        _ => tensor.clone(),
    }
}

/// What two sizes of one axis broadcast to, by pairing their places: equal ones, or any with the only one. `None` if
/// a place of many has no partner.
pub fn joined_size(a: usize, b: usize) -> Option<usize> {
    let pairs: Vec<(usize, usize)> = (0..a)
        .flat_map(|x| (0..b).map(move |y| (x, y)))
        .filter(|&(x, y)| x == y || a == 1 || b == 1)
        .collect();
    let met = (0..a).all(|x| a == 1 || pairs.iter().any(|pair| pair.0 == x))
        && (0..b).all(|y| b == 1 || pairs.iter().any(|pair| pair.1 == y));
    met.then_some(pairs.len())
}

/// What two shapes broadcast to, aligned from the right.
pub fn joined(a: &[usize], b: &[usize]) -> Option<Vec<usize>> {
    let rank = a.len().max(b.len());
    let size = |shape: &[usize], axis: usize| match (axis + shape.len()).checked_sub(rank) {
        Some(own) => shape[own],
        None => 1,
    };
    (0..rank)
        .map(|axis| joined_size(size(a, axis), size(b, axis)))
        .collect()
}

/// A shape of up to eight axes and few elements; sizes of zero are rare.
pub fn shape(choices: &mut Rng, most_axes: usize) -> Vec<usize> {
    let rank = choices.below(most_axes + 1);
    let mut left = 240;
    (0..rank)
        .map(|_| {
            let size = match choices.below(24) {
                0 => 0,
                _ => 1 + choices.below(7.min(left)),
            };
            left = (left / size.max(1)).max(1);
            size
        })
        .collect()
}

/// A shape that broadcasts to `whole`.
pub fn part(choices: &mut Rng, whole: &[usize]) -> Vec<usize> {
    let lead = match choices.below(3) {
        0 => choices.below(whole.len() + 1),
        _ => 0,
    };
    whole[lead..]
        .iter()
        .map(|&size| if choices.below(4) == 0 { 1 } else { size })
        .collect()
}

/// An element that is a float.
pub trait Float: Element {
    /// How far off a function may be, relatively.
    const TOLERANCE: f64;
    fn narrow(value: f64) -> Self;
    fn wide(self) -> f64;

    /// Whether it is what `wanted` rounds to, but for a few errors of rounding.
    fn is_near(self, wanted: f64) -> bool {
        let (got, rounded) = (self.wide(), Self::narrow(wanted).wide());
        if got.is_nan() || rounded.is_nan() {
            return got.is_nan() && rounded.is_nan();
        }
        if got.is_infinite() || rounded.is_infinite() {
            // One of the two may have rounded to the largest that is finite.
            let nearly = |value: f64| Self::narrow(value * (1.0 + 2.0 * Self::TOLERANCE)).wide();
            return nearly(got) == nearly(wanted);
        }
        (got - wanted).abs() <= Self::TOLERANCE * (wanted.abs() + 0.1)
    }
}

macro_rules! floats {
    ($($float:ty: $tolerance:expr, |$narrow:ident| $from:expr, |$wide:ident| $to:expr;)*) => {$(
        impl Float for $float {
            const TOLERANCE: f64 = $tolerance;
            fn narrow($narrow: f64) -> Self {
                $from
            }
            fn wide(self) -> f64 {
                let $wide = self;
                $to
            }
        }
    )*};
}

floats! {
    f32: 1e-5, |x| x as f32, |x| f64::from(x);
    f64: 1e-12, |x| x, |x| x;
    f16: 2e-3, |x| f16::from_f64(x), |x| x.to_f64();
    bf16: 1e-2, |x| bf16::from_f64(x), |x| x.to_f64();
}

/// An element that is an integer.
pub trait Integer: Element {
    fn wrap(value: i128) -> Self;
    fn wide(self) -> i128;
    const BITS: u32;
    const SIGNED: bool;

    fn random(choices: &mut Rng) -> Self {
        Self::wrap(match choices.below(4) {
            0 => i128::from(choices.bits()),
            1 => -i128::from(choices.bits() >> 63) << (Self::BITS - 1),
            2 => 0,
            _ => choices.between(-9, 9) as i128,
        })
    }
}

macro_rules! integers {
    ($($int:ident),*) => {$(
        impl Integer for $int {
            const BITS: u32 = $int::BITS;
            const SIGNED: bool = $int::MIN != 0;
            fn wrap(value: i128) -> Self {
                value as $int
            }
            fn wide(self) -> i128 {
                self as i128
            }
        }
    )*};
}

integers!(i8, u8, i16, u16, i32, u32, i64, u64);

/// A float of moderate size, or a special one.
pub fn any_float<T: Float>(choices: &mut Rng) -> T {
    const SPECIAL: [f64; 8] = [
        f64::NAN,
        f64::INFINITY,
        f64::NEG_INFINITY,
        0.0,
        -0.0,
        1.0,
        -1.0,
        1e-3,
    ];
    match choices.below(6) {
        0 => T::narrow(SPECIAL[choices.below(SPECIAL.len())]),
        _ => moderate(choices),
    }
}

/// A float between -6 and 6.
pub fn moderate<T: Float>(choices: &mut Rng) -> T {
    T::narrow(choices.between(-6_000_000, 6_000_000) as f64 / 1e6)
}
