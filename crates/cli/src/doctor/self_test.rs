//! A little work on a pool, to see that it comes out right.

use std::fmt::Display;
use std::sync::Arc;
use std::time::Instant;

use serde::Serialize;
use streampool::tensor::{self, ConvOptions};
use streampool::{DType, Expr, Op, Pool, Tensor, Unary};

use crate::errors::difference;

const ELEMENTS: usize = 1024;

/// How the work went.
#[derive(Debug, Serialize)]
pub struct SelfTest {
    /// Whether all of it came out right.
    pub ok: bool,
    /// What did not.
    pub problem: Option<String>,
    /// What was done.
    pub what: String,
    /// How long it took.
    pub milliseconds: f64,
}

impl SelfTest {
    /// How `work` goes, which says what came out wrong.
    fn of<E: Display>(what: String, work: impl FnOnce() -> Result<Option<String>, E>) -> SelfTest {
        let begin = Instant::now();
        let problem = match work() {
            Ok(None) => None,
            Ok(Some(wrong)) => Some(format!("the self-test read wrong values: {wrong}")),
            Err(error) => Some(format!("the self-test failed: {error}")),
        };
        SelfTest {
            ok: problem.is_none(),
            problem,
            what,
            milliseconds: begin.elapsed().as_secs_f64() * 1e3,
        }
    }
}

/// Fills a buffer on each of two streams, computes with it by a compiled kernel, and reads each result back on
/// the other.
pub fn run(pool: &Pool) -> SelfTest {
    let streams = pool.settings().streams.min(2);
    let what = format!(
        "allocate, fill and compute on {streams} stream{}, read back on the {}",
        if streams == 1 { "" } else { "s" },
        if streams == 1 { "same" } else { "other" },
    );
    SelfTest::of(what, || compute_and_read(pool, streams))
}

/// Has tensors go through a layer, a softmax and a convolution, whose results are known.
pub fn operators(pool: &Pool) -> SelfTest {
    SelfTest::of("linear, softmax and conv of tensors".to_owned(), || {
        operate(pool)
    })
}

fn compute_and_read(pool: &Pool, streams: usize) -> streampool::Result<Option<String>> {
    // A compiled kernel, so that the kernel cache is used, too.
    let negate = Arc::new(Expr::unary(Unary::Neg, DType::I32)?);
    let mut computed = Vec::new();
    for index in 0..streams {
        let stream = pool.stream(index)?;
        let value = 7 + index as i32;
        let bytes = ELEMENTS * DType::I32.size();
        let (mut negative, mut buffer) = (stream.allocate(bytes)?, stream.allocate(bytes)?);
        stream.encode(Op::Fill {
            dst: negative.write(DType::I32, &[ELEMENTS])?,
            value: (-value).into(),
        })?;
        stream.encode(Op::Map {
            expr: negate.clone(),
            inputs: vec![negative.read(DType::I32, &[ELEMENTS])?],
            outputs: vec![buffer.write(DType::I32, &[ELEMENTS])?],
        })?;
        computed.push((value, buffer));
    }
    for (index, (value, buffer)) in computed.iter().enumerate() {
        let reader = pool.stream((index + 1) % streams)?;
        let read = reader.download::<i32>(buffer)?;
        if let Some(wrong) = read.iter().find(|read| *read != value) {
            return Ok(Some(format!("{wrong} instead of {value}")));
        }
    }
    Ok(None)
}

fn operate(pool: &Pool) -> tensor::Result<Option<String>> {
    let x = Tensor::arange(pool, 0, 6, 1, DType::F32)?.reshape(&[2, 3])?;
    let weight = Tensor::from_slice(pool, &[1f32, 0.0, -1.0, 2.0, 1.0, 0.0], &[2, 3])?;
    let bias = Tensor::from_slice(pool, &[10f32, 0.0], &[2])?;
    let image = x.view(&[1, 1, 2, 3])?;
    let kernel = Tensor::ones(pool, &[1, 1, 2, 2], DType::F32)?;
    let halves = Tensor::full(pool, &[2], 7.0, DType::F32)?;
    let results = [
        (
            "linear",
            x.linear(&weight, Some(&bias))?,
            vec![8f32, 1.0, 8.0, 10.0],
        ),
        ("softmax", halves.softmax(0)?, vec![0.5, 0.5]),
        (
            "conv",
            image.conv(&kernel, &ConvOptions::default())?,
            vec![8.0, 12.0],
        ),
    ];
    for (op, got, right) in results {
        let got = got.to_vec::<f32>()?;
        if difference(&got, &right) > 1e-5 {
            return Ok(Some(format!("{op} gives {got:?} instead of {right:?}")));
        }
    }
    Ok(None)
}
