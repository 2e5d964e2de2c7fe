//! What the tests of the lowering share.

use streampool_device::{DType, Layout, Span, View};

use crate::Limits;

/// A large GPU.
pub(crate) const LIMITS: Limits = Limits {
    compute_units: 132,
    shared_bytes: 48 << 10,
    buffers: 480,
};

/// A view of memory that is large enough.
pub(crate) fn view(dtype: DType, layout: Layout) -> View {
    let span = Span {
        handle: 4096,
        offset: 0,
        bytes: usize::MAX / 2,
    };
    View::new(span, dtype, layout).expect("the memory is large enough")
}

/// Row-major elements.
pub(crate) fn row_major(dtype: DType, shape: &[usize]) -> View {
    view(
        dtype,
        Layout::contiguous(shape).expect("the shape is small"),
    )
}
