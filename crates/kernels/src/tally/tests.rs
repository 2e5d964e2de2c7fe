//! Which kernels a histogram and the places of what is not zero become.

use streampool_device::{DType, Histogram, NonZero};

use super::*;
use crate::Kernel;
use crate::rows::testing::{LIMITS, row_major};

fn tallies(plan: &crate::Plan) -> Vec<&'static str> {
    let kernels = plan
        .dispatches
        .iter()
        .map(|dispatch| match dispatch.kernel {
            Kernel::Tally(Tally::Clear(_)) => "clear",
            Kernel::Tally(Tally::Add(_)) => "add",
            Kernel::Tally(Tally::Finish(_)) => "finish",
            Kernel::Tally(Tally::Places(_)) => "places",
            _ => "other",
        });
    kernels.collect()
}

fn counted(bins: usize) -> crate::Plan {
    let op = Histogram {
        src: row_major(DType::F32, &[1 << 20]),
        weights: None,
        dst: row_major(DType::I64, &[bins]),
        low: 0.0,
        high: 1.0,
    };
    histogram(&op, &LIMITS)
}

#[test]
fn many_bins_are_counted_in_the_scratch_memory() {
    let few = counted(4096);
    assert_eq!(tallies(&few), ["add", "finish"]);
    assert_eq!(few.scratch, few.dispatches[0].groups[0] as usize * 4096 * 4);
    let many = counted(4097);
    assert_eq!(tallies(&many), ["clear", "add", "finish"]);
    assert_eq!(many.scratch, 4097 * 4);
}

#[test]
fn places_are_counted_before_they_are_written() {
    let of = |shape: &[usize]| {
        let elements = shape.iter().product();
        let op = NonZero {
            src: row_major(DType::Bool, shape),
            indices: row_major(DType::I64, &[shape.len(), elements]),
            count: row_major(DType::I64, &[1]),
        };
        nonzero(&op, &LIMITS)
    };
    let plan = of(&[100, 100]);
    assert_eq!(tallies(&plan), ["places", "other", "places"]);
    assert_eq!(plan.scratch, 8 * 4);
    assert_eq!(tallies(&of(&[3, 0])), ["other"]);
}
