//! Ops so large that only memory counts.

use std::sync::Arc;

use streampool::{Binary, DType, Expr, Op};

use super::point::{Group, Point, Unit};
use super::stage::Stage;
use crate::Result;

/// Elements of each operand: 1 GiB.
const ELEMENTS: usize = 256 << 20;
const BYTES: usize = ELEMENTS * DType::F32.size();

/// Ops between two waits.
const OPS: u64 = 4;

/// A copy, and a sum of two operands, beside the driver's copy.
pub fn bandwidth(stage: &mut Stage) -> Result<Group> {
    let stream = &stage.crew.streams[0];
    let filled = |value: f64| -> Result<_> {
        let mut buffer = stream.allocate(BYTES)?;
        let dst = buffer.write(DType::F32, &[ELEMENTS])?;
        stream.encode(Op::Fill {
            dst,
            value: value.into(),
        })?;
        Ok(buffer)
    };
    let (a, b, mut out) = (filled(1.5)?, filled(2.25)?, filled(0.0)?);
    stream.synchronize()?;
    let add = Arc::new(Expr::binary(Binary::Add, DType::F32)?);

    let copies = stage.beside(
        |crew, slice| {
            crew.rate(&mut [&mut out], slice, |stream, out| {
                for _ in 0..OPS {
                    stream.encode(Op::Copy {
                        src: a.read(DType::F32, &[ELEMENTS])?,
                        dst: out.write(DType::F32, &[ELEMENTS])?,
                    })?;
                }
                stream.synchronize()?;
                Ok(OPS)
            })
        },
        |driver, slice| driver.copied_bytes(BYTES, slice),
    )?;
    let sums = stage.beside(
        |crew, slice| {
            crew.rate(&mut [&mut out], slice, |stream, out| {
                for _ in 0..OPS {
                    stream.encode(Op::Map {
                        expr: add.clone(),
                        inputs: vec![
                            a.read(DType::F32, &[ELEMENTS])?,
                            b.read(DType::F32, &[ELEMENTS])?,
                        ],
                        outputs: vec![out.write(DType::F32, &[ELEMENTS])?],
                    })?;
                }
                stream.synchronize()?;
                Ok(OPS)
            })
        },
        |driver, slice| driver.copied_bytes(BYTES, slice),
    )?;
    // Each byte that the driver copies is read once and written once; a sum reads two and writes one.
    let moved = |(ours, raw): (f64, f64), operands: f64| {
        let gigabytes = 1e9;
        (
            ours * operands * BYTES as f64 / gigabytes,
            raw * 2.0 / gigabytes,
        )
    };
    Ok(Group {
        title: "Copy and add 1 GiB of f32, bytes read and written (driver: its copy)",
        points: vec![
            Point::beside("copy_f32", 1, Unit::Gigabytes, moved(copies, 2.0)).bytes(BYTES),
            Point::beside("add_f32", 1, Unit::Gigabytes, moved(sums, 3.0)).bytes(BYTES),
        ],
    })
}
