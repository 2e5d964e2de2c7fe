//! Chances that a seed decides.

use std::sync::atomic::{AtomicU64, Ordering};

static STATE: AtomicU64 = AtomicU64::new(1);

static SEED: AtomicU64 = AtomicU64::new(1);

/// Begins again from a seed.
pub(crate) fn seed(seed: u64) {
    SEED.store(seed, Ordering::Relaxed);
    STATE.store(seed, Ordering::Relaxed);
}

/// The seed it began from.
pub(crate) fn begun_from() -> u64 {
    SEED.load(Ordering::Relaxed)
}

/// A number below `bound`, which is not 0.
pub(crate) fn below(bound: usize) -> usize {
    (draw() % bound as u64) as usize
}

/// Once in so many times.
pub(crate) fn one_in(times: usize) -> bool {
    below(times) == 0
}

/// SplitMix64: each thread that draws takes the next number of one sequence.
fn draw() -> u64 {
    const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut mixed = STATE.fetch_add(STEP, Ordering::Relaxed).wrapping_add(STEP);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}
