//! Where chunks come from: the device, counted against the limit.

#![expect(unsafe_code, reason = "gives memory back to its device")]

use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use streampool_device::lock::assert_none_held;
use streampool_device::{Device, Memory, Space};

use crate::os;

/// The device's memory as one pool takes it.
pub(crate) struct Source {
    pool: u64,
    device: Arc<dyn Device>,
    limit: Option<usize>,
    reserved: AtomicUsize,
    peak: AtomicUsize,
    chunks_made: AtomicU64,
}

impl Source {
    pub fn new(pool: u64, device: Arc<dyn Device>, limit: Option<usize>) -> Self {
        Source {
            pool,
            device,
            limit,
            reserved: AtomicUsize::new(0),
            peak: AtomicUsize::new(0),
            chunks_made: AtomicU64::new(0),
        }
    }

    /// Takes a chunk from the device, or answers `None` where the limit or the device refuses.
    /// Other failures of the device are errors.
    pub fn chunk(
        self: &Arc<Self>,
        bytes: usize,
        space: Space,
    ) -> streampool_device::Result<Option<Arc<Chunk>>> {
        assert_none_held();
        // In one step: what is refused never counts, so that it makes nobody else fail.
        let limit = self.limit().saturating_sub(self.overhead());
        let before = self
            .reserved
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |reserved| {
                reserved.checked_add(bytes).filter(|&total| total <= limit)
            });
        let Ok(before) = before else {
            return Ok(None);
        };
        let reserved = before + bytes;
        match self.device.allocate(bytes, space) {
            Ok(memory) => {
                self.peak.fetch_max(reserved, Ordering::Relaxed);
                self.chunks_made.fetch_add(1, Ordering::Relaxed);
                Ok(Some(Arc::new(Chunk {
                    memory: Some(memory),
                    bytes,
                    source: self.clone(),
                })))
            }
            Err(error) => {
                self.reserved.fetch_sub(bytes, Ordering::Relaxed);
                match error {
                    streampool_device::Error::OutOfMemory { .. } => Ok(None),
                    other => Err(other),
                }
            }
        }
    }

    /// The most bytes this pool may take.
    pub fn limit(&self) -> usize {
        let capacity = self.device.properties().memory_capacity;
        self.limit.map_or(capacity, |limit| limit.min(capacity))
    }

    /// Bytes that the device takes for itself, which count as taken.
    pub fn overhead(&self) -> usize {
        self.device.overhead().memory
    }

    /// Whether it is a setting that says so, and not what the device has.
    pub fn is_set_lower(&self) -> bool {
        let capacity = self.device.properties().memory_capacity;
        self.limit.is_some_and(|limit| limit < capacity)
    }

    /// Bytes taken from the device now.
    pub fn reserved(&self) -> usize {
        self.reserved.load(Ordering::Relaxed)
    }

    /// The most bytes ever taken at once.
    pub fn peak(&self) -> usize {
        self.peak.load(Ordering::Relaxed)
    }

    /// How many chunks were ever taken.
    pub fn chunks_made(&self) -> u64 {
        self.chunks_made.load(Ordering::Relaxed)
    }
}

/// One allocation of the device; given back when the last that holds it is gone. Device memory is carved into blocks.
pub(crate) struct Chunk {
    memory: Option<Memory>,
    bytes: usize,
    source: Arc<Source>,
}

impl Chunk {
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Where the host finds it, if it is staging memory.
    pub fn host_address(&self) -> streampool_device::Result<NonNull<u8>> {
        match &self.memory {
            Some(memory) => self.source.device.host_address(memory),
            None => unreachable!("a chunk has its memory until it is dropped"),
        }
    }

    /// The whole of it.
    pub fn span(&self) -> streampool_device::Span {
        match &self.memory {
            Some(memory) => memory.span(),
            None => unreachable!("a chunk has its memory until it is dropped"),
        }
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        let Some(memory) = self.memory.take() else {
            return;
        };
        if os::is_stale(self.source.pool) {
            return;
        }
        // SAFETY: every block carved from this chunk holds it, so none is in use. The arena lets go of a
        // chunk only when its stream has completed the last use of each block (`Heap::release_idle`), or
        // after shutdown, which waited for all work. Staging memory and what lasts are held by adopted blocks, which
        // let go of it when no stream uses it.
        unsafe { self.source.device.free(memory) };
        self.source
            .reserved
            .fetch_sub(self.bytes, Ordering::Relaxed);
    }
}
