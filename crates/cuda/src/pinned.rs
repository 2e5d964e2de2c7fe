//! Pinned host memory through which bytes pass between the host and the device.

use std::ffi::c_void;
use std::sync::Arc;

use cudarc::driver::sys;
use streampool_device::lock::Mutex;

use crate::context::{Context, Failure};
use crate::ranks;

const SMALLEST: usize = 4 << 10;
/// More than this is copied by the driver itself.
pub(crate) const LARGEST: usize = 4 << 20;
const CLASSES: usize = (LARGEST / SMALLEST).ilog2() as usize + 1;
/// The most bytes that wait for their next use on one lane.
const KEPT: usize = 32 << 20;

/// The blocks of one lane that wait for their next use.
pub(crate) struct Blocks {
    context: Arc<Context>,
    spare: Mutex<Spare>,
}

#[derive(Default)]
struct Spare {
    classes: [Vec<*mut u8>; CLASSES],
    bytes: usize,
}

// SAFETY: the pointers own their memory.
unsafe impl Send for Spare {}

impl Blocks {
    pub fn new(context: Arc<Context>) -> Arc<Blocks> {
        Arc::new(Blocks {
            context,
            spare: Mutex::new(ranks::PINNED, Spare::default()),
        })
    }

    /// A block of at least `bytes`, at most [`LARGEST`]. The context is bound.
    pub fn take(self: &Arc<Self>, bytes: usize) -> Result<Block, Failure> {
        let class = class_of(bytes);
        let mut spare = self.spare.lock();
        let found = spare.classes[class].pop();
        if found.is_some() {
            spare.bytes -= SMALLEST << class;
        }
        drop(spare);
        let pointer = match found {
            Some(pointer) => pointer,
            None => self.make(SMALLEST << class)?,
        };
        Ok(Block {
            pointer,
            class,
            home: self.clone(),
        })
    }

    fn make(&self, bytes: usize) -> Result<*mut u8, Failure> {
        let mut pointer: *mut c_void = std::ptr::null_mut();
        // SAFETY: the context is bound; it writes one pointer.
        let result =
            unsafe { sys::cuMemHostAlloc(&mut pointer, bytes, sys::CU_MEMHOSTALLOC_PORTABLE) };
        self.context.check("cuMemHostAlloc", result)?;
        Ok(pointer.cast())
    }

    fn free(&self, pointer: *mut u8) {
        if self.context.bind().is_ok() {
            // SAFETY: it came from `cuMemHostAlloc` and no command names it any more.
            unsafe { sys::cuMemFreeHost(pointer.cast()) };
        }
    }
}

impl Drop for Blocks {
    fn drop(&mut self) {
        let spare = std::mem::take(&mut *self.spare.lock());
        for pointer in spare.classes.into_iter().flatten() {
            self.free(pointer);
        }
    }
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
        let bytes = SMALLEST << self.class;
        let mut spare = self.home.spare.lock();
        if spare.bytes + bytes <= KEPT {
            spare.classes[self.class].push(self.pointer);
            spare.bytes += bytes;
            return;
        }
        drop(spare);
        self.home.free(self.pointer);
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
