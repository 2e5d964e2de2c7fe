//! Operators that do little more than move memory, on a device that they fill.

use streampool::tensor::PoolOptions;
use streampool::{DType, Op, Tensor};

use super::case::{Case, Input, Right, Stage};
use crate::Result;
use crate::noise::Noise;

const ROWS_OF_ONE: usize = 128;
const COLUMNS: usize = 1536;

/// The activations of a wide layer.
fn wide(stage: &Stage, seed: u64) -> Result<Input> {
    let shape = [stage.batch * ROWS_OF_ONE, COLUMNS];
    stage.input(&mut Noise::new(seed), &shape, 1.0)
}

/// A copy without gaps, by which the others are judged.
pub fn copy(stage: &Stage) -> Result<(Case, Right)> {
    let x = wide(stage, 8)?;
    let bytes = 2 * x.values.len() * stage.dtype.size();
    let case = Case::new("copy", move || {
        let on = x.tensor.encoder("copy")?;
        let mut copy = on.blank(x.tensor.dtype(), x.tensor.shape())?;
        on.encode(Op::Copy {
            src: x.tensor.operand()?,
            dst: copy.operand()?,
        })?;
        Ok(copy.finish())
    });
    let right = move |place: usize| f64::from(x.values[place]);
    Ok((case.bytes(bytes), Box::new(right)))
}

/// A sum of two.
pub fn add(stage: &Stage) -> Result<(Case, Right)> {
    let (a, b) = (wide(stage, 9)?, wide(stage, 10)?);
    let bytes = 3 * a.values.len() * stage.dtype.size();
    let case = Case::new("add", move || a.tensor.add(&b.tensor));
    let right = move |place: usize| f64::from(a.values[place]) + f64::from(b.values[place]);
    Ok((case.memory_bound(bytes), Box::new(right)))
}

/// From `f32` to `f16`, whatever else is computed with.
pub fn cast(stage: &Stage) -> Result<(Case, Right)> {
    let x = wide(stage, 11)?;
    let from = Tensor::from_slice(&stage.pool, &x.values, x.tensor.shape())?;
    let bytes = x.values.len() * (DType::F32.size() + DType::F16.size());
    let case = Case::new("cast", move || from.to_dtype(DType::F16));
    let right = move |place: usize| f64::from(x.values[place]);
    Ok((case.memory_bound(bytes), Box::new(right)))
}

/// Rows of a table by index, each of them once.
pub fn embedding(stage: &Stage) -> Result<(Case, Right)> {
    let table = wide(stage, 12)?;
    let rows = table.tensor.shape()[0];
    // An odd step through a power of two comes by every row.
    let indices: Vec<i64> = (0..rows).map(|row| (row * 7919 % rows) as i64).collect();
    let picked = Tensor::from_slice(&stage.pool, &indices, &[rows])?;
    let bytes = 2 * table.values.len() * stage.dtype.size() + rows * DType::I64.size();
    let case = Case::new("embedding", move || table.tensor.embedding(&picked));
    let right = move |place: usize| {
        let row = indices[place / COLUMNS] as usize;
        f64::from(table.values[row * COLUMNS + place % COLUMNS])
    };
    Ok((case.memory_bound(bytes), Box::new(right)))
}

/// The running sum along the rows.
pub fn cumsum(stage: &Stage) -> Result<(Case, Right)> {
    let x = wide(stage, 13)?;
    let bytes = 2 * x.values.len() * stage.dtype.size();
    let case = Case::new("cumsum", move || x.tensor.cumsum(-1));
    let right = move |place: usize| {
        let so_far = &x.values[place / COLUMNS * COLUMNS..=place];
        so_far.iter().copied().map(f64::from).sum()
    };
    Ok((case.memory_bound(bytes), Box::new(right)))
}

/// The largest of each 3 × 3, two apart, as after the first layer of a vision model.
pub fn max_pool(stage: &Stage) -> Result<(Case, Right)> {
    const SIDE: usize = 56;
    const OUT: usize = SIDE / 2;
    let planes = stage.batch * 64;
    let shape = [stage.batch, 64, SIDE, SIDE];
    let x = stage.input(&mut Noise::new(14), &shape, 1.0)?;
    let bytes = planes * (SIDE * SIDE + OUT * OUT) * stage.dtype.size();
    let case = Case::new("max_pool", move || {
        let options = PoolOptions {
            stride: &[2, 2],
            padding: &[(1, 1), (1, 1)],
            ..PoolOptions::default()
        };
        x.tensor.max_pool(&[3, 3], &options)
    });
    let right = move |place: usize| {
        let (plane, pixel) = (place / (OUT * OUT), place % (OUT * OUT));
        let around = |at: usize| (2 * at).saturating_sub(1)..(2 * at + 2).min(SIDE);
        let plane = &x.values[plane * SIDE * SIDE..][..SIDE * SIDE];
        let rows = around(pixel / OUT).map(|y| &plane[y * SIDE..][around(pixel % OUT)]);
        let largest = rows.flatten().copied().fold(f32::NEG_INFINITY, f32::max);
        f64::from(largest)
    };
    Ok((case.memory_bound(bytes), Box::new(right)))
}
