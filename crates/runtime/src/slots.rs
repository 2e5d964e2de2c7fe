//! The set of free stream numbers: one word, claimed and released without a lock.

use crate::sync::{AtomicU64, Ordering};

/// What a claim orders: everything that the last holder did with the number comes before what the new one
/// does. (The next claim of another number does not break the chain: a read-modify-write continues it.)
const CLAIM: Ordering = if cfg!(planted) {
    Ordering::Relaxed
} else {
    Ordering::Acquire
};

/// The other half of [`CLAIM`].
const RELEASE: Ordering = Ordering::Release;

/// The bit that says that the set is shut. Number 0, the default stream, is never leased, so its bit is
/// to spare; and being in the same word as the numbers, it is read and changed in one step with them.
const SHUT: u64 = 1;

/// A lock-free set of the free ones among the numbers 1 to 63.
///
/// It can be *shut*: then nothing can be claimed, and [`release_if_open`](Self::release_if_open) refuses.
/// [`Slots`](crate::waiters::Slots) shuts it while threads wait, so that nobody overtakes them.
#[derive(Debug)]
pub(crate) struct SlotSet(AtomicU64);

impl SlotSet {
    /// The set of the numbers whose bits are set in `mask`; bit 0 is ignored.
    pub(crate) fn new(mask: u64) -> Self {
        SlotSet(AtomicU64::new(mask & !SHUT))
    }

    /// Takes the lowest free number; `None` if there is none or the set is shut.
    #[inline]
    pub(crate) fn claim(&self) -> Option<u8> {
        // Relaxed: only the successful exchange hands something over.
        let mut word = self.0.load(Ordering::Relaxed);
        while word & SHUT == 0 && word != 0 {
            // Clears the lowest bit that is set.
            match self.exchange(word, word & (word - 1), CLAIM) {
                Ok(()) => return Some(word.trailing_zeros() as u8),
                Err(now) => word = now,
            }
        }
        None
    }

    /// Takes `own` if it is free, else the lowest free number that is not among `others`, else the lowest.
    #[inline]
    pub(crate) fn claim_preferring(&self, own: Option<u8>, others: u64) -> Option<u8> {
        let own = own.map_or(0, bit);
        let mut word = self.0.load(Ordering::Relaxed);
        while word & SHUT == 0 && word != 0 {
            let choice = [word & own, word & !others, word];
            let choice = choice.into_iter().find(|bits| *bits != 0).unwrap_or(word);
            let number = choice.trailing_zeros() as u8;
            match self.exchange(word, word & !bit(number), CLAIM) {
                Ok(()) => return Some(number),
                Err(now) => word = now,
            }
        }
        None
    }

    /// Whether nothing can be claimed.
    #[inline]
    pub(crate) fn is_shut(&self) -> bool {
        self.0.load(Ordering::Relaxed) & SHUT != 0
    }

    /// Takes the lowest free number or, if there is none, shuts the set in the same step: no number can
    /// become free unnoticed between the look and the shutting. `None` means that the set is shut.
    pub(crate) fn claim_or_shut(&self) -> Option<u8> {
        if cfg!(planted) {
            let claimed = self.claim();
            if claimed.is_none() {
                self.shut();
            }
            return claimed;
        }
        let mut word = self.0.load(Ordering::Relaxed);
        loop {
            if word & SHUT != 0 {
                return None;
            }
            // Relaxed for the shutting: it hands nothing over, and whoever sees it takes the lock of the
            // one who shut.
            let (new, order) = match word {
                0 => (SHUT, Ordering::Relaxed),
                _ => (word & (word - 1), CLAIM),
            };
            match self.exchange(word, new, order) {
                Ok(()) if new == SHUT => return None,
                Ok(()) => return Some(word.trailing_zeros() as u8),
                Err(now) => word = now,
            }
        }
    }

    /// Gives a claimed number back, whether the set is shut or not.
    #[inline]
    pub(crate) fn release(&self, number: u8) {
        let before = self.0.fetch_or(bit(number), RELEASE);
        debug_assert_eq!(before & bit(number), 0, "{number} was free already");
    }

    /// Gives a claimed number back; false, and nothing done, if the set is shut.
    #[inline]
    pub(crate) fn release_if_open(&self, number: u8) -> bool {
        let bit = bit(number);
        let mut word = self.0.load(Ordering::Relaxed);
        while word & SHUT == 0 {
            debug_assert_eq!(word & bit, 0, "{number} was free already");
            match self.exchange(word, word | bit, RELEASE) {
                Ok(()) => return true,
                Err(now) => word = now,
            }
        }
        false
    }

    /// Lets nothing be claimed from now on.
    pub(crate) fn shut(&self) {
        self.0.fetch_or(SHUT, Ordering::Relaxed);
    }

    /// Undoes shutting.
    pub(crate) fn open(&self) {
        self.0.fetch_and(!SHUT, Ordering::Relaxed);
    }

    /// How many numbers are free.
    pub(crate) fn free(&self) -> u32 {
        (self.0.load(Ordering::Relaxed) & !SHUT).count_ones()
    }

    #[inline]
    fn exchange(&self, current: u64, new: u64, success: Ordering) -> Result<(), u64> {
        self.0
            .compare_exchange_weak(current, new, success, Ordering::Relaxed)
            .map(drop)
    }
}

/// The bit of a number.
#[inline]
fn bit(number: u8) -> u64 {
    debug_assert!((1..64).contains(&number), "{number} is not a slot");
    1 << (number & 63)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;

    #[test]
    fn claims_the_lowest_free_number() {
        let set = SlotSet::new(0b1011_0000);
        assert_eq!(set.free(), 3);
        assert_eq!(set.claim(), Some(4));
        assert_eq!(set.claim(), Some(5));
        set.release(4);
        assert_eq!(set.claim(), Some(4));
        assert_eq!(set.claim(), Some(7));
        assert_eq!(set.claim(), None);
        assert_eq!(set.free(), 0);
    }

    #[test]
    fn a_preference_comes_before_the_lowest() {
        let set = SlotSet::new(0b1111_0000);
        assert_eq!(set.claim_preferring(Some(6), 0), Some(6));
        assert_eq!(set.claim_preferring(Some(6), 0b0001_0000), Some(5));
        assert_eq!(set.claim_preferring(None, 0b1001_0000), Some(4));
        assert_eq!(set.claim_preferring(None, 0), Some(7));
        assert_eq!(set.claim_preferring(Some(7), 0), None);
        set.shut();
        set.release(6);
        assert_eq!(set.claim_preferring(Some(6), 0), None, "it is shut");
    }

    #[test]
    fn holds_the_numbers_1_to_63_and_never_0() {
        let set = SlotSet::new(u64::MAX);
        let claimed: Vec<u8> = std::iter::from_fn(|| set.claim()).collect();
        assert_eq!(claimed, (1..64).collect::<Vec<u8>>());
    }

    #[test]
    fn a_shut_set_gives_nothing_and_takes_back_only_by_release() {
        let set = SlotSet::new(0b10);
        assert!(!set.is_shut());
        assert_eq!(set.claim_or_shut(), Some(1));
        assert!(!set.is_shut(), "it is empty, not shut");
        assert_eq!(set.claim_or_shut(), None);
        assert!(set.is_shut());
        assert!(!set.release_if_open(1));
        set.release(1);
        assert_eq!((set.claim(), set.claim_or_shut()), (None, None));
        assert_eq!(set.free(), 1);
        set.open();
        assert_eq!(set.claim(), Some(1));
        assert!(set.release_if_open(1));
        assert_eq!(set.free(), 1);
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "3 was free already")]
    fn releasing_twice_is_noticed() {
        SlotSet::new(0b1000).release(3);
    }

    #[test]
    fn no_number_has_two_holders_however_many_threads_claim() {
        let set = SlotSet::new(0b1111_1110);
        let held: [AtomicBool; 8] = Default::default();
        std::thread::scope(|scope| {
            for _ in 0..12 {
                scope.spawn(|| {
                    for _ in 0..5_000 {
                        let Some(number) = set.claim() else {
                            std::thread::yield_now();
                            continue;
                        };
                        let mine = &held[usize::from(number)];
                        assert!(!mine.swap(true, Ordering::Relaxed), "{number} held twice");
                        mine.store(false, Ordering::Relaxed);
                        set.release(number);
                    }
                });
            }
        });
        assert_eq!(set.free(), 7);
    }
}
