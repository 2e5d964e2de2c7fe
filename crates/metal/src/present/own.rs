//! What the device takes for itself, counted.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use objc2_metal::{MTLDevice, MTLResourceOptions};

use super::objects::{Buffer, Gpu, Movable, RawBuffer};
use super::pool::pooled;

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

/// Memory that the kernels of one queue work in.
pub(crate) struct Scratch {
    buffer: Buffer,
    bytes: usize,
    _own: Own,
}

impl Scratch {
    /// So many bytes, if there are.
    pub fn new(gpu: &Gpu, all: &Owned, bytes: usize) -> Option<Scratch> {
        // Only kernels see it.
        let options = MTLResourceOptions::StorageModePrivate;
        let buffer = pooled(|| gpu.newBufferWithLength_options(bytes, options))?;
        Some(Scratch {
            buffer: Movable(buffer),
            bytes,
            _own: all.take(bytes),
        })
    }

    pub fn buffer(&self) -> &RawBuffer {
        &self.buffer
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }
}
