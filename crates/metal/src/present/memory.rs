//! Memory of the device, counted: each allocation is a buffer of Metal's, and its handle is where we keep what we know
//! of it. So a span leads to its buffer without a look-up.

use std::collections::HashSet;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};

use objc2_metal::{MTLBuffer, MTLDevice, MTLResourceOptions};
use streampool_device::lock::Mutex;
use streampool_device::{Error, Memory, MemoryUse, Result, Space, Span};

use super::objects::{Buffer, Gpu, Movable, RawBuffer, RawQueue};
use super::own::Own;
use super::pool::pooled;
use super::residency::Sets;
use crate::ranks;

/// Every allocation begins at a multiple of this, in memory and as a handle.
pub(crate) const ALIGNMENT: usize = 256;
/// The largest page of any processor that Metal runs on: what is wrapped begins and ends at a multiple of it.
pub(crate) const PAGE: usize = 16 << 10;

/// What a handle leads to. It is aligned as the buffer is, so that alignment can be told from handle and offset.
#[repr(align(256))]
pub(crate) struct Allocation {
    buffer: Buffer,
    host: Option<NonNull<u8>>,
    _own: Option<Own>,
}

// SAFETY: the address is that of the buffer's memory, which belongs to no thread.
unsafe impl Send for Allocation {}
// SAFETY: as above; nothing here changes.
unsafe impl Sync for Allocation {}

impl Allocation {
    /// Keeps what is known of `buffer`, which the host reaches at `host`.
    pub fn new(buffer: Buffer, host: Option<NonNull<u8>>) -> Allocation {
        Allocation {
            buffer,
            host,
            _own: None,
        }
    }

    /// The same for a buffer that the device has for itself.
    pub fn own(buffer: Buffer, host: NonNull<u8>, own: Own) -> Allocation {
        Allocation {
            buffer,
            host: Some(host),
            _own: Some(own),
        }
    }

    /// What spans within it call it, as long as it stays where it is.
    pub fn handle(&self) -> u64 {
        std::ptr::from_ref(self).expose_provenance() as u64
    }

    /// The allocation that `span` lies in.
    ///
    /// # Safety
    /// It is allocated on this device, and stays so while the reference lives.
    pub unsafe fn of<'a>(span: &Span) -> &'a Allocation {
        let address = std::ptr::with_exposed_provenance(span.handle as usize);
        // SAFETY: handles are addresses of allocations as long as these are not freed.
        unsafe { &*address }
    }

    /// Metal's name for it.
    pub fn buffer(&self) -> &RawBuffer {
        &self.buffer
    }

    /// Where the host finds its first byte, if it reaches it.
    pub fn host(&self) -> Option<NonNull<u8>> {
        self.host
    }
}

/// The allocations of one device, within its capacity.
pub(crate) struct Ledger {
    gpu: Gpu,
    device: String,
    capacity: usize,
    longest: usize,
    unified: bool,
    in_use: AtomicUsize,
    allocations: AtomicUsize,
    live: Mutex<Live>,
}

struct Live {
    handles: HashSet<u64>,
    residency: Option<Sets>,
}

impl Ledger {
    /// `residency` says whether what is allocated stays resident between buffers.
    pub fn new(gpu: Gpu, device: String, capacity: usize, residency: bool) -> Ledger {
        let residency = residency.then(|| Sets::new(&gpu, capacity)).flatten();
        Ledger {
            longest: gpu.maxBufferLength(),
            unified: gpu.hasUnifiedMemory(),
            gpu,
            device,
            capacity,
            in_use: AtomicUsize::new(0),
            allocations: AtomicUsize::new(0),
            live: Mutex::new(
                ranks::LEDGER,
                Live {
                    handles: HashSet::new(),
                    residency,
                },
            ),
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
        self.reserve(bytes)?;
        // Where host and GPU share all memory there is nothing to gain by hiding it from the host.
        let options = match self.unified || space == Space::Staging {
            true => MTLResourceOptions::StorageModeShared,
            false => MTLResourceOptions::StorageModePrivate,
        };
        let made = pooled(|| self.gpu.newBufferWithLength_options(bytes, options));
        let buffer = made.ok_or_else(|| {
            self.unreserve(bytes);
            self.out_of_memory(bytes)
        })?;
        let host = (options == MTLResourceOptions::StorageModeShared).then(|| buffer.contents());
        let host = host.map(NonNull::cast);
        Ok(self.enter(Movable(buffer), host, bytes, space))
    }

    /// Host memory as memory of the device, without a copy.
    ///
    /// # Safety
    /// It stays allocated, and nobody else touches it while commands do, until it is freed here.
    pub unsafe fn wrap(&self, pointer: NonNull<u8>, bytes: usize) -> Result<Memory> {
        if bytes == 0 || !bytes.is_multiple_of(PAGE) || !pointer.addr().get().is_multiple_of(PAGE) {
            return Err(Error::Invalid {
                what: "host memory to wrap",
                got: format!("{bytes} bytes at {pointer:p}"),
                expected: format!("whole pages of {PAGE} bytes"),
            });
        }
        self.reserve(bytes)?;
        let options = MTLResourceOptions::StorageModeShared;
        // SAFETY: the caller keeps the memory until it is freed here; nobody is to be called then.
        let made = pooled(|| unsafe {
            self.gpu
                .newBufferWithBytesNoCopy_length_options_deallocator(
                    pointer.cast(),
                    bytes,
                    options,
                    None,
                )
        });
        let buffer = made.ok_or_else(|| {
            self.unreserve(bytes);
            Error::Driver {
                device: self.device.clone(),
                call: "newBufferWithBytesNoCopy:length:options:deallocator:",
                message: "it returned nil: Metal wraps memory that is mapped (mmap, vm_allocate), as one region"
                    .to_owned(),
            }
        })?;
        Ok(self.enter(Movable(buffer), Some(pointer), bytes, Space::Staging))
    }

    /// Counts them in one step: what is refused never counts, so that it makes nobody else fail.
    fn reserve(&self, bytes: usize) -> Result<()> {
        let reserved = self
            .in_use
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |in_use| {
                in_use
                    .checked_add(bytes)
                    .filter(|&total| total <= self.capacity && bytes <= self.longest)
            });
        reserved.map(drop).map_err(|_| self.out_of_memory(bytes))
    }

    /// What was reserved is not made.
    fn unreserve(&self, bytes: usize) {
        self.in_use.fetch_sub(bytes, Ordering::Relaxed);
    }

    fn enter(
        &self,
        buffer: Buffer,
        host: Option<NonNull<u8>>,
        bytes: usize,
        space: Space,
    ) -> Memory {
        let allocation = Box::new(Allocation::new(buffer, host));
        let mut live = self.live.lock();
        live.handles.insert(allocation.handle());
        if let Some(residency) = &mut live.residency {
            residency.add(allocation.buffer(), bytes);
        }
        drop(live);
        self.allocations.fetch_add(1, Ordering::Relaxed);
        let handle = Box::into_raw(allocation).expose_provenance() as u64;
        Memory {
            handle,
            bytes,
            space,
        }
    }

    /// # Safety
    /// As for [`Device::free`](streampool_device::Device::free).
    pub unsafe fn free(&self, memory: Memory) {
        let pointer: *mut Allocation =
            std::ptr::with_exposed_provenance_mut(memory.handle as usize);
        // SAFETY: it came from `enter`, and is given back once.
        let allocation = unsafe { Box::from_raw(pointer) };
        let mut live = self.live.lock();
        live.handles.remove(&memory.handle);
        if let Some(residency) = &mut live.residency {
            residency.remove(allocation.buffer(), memory.bytes);
        }
        drop(live);
        pooled(|| drop(allocation));
        self.in_use.fetch_sub(memory.bytes, Ordering::Relaxed);
        self.allocations.fetch_sub(1, Ordering::Relaxed);
    }

    /// Where the host finds `memory`. Whoever asks may be wrong about it: only what is alive is looked into.
    pub fn host_address(&self, memory: &Memory) -> Result<NonNull<u8>> {
        let live = self.live.lock();
        let known = memory.space == Space::Staging && live.handles.contains(&memory.handle);
        // SAFETY: it is alive, and cannot be freed before the lock is.
        let host = known.then(|| unsafe { Allocation::of(&memory.span()) }.host());
        host.flatten().ok_or_else(|| Error::Invalid {
            what: "memory for the host to reach",
            got: format!("{:?}", memory.space),
            expected: format!("{:?} memory of {}", Space::Staging, self.device),
        })
    }

    /// Has what is allocated resident whenever `queue` works, where the options ask for it.
    pub fn attend(&self, queue: &RawQueue) {
        if let Some(residency) = &self.live.lock().residency {
            residency.attend(queue);
        }
    }

    /// The error of a request that there is no room for.
    pub fn out_of_memory(&self, requested: usize) -> Error {
        Error::OutOfMemory {
            device: self.device.clone(),
            requested,
            in_use: self.in_use.load(Ordering::Relaxed),
            capacity: self.capacity,
        }
    }

    pub fn memory_use(&self) -> MemoryUse {
        MemoryUse {
            in_use: self.in_use.load(Ordering::Relaxed),
            allocations: self.allocations.load(Ordering::Relaxed),
        }
    }
}
