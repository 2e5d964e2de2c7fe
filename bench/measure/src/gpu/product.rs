//! A product so large that only the arithmetic counts.

use streampool::{Activation, Buffer, DType, Layout, MatMul, Op, Stream};

use super::dense::uploaded;
use super::point::{Group, Point, Unit};
use super::stage::Stage;
use crate::Result;
use crate::noise::Noise;

/// Rows and columns of each matrix.
const SIZE: usize = 8192;

/// Products between two waits.
const PRODUCTS: u64 = 4;

/// Floating-point operations of one product.
const OPERATIONS: f64 = 2.0 * (SIZE * SIZE * SIZE) as f64;

/// The size of the corner of the result that is compared.
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
    let rate = stage.ours(|crew, slice| {
        crew.rate(&mut [&mut out], slice, |stream, out| {
            for _ in 0..PRODUCTS {
                multiply(stream, &a, &b, out)?;
            }
            stream.synchronize()?;
            Ok(PRODUCTS)
        })
    })?;
    let teraflops = rate * OPERATIONS / 1e12;
    Ok(Group {
        title: "Multiply two matrices of 8192 x 8192, bf16",
        points: vec![Point::ours("matmul", 1, Unit::Teraflops, teraflops)],
    })
}

fn multiply(stream: &Stream, a: &Buffer, b: &Buffer, out: &mut Buffer) -> streampool::Result<()> {
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
fn halved(stream: &Stream, values: &[f32]) -> streampool::Result<Buffer> {
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
    let element = |row: usize, column: usize| -> f64 {
        let a = &a[row * SIZE..(row + 1) * SIZE];
        let b = b[column..].iter().step_by(SIZE);
        a.iter()
            .zip(b)
            .map(|(&a, &b)| f64::from(a) * f64::from(b))
            .sum()
    };
    let columns = |row| last.clone().map(move |column| element(row, column) as f32);
    last.clone().flat_map(columns).collect()
}

fn corner_of(stream: &Stream, out: &Buffer) -> streampool::Result<Vec<f32>> {
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
    let wrong = got
        .iter()
        .zip(right)
        .find(|&(&got, &right)| !agree(got, right));
    match wrong {
        None if got.len() == right.len() => Ok(()),
        None => Err("the large product has lost elements".into()),
        Some((got, right)) => {
            Err(format!("the large product comes out wrong: {got} instead of {right}").into())
        }
    }
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
