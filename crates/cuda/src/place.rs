//! Addresses: where memory is for the driver.

use cudarc::driver::sys::CUdeviceptr;
use streampool_device::{Span, View};

/// Where steps find their memory.
#[derive(Clone, Copy)]
pub(crate) struct Place<'a> {
    pub scratch: CUdeviceptr,
    /// Memory that is elsewhere now than where the steps say.
    pub moved: &'a [Moved],
}

/// So many bytes that were at an address and are at another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Moved {
    pub from: CUdeviceptr,
    pub bytes: usize,
    pub to: CUdeviceptr,
}

impl Place<'_> {
    /// Where that which the steps have at `address` is now.
    #[inline]
    pub fn of(&self, address: CUdeviceptr) -> CUdeviceptr {
        let within = |moved: &&Moved| address.wrapping_sub(moved.from) < moved.bytes as u64;
        match self.moved.iter().find(within) {
            Some(moved) => moved.to + (address - moved.from),
            None => address,
        }
    }
}

/// The address of a span's first byte.
pub(crate) fn address(span: &Span) -> CUdeviceptr {
    span.handle.wrapping_add(span.offset as u64)
}

/// The address of a view's first element.
pub(crate) fn start(view: &View) -> CUdeviceptr {
    address(&view.span()) + (view.layout().offset() * view.dtype().size()) as u64
}
