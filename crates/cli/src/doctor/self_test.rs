//! A little work on a pool, to see that it comes out right.

use std::sync::Arc;
use std::time::Instant;

use serde::Serialize;
use streampool::{DType, Expr, Op, Pool, Unary};

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

/// Fills a buffer on each of two streams, computes with it by a compiled kernel, and reads each result back on
/// the other.
pub fn run(pool: &Pool) -> SelfTest {
    let begin = Instant::now();
    let streams = pool.settings().streams.min(2);
    let problem = match compute_and_read(pool, streams) {
        Ok(None) => None,
        Ok(Some(wrong)) => Some(format!("the self-test read wrong values: {wrong}")),
        Err(error) => Some(format!("the self-test failed: {error}")),
    };
    SelfTest {
        ok: problem.is_none(),
        problem,
        what: format!(
            "allocate, fill and compute on {streams} stream{}, read back on the {}",
            if streams == 1 { "" } else { "s" },
            if streams == 1 { "same" } else { "other" },
        ),
        milliseconds: begin.elapsed().as_secs_f64() * 1e3,
    }
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
