//! Clocks: the points of streams' orders, and the comparisons that make sharing safe.
//!
//! A block of memory carries [`Marks`]: who wrote it last and who has used it since. A stream carries
//! [`After`]: for every other stream, the tick that whatever it encodes next is ordered after anyway. A
//! hazard is a mark that is not covered by it.

use crate::sync::{AtomicU64, Ordering};
use std::sync::OnceLock;

/// The most streams of one pool.
pub const MAX_STREAMS: usize = 64;

/// A point in a stream's order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Stamp {
    /// The stream's number in its pool.
    pub stream: u8,
    /// The place of a command in that stream.
    pub tick: u64,
}

impl Stamp {
    const TICK_BITS: u32 = 56;

    pub(crate) fn pack(self) -> u64 {
        u64::from(self.stream) << Self::TICK_BITS | self.tick
    }

    /// No command has tick 0, so a packed 0 tick is no stamp.
    pub(crate) fn unpack(bits: u64) -> Option<Stamp> {
        let tick = bits & ((1 << Self::TICK_BITS) - 1);
        (tick != 0).then_some(Stamp {
            stream: (bits >> Self::TICK_BITS) as u8,
            tick,
        })
    }
}

/// What is remembered of the uses of one block of memory.
///
/// Marks are set by whoever holds the using stream's lock and a borrow of the block; they are read through
/// an exclusive borrow (a write, a free) or for the last write alone. So whoever reads a mark is already
/// ordered after its store by the borrow that was handed over, and relaxed accesses suffice.
pub struct Marks {
    /// The stream whose arena the block belongs to: the one use that needs no table.
    home: u8,
    /// The last write, packed.
    written: AtomicU64,
    /// The streams that used the block since the last write, that write's included, as bits.
    users: AtomicU64,
    /// The highest tick on the home stream.
    home_tick: AtomicU64,
    /// The highest tick on each other stream; made at the first use away from home.
    away_ticks: OnceLock<Box<[AtomicU64; MAX_STREAMS]>>,
}

impl Marks {
    /// Marks of a block that nobody has used.
    pub fn new(home: u8) -> Self {
        Marks {
            home,
            written: AtomicU64::new(0),
            users: AtomicU64::new(0),
            home_tick: AtomicU64::new(0),
            away_ticks: OnceLock::new(),
        }
    }

    /// Marks of a block whose memory the home stream used before, up to `tick`.
    pub fn used_at_home(home: u8, tick: u64) -> Self {
        let marks = Marks::new(home);
        marks.home_tick.store(tick, Ordering::Relaxed);
        marks.reset();
        marks
    }

    /// Remembers a read at `stamp`. Ticks of one stream come rising.
    pub fn read_at(&self, stamp: Stamp) {
        self.tick_of(stamp.stream)
            .store(stamp.tick, Ordering::Relaxed);
        let bit = 1 << stamp.stream;
        // Most uses repeat the last one: a load is cheaper than a read-modify-write.
        let users = self.users.load(Ordering::Relaxed);
        if users & bit == 0 {
            match cfg!(planted) {
                true => self.users.store(users | bit, Ordering::Relaxed),
                false => drop(self.users.fetch_or(bit, Ordering::Relaxed)),
            }
        }
    }

    /// Remembers a write at `stamp`, ordered after every use before: those need no remembering any more.
    pub fn written_at(&self, stamp: Stamp) {
        self.tick_of(stamp.stream)
            .store(stamp.tick, Ordering::Relaxed);
        self.users.store(1 << stamp.stream, Ordering::Relaxed);
        self.written.store(stamp.pack(), Ordering::Relaxed);
    }

    /// The last write.
    pub fn last_write(&self) -> Option<Stamp> {
        Stamp::unpack(self.written.load(Ordering::Relaxed))
    }

    /// Every use since the last write, that write's included.
    pub fn uses(&self) -> impl Iterator<Item = Stamp> {
        bits(self.users.load(Ordering::Relaxed)).map(|stream| Stamp {
            stream,
            tick: self.tick_of(stream).load(Ordering::Relaxed),
        })
    }

    /// Whether a stream other than the home stream counts among the uses.
    pub fn used_away(&self) -> bool {
        self.users.load(Ordering::Relaxed) & !(1 << self.home) != 0
    }

    /// The highest tick on the home stream that used the block, ever.
    pub fn home_tick(&self) -> u64 {
        self.home_tick.load(Ordering::Relaxed)
    }

    /// Makes the block as good as new, once its uses away from home are complete. What used it at home may
    /// still run: that stays a use, so that whoever takes the block elsewhere is ordered after it.
    pub fn reset(&self) {
        self.written.store(0, Ordering::Relaxed);
        let home = match self.home_tick() {
            0 => 0,
            _ => 1 << self.home,
        };
        self.users.store(home, Ordering::Relaxed);
    }

    fn tick_of(&self, stream: u8) -> &AtomicU64 {
        if stream == self.home {
            return &self.home_tick;
        }
        let ticks = self
            .away_ticks
            .get_or_init(|| Box::new(std::array::from_fn(|_| AtomicU64::new(0))));
        &ticks[usize::from(stream)]
    }
}

/// For every stream, the tick that one stream is ordered after: by a wait, or because it is complete.
#[derive(Debug, Clone)]
pub struct After([u64; MAX_STREAMS]);

impl After {
    /// Ordered after nothing.
    pub const fn nothing() -> Self {
        After([0; MAX_STREAMS])
    }

    /// Whether `stamp` is covered.
    #[inline]
    pub fn covers(&self, stamp: Stamp) -> bool {
        self.0[usize::from(stamp.stream)] >= stamp.tick
    }

    /// Remembers that `stamp` is covered from now on.
    pub fn cover(&mut self, stamp: Stamp) {
        let known = &mut self.0[usize::from(stamp.stream)];
        *known = (*known).max(stamp.tick);
    }

    /// Being ordered after a point of another stream is being ordered after all that that point was.
    pub fn cover_all(&mut self, other: &After) {
        for (known, &also) in self.0.iter_mut().zip(&other.0) {
            *known = (*known).max(also);
        }
    }
}

/// For every stream, a stretch of its commands that are complete and good.
///
/// Commands before a stretch may be bad though later ones are good: the stream recovered between, or used what was bad only
/// then. So a later good command says nothing about those.
#[derive(Debug, Clone)]
pub struct Clean {
    after: [u64; MAX_STREAMS],
    until: [u64; MAX_STREAMS],
}

impl Clean {
    /// Nothing is known to be good.
    pub const fn nothing() -> Self {
        Clean {
            after: [0; MAX_STREAMS],
            until: [0; MAX_STREAMS],
        }
    }

    /// Whether the command at `stamp` is known to be good.
    #[inline]
    pub fn covers(&self, stamp: Stamp) -> bool {
        let stream = usize::from(stamp.stream);
        self.after[stream] < stamp.tick && stamp.tick <= self.until[stream]
    }

    /// Remembers that the commands behind `after`, up to `stamp`, are good. Of two stretches that do not meet, the later
    /// one is kept.
    pub fn cover(&mut self, after: u64, stamp: Stamp) {
        let stream = usize::from(stamp.stream);
        let (known_after, known_until) = (self.after[stream], self.until[stream]);
        if after <= known_until && known_after <= stamp.tick {
            self.after[stream] = known_after.min(after);
            self.until[stream] = known_until.max(stamp.tick);
        } else if stamp.tick > known_until {
            (self.after[stream], self.until[stream]) = (after, stamp.tick);
        }
    }
}

/// What a stream must still wait for: for each stream, the highest tick asked for.
#[derive(Debug, Default)]
pub struct Hazards {
    streams: u64,
    stamps: Vec<Stamp>,
}

impl Hazards {
    /// Adds `stamp`, keeping only the highest tick of each stream.
    pub fn add(&mut self, stamp: Stamp) {
        let bit = 1 << stamp.stream;
        if self.streams & bit == 0 {
            self.streams |= bit;
            self.stamps.push(stamp);
            return;
        }
        for known in &mut self.stamps {
            if known.stream == stamp.stream {
                known.tick = known.tick.max(stamp.tick);
            }
        }
    }

    /// Whether there is nothing to wait for.
    pub fn is_empty(&self) -> bool {
        self.stamps.is_empty()
    }

    /// What to wait for, one stamp for each stream.
    pub fn stamps(&self) -> &[Stamp] {
        &self.stamps
    }
}

fn bits(mut set: u64) -> impl Iterator<Item = u8> {
    std::iter::from_fn(move || {
        let bit = (set != 0).then(|| set.trailing_zeros() as u8)?;
        set &= set - 1;
        Some(bit)
    })
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn stamp(stream: u8, tick: u64) -> Stamp {
        Stamp { stream, tick }
    }

    fn uses(marks: &Marks) -> Vec<Stamp> {
        marks.uses().collect()
    }

    #[test]
    fn every_reader_counts_not_only_the_last() {
        let marks = Marks::new(2);
        marks.written_at(stamp(2, 5));
        for stream in [7, 0, 63] {
            marks.read_at(stamp(stream, 10 + u64::from(stream)));
        }
        assert_eq!(
            uses(&marks),
            [stamp(0, 10), stamp(2, 5), stamp(7, 17), stamp(63, 73)]
        );
        assert_eq!(marks.last_write(), Some(stamp(2, 5)));
        assert!(marks.used_away());
    }

    #[test]
    fn a_write_stands_for_what_it_is_ordered_after() {
        let marks = Marks::new(1);
        marks.read_at(stamp(3, 9));
        marks.written_at(stamp(4, 2));
        assert_eq!(uses(&marks), [stamp(4, 2)]);
    }

    #[test]
    fn a_reused_block_keeps_its_use_at_home() {
        let marks = Marks::new(1);
        marks.written_at(stamp(1, 8));
        marks.read_at(stamp(3, 9));
        marks.reset();
        assert_eq!(marks.home_tick(), 8);
        assert_eq!(uses(&marks), [stamp(1, 8)]);
        assert_eq!(marks.last_write(), None);
        assert!(!marks.used_away());
    }

    #[test]
    fn waiting_orders_after_everything_before() {
        let mut one = After::nothing();
        one.cover(stamp(5, 10));
        let mut two = After::nothing();
        two.cover(stamp(6, 1));
        two.cover_all(&one);
        assert!(two.covers(stamp(5, 10)) && two.covers(stamp(6, 1)));
        assert!(!two.covers(stamp(5, 11)));
        two.cover(stamp(5, 3));
        assert!(two.covers(stamp(5, 10)), "a clock never goes back");
    }

    #[test]
    fn what_is_good_says_nothing_about_what_was_before_a_fault() {
        let mut clean = Clean::nothing();
        clean.cover(4, stamp(3, 9));
        assert!(clean.covers(stamp(3, 5)) && clean.covers(stamp(3, 9)));
        assert!(!clean.covers(stamp(3, 4)) && !clean.covers(stamp(3, 10)));
        assert!(!clean.covers(stamp(2, 5)));
        clean.cover(9, stamp(3, 12));
        assert!(clean.covers(stamp(3, 5)) && clean.covers(stamp(3, 12)));
        clean.cover(20, stamp(3, 25));
        assert!(!clean.covers(stamp(3, 12)), "between them may be a fault");
        clean.cover(0, stamp(3, 2));
        assert!(clean.covers(stamp(3, 25)), "the later stretch is kept");
    }

    #[test]
    fn hazards_keep_the_highest_of_each_stream() {
        let mut hazards = Hazards::default();
        assert!(hazards.is_empty());
        for (stream, tick) in [(1, 5), (2, 1), (1, 9), (1, 3)] {
            hazards.add(stamp(stream, tick));
        }
        assert!(!hazards.is_empty());
        assert_eq!(hazards.stamps(), [stamp(1, 9), stamp(2, 1)]);
    }
}
