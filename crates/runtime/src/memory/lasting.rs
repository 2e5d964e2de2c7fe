//! Memory for what lasts: weights. It lies in chunks where nothing else does.
//!
//! A device may order work by whole allocations, as Metal does. Who reads a weight would wait there for every write to a
//! block beside it, of whatever stream.

use std::sync::Arc;

use streampool_device::Span;
use streampool_device::lock::Mutex;

use super::arena::Release;
use super::class::GRAIN;
use super::heap::Heap;
use super::source::Chunk;
use crate::ranks;

/// The chunks of what lasts, of all streams of a pool.
pub(crate) struct Lasting(Arc<Mutex<Heap>>);

impl Lasting {
    pub fn new() -> Lasting {
        Lasting(Arc::new(Mutex::new(ranks::HEAP, Heap::default())))
    }

    /// So many bytes, of a chunk that there is, and what gives them back once no stream uses them.
    pub fn take(&self, bytes: usize) -> Option<(Span, Release)> {
        let length = bytes.max(1).checked_next_multiple_of(GRAIN)?;
        let range = self.0.lock().take(length)?;
        let whole = range.chunk.span();
        let span = Span {
            handle: whole.handle,
            offset: whole.offset + range.offset,
            bytes,
        };
        let home = self.0.clone();
        let release = move || {
            let mut heap = home.lock();
            heap.give(&range);
            let idle = heap.release_idle(u64::MAX);
            drop(heap);
            // The device gets them back, without the lock.
            drop((idle, range));
        };
        Some((span, Box::new(release)))
    }

    pub fn grow(&self, chunk: Arc<Chunk>) {
        self.0.lock().add(chunk);
    }
}
