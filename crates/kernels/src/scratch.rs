//! Scratch memory: how much of it is taken, and how ops of a plan name it.

use streampool_device::{DType, Layout, Span, View};

use crate::dispatch::{Dispatch, Operand};

/// The handle of spans that stand for scratch memory in the ops of a plan.
pub const SCRATCH: u64 = u64::MAX;

/// Row-major elements in scratch memory, from a place there on.
pub fn in_scratch(at: usize, dtype: DType, shape: &[usize]) -> Option<View> {
    let layout = Layout::contiguous(shape).ok()?;
    let span = Span {
        handle: SCRATCH,
        offset: at,
        bytes: layout.elements().checked_mul(dtype.size())?,
    };
    View::new(span, dtype, layout).ok()
}

/// Puts operands that stand for scratch memory there.
pub fn place<K>(dispatches: &mut [Box<Dispatch<K>>]) {
    let operands = dispatches
        .iter_mut()
        .flat_map(|dispatch| &mut dispatch.operands);
    for operand in operands {
        if let Operand::Memory(span) = operand
            && span.handle == SCRATCH
        {
            *operand = Operand::Scratch(span.offset);
        }
    }
}

/// How much scratch memory a queue takes for so many bytes: a little more, so that what grows slowly is not taken anew each
/// time. On CUDA that would hold up all who launch.
pub fn with_room_to_grow(bytes: usize) -> usize {
    const FEW: usize = 64 << 10;
    let step = 1 << (bytes / 8).max(FEW).ilog2();
    bytes.checked_next_multiple_of(step).unwrap_or(bytes)
}

#[cfg(test)]
mod tests {
    use super::with_room_to_grow;

    #[test]
    fn scratch_is_little_more_than_what_is_asked_for() {
        for bytes in (0..40).map(|power| (1 << power) + 1) {
            let taken = with_room_to_grow(bytes);
            assert!(taken >= bytes && taken <= bytes + bytes / 8 + (64 << 10));
        }
        assert_eq!(with_room_to_grow(129 << 20), 144 << 20);
        assert_eq!(with_room_to_grow(usize::MAX), usize::MAX);
        // What grows slowly is not taken anew each time.
        let mut taken = (0, 0);
        let mut bytes = 1024.0;
        while bytes < (1 << 30) as f64 {
            if bytes as usize > taken.0 {
                taken = (with_room_to_grow(bytes as usize), taken.1 + 1);
            }
            bytes *= 1.01;
        }
        assert!(taken.1 < 120, "taken {} times", taken.1);
    }
}
