//! Blocks, memory with an owner and marks, and the arena of one stream: idle blocks by class, blocks that foreign streams still use, and the heap
//! that both are carved from.
//!
//! The owner's way in and out is one short spin lock of its own. Other threads push to a lock-free queue.
//! Whatever takes longer (reclaiming, carving, merging) happens outside that lock.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde::Serialize;
use streampool_device::Span;
use streampool_device::lock::{self, Mutex};

use super::class::Class;
use super::heap::{Heap, Range};
use super::source::Chunk;
use crate::clock::Marks;
use crate::clocks::Clocks;
use crate::free_queue::{FreeQueue, Node};
use crate::spin::SpinLock;
use crate::{os, ranks};

/// A block as it is handed around; the node lets it go home from any thread without allocating.
pub(crate) type BlockBox = Box<Node<Block>>;

/// Called once when adopted memory is no longer used by any stream.
pub(crate) type Release = Box<dyn FnOnce() + Send + Sync>;

/// Whose memory a block is.
pub(crate) enum Origin {
    /// Carved from a chunk of the arena, kept under the class of this number.
    Carved {
        /// Where from.
        range: Range,
        /// The class's number.
        class: usize,
    },
    /// Somebody else's, who may have to be told when it is free.
    Adopted(Option<Release>),
}

/// A piece of memory that one buffer at a time names. Its header is written whenever the block is used: it
/// has cache lines of its own, like the arena.
#[repr(align(128))]
pub(crate) struct Block {
    pub arena: Arc<Arena>,
    pub span: Span,
    pub marks: Marks,
    pub origin: Origin,
}

impl Drop for Block {
    fn drop(&mut self) {
        if let Origin::Adopted(release) = &mut self.origin
            && let Some(release) = release.take()
            && !os::is_stale(self.arena.pool)
        {
            lock::assert_none_held();
            release();
        }
    }
}

/// What an arena holds, in bytes, and what it did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct ArenaUse {
    /// In buffers.
    pub in_use: usize,
    /// The most ever in buffers.
    pub peak: usize,
    /// In blocks that wait for other streams to be done with them.
    pub pending: usize,
    /// In blocks ready for the next buffer of their size.
    pub idle: usize,
    /// In free ranges of the heap.
    pub free: usize,
    /// The largest free range.
    pub largest_free: usize,
    /// Taken from the device.
    pub reserved: usize,
    /// Chunks taken from the device.
    pub chunks: usize,
    /// Buffers made.
    pub allocations: u64,
    /// Of these, from a block that was ready.
    pub hits: u64,
}

/// On cache lines of its own, so that the owners of two arenas do not slow one another.
#[repr(align(128))]
pub(crate) struct Arena {
    /// The pool it belongs to.
    pub pool: u64,
    /// The stream it belongs to.
    pub stream: u8,
    bins: SpinLock<Bins>,
    heap: Mutex<Heap>,
    freed: FreeQueue<Block>,
    clocks: Arc<Clocks>,
    closed: AtomicBool,
    /// Whether a block is lent again.
    reuse: bool,
}

struct Bins {
    idle: [Bin; Class::COUNT],
    pending: Vec<BlockBox>,
    in_use: usize,
    peak: usize,
    allocations: u64,
    hits: u64,
}

/// Idle blocks of one class, the latest on top. That one lies in place: taking and giving it back touches
/// no other memory.
#[derive(Default)]
struct Bin {
    top: Option<BlockBox>,
    below: Vec<BlockBox>,
}

impl Bin {
    #[inline]
    fn push(&mut self, block: BlockBox) {
        if let Some(below) = self.top.replace(block) {
            self.below.push(below);
        }
    }

    #[inline]
    fn pop(&mut self) -> Option<BlockBox> {
        let block = self.top.take()?;
        self.top = self.below.pop();
        Some(block)
    }

    fn iter(&self) -> impl Iterator<Item = &BlockBox> {
        self.top.iter().chain(&self.below)
    }
}

impl Bins {
    /// All idle blocks.
    fn take_all_idle(&mut self) -> Vec<BlockBox> {
        let blocks = self.idle.iter_mut().map(std::mem::take);
        blocks
            .flat_map(|bin| bin.below.into_iter().chain(bin.top))
            .collect()
    }

    fn lend(&mut self, bytes: usize) {
        self.in_use += bytes;
        self.peak = self.peak.max(self.in_use);
        self.allocations += 1;
    }
}

impl Arena {
    pub fn new(pool: u64, stream: u8, clocks: Arc<Clocks>, reuse: bool) -> Self {
        Arena {
            pool,
            stream,
            bins: SpinLock::new(Bins {
                idle: std::array::from_fn(|_| Bin::default()),
                pending: Vec::new(),
                in_use: 0,
                peak: 0,
                allocations: 0,
                hits: 0,
            }),
            heap: Mutex::new(ranks::HEAP, Heap::default()),
            freed: FreeQueue::new(),
            clocks,
            closed: AtomicBool::new(false),
            reuse,
        }
    }

    /// A block that is ready, if there is one.
    #[inline]
    pub fn take_idle(&self, class: Class) -> Option<BlockBox> {
        let mut bins = self.bins.lock();
        let block = bins.idle[class.index].pop()?;
        bins.lend(class.bytes);
        bins.hits += 1;
        Some(block)
    }

    /// A block from whatever the arena has, after reclaiming what can be.
    pub fn take(self: &Arc<Self>, class: Class) -> Option<BlockBox> {
        self.collect();
        if let Some(block) = self.take_idle(class) {
            return Some(block);
        }
        if let Some(block) = self.carve(class) {
            return Some(block);
        }
        self.merge();
        self.carve(class)
    }

    /// Adds a chunk and takes a block of it.
    pub fn grow(&self, chunk: Arc<Chunk>) {
        self.heap.lock().add(chunk);
    }

    fn carve(self: &Arc<Self>, class: Class) -> Option<BlockBox> {
        let range = self.heap.lock().take(class.bytes)?;
        let whole = range.chunk.span();
        let span = streampool_device::Span {
            handle: whole.handle,
            offset: whole.offset + range.offset,
            bytes: range.bytes,
        };
        let marks = Marks::used_at_home(self.stream, range.last_use);
        let origin = Origin::Carved {
            range,
            class: class.index,
        };
        self.bins.lock().lend(class.bytes);
        Some(self.block(span, marks, origin))
    }

    /// Makes the header of a block that belongs here.
    pub fn block(
        self: &Arc<Self>,
        span: streampool_device::Span,
        marks: Marks,
        origin: Origin,
    ) -> BlockBox {
        Node::new(Block {
            arena: self.clone(),
            span,
            marks,
            origin,
        })
    }

    /// Counts an adopted block in. If its owner is to be told when it is free, earlier ones that nothing uses any more go now.
    pub fn lend_adopted(&self, bytes: usize, is_told: bool) {
        if is_told {
            self.collect();
        }
        self.bins.lock().lend(bytes);
    }

    /// Takes back a block whose buffer was dropped. `at_home` says that the calling thread's current
    /// stream is this arena's.
    #[inline]
    pub fn give_back(&self, block: BlockBox, at_home: bool) {
        // Adopted memory goes back to its owner as soon as nothing uses it: nobody here wants it again. Whose owner is not to be
        // told need not wait for that.
        let is_done = match &block.origin {
            Origin::Adopted(None) => true,
            Origin::Adopted(Some(_)) => self.is_reusable(&block),
            Origin::Carved { .. } => false,
        };
        if is_done || !self.reuse || self.closed.load(Ordering::SeqCst) {
            return self.retire(block);
        }
        if !at_home {
            self.freed.push(block);
            // Whoever closed the arena between the two looked for the block too early.
            if self.closed.load(Ordering::SeqCst) {
                self.close();
            }
            return;
        }
        let mut bins = self.bins.lock();
        bins.in_use -= block.span.bytes;
        if self.closed.load(Ordering::SeqCst) {
            // Closing empties the bins once; who comes later keeps nothing in them.
            drop(bins);
            return drop(block);
        }
        match &block.origin {
            // What used it at home comes before whatever uses it next at home.
            Origin::Carved { class, .. } if !block.marks.used_away() => {
                let class = *class;
                block.marks.reset();
                bins.idle[class].push(block);
            }
            _ => bins.pending.push(block),
        }
    }

    /// Brings home what other threads freed, and what foreign streams are done with.
    pub fn collect(&self) {
        let freed: Vec<BlockBox> = self.freed.take_all().collect();
        let mut candidates = {
            let mut bins = self.bins.lock();
            for block in &freed {
                bins.in_use -= block.span.bytes;
            }
            std::mem::take(&mut bins.pending)
        };
        candidates.extend(freed);
        if candidates.is_empty() {
            return;
        }
        let (ready, pending): (Vec<_>, Vec<_>) = candidates
            .into_iter()
            .partition(|block| self.is_reusable(block));
        let (carved, adopted): (Vec<_>, Vec<_>) = ready
            .into_iter()
            .partition(|block| matches!(block.origin, Origin::Carved { .. }));
        for block in &carved {
            block.marks.reset();
        }
        let mut bins = self.bins.lock();
        if self.closed.load(Ordering::SeqCst) {
            drop(bins);
            return drop((pending, carved, adopted));
        }
        bins.pending.extend(pending);
        for block in carved {
            if let Origin::Carved { class, .. } = block.origin {
                bins.idle[class].push(block);
            }
        }
        drop(bins);
        // Tells their owners, who may do anything: no lock is held.
        drop(adopted);
    }

    fn is_reusable(&self, block: &Block) -> bool {
        let adopted = matches!(block.origin, Origin::Adopted(_));
        block.marks.uses().all(|stamp| {
            (stamp.stream == self.stream && !adopted) || self.clocks.is_complete(stamp)
        })
    }

    /// Turns idle blocks back into free ranges.
    fn merge(&self) {
        let idle = self.bins.lock().take_all_idle();
        let ranges: Vec<Range> = idle
            .iter()
            .filter_map(|block| match &block.origin {
                Origin::Carved { range, .. } => Some(Range {
                    last_use: block.marks.home_tick(),
                    ..range.clone()
                }),
                Origin::Adopted(_) => None,
            })
            .collect();
        let mut heap = self.heap.lock();
        for range in &ranges {
            heap.give(range);
        }
    }

    /// Gives chunks that nothing uses back to the device; says how many bytes.
    pub fn trim(&self) -> usize {
        self.collect();
        self.merge();
        let completed = self.clocks.completed(self.stream);
        let chunks = self.heap.lock().release_idle(completed);
        chunks.iter().map(|chunk| chunk.bytes()).sum()
    }

    /// Lets go of everything, after all work is complete. Buffers that are still out keep their chunks.
    pub fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        let (idle, pending) = {
            let mut bins = self.bins.lock();
            (bins.take_all_idle(), std::mem::take(&mut bins.pending))
        };
        drop((idle, pending));
        for block in self.freed.take_all() {
            self.retire(block);
        }
        let heap = std::mem::take(&mut *self.heap.lock());
        drop(heap);
    }

    /// The end of a block whose arena is closed.
    fn retire(&self, block: BlockBox) {
        self.bins.lock().in_use -= block.span.bytes;
        drop(block);
    }

    /// What it holds, after bringing home what can be.
    pub fn measure(&self) -> ArenaUse {
        self.collect();
        let (free, largest_free, reserved, chunks) = {
            let heap = self.heap.lock();
            (heap.free(), heap.largest(), heap.reserved(), heap.chunks())
        };
        let bins = self.bins.lock();
        ArenaUse {
            in_use: bins.in_use,
            peak: bins.peak,
            pending: bytes(bins.pending.iter()),
            idle: bytes(bins.idle.iter().flat_map(Bin::iter)),
            free,
            largest_free,
            reserved,
            chunks,
            allocations: bins.allocations,
            hits: bins.hits,
        }
    }
}

fn bytes<'a>(blocks: impl Iterator<Item = &'a BlockBox>) -> usize {
    blocks.map(|block| block.span.bytes).sum()
}
