//! A lane, as far as callers come to it without the lock.

use std::time::Duration;

use crate::figures::Figures;
use crate::sync::{Mutex, lock};

/// What was done on a lane without the lock. On a cache line of its own, so that lanes do not slow each other down.
#[repr(align(128))]
pub struct Lane<K>(pub Mutex<Record<K>>);

/// What was done, since somebody looked last.
pub struct Record<K> {
    pub figures: Figures,
    /// How long so many rows of a kind took.
    pub sample: Option<(K, usize, Duration)>,
}

impl<K> Lane<K> {
    /// Nothing was done yet.
    pub fn new() -> Lane<K> {
        Lane(Mutex::new(Record {
            figures: Figures::default(),
            sample: None,
        }))
    }

    /// Adds to `figures` what was done since the last time.
    pub fn tell(&self, figures: &mut Figures) {
        figures.add(std::mem::take(&mut lock(&self.0).figures));
    }
}
