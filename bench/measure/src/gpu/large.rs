//! Blocks, products and copies so large that only the GPU counts. They need memory.

use std::sync::Arc;

use streampool::{Activation, Binary, Buffer, DType, Expr, Layout, MatMul, Op, Stream};

use super::point::{Group, Point, Unit};
use super::stage::Stage;
use crate::Result;
use crate::dense::uploaded;
use crate::noise::Noise;

/// The two sources of large blocks: plain allocations, as ours are, and memory mapped to reserved addresses.
pub fn blocks(stage: &mut Stage) -> Result<Group> {
    let mut points = Vec::new();
    for mebibytes in [2, 20] {
        let bytes = mebibytes << 20;
        for threads in [1, 8] {
            let name = |kind: &str| format!("{kind}_chunk_{mebibytes}MiB");
            let plain = stage.raw(&name("plain"), threads, |driver, threads, slice| {
                driver.plain_blocks(threads, bytes, slice)
            })?;
            let mapped = stage.raw(&name("mapped"), threads, |driver, threads, slice| {
                driver.mapped_blocks(threads, bytes, slice)
            })?;
            points.extend([plain, mapped].map(|point| Point {
                bytes: Some(bytes),
                ..point
            }));
        }
    }
    Ok(Group {
        title: "Take a large block from the driver and give it back",
        points,
    })
}

/// Rows and columns of each matrix.
const SIZE: usize = 8192;

/// Ops between two waits.
const OPS: u64 = 4;

/// The size of the corner of the product that is compared.
const CORNER: usize = 8;

/// A product of `bf16` matrices of random values.
pub fn product(stage: &mut Stage) -> Result<Group> {
    let stream = &stage.crew.streams[0];
    let mut noise = Noise::new(3);
    let (a, b) = (noise.values(SIZE * SIZE), noise.values(SIZE * SIZE));
    let right = corner(&a, &b);
    let (a, b) = (halved(stream, &a)?, halved(stream, &b)?);
    let mut out = stream.allocate(SIZE * SIZE * DType::BF16.size())?;
    multiply(stream, &a, &b, &mut out)?;
    compare(&corner_of(stream, &out)?, &right)?;
    let rate = stage.ours(&mut out, |stream, out| {
        (0..OPS).try_for_each(|_| multiply(stream, &a, &b, out))?;
        stream.synchronize()?;
        Ok(OPS)
    })?;
    let teraflops = rate * 2.0 * (SIZE * SIZE * SIZE) as f64 / 1e12;
    Ok(Group {
        title: "Multiply two matrices of 8192 x 8192, bf16",
        points: vec![Point::ours("matmul", 1, Unit::Teraflops, teraflops)],
    })
}

fn multiply(
    stream: &Stream,
    a: &Buffer,
    b: &Buffer,
    out: &mut Buffer,
) -> streampool::runtime::Result<()> {
    stream.encode(Op::MatMul(MatMul {
        a: a.read(DType::BF16, &[SIZE, SIZE])?,
        b: b.read(DType::BF16, &[SIZE, SIZE])?,
        out: out.write(DType::BF16, &[SIZE, SIZE])?,
        bias: None,
        activation: Activation::None,
        alpha: 1.0,
    }))?;
    Ok(())
}

/// These values as `bf16`.
fn halved(stream: &Stream, values: &[f32]) -> streampool::runtime::Result<Buffer> {
    let wide = uploaded(stream, values)?;
    let mut narrow = stream.allocate(values.len() * DType::BF16.size())?;
    stream.encode(Op::Copy {
        src: wide.read(DType::F32, &[values.len()])?,
        dst: narrow.write(DType::BF16, &[values.len()])?,
    })?;
    stream.synchronize()?;
    Ok(narrow)
}

/// The last rows and columns of the product, by the host.
fn corner(a: &[f32], b: &[f32]) -> Vec<f32> {
    let last = SIZE - CORNER..SIZE;
    let element = |row: usize, column: usize| {
        let row = &a[row * SIZE..(row + 1) * SIZE];
        let products = row.iter().zip(b[column..].iter().step_by(SIZE));
        products
            .map(|(&a, &b)| f64::from(a) * f64::from(b))
            .sum::<f64>() as f32
    };
    let columns = |row| last.clone().map(move |column| element(row, column));
    last.clone().flat_map(columns).collect()
}

fn corner_of(stream: &Stream, out: &Buffer) -> streampool::runtime::Result<Vec<f32>> {
    let last = |layout: Layout, axis| layout.slice(axis, SIZE - CORNER, SIZE, 1);
    let part = last(last(Layout::contiguous(&[SIZE, SIZE])?, 0)?, 1)?;
    let mut small = stream.allocate(CORNER * CORNER * DType::F32.size())?;
    stream.encode(Op::Copy {
        src: out.read_as(DType::BF16, part)?,
        dst: small.write(DType::F32, &[CORNER, CORNER])?,
    })?;
    stream.download::<f32>(&small)
}

/// The factors are exact in `bf16`, so only the result's own rounding is left.
fn compare(got: &[f32], right: &[f32]) -> Result<()> {
    const ROUNDING: f32 = 1.0 / 128.0;
    let agree = |got: f32, right: f32| (got - right).abs() <= ROUNDING * right.abs().max(1.0);
    let mut pairs = got.iter().zip(right);
    match pairs.find(|&(&got, &right)| !agree(got, right)) {
        None if got.len() == right.len() => Ok(()),
        None => Err("the large product has lost elements".into()),
        Some((got, right)) => {
            Err(format!("the large product comes out wrong: {got} instead of {right}").into())
        }
    }
}

/// Elements of each operand that only memory counts for: 1 GiB.
const ELEMENTS: usize = 256 << 20;
const BYTES: usize = ELEMENTS * DType::F32.size();

/// A copy, and a sum of two operands, beside the driver's copy.
pub fn bandwidth(stage: &mut Stage) -> Result<Group> {
    let stream = &stage.crew.streams[0];
    let filled = |value: f64| -> Result<_> {
        let mut buffer = stream.allocate(BYTES)?;
        stream.encode(Op::Fill {
            dst: buffer.write(DType::F32, &[ELEMENTS])?,
            value: value.into(),
        })?;
        Ok(buffer)
    };
    let (a, b, mut out) = (filled(1.5)?, filled(2.25)?, filled(0.0)?);
    stream.synchronize()?;
    let add = Arc::new(Expr::binary(Binary::Add, DType::F32)?);
    let mut points = Vec::new();
    for (name, operands) in [("copy_f32", 2.0), ("add_f32", 3.0)] {
        let point = stage.beside(
            name,
            &mut [&mut out],
            |stream, out| {
                for _ in 0..OPS {
                    let (src, dst) = (
                        a.read(DType::F32, &[ELEMENTS])?,
                        out.write(DType::F32, &[ELEMENTS])?,
                    );
                    stream.encode(match name {
                        "copy_f32" => Op::Copy { src, dst },
                        _ => Op::Map {
                            expr: add.clone(),
                            inputs: vec![src, b.read(DType::F32, &[ELEMENTS])?],
                            outputs: vec![dst],
                        },
                    })?;
                }
                stream.synchronize()?;
                Ok(OPS)
            },
            |driver, slice| driver.copied_bytes(BYTES, slice),
        )?;
        // Each byte that the driver copies is read once and written once; a sum reads two and writes one.
        let (ours, raw) = (
            point.ours.unwrap_or_default(),
            point.raw.unwrap_or_default(),
        );
        let moved = (ours * operands * BYTES as f64 / 1e9, raw * 2.0 / 1e9);
        points.push(Point {
            bytes: Some(BYTES),
            ..Point::beside(name, 1, Unit::Gigabytes, moved)
        });
    }
    Ok(Group {
        title: "Copy and add 1 GiB of f32, bytes read and written (driver: its copy)",
        points,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounding_is_allowed_and_errors_are_not() {
        assert!(compare(&[100.3, 0.0], &[100.0, 0.001]).is_ok());
        assert!(compare(&[102.0], &[100.0]).is_err());
        assert!(compare(&[f32::NAN], &[1.0]).is_err());
        assert!(compare(&[], &[1.0]).is_err());
    }
}
