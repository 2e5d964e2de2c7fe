//! Captures and replays of what does not belong to them.

use streampool_runtime::{Capture, DType, Layout, Op};

use crate::{Case, done};

pub const CASES: &[Case] = &[
    (
        "an operand of another capture",
        |w| {
            let (mut one, mut two) = (Capture::new(&w.stream), Capture::new(&w.stream));
            let stray = one.output(16)?;
            two.output(16)?;
            Ok(two.encode(Op::Fill {
                dst: stray.view(DType::F32, &[4])?,
                value: 0.0.into(),
            })?)
        },
        &["fill", "dst", "another capture"],
    ),
    (
        "capturing a write to an input",
        |w| {
            let mut capture = Capture::new(&w.stream);
            let input = capture.input(16)?;
            Ok(capture.encode(Op::Fill {
                dst: input.view(DType::F32, &[4])?,
                value: 0.0.into(),
            })?)
        },
        &["fill", "dst", "written"],
    ),
    (
        "an input named as an output of another capture was",
        |w| {
            let stray = Capture::new(&w.stream).output(256)?;
            // The same memory, at the same place, in another role.
            let mut capture = Capture::new(&w.stream);
            capture.input(256)?;
            let dst = stray.view(DType::F32, &[4])?;
            Ok(capture.encode(Op::Fill {
                dst,
                value: 0.0.into(),
            })?)
        },
        &["fill", "dst", "another capture"],
    ),
    (
        "capturing a copy onto itself, shifted",
        |w| {
            let mut capture = Capture::new(&w.stream);
            let scratch = capture.scratch(64)?;
            let part = |start| Layout::contiguous(&[16])?.slice(0, start, start + 8, 1);
            let (src, dst) = (
                scratch.view_as(DType::F32, part(0)?)?,
                scratch.view_as(DType::F32, part(4)?)?,
            );
            Ok(capture.encode(Op::Copy { src, dst })?)
        },
        &["copy", "dst", "src is in, too", "memory of its own"],
    ),
    (
        "replaying with an output missing",
        |w| {
            let mut capture = Capture::new(&w.stream);
            let output = capture.output(16)?;
            capture.encode(Op::Fill {
                dst: output.view(DType::F32, &[4])?,
                value: 0.0.into(),
            })?;
            done(w.stream.replay(&capture.finish()?, &[], &mut [])?)
        },
        &["output 0", "1 in all"],
    ),
    (
        "replaying into a buffer that is too small",
        |w| {
            let mut capture = Capture::new(&w.stream);
            let output = capture.output(512)?;
            capture.encode(Op::Fill {
                dst: output.view(DType::F32, &[128])?,
                value: 0.0.into(),
            })?;
            done(
                w.stream
                    .replay(&capture.finish()?, &[], &mut [&mut w.buffer()])?,
            )
        },
        &["output 0", "256 bytes", "at least 512"],
    ),
    (
        "replaying another pool's program",
        |w| {
            let program = Capture::new(&w.foreign).finish()?;
            done(w.stream.replay(&program, &[], &mut [])?)
        },
        &["program", "another pool"],
    ),
];
