//! Memory that the host and the GPU both reach, through which bytes pass.

use std::ptr::NonNull;
use std::sync::Arc;

use objc2_metal::{MTLBuffer, MTLDevice, MTLResourceOptions};
use streampool_device::Span;
use streampool_device::lock::Mutex;

use super::memory::Allocation;
use super::objects::{Gpu, Movable, RawBuffer};
use super::own::Owned;
use super::pool::pooled;
use crate::ranks;

const SMALLEST: usize = 4 << 10;
/// Blocks longer than this are for one use.
const LARGEST: usize = 4 << 20;
const CLASSES: usize = (LARGEST / SMALLEST).ilog2() as usize + 1;
/// The most bytes that wait for their next use on one lane.
const KEPT: usize = 32 << 20;

/// The blocks of one lane that wait for their next use.
pub(crate) struct Blocks {
    gpu: Gpu,
    own: Owned,
    spare: Mutex<Spare>,
}

#[derive(Default)]
struct Spare {
    classes: [Vec<Arc<Allocation>>; CLASSES],
    bytes: usize,
}

impl Blocks {
    pub fn new(gpu: Gpu, own: Owned) -> Arc<Blocks> {
        Arc::new(Blocks {
            gpu,
            own,
            spare: Mutex::new(ranks::STAGING, Spare::default()),
        })
    }

    /// A block of at least `bytes`; `None` if there is no memory for it.
    pub fn take(self: &Arc<Self>, bytes: usize) -> Option<Block> {
        let class = class_of(bytes);
        let kept = class.and_then(|class| self.reuse(class));
        let allocation = match kept {
            Some(allocation) => allocation,
            None => self.make(class.map_or(bytes, bytes_of))?,
        };
        Some(Block {
            pointer: allocation.host()?,
            allocation,
            class,
            home: self.clone(),
        })
    }

    fn reuse(&self, class: usize) -> Option<Arc<Allocation>> {
        let mut spare = self.spare.lock();
        let allocation = spare.classes[class].pop()?;
        spare.bytes -= bytes_of(class);
        Some(allocation)
    }

    fn make(&self, bytes: usize) -> Option<Arc<Allocation>> {
        pooled(|| {
            let options = MTLResourceOptions::StorageModeShared;
            let buffer = self.gpu.newBufferWithLength_options(bytes, options)?;
            let host = buffer.contents().cast();
            let own = self.own.take(bytes);
            Some(Arc::new(Allocation::own(Movable(buffer), host, own)))
        })
    }

    fn put_back(&self, class: usize, allocation: Arc<Allocation>) {
        let bytes = bytes_of(class);
        let mut spare = self.spare.lock();
        if spare.bytes + bytes <= KEPT {
            spare.classes[class].push(allocation);
            spare.bytes += bytes;
        }
    }
}

/// The class of blocks for so many bytes, unless they are too many.
fn class_of(bytes: usize) -> Option<usize> {
    (bytes <= LARGEST)
        .then(|| (bytes.max(SMALLEST).next_power_of_two() / SMALLEST).ilog2() as usize)
}

fn bytes_of(class: usize) -> usize {
    SMALLEST << class
}

/// A block. Whoever drops it knows that no command names it any more.
pub(crate) struct Block {
    allocation: Arc<Allocation>,
    pointer: NonNull<u8>,
    class: Option<usize>,
    home: Arc<Blocks>,
}

// SAFETY: the address is that of its own memory.
unsafe impl Send for Block {}

impl Block {
    /// Metal's name for it.
    pub fn buffer(&self) -> &RawBuffer {
        self.allocation.buffer()
    }

    /// Where the host finds its first byte.
    pub fn pointer(&self) -> NonNull<u8> {
        self.pointer
    }

    /// Its first bytes.
    pub fn span(&self, bytes: usize) -> Span {
        Span {
            handle: self.allocation.handle(),
            offset: 0,
            bytes,
        }
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        if let Some(class) = self.class {
            self.home.put_back(class, self.allocation.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_powers_of_two_up_to_the_largest() {
        let cases = [
            (1, Some(0)),
            (SMALLEST, Some(0)),
            (SMALLEST + 1, Some(1)),
            (LARGEST, Some(CLASSES - 1)),
            (LARGEST + 1, None),
        ];
        for (bytes, class) in cases {
            assert_eq!(class_of(bytes), class, "{bytes}");
            assert!(class.is_none_or(|class| bytes_of(class) >= bytes));
        }
    }
}
