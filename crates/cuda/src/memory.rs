//! Memory of the device, counted; and the device's own for its own use.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use cudarc::driver::sys::{self, CUdeviceptr, CUresult};
use streampool_device::{Error, Memory, MemoryUse, Result, Space};

use crate::context::{Context, Failure};
use crate::pinned::Pinned;

/// Every allocation begins at a multiple of this.
pub(crate) const ALIGNMENT: usize = 256;

/// The allocations of one device, within its capacity.
pub(crate) struct Ledger {
    context: Arc<Context>,
    pinned: Arc<Pinned>,
    capacity: usize,
    in_use: AtomicUsize,
    allocations: AtomicUsize,
}

impl Ledger {
    pub fn new(context: Arc<Context>, pinned: Arc<Pinned>, capacity: usize) -> Ledger {
        Ledger {
            context,
            pinned,
            capacity,
            in_use: AtomicUsize::new(0),
            allocations: AtomicUsize::new(0),
        }
    }

    pub fn allocate(&self, bytes: usize, space: Space) -> Result<Memory> {
        if bytes == 0 {
            return Err(Error::Invalid {
                what: "the size of an allocation",
                got: "0 bytes".to_owned(),
                expected: "at least one".to_owned(),
            });
        }
        self.context.check_process()?;
        // In one step: what is refused never counts, so that it makes nobody else fail.
        let own = self.context.own.load(Ordering::Relaxed);
        let capacity = self.capacity.saturating_sub(own);
        let reserved = self
            .in_use
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |in_use| {
                in_use.checked_add(bytes).filter(|&total| total <= capacity)
            });
        if reserved.is_err() {
            return Err(self.out_of_memory(bytes));
        }
        match self.ask(bytes, space) {
            Ok(handle) => {
                self.allocations.fetch_add(1, Ordering::Relaxed);
                Ok(Memory {
                    handle,
                    bytes,
                    space,
                })
            }
            Err(failure) => {
                self.in_use.fetch_sub(bytes, Ordering::Relaxed);
                Err(match failure {
                    Failure::Call(_, CUresult::CUDA_ERROR_OUT_OF_MEMORY) => {
                        self.out_of_memory(bytes)
                    }
                    other => self.context.error(other),
                })
            }
        }
    }

    fn ask(&self, bytes: usize, space: Space) -> Result<CUdeviceptr, Failure> {
        let _bound = self.context.bind()?;
        match space {
            Space::Device => allocate(&self.context, bytes),
            Space::Staging => {
                let pointer = self.pinned.take(bytes)?;
                // With unified addresses the device knows it by the same one.
                Ok(pointer.expose_provenance() as CUdeviceptr)
            }
        }
    }

    /// Device memory for the device's own use. It counts within the capacity, too. The context is bound.
    pub fn own(&self, bytes: usize) -> Result<DeviceBlock, Failure> {
        if self.taken().saturating_add(bytes) > self.capacity {
            return Err(Failure::Call(
                "an allocation within the capacity",
                CUresult::CUDA_ERROR_OUT_OF_MEMORY,
            ));
        }
        DeviceBlock::new(&self.context, bytes)
    }

    /// Memory for the device's own use, taken before a command is begun: what is refused leaves nothing behind.
    pub fn prepared<T>(&self, bytes: usize, taken: Result<T, Failure>) -> Result<T, Failure> {
        taken.map_err(|failure| match failure {
            Failure::Call(_, CUresult::CUDA_ERROR_OUT_OF_MEMORY) => {
                Failure::Unprepared(self.out_of_memory(bytes))
            }
            lost @ Failure::Lost(_) => lost,
            other => Failure::Unprepared(self.context.error(other)),
        })
    }

    /// What the driver has left counts, too: others use the same GPU.
    fn out_of_memory(&self, requested: usize) -> Error {
        Error::OutOfMemory {
            device: self.context.name.clone(),
            requested,
            in_use: self.taken(),
            capacity: self.capacity,
        }
    }

    /// Bytes allocated, and those that the device has for its own use.
    fn taken(&self) -> usize {
        let own = self.context.own.load(Ordering::Relaxed);
        self.in_use.load(Ordering::Relaxed).saturating_add(own)
    }

    /// # Safety
    /// As for [`Device::free`](streampool_device::Device::free).
    pub unsafe fn free(&self, memory: Memory) {
        if self.context.check_process().is_ok()
            && let Ok(_bound) = self.context.bind()
        {
            match memory.space {
                Space::Device => {
                    // SAFETY: it came from `allocate`, is given back once, and no command names it.
                    unsafe { self.context.retire(memory.handle, memory.bytes) };
                    self.context.free_retired();
                }
                // SAFETY: as above; a staging handle is the address of its memory.
                Space::Staging => unsafe {
                    let pointer = std::ptr::with_exposed_provenance_mut(memory.handle as usize);
                    self.pinned.give(pointer, memory.bytes);
                },
            }
        }
        self.in_use.fetch_sub(memory.bytes, Ordering::Relaxed);
        self.allocations.fetch_sub(1, Ordering::Relaxed);
    }

    pub fn memory_use(&self) -> MemoryUse {
        MemoryUse {
            in_use: self.in_use.load(Ordering::Relaxed),
            allocations: self.allocations.load(Ordering::Relaxed),
        }
    }
}

fn allocate(context: &Context, bytes: usize) -> Result<CUdeviceptr, Failure> {
    let mut address = 0;
    let mut ask = || {
        let _alone = context.alone();
        context.free_some();
        // SAFETY: the context is bound; it writes one address.
        unsafe { sys::cuMemAlloc_v2(&mut address, bytes) }
    };
    let mut result = ask();
    if result == CUresult::CUDA_ERROR_OUT_OF_MEMORY {
        context.free_retired();
        result = ask();
    }
    context.check("cuMemAlloc", result)?;
    Ok(address)
}

/// Device memory for the device's own use: scratch memory and work spaces.
pub(crate) struct DeviceBlock {
    context: Arc<Context>,
    address: CUdeviceptr,
    bytes: usize,
}

impl DeviceBlock {
    /// The context is bound.
    pub fn new(context: &Arc<Context>, bytes: usize) -> Result<DeviceBlock, Failure> {
        let address = allocate(context, bytes)?;
        context.own.fetch_add(bytes, Ordering::Relaxed);
        Ok(DeviceBlock {
            context: context.clone(),
            address,
            bytes,
        })
    }

    pub fn address(&self) -> CUdeviceptr {
        self.address
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for DeviceBlock {
    fn drop(&mut self) {
        // SAFETY: it came from `cuMemAlloc`; whoever drops it knows that nothing uses it any more.
        unsafe { self.context.retire(self.address, self.bytes) };
        self.context.own.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}
