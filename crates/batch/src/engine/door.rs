//! The door through which callers come to a lane without the lock, while nothing waits.

use crate::sync::{AtomicU64, Ordering};

/// The lanes that are to be had at the door, a bit for each. Shut, it has none, and those that are out come back by the lock.
pub struct Door(AtomicU64);

const SHUT: u64 = 1 << 63;

impl Door {
    /// How many lanes it can have.
    pub const LANES: usize = 63;

    /// A door that is shut.
    pub fn new() -> Door {
        Door(AtomicU64::new(SHUT))
    }

    /// Takes a lane, if one is to be had.
    pub fn enter(&self) -> Option<usize> {
        let take_one = |lanes| (lanes & SHUT == 0 && lanes != 0).then(|| lanes & (lanes - 1));
        let lanes = self
            .0
            .fetch_update(Ordering::Acquire, Ordering::Relaxed, take_one);
        lanes.ok().map(|lanes| lanes.trailing_zeros() as usize)
    }

    /// Brings a lane back. Not if the door was shut meanwhile: who shut it waits for the lane, which has to come back by the lock.
    #[must_use]
    pub fn leave(&self, lane: usize) -> bool {
        let give_back = |lanes| (lanes & SHUT == 0 || cfg!(planted)).then_some(lanes | 1 << lane);
        let lanes = self
            .0
            .fetch_update(Ordering::Release, Ordering::Relaxed, give_back);
        lanes.is_ok()
    }

    /// Shuts it. Returns the lanes that were to be had.
    pub fn shut(&self) -> impl Iterator<Item = usize> + use<> {
        let lanes = self.0.swap(SHUT, Ordering::Acquire);
        (0..Self::LANES).filter(move |lane| lanes & 1 << lane != 0)
    }

    /// Opens it, when it is shut. These lanes are to be had.
    pub fn open(&self, lanes: impl IntoIterator<Item = usize>) {
        let lanes = lanes.into_iter().fold(0, |lanes, lane| lanes | 1 << lane);
        self.0.store(lanes, Ordering::Release);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn each_lane_is_had_once() {
        let door = Door::new();
        assert_eq!(door.enter(), None, "it is shut");
        door.open([0, 2]);
        assert_eq!([door.enter(), door.enter()], [Some(0), Some(2)]);
        assert_eq!(door.enter(), None, "both are out");
        assert!(door.leave(2));
        assert_eq!(door.enter(), Some(2));
    }

    #[test]
    fn what_is_out_when_it_is_shut_does_not_come_back_to_it() {
        let door = Door::new();
        door.open(0..Door::LANES);
        assert_eq!(door.enter(), Some(0));
        assert!(door.shut().eq(1..Door::LANES));
        assert!(!door.leave(0));
        assert_eq!(door.enter(), None);
        assert_eq!(door.shut().count(), 0);
    }
}
