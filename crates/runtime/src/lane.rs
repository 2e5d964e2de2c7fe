//! One stream's inside: its queue and clock behind one lock, and what others may look at without it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use streampool_device::lock::{Guard, Mutex};
use streampool_device::{Flush, Progress, Queue, Tick};

use crate::clock::{After, Clean, Stamp};
use crate::clocks::Clocks;
use crate::event_pool::PooledEvent;
use crate::history::History;
use crate::memory::Arena;
use crate::{Error, Result, ranks};

/// The name of a stream's queue, which its faults tell.
pub(crate) fn label(index: u8) -> String {
    format!("stream {index}")
}

/// On cache lines of its own, like the arena.
#[repr(align(128))]
pub(crate) struct Lane {
    pub index: u8,
    pub progress: Arc<dyn Progress>,
    pub arena: Arc<Arena>,
    pub history: History,
    encoder: Mutex<Encoder>,
    /// The tick of the last command, for those who look without the lock.
    last: AtomicU64,
    /// Whether anything is consumed, for those who look without the lock.
    consumes: AtomicBool,
}

/// What only the holder of the stream's lock touches.
pub(crate) struct Encoder {
    /// Gone once the pool is shut down.
    queue: Option<Box<dyn Queue>>,
    /// What comes next is ordered after this.
    pub after: After,
    /// This is complete, without a fault.
    pub clean: Clean,
    /// What was used before it was known whether it is any good.
    pub consumed: Consumed,
    /// The latest event recorded for other streams.
    pub marker: Option<Arc<Marker>>,
    pub counts: Counts,
    authors: Authors,
}

/// Which thread encoded which commands of a stream, the latest stretches of commands of one thread.
#[derive(Default)]
struct Authors(VecDeque<(Tick, usize)>);

/// So many stretches are remembered. A fault is asked about soon after it happened.
const STRETCHES: usize = 256;

thread_local! {
    /// Its address stands for the thread.
    static THREAD: u8 = const { 0 };
}

/// A number that no other thread has that lives.
fn this_thread() -> usize {
    THREAD.with(|place| std::ptr::from_ref(place).addr())
}

impl Authors {
    #[inline]
    fn add(&mut self, tick: Tick) {
        let thread = this_thread();
        if self.0.back().is_some_and(|&(_, last)| last == thread) {
            return;
        }
        if self.0.len() == STRETCHES {
            self.0.pop_front();
        }
        self.0.push_back((tick, thread));
    }

    fn own_between(&self, since: Tick, until: Tick) -> Vec<(Tick, Tick)> {
        let own = this_thread();
        let ends = self.0.iter().skip(1).map(|&(begin, _)| begin - 1);
        let stretches = self.0.iter().zip(ends.chain([until]));
        let own = stretches.filter(|((_, thread), _)| *thread == own);
        own.map(|(&(begin, _), end)| (since.max(begin.saturating_sub(1)), until.min(end)))
            .filter(|(since, until)| since < until)
            .collect()
    }

    fn is_this_thread(&self, tick: Tick) -> bool {
        let stretch = self.0.iter().rev().find(|&&(since, _)| since <= tick);
        stretch.is_some_and(|&(_, thread)| thread == this_thread())
    }
}

/// What a stream did.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Counts {
    pub ops: u64,
    pub waits: u64,
    pub flushes: u64,
}

/// Results of other streams that a stream used before it was known whether they are any good, in the order of the uses.
#[derive(Debug, Default)]
pub(crate) struct Consumed(Vec<Use>);

/// So many are told apart. Of a stream that uses more before it is synchronised, a later result stands for an earlier one, too: who
/// used what that went into may hear of a fault that did not hit it, but never the other way round.
const TOLD_APART: usize = 32;

/// The use of another stream's results.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Use {
    /// Up to where they were used.
    pub stamp: Stamp,
    /// The first command that used one.
    pub since: Tick,
}

/// What was handed over to the device.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Flushed {
    /// The last command's tick.
    pub tick: Tick,
    /// Whether results of other streams were used that are not known to be good.
    pub unsettled: bool,
}

impl Flushed {
    /// Everything up to `tick`, whatever it used.
    pub fn at(tick: Tick) -> Self {
        Flushed {
            tick,
            unsettled: true,
        }
    }
}

/// An event on a stream, shared by all who wait for what is before it.
pub(crate) struct Marker {
    pub stamp: Stamp,
    pub event: PooledEvent,
    /// What the stream was ordered after at that point.
    pub after: After,
}

impl Lane {
    pub fn new(
        pool: u64,
        index: u8,
        queue: Box<dyn Queue>,
        clocks: Arc<Clocks>,
        reuse: bool,
    ) -> Self {
        Lane {
            index,
            progress: queue.progress(),
            arena: Arc::new(Arena::new(pool, index, clocks, reuse)),
            history: History::new(),
            encoder: Mutex::new(
                ranks::STREAM,
                Encoder {
                    queue: Some(queue),
                    after: After::nothing(),
                    clean: Clean::nothing(),
                    consumed: Consumed::default(),
                    marker: None,
                    counts: Counts::default(),
                    authors: Authors::default(),
                },
            ),
            last: AtomicU64::new(0),
            consumes: AtomicBool::new(false),
        }
    }

    /// Takes the stream's lock. No thread holds two.
    #[inline]
    pub fn lock(&self) -> Guard<'_, Encoder> {
        self.encoder.lock()
    }

    /// As [`lock`](Self::lock), until the deadline at most: whoever has it may compile a kernel meanwhile.
    pub fn lock_by(&self, deadline: Option<Instant>) -> Result<Guard<'_, Encoder>> {
        let Some(deadline) = deadline else {
            return Ok(self.lock());
        };
        let begun = Instant::now();
        let locked = self.encoder.lock_by(deadline);
        Ok(locked.ok_or_else(|| streampool_device::Error::Timeout(begun.elapsed()))?)
    }

    /// Remembers that the command at `tick`, which nobody else knows of yet, uses the result at `stamp` of a stream with this
    /// history.
    pub fn consume(&self, encoder: &mut Encoder, stamp: Stamp, tick: Tick, history: &History) {
        encoder.consumed.add(stamp, tick, history);
        self.consumes.store(true, Ordering::Release);
    }

    /// Forgets a use whose outcome is noted, unless more was used since.
    pub fn settled(&self, encoder: &mut Encoder, judged: Use) {
        encoder.consumed.settled(judged);
        let consumes = !encoder.consumed.is_empty();
        self.consumes.store(consumes, Ordering::Release);
    }

    /// What commands up to `tick` used. Most streams used nothing, and are not waited for: who has the lock may make a graph
    /// meanwhile.
    pub fn uses_until(&self, tick: Tick, deadline: Option<Instant>) -> Result<Vec<Use>> {
        // Acquire: whoever forgot a use has noted its outcome before.
        match self.consumes.load(Ordering::Acquire) {
            true => Ok(self.lock_by(deadline)?.consumed.until(tick)),
            false => Ok(Vec::new()),
        }
    }

    /// Hands over what was encoded.
    #[inline]
    pub fn flush(&self, when: Flush, deadline: Option<Instant>) -> Result<Flushed> {
        let mut encoder = self.lock_by(deadline)?;
        let tick = encoder.queue()?.flush(when)?;
        encoder.counts.flushes += 1;
        Ok(Flushed {
            tick,
            unsettled: !encoder.consumed.is_empty(),
        })
    }

    /// Notes the tick of a command just appended.
    #[inline]
    pub fn appended(&self, encoder: &mut Encoder, tick: Tick) -> Stamp {
        encoder.authors.add(tick);
        self.last.store(tick, Ordering::Relaxed);
        Stamp {
            stream: self.index,
            tick,
        }
    }

    /// The tick of the last command.
    #[inline]
    pub fn last_tick(&self) -> Tick {
        self.last.load(Ordering::Relaxed)
    }

    /// Whether everything encoded is over.
    #[inline]
    pub fn is_idle(&self) -> bool {
        self.progress.completed() >= self.last_tick()
    }

    /// Waits for everything and lets go of the queue. Faults were reported to those they hit, or nobody
    /// is left to tell.
    pub fn close(&self) {
        // Without the queue nothing can be added that would not be waited for.
        let (queue, marker) = {
            let mut encoder = self.lock();
            (encoder.queue.take(), encoder.marker.take())
        };
        drop(marker);
        if let Some(mut queue) = queue
            && let Ok(tick) = queue.flush(Flush::ForWaiter)
        {
            let _ = self.progress.wait(tick, None);
        }
    }
}

impl Consumed {
    /// Remembers that the command at `tick` uses the result at `stamp`, on a stream with this history. An earlier use of a later
    /// result is enough, unless a fault was over between them: then the later may be good and the earlier bad.
    pub fn add(&mut self, stamp: Stamp, tick: Tick, history: &History) {
        let are_many = self.0.len() >= TOLD_APART;
        let known = self.0.iter_mut().rfind(|known| {
            let (one, other) = (known.stamp.tick, stamp.tick);
            known.stamp.stream == stamp.stream
                && !history.was_over_between(one.min(other), one.max(other))
        });
        match known {
            Some(known) if are_many || known.stamp.tick >= stamp.tick => {
                known.stamp.tick = known.stamp.tick.max(stamp.tick);
            }
            _ => self.0.push(Use { stamp, since: tick }),
        }
    }

    /// What commands up to `tick` used.
    pub fn until(&self, tick: Tick) -> Vec<Use> {
        self.0
            .iter()
            .filter(|known| known.since <= tick)
            .copied()
            .collect()
    }

    /// Forgets a use that was settled, unless more was used since.
    pub fn settled(&mut self, judged: Use) {
        self.0.retain(|known| *known != judged);
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Encoder {
    /// Whether the calling thread encoded the command at `tick`, as far as that is remembered.
    pub fn is_own(&self, tick: Tick) -> bool {
        self.authors.is_this_thread(tick)
    }

    /// What the calling thread encoded behind `since`, up to `until`: stretches, each behind its first place.
    pub fn own_between(&self, since: Tick, until: Tick) -> Vec<(Tick, Tick)> {
        self.authors.own_between(since, until)
    }

    /// Has the next who asks for a marker record a new one.
    pub fn forget_marker(&mut self) {
        self.marker = None;
    }

    /// The queue, unless the pool was shut down.
    #[inline]
    pub fn queue(&mut self) -> Result<&mut dyn Queue> {
        match &mut self.queue {
            Some(queue) => Ok(&mut **queue),
            None => Err(Error::ShutDown),
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn each_thread_is_told_its_own_stretches() {
        let mut authors = Authors(VecDeque::new());
        authors.add(1);
        authors.add(2);
        std::thread::scope(|scope| {
            let other = scope.spawn(|| {
                authors.add(4);
                authors.add(5);
            });
            other.join().unwrap();
        });
        authors.add(7);
        let own = |since, until| authors.own_between(since, until);
        assert_eq!(own(0, 10), [(0, 3), (6, 10)]);
        assert_eq!(own(2, 8), [(2, 3), (6, 8)]);
        assert_eq!((own(3, 6), own(10, 10)), (vec![], vec![]));
        let is_own = [0, 1, 3, 4, 6, 7, 99].map(|tick| authors.is_this_thread(tick));
        assert_eq!(is_own, [false, true, true, false, false, true, true]);
    }
}
