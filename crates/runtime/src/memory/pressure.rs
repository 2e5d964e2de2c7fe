//! Allocation when the arena is empty, and what is tried when the device is, too.

use std::cell::Cell;
use std::sync::Arc;
use std::time::{Duration, Instant};

use streampool_device::lock::assert_none_held;
use streampool_device::{Flush, Space, Span};

use super::arena::{Origin, Release};
use super::class::Class;
use super::source::Chunk;
use super::{Arena, Buffer};
use crate::clock::Marks;
use crate::core::Core;
use crate::lane::Lane;
use crate::waiters::Waited;
use crate::{Budget, Error, Pressure, Result};

/// Chunks are at least this long, so that small blocks share them.
const SMALL_CHUNK: usize = 2 << 20;
/// Blocks longer than this get chunks of their own size.
const SMALL_BLOCK: usize = 1 << 20;
/// So long an allocation that there is room for is tried again: other threads use what they have all the time, and what
/// they have lies idle for moments only.
const RACES: Duration = Duration::from_secs(2);
/// Blocks up to this length share chunks of twice as much.
const MEDIUM_BLOCK: usize = 10 << 20;

thread_local! {
    static IS_FIRST: Cell<bool> = const { Cell::new(false) };
}

/// The first of those for whom memory is short. There is one at a time, in the order of coming: it tries the remedies and
/// gets what they free, while others that need memory of the device wait.
struct First<'a>(&'a Core);

/// So long nothing may move in the line: its first may wait, in a callback, for one that is behind it.
const PATIENCE: Duration = Duration::from_secs(1);

impl<'a> First<'a> {
    /// Waits to be first. `None` for who is, and allocates in a callback, or has waited for too long: it goes on without.
    fn wait(core: &'a Core) -> Option<First<'a>> {
        if IS_FIRST.get() {
            return None;
        }
        assert_none_held();
        let waited = core.short_of_memory.claim_wait(None, Some(PATIENCE));
        matches!(waited, Waited::Slot(_)).then(|| {
            IS_FIRST.set(true);
            First(core)
        })
    }
}

impl Drop for First<'_> {
    fn drop(&mut self) {
        IS_FIRST.set(false);
        self.0.short_of_memory.release(1);
    }
}

/// What is tried, in this order, before memory is out.
#[derive(Debug, Clone, Copy)]
enum Remedy {
    TrimIdle,
    AskCallbacks,
    Synchronize,
}

impl Core {
    /// A buffer of `bytes` on `lane`'s stream.
    #[inline]
    pub fn allocate(&self, lane: &Lane, bytes: usize) -> Result<Buffer> {
        self.check()?;
        let class = Class::holding(bytes)?;
        match lane.arena.take_idle(class) {
            Some(block) => Ok(Buffer::new(block, bytes)),
            None => self.allocate_slowly(&lane.arena, class, bytes),
        }
    }

    /// As [`allocate`](Self::allocate), of chunks where only such lie. Where there is none to be had, it shares one rather
    /// than fail.
    pub fn allocate_lasting(&self, lane: &Lane, bytes: usize) -> Result<Buffer> {
        self.check()?;
        let class = Class::holding(bytes)?;
        let mut taken = self.lasting.take(bytes);
        if taken.is_none()
            && let Some(chunk) = self.chunk_for(class.bytes)?
        {
            self.lasting.grow(chunk);
            taken = self.lasting.take(bytes);
            self.relieve_above_high_watermark(class.bytes);
        }
        match taken {
            Some((span, release)) => Ok(lane.adopt(span, Some(release))),
            None => self.allocate(lane, bytes),
        }
    }

    #[cold]
    fn allocate_slowly(&self, arena: &Arc<Arena>, class: Class, bytes: usize) -> Result<Buffer> {
        use Remedy::{AskCallbacks, Synchronize, TrimIdle};
        let first = [None, Some(TrimIdle), Some(AskCallbacks), Some(Synchronize)];
        let (mut place, mut since) = (None, None);
        let is_late = || Budget::current_deadline().is_some_and(|until| Instant::now() >= until);
        for remedy in first
            .into_iter()
            .chain(std::iter::repeat(Some(Synchronize)))
        {
            if let Some(remedy) = remedy {
                place.get_or_insert_with(|| First::wait(self));
                self.apply(remedy, class.bytes);
            }
            if let Some(block) = arena.take(class) {
                return Ok(Buffer::new(block, bytes));
            }
            // What memory there is goes to who came first.
            if self.short_of_memory.free() == 0 {
                place.get_or_insert_with(|| First::wait(self));
            }
            if self.grow(arena, class)?
                && let Some(block) = arena.take(class)
            {
                self.relieve_above_high_watermark(class.bytes);
                return Ok(Buffer::new(block, bytes));
            }
            if matches!(remedy, Some(Synchronize)) {
                let since = since.get_or_insert_with(Instant::now);
                if !self.has_room(class.bytes) || since.elapsed() > RACES || is_late() {
                    break;
                }
                std::thread::yield_now();
            }
        }
        Err(self.out_of_memory(bytes))
    }

    /// Staging memory, which the host and the device both reach. When it is short, what can be reclaimed is.
    pub fn staging(&self, bytes: usize) -> Result<Arc<Chunk>> {
        use Remedy::{AskCallbacks, Synchronize, TrimIdle};
        for remedy in [None, Some(TrimIdle), Some(AskCallbacks), Some(Synchronize)] {
            if let Some(remedy) = remedy {
                self.apply(remedy, bytes);
            }
            if let Some(chunk) = self.source.chunk(bytes, Space::Staging)? {
                return Ok(chunk);
            }
        }
        Err(self.out_of_memory(bytes))
    }

    fn out_of_memory(&self, requested: usize) -> Error {
        let uses: Vec<_> = self.lanes().map(|lane| lane.arena.measure()).collect();
        Error::OutOfMemory {
            requested,
            reserved: self.source.reserved(),
            overhead: self.source.overhead(),
            in_use: uses.iter().map(|arena| arena.in_use).sum(),
            pending: uses.iter().map(|arena| arena.pending).sum(),
            limit: self.source.limit(),
            is_setting: self.source.is_set_lower(),
        }
    }

    /// Whether what is in use leaves room for so many bytes. Then it is only that other threads were faster to
    /// take what was given back.
    fn has_room(&self, bytes: usize) -> bool {
        let in_use: usize = self.lanes().map(|lane| lane.arena.measure().in_use).sum();
        let taken = in_use.saturating_add(self.source.overhead());
        taken.saturating_add(bytes) <= self.source.limit()
    }

    /// Adds a chunk to the arena.
    fn grow(&self, arena: &Arena, class: Class) -> Result<bool> {
        let chunk = self.chunk_for(class.bytes)?;
        let grown = chunk.is_some();
        chunk.into_iter().for_each(|chunk| arena.grow(chunk));
        Ok(grown)
    }

    /// A chunk for a block of `needed` bytes; one just large enough if a generous one is not to be had.
    fn chunk_for(&self, needed: usize) -> Result<Option<Arc<Chunk>>> {
        let generous = if needed <= SMALL_BLOCK {
            SMALL_CHUNK
        } else if needed <= MEDIUM_BLOCK {
            2 * MEDIUM_BLOCK
        } else {
            needed.next_multiple_of(SMALL_CHUNK)
        };
        for bytes in [generous, needed] {
            if let Some(chunk) = self.source.chunk(bytes, Space::Device)? {
                return Ok(Some(chunk));
            }
        }
        Ok(None)
    }

    fn apply(&self, remedy: Remedy, needed: usize) {
        match remedy {
            Remedy::TrimIdle => {
                self.trim_all();
            }
            Remedy::AskCallbacks => {
                self.pressure.call(&self.describe_pressure(needed));
                self.trim_all();
            }
            Remedy::Synchronize => {
                for lane in self.lanes() {
                    // Only that the work is over counts here; how it ended is told to who waits for it.
                    if let Ok(flushed) = self.flush(lane, Flush::Start) {
                        let _ = lane.progress.wait(flushed.tick, Budget::current_deadline());
                    }
                }
                self.trim_all();
            }
        }
    }

    fn taken(&self) -> usize {
        self.source
            .reserved()
            .saturating_add(self.source.overhead())
    }

    fn describe_pressure(&self, needed: usize) -> Pressure {
        Pressure {
            needed,
            reserved: self.taken(),
            limit: self.source.limit(),
        }
    }

    /// Gives back what lies idle, before memory is short.
    fn relieve_above_high_watermark(&self, needed: usize) {
        let limit = self.source.limit() as f64;
        let above = |mark: f64| self.taken() as f64 > limit * mark;
        if !above(self.settings.high_watermark) {
            return;
        }
        self.trim_all();
        if above(self.settings.low_watermark) {
            self.pressure.call(&self.describe_pressure(needed));
            self.trim_all();
        }
    }

    /// Gives what no stream uses back to the device; says how many bytes.
    pub fn trim_all(&self) -> usize {
        self.lanes().map(|lane| lane.arena.trim()).sum()
    }
}

impl Lane {
    /// A buffer over memory that was not allocated here; without a release its owner need not be told when it is free.
    pub fn adopt(&self, span: Span, release: Option<Release>) -> Buffer {
        self.arena.lend_adopted(span.bytes, release.is_some());
        let marks = Marks::new(self.index);
        let block = self.arena.block(span, marks, Origin::Adopted(release));
        Buffer::new(block, span.bytes)
    }
}
