//! Where the bytes of an array are.

#![expect(
    unsafe_code,
    reason = "reads the memory of tensors on the host, and lends memory to its device"
)]

use std::ptr::NonNull;
use std::sync::Arc;

use streampool_device::{Aligned, DeviceKind, Layout, Span};
use streampool_runtime::{Buffer, DType, Pool};

use crate::room::{filled, no_room, room};
use crate::{Result, Tensor};

/// What has as many bytes lies where programs on the host can read and write it. Less is copied sooner than lent.
pub(super) const LARGE: usize = 1 << 16;

const WORD: usize = size_of::<u64>();

/// The bytes of an array, which never change.
#[derive(Clone)]
pub(super) enum Memory {
    /// Few, in words so that elements of any type are aligned; the last word may not be full.
    Words(Vec<u64>),
    /// Many.
    Large(Arc<Aligned>),
    /// Those of a tensor on the host, which are computed and fill its memory.
    Tensor(Box<Tensor>),
}

impl Memory {
    /// So many bytes, zeros but for what `write` makes of them.
    pub(super) fn made(bytes: usize, write: impl FnOnce(&mut [u8])) -> Result<Memory> {
        if bytes >= LARGE {
            let mut memory = Aligned::zeroed(bytes).ok_or_else(|| no_room::<u8>(bytes))?;
            write(memory.as_mut_slice());
            return Ok(Memory::Large(Arc::new(memory)));
        }
        let mut words = filled(0, bytes.div_ceil(WORD))?;
        write(&mut bytemuck::cast_slice_mut(&mut words)[..bytes]);
        Ok(Memory::Words(words))
    }

    /// A copy of these.
    pub(super) fn copied(bytes: &[u8]) -> Result<Memory> {
        if bytes.len() >= LARGE {
            let copy = Aligned::copied(bytes).ok_or_else(|| no_room::<u8>(bytes.len()))?;
            return Ok(Memory::Large(Arc::new(copy)));
        }
        let (whole, rest) = bytes.as_chunks();
        let mut words = room(bytes.len().div_ceil(WORD))?;
        words.extend(whole.iter().copied().map(u64::from_ne_bytes));
        if !rest.is_empty() {
            let mut last = [0; WORD];
            last[..rest.len()].copy_from_slice(rest);
            words.push(u64::from_ne_bytes(last));
        }
        Ok(Memory::Words(words))
    }

    /// The memory of a tensor, if it is many bytes on the host and the tensor fills it; after waiting for them.
    pub(super) fn of(tensor: &Tensor) -> Result<Option<Memory>> {
        let bytes = tensor.elem_count() * tensor.dtype().size();
        let is_whole = tensor.is_contiguous() && tensor.layout().offset() == 0;
        let is_host = tensor.pool().device().properties().kind == DeviceKind::Host;
        if !is_host || !is_whole || bytes < LARGE || bytes != tensor.buffer().bytes() {
            return Ok(None);
        }
        let computed = tensor.pool().current()?.wait_for_buffer(tensor.buffer());
        // Who reads it otherwise is told why it failed.
        Ok(computed
            .is_ok()
            .then(|| Memory::Tensor(Box::new(tensor.clone()))))
    }

    /// A tensor that reads these bytes where they are, if they are many and the pool is the host's.
    pub(super) fn lent(
        &self,
        pool: &Pool,
        dtype: DType,
        shape: &[usize],
    ) -> Result<Option<Tensor>> {
        let layout = Layout::contiguous(shape).map_err(streampool_runtime::Error::from)?;
        let memory = match self {
            Memory::Large(memory) if pool.device().properties().kind == DeviceKind::Host => memory,
            Memory::Tensor(tensor) if tensor.pool().is_same(pool) => {
                return Ok(Some(Tensor::clone(tensor)));
            }
            _ => return Ok(None),
        };
        let span = Span {
            handle: memory.first().expose_provenance().get() as u64,
            offset: 0,
            bytes: memory.bytes(),
        };
        let owner = memory.clone();
        // SAFETY: the host's device reaches this process's memory by its addresses. It is aligned, and stays until `owner` is
        // dropped, which the release does. Nobody writes it: neither arrays, nor who has a tensor that is lent its memory.
        let buffer = unsafe { pool.adopt(span, move || drop(owner)) }?;
        Ok(Some(Tensor::lent(pool, buffer, dtype, layout)?))
    }

    /// All bytes of its words.
    pub(super) fn bytes(&self) -> &[u8] {
        match self {
            Memory::Words(words) => bytemuck::cast_slice(words),
            Memory::Large(memory) => memory.as_slice(),
            Memory::Tensor(tensor) => {
                let span = tensor.buffer().span();
                let first = (span.handle as usize).wrapping_add(span.offset);
                // SAFETY: on the host the device has its memory at addresses of this process. The tensor keeps it, it was
                // computed when `of` waited for it, and nothing writes the memory of a tensor.
                unsafe {
                    std::slice::from_raw_parts(std::ptr::with_exposed_provenance(first), span.bytes)
                }
            }
        }
    }
}

/// The memory of an array that nothing else has. Who has it may write there.
pub struct OwnMemory(Own);

enum Own {
    Large(Aligned),
    /// Its pool goes after it.
    Buffer(Buffer, #[expect(dead_code, reason = "it is kept")] Pool),
}

impl OwnMemory {
    /// That of `memory`, if it is large and nothing else has it.
    pub(super) fn of(memory: Memory) -> Result<OwnMemory, Memory> {
        match memory {
            Memory::Words(_) => Err(memory),
            Memory::Large(large) => match Arc::try_unwrap(large) {
                Ok(large) => Ok(OwnMemory(Own::Large(large))),
                Err(large) => Err(Memory::Large(large)),
            },
            Memory::Tensor(tensor) => {
                let pool = tensor.pool().clone();
                match tensor.into_buffer() {
                    Ok(buffer) => Ok(OwnMemory(Own::Buffer(buffer, pool))),
                    Err(tensor) => Err(Memory::Tensor(tensor)),
                }
            }
        }
    }

    /// Where it begins: a multiple of 256, if it was made here.
    pub fn first(&self) -> NonNull<u8> {
        match &self.0 {
            Own::Large(memory) => memory.first(),
            Own::Buffer(buffer, _) => {
                let span = buffer.span();
                let first = (span.handle as usize).wrapping_add(span.offset);
                NonNull::new(std::ptr::with_exposed_provenance_mut(first))
                    .unwrap_or(NonNull::dangling())
            }
        }
    }

    /// How many bytes it has.
    pub fn bytes(&self) -> usize {
        match &self.0 {
            Own::Large(memory) => memory.bytes(),
            Own::Buffer(buffer, _) => buffer.bytes(),
        }
    }
}

#[cfg(test)]
mod tests {
    use streampool_host::{HostDevice, HostOptions};

    use super::*;
    use crate::Array;

    fn pool() -> Pool {
        Pool::new(HostDevice::new(HostOptions::default()).unwrap()).unwrap()
    }

    fn at(tensor: &Tensor) -> *const u8 {
        let span = tensor.buffer().span();
        std::ptr::with_exposed_provenance(span.handle as usize + span.offset)
    }

    #[test]
    fn much_stays_where_it_is_and_few_bytes_are_copied() {
        let pool = pool();
        for (count, stays) in [(LARGE / 4 - 1, false), (LARGE / 4, true), (LARGE, true)] {
            let values: Vec<f32> = (0..count).map(|number| number as f32).collect();
            let array = Array::new(&values, &[count]).unwrap();
            let tensor = array.tensor(&pool).unwrap();
            assert_eq!(at(&tensor) == array.bytes().as_ptr(), stays);
            drop(array);
            let twice = tensor.add(&tensor).unwrap();
            let array = Array::of(&twice).unwrap();
            let first = array.bytes().as_ptr();
            assert_eq!(at(&twice) == first, stays);
            drop(twice);
            let doubled: Vec<f32> = values.iter().map(|value| 2.0 * value).collect();
            assert_eq!(array.values::<f32>().unwrap(), doubled);
            // In another pool it is copied from where it is.
            let other = array.tensor(&self::pool()).unwrap();
            assert_ne!(at(&other), first);
            assert_eq!(other.to_vec::<f32>().unwrap(), doubled);
            assert_eq!(
                array.tensor(&pool).unwrap().to_vec::<f32>().unwrap(),
                doubled
            );
        }
    }

    #[test]
    fn nobody_gets_to_write_what_is_lent() {
        let pool = pool();
        let array = Array::zeros(DType::F32, &[LARGE]).unwrap();
        let tensor = array.tensor(&pool).unwrap();
        assert!(tensor.into_buffer().is_err());
        let own = Tensor::from_slice(&pool, &vec![1f32; LARGE], &[LARGE]).unwrap();
        let array = Array::of(&own).unwrap();
        assert!(own.into_buffer().is_err());
        assert_eq!(array.values::<f32>().unwrap()[LARGE - 1], 1.0);
    }

    #[test]
    fn who_alone_has_memory_gets_it() {
        let pool = pool();
        let made = |elements: usize| Array::zeros(DType::F32, &[elements]).unwrap();
        let (array, few) = (made(LARGE), made(LARGE / 4 - 1));
        let first = array.bytes().as_ptr();
        let tensor = array.tensor(&pool).unwrap();
        let array = array.into_memory().err().unwrap();
        drop(tensor);
        pool.synchronize().unwrap();
        let other = array.clone();
        let array = array.into_memory().err().unwrap();
        drop(other);
        let memory = array.into_memory().ok().unwrap();
        assert_eq!(
            (memory.first().as_ptr().cast_const(), memory.bytes()),
            (first, 4 * LARGE)
        );
        assert_eq!(few.into_memory().err().unwrap().bytes().len(), LARGE - 4);

        let tensor = Tensor::from_slice(&pool, &vec![1f32; LARGE], &[LARGE]).unwrap();
        let array = Array::of(&tensor).unwrap().into_memory().err().unwrap();
        let at = at(&tensor);
        drop(tensor);
        let memory = array.into_memory().ok().unwrap();
        drop(pool);
        assert_eq!(memory.first().as_ptr().cast_const(), at);
        // SAFETY: nobody else has it, and its values are `f32`.
        let values = unsafe { memory.first().cast::<[f32; LARGE]>().as_mut() };
        values[0] += 1.0;
        assert_eq!((values[0], values[LARGE - 1]), (2.0, 1.0));
    }

    #[test]
    fn memory_goes_when_the_last_who_has_it_does() {
        let pool = pool();
        let array = Array::zeros(DType::F32, &[LARGE]).unwrap();
        let Memory::Large(memory) = &array.memory else {
            panic!("it is large")
        };
        let memory = memory.clone();
        let sum = array.tensor(&pool).unwrap().sum(&[0], false).unwrap();
        drop(array);
        assert_eq!(sum.to_vec::<f32>().unwrap(), [0.0]);
        pool.trim().unwrap();
        assert_eq!(Arc::strong_count(&memory), 1);
    }
}
