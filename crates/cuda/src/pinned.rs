//! Pinned host memory: staging, and blocks through which bytes pass between the host and the device.

use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use cudarc::driver::sys;
use streampool_device::lock::Mutex;

use crate::context::{Context, Failure};
use crate::ranks;

const SMALLEST: usize = 4 << 10;
/// More than this is copied by the driver itself.
pub(crate) const LARGEST: usize = 4 << 20;
const CLASSES: usize = (LARGEST / SMALLEST).ilog2() as usize + 1;
/// Blocks up to this size are cut from slabs, which stay until the device is closed.
const LARGEST_CUT: usize = 256 << 10;
const SLAB: usize = 2 << 20;
/// The most bytes that wait for their next use on one lane.
const KEPT_BY_LANE: usize = 32 << 20;
/// The most bytes in blocks not cut from slabs that wait for their next use on the device.
const KEPT_BY_DEVICE: usize = 256 << 20;

/// The pinned memory of one device. To take it from the driver holds up all who launch, so it is used again.
pub(crate) struct Pinned {
    context: Arc<Context>,
    stock: Mutex<Spare>,
    /// Bytes taken from the driver.
    bytes: AtomicUsize,
}

#[derive(Default)]
struct Spare {
    classes: [Vec<*mut u8>; CLASSES],
    /// Bytes in these, without those cut from slabs if it is a device's.
    bytes: usize,
    slabs: Vec<*mut u8>,
}

// SAFETY: the pointers own their memory.
unsafe impl Send for Spare {}

impl Pinned {
    pub fn new(context: Arc<Context>) -> Arc<Pinned> {
        Arc::new(Pinned {
            context,
            stock: Mutex::new(ranks::PINNED_STOCK, Spare::default()),
            bytes: AtomicUsize::new(0),
        })
    }

    /// Bytes taken from the driver, used or not.
    pub fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// At least `bytes` of memory, for the caller alone until it [gives](Self::give) them back. The context is bound.
    pub fn take(&self, bytes: usize) -> Result<*mut u8, Failure> {
        if bytes > LARGEST {
            return self.allocate(bytes);
        }
        let class = class_of(bytes);
        if let Some(pointer) = self.spare(class) {
            return Ok(pointer);
        }
        if size_of(class) > LARGEST_CUT {
            return self.allocate(size_of(class));
        }
        let slab = self.allocate(SLAB)?;
        let pieces = (0..SLAB).step_by(size_of(class));
        // SAFETY: each piece begins within the slab.
        let mut pieces = pieces.map(|offset| unsafe { slab.add(offset) });
        let first = pieces.next();
        let mut stock = self.stock.lock();
        stock.slabs.push(slab);
        stock.classes[class].extend(pieces);
        Ok(first.unwrap_or(slab))
    }

    fn spare(&self, class: usize) -> Option<*mut u8> {
        let mut stock = self.stock.lock();
        let pointer = stock.classes[class].pop()?;
        if size_of(class) > LARGEST_CUT {
            stock.bytes -= size_of(class);
        }
        Some(pointer)
    }

    /// Takes memory back.
    ///
    /// # Safety
    /// It came from [`take`](Self::take) with as many `bytes`, once, and nobody uses it any more.
    pub unsafe fn give(&self, pointer: *mut u8, bytes: usize) {
        if bytes > LARGEST {
            return self.free(pointer, bytes);
        }
        let class = class_of(bytes);
        let mut stock = self.stock.lock();
        if size_of(class) > LARGEST_CUT {
            if stock.bytes + size_of(class) > KEPT_BY_DEVICE {
                drop(stock);
                return self.free(pointer, size_of(class));
            }
            stock.bytes += size_of(class);
        }
        stock.classes[class].push(pointer);
    }

    fn allocate(&self, bytes: usize) -> Result<*mut u8, Failure> {
        let mut pointer: *mut c_void = std::ptr::null_mut();
        let _alone = self.context.alone();
        // SAFETY: the context is bound; it writes one pointer.
        let result =
            unsafe { sys::cuMemHostAlloc(&mut pointer, bytes, sys::CU_MEMHOSTALLOC_PORTABLE) };
        self.context.check("cuMemHostAlloc", result)?;
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        Ok(pointer.cast())
    }

    fn free(&self, pointer: *mut u8, bytes: usize) {
        if let Ok(_bound) = self.context.bind() {
            let _alone = self.context.alone();
            // SAFETY: it came from `cuMemHostAlloc` and no command names it any more.
            let result = unsafe { sys::cuMemFreeHost(pointer.cast()) };
            // What the driver keeps still counts.
            if result == sys::CUresult::CUDA_SUCCESS {
                self.bytes.fetch_sub(bytes, Ordering::Relaxed);
            }
        }
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        let stock = std::mem::take(self.stock.get_mut());
        let own = stock.classes.into_iter().enumerate();
        for (class, pointers) in own.filter(|(class, _)| size_of(*class) > LARGEST_CUT) {
            for pointer in pointers {
                self.free(pointer, size_of(class));
            }
        }
        for slab in stock.slabs {
            self.free(slab, SLAB);
        }
    }
}

/// The blocks of one lane that wait for their next use.
pub(crate) struct Blocks {
    pinned: Arc<Pinned>,
    spare: Mutex<Spare>,
}

impl Blocks {
    pub fn new(pinned: Arc<Pinned>) -> Arc<Blocks> {
        Arc::new(Blocks {
            pinned,
            spare: Mutex::new(ranks::PINNED, Spare::default()),
        })
    }

    /// A block of at least `bytes`, at most [`LARGEST`]. The context is bound.
    pub fn take(self: &Arc<Self>, bytes: usize) -> Result<Block, Failure> {
        let class = class_of(bytes);
        let mut spare = self.spare.lock();
        let found = spare.classes[class].pop();
        if found.is_some() {
            spare.bytes -= size_of(class);
        }
        drop(spare);
        let pointer = match found {
            Some(pointer) => pointer,
            None => self.pinned.take(size_of(class))?,
        };
        Ok(Block {
            pointer,
            class,
            home: self.clone(),
        })
    }
}

impl Drop for Blocks {
    fn drop(&mut self) {
        let spare = std::mem::take(self.spare.get_mut());
        for (class, pointers) in spare.classes.into_iter().enumerate() {
            for pointer in pointers {
                // SAFETY: it was taken by this class, and no block has it.
                unsafe { self.pinned.give(pointer, size_of(class)) };
            }
        }
    }
}

/// The size of the blocks of a class.
const fn size_of(class: usize) -> usize {
    SMALLEST << class
}

fn class_of(bytes: usize) -> usize {
    debug_assert!(bytes <= LARGEST);
    (bytes.max(SMALLEST).next_power_of_two() / SMALLEST).ilog2() as usize
}

/// A block of pinned memory. Whoever drops it knows that no command names it any more.
pub(crate) struct Block {
    pointer: *mut u8,
    class: usize,
    home: Arc<Blocks>,
}

// SAFETY: it owns its memory.
unsafe impl Send for Block {}

impl Block {
    /// The first byte.
    pub fn pointer(&self) -> *mut u8 {
        self.pointer
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        let bytes = size_of(self.class);
        let mut spare = self.home.spare.lock();
        if spare.bytes + bytes <= KEPT_BY_LANE {
            spare.classes[self.class].push(self.pointer);
            spare.bytes += bytes;
            return;
        }
        drop(spare);
        // SAFETY: it was taken by this class, and whoever drops the block knows that nothing uses it.
        unsafe { self.home.pinned.give(self.pointer, bytes) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_powers_of_two() {
        assert_eq!(
            (class_of(1), class_of(SMALLEST), class_of(SMALLEST + 1)),
            (0, 0, 1)
        );
        assert_eq!(class_of(LARGEST), CLASSES - 1);
    }
}
