//! Many threads multiply at once with shared weights, and every product is checked.

use serde_json::json;
use streampool::{Activation, Buffer, DType, MatMul, Op, Stream};

use super::stage::{Stage, THREADS};
use crate::Result;
use crate::story::crowd;
use crate::story::steps::{Seen, Step};
use crate::text::count;

const PRODUCTS: usize = 100;

const ROWS: usize = 4;
const INNER: usize = 128;
const COLUMNS: usize = 64;

/// A matrix on the device that all multiply with, and the same on the host.
pub struct Weights {
    on_device: Buffer,
    on_host: Vec<f32>,
}

impl Weights {
    /// The weights, ready on the device.
    pub fn new(stream: &Stream) -> streampool::Result<Weights> {
        let on_host = small_integers(0, INNER * COLUMNS);
        let mut on_device = stream.allocate(on_host.len() * DType::F32.size())?;
        stream.upload(&mut on_device, &on_host)?;
        stream.synchronize()?;
        Ok(Weights { on_device, on_host })
    }

    /// Multiplies the input that belongs to `seed` on `stream`; says whether the result is right.
    pub fn multiply(&self, stream: &Stream, seed: usize) -> streampool::Result<bool> {
        let x = small_integers(seed, ROWS * INNER);
        let mut input = stream.allocate(x.len() * DType::F32.size())?;
        let mut output = stream.allocate(ROWS * COLUMNS * DType::F32.size())?;
        stream.upload(&mut input, &x)?;
        stream.encode(Op::MatMul(MatMul {
            a: input.read(DType::F32, &[ROWS, INNER])?,
            b: self.on_device.read(DType::F32, &[INNER, COLUMNS])?,
            out: output.write(DType::F32, &[ROWS, COLUMNS])?,
            bias: None,
            activation: Activation::None,
            alpha: 1.0,
        }))?;
        Ok(stream.download::<f32>(&output)? == product(&x, &self.on_host))
    }
}

/// Integers so small that sums of their products are exact in any order: results compare equal or are wrong.
fn small_integers(seed: usize, len: usize) -> Vec<f32> {
    let mut state = seed as u32 ^ 0x9e37_79b9;
    (0..len)
        .map(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            ((state >> 24) % 9) as f32 - 4.0
        })
        .collect()
}

fn product(a: &[f32], b: &[f32]) -> Vec<f32> {
    let mut out = vec![0.0; ROWS * COLUMNS];
    for (row, out) in a.chunks_exact(INNER).zip(out.chunks_exact_mut(COLUMNS)) {
        for (&x, b) in row.iter().zip(b.chunks_exact(COLUMNS)) {
            for (out, &y) in out.iter_mut().zip(b) {
                *out += x * y;
            }
        }
    }
    out
}

/// The step.
pub fn step(stage: &Stage) -> Step<'_> {
    Step::new(
        "products",
        format!("{THREADS} threads, {PRODUCTS} products each"),
        || multiply_all(stage),
    )
}

fn multiply_all(stage: &Stage) -> Result<Seen> {
    let weights = Weights::new(stage.pool.current()?)?;
    let done = crowd::on_own_streams(&stage.pool, THREADS, |thread, stream| {
        let mut wrong = 0u64;
        for number in 0..PRODUCTS {
            let right = weights.multiply(stream, 1 + thread * PRODUCTS + number)?;
            wrong += u64::from(!right);
        }
        Ok((stream.index(), wrong))
    })?;
    let checked = (THREADS * PRODUCTS) as u64;
    let wrong: u64 = done.iter().map(|(_, wrong)| wrong).sum();
    let mut streams: Vec<u8> = done.iter().map(|&(stream, _)| stream).collect();
    streams.sort_unstable();
    streams.dedup();
    Ok(Seen {
        ok: wrong == 0 && streams.len() == THREADS,
        figures: format!("{} checked, {} wrong", count(checked), count(wrong)),
        numbers: json!({
            "threads": THREADS,
            "streams": streams.len(),
            "checked": checked,
            "wrong": wrong,
        }),
        drawn: vec![checked - wrong, wrong],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reference_multiplies() {
        let mut a = vec![0.0; ROWS * INNER];
        a[0] = 2.0;
        a[INNER + 1] = 3.0;
        let b: Vec<f32> = (0..INNER * COLUMNS).map(|i| (i % 10) as f32).collect();
        let out = product(&a, &b);
        assert_eq!(out[5], 2.0 * b[5]);
        assert_eq!(out[COLUMNS + 5], 3.0 * b[COLUMNS + 5]);
        assert_eq!(out[2 * COLUMNS + 5], 0.0);
    }

    #[test]
    fn inputs_differ_by_seed() {
        assert_ne!(small_integers(1, 64), small_integers(2, 64));
        assert!(
            small_integers(3, 1000)
                .iter()
                .all(|x| x.abs() <= 4.0 && x.fract() == 0.0)
        );
    }
}
