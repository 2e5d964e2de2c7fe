//! What the device takes for itself, counted.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The sum of it.
#[derive(Clone, Default)]
pub(crate) struct Owned(Arc<AtomicUsize>);

/// A part of it, as long as this lives.
pub(crate) struct Own {
    all: Owned,
    bytes: usize,
}

impl Owned {
    /// So many bytes more.
    pub fn take(&self, bytes: usize) -> Own {
        self.0.fetch_add(bytes, Ordering::Relaxed);
        Own {
            all: self.clone(),
            bytes,
        }
    }

    /// The sum.
    pub fn bytes(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        self.all.0.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}
