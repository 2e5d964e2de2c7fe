//! What the tests of listings share.

use streampool_device::{DType, Layout, Span, View};

/// All of the buffer of this number.
pub fn whole(number: u64, shape: &[usize]) -> View {
    let layout = Layout::contiguous(shape).unwrap();
    let span = Span {
        handle: number,
        offset: 0,
        bytes: layout.elements() * 4,
    };
    View::new(span, DType::F32, layout).unwrap()
}
