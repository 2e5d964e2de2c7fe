//! Pinned host memory: staging, and blocks through which bytes pass between the host and the device.

use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use cudarc::driver::sys;
use streampool_device::lock::Mutex;

use crate::context::{Context, Failure};
use crate::ranks;
use crate::retired::Object;

const SMALLEST: usize = 4 << 10;
/// More than this is copied by the driver itself.
pub(crate) const LARGEST: usize = 4 << 20;
/// Larger blocks are never kept for their next use.
const LARGEST_KEPT: usize = 64 << 20;
const CLASSES: usize = (LARGEST_KEPT / SMALLEST).ilog2() as usize + 1;
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
    stock: Mutex<Kept>,
    /// Bytes taken from the driver.
    bytes: AtomicUsize,
}

#[derive(Default)]
struct Spare {
    classes: [Vec<*mut u8>; CLASSES],
    /// Bytes in these, without those cut from slabs if it is a device's.
    bytes: usize,
}

// SAFETY: the pointers own their memory.
unsafe impl Send for Spare {}

/// What waits for its next use on the device, and the slabs that smaller blocks are cut from.
#[derive(Default)]
struct Kept {
    spare: Spare,
    slabs: Vec<*mut u8>,
    /// Bytes of the last slab that nothing was cut from yet. They are its last ones.
    uncut: usize,
    /// What is to be freed, and how many bytes that is. What the driver refuses is tried again with the next.
    unfreed: Vec<(*mut u8, usize)>,
}

// SAFETY: the pointers own their memory.
unsafe impl Send for Kept {}

impl Kept {
    /// A block of a class that is cut from slabs, from what there is.
    fn cut(&mut self, class: usize) -> Option<*mut u8> {
        if let Some(pointer) = self.spare.classes[class].pop() {
            return Some(pointer);
        }
        let slab = self.slabs.last().filter(|_| self.uncut >= size_of(class))?;
        // SAFETY: it begins within the slab, as something of that is left.
        let pointer = unsafe { slab.add(SLAB - self.uncut) };
        self.uncut -= size_of(class);
        Some(pointer)
    }

    /// The next slab to cut from. What is left of the one before becomes blocks, the largest first.
    fn add(&mut self, slab: *mut u8) {
        for class in (0..=class_of(LARGEST_CUT)).rev() {
            while self.uncut >= size_of(class)
                && let Some(last) = self.slabs.last()
            {
                // SAFETY: as in `cut`.
                let pointer = unsafe { last.add(SLAB - self.uncut) };
                self.spare.classes[class].push(pointer);
                self.uncut -= size_of(class);
            }
        }
        self.slabs.push(slab);
        self.uncut = SLAB;
    }
}

impl Pinned {
    /// With a slab for the first blocks of a pool's threads. The context is bound.
    pub fn new(context: Arc<Context>) -> Result<Arc<Pinned>, Failure> {
        let pinned = Pinned {
            context,
            stock: Mutex::new(ranks::PINNED_STOCK, Kept::default()),
            bytes: AtomicUsize::new(0),
        };
        pinned.add_slab()?;
        Ok(Arc::new(pinned))
    }

    /// Bytes taken from the driver, used or not.
    pub fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// At least `bytes` of memory, for the caller alone until it [gives](Self::give) them back. The context is bound.
    pub fn take(&self, bytes: usize) -> Result<*mut u8, Failure> {
        if bytes > LARGEST_KEPT {
            return self.allocate(bytes);
        }
        let class = class_of(bytes);
        if size_of(class) > LARGEST_CUT {
            return match self.whole(class) {
                Some(pointer) => Ok(pointer),
                None => self.allocate(size_of(class)),
            };
        }
        loop {
            if let Some(pointer) = self.stock.lock().cut(class) {
                return Ok(pointer);
            }
            self.add_slab()?;
        }
    }

    /// A block of a class that is not cut from slabs, if one waits.
    fn whole(&self, class: usize) -> Option<*mut u8> {
        let spare = &mut self.stock.lock().spare;
        let pointer = spare.classes[class].pop()?;
        spare.bytes -= size_of(class);
        Some(pointer)
    }

    fn add_slab(&self) -> Result<(), Failure> {
        let slab = self.allocate(SLAB)?;
        self.stock.lock().add(slab);
        Ok(())
    }

    /// Takes memory back.
    ///
    /// # Safety
    /// It came from [`take`](Self::take) with as many `bytes`, once, and nobody uses it any more.
    pub unsafe fn give(&self, pointer: *mut u8, bytes: usize) {
        if bytes > LARGEST_KEPT {
            return self.free(pointer, bytes);
        }
        let class = class_of(bytes);
        let mut stock = self.stock.lock();
        let spare = &mut stock.spare;
        if size_of(class) > LARGEST_CUT {
            if spare.bytes + size_of(class) > KEPT_BY_DEVICE {
                drop(stock);
                return self.free(pointer, size_of(class));
            }
            spare.bytes += size_of(class);
        }
        spare.classes[class].push(pointer);
    }

    fn allocate(&self, bytes: usize) -> Result<*mut u8, Failure> {
        let mut pointer: *mut c_void = std::ptr::null_mut();
        let _alone = self.context.alone();
        self.free_retired();
        // SAFETY: the context is bound; it writes one pointer.
        let result =
            unsafe { sys::cuMemHostAlloc(&mut pointer, bytes, sys::CU_MEMHOSTALLOC_PORTABLE) };
        self.context.check("cuMemHostAlloc", result)?;
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        Ok(pointer.cast())
    }

    fn free(&self, pointer: *mut u8, bytes: usize) {
        self.stock.lock().unfreed.push((pointer, bytes));
        if let Ok(_bound) = self.context.bind() {
            let _alone = self.context.alone();
            self.free_retired();
        }
    }

    /// Frees what was not freed yet. What the driver keeps still counts. The context is bound, and the gate shut.
    fn free_retired(&self) {
        let mut pieces = std::mem::take(&mut self.stock.lock().unfreed);
        pieces.retain(|&(pointer, bytes)| {
            // SAFETY: it came from `cuMemHostAlloc` and no command names it any more.
            let result = unsafe { sys::cuMemFreeHost(pointer.cast()) };
            let is_freed = result == sys::CUresult::CUDA_SUCCESS;
            if is_freed {
                self.bytes.fetch_sub(bytes, Ordering::Relaxed);
            }
            !is_freed
        });
        self.stock.lock().unfreed.append(&mut pieces);
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        let Ok(_bound) = self.context.bind() else {
            return;
        };
        let stock = std::mem::take(self.stock.get_mut());
        let own = stock.spare.classes.into_iter().enumerate();
        let own = own.filter(|(class, _)| size_of(*class) > LARGEST_CUT);
        let unfreed = stock.unfreed.into_iter().map(|(pointer, _)| pointer);
        let pieces = own.flat_map(|(_, pointers)| pointers).chain(unfreed);
        let pieces = pieces.chain(stock.slabs).map(Object::Pinned);
        // SAFETY: each came from `cuMemHostAlloc`, and nobody has a block any more.
        unsafe { self.context.destroy(pieces) };
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
    debug_assert!(bytes <= LARGEST_KEPT);
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
        assert_eq!(class_of(LARGEST_KEPT), CLASSES - 1);
    }

    #[test]
    fn a_slab_serves_blocks_of_all_sizes_and_no_byte_twice() {
        let mut slabs = [vec![0u8; SLAB], vec![0u8; SLAB]];
        let [first, second] = slabs.each_mut().map(|slab| slab.as_mut_ptr());
        let mut stock = Kept::default();
        assert!(stock.cut(0).is_none());
        stock.add(first);
        let mut taken = Vec::new();
        let mut take = |stock: &mut Kept, class| {
            let pointer = stock.cut(class)?;
            taken.push(pointer.addr()..pointer.addr() + size_of(class));
            Some(pointer)
        };
        for class in [0, 3, 6, 1, 6, 6, 6, 6, 6] {
            assert!(take(&mut stock, class).is_some());
        }
        let largest = class_of(LARGEST_CUT);
        while take(&mut stock, largest).is_some() {}
        // What is left of the first slab waits as blocks once there is a second one.
        let left = stock.uncut;
        stock.add(second);
        assert_eq!(stock.uncut, SLAB);
        let mut waiting = 0;
        for class in 0..=largest {
            for _ in 0..stock.spare.classes[class].len() {
                assert!(take(&mut stock, class).is_some());
                waiting += size_of(class);
            }
        }
        assert!(left > 0 && waiting == left, "{waiting} of {left} bytes");
        while take(&mut stock, 0).is_some() {}
        taken.sort_by_key(|block| block.start);
        assert!(taken.windows(2).all(|pair| pair[0].end <= pair[1].start));
        let within = [first, second].map(|slab| slab.addr()..slab.addr() + SLAB);
        let is_within = |block: &std::ops::Range<usize>| {
            let holds =
                |slab: &std::ops::Range<usize>| slab.start <= block.start && block.end <= slab.end;
            within.iter().any(holds)
        };
        assert!(taken.iter().all(is_within));
    }
}
