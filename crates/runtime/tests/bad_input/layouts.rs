//! Layouts that lead nowhere.

use streampool_runtime::{Axes, DType, Layout, Op};

use crate::{Case, done};

pub const CASES: &[Case] = &[
    (
        "strides out of bounds",
        |w| {
            done(
                w.buffer()
                    .read_as(DType::F32, Layout::strided(&[4], &[32], 0)?)?,
            )
        },
        &["elements 0 to 96", "0 to 63"],
    ),
    (
        "a stride below the start",
        |w| {
            done(
                w.buffer()
                    .read_as(DType::F32, Layout::strided(&[4], &[-1], 2)?)?,
            )
        },
        &["elements -1 to 2"],
    ),
    (
        "strides that overflow",
        |_| done(Layout::strided(&[3], &[isize::MAX], 0)?),
        &["reach of a layout"],
    ),
    (
        "as many strides as no dimension",
        |_| done(Layout::strided(&[3, 3], &[1], 0)?),
        &["number of strides is 1", "2"],
    ),
    (
        "a permutation that repeats an axis",
        |_| done(Layout::contiguous(&[2, 3])?.permute(&[0, 0])?),
        &["[0, 0]", "each axis below 2 once"],
    ),
    (
        "an axis that no shape has",
        |_| done(Axes::new(&[8])?),
        &["8", "below 8"],
    ),
    (
        "writing where indices collide",
        |w| {
            let mut b = w.buffer();
            let dst = b.write_as(DType::F32, Layout::strided(&[4, 4], &[1, 1], 0)?)?;
            done(w.stream.encode(Op::Fill {
                dst,
                value: 0.0.into(),
            })?)
        },
        &["fill", "dst", "no two indices"],
    ),
];
