//! Launching, and the order between streams.

use std::time::{Duration, Instant};

use streampool::{Buffer, DType, Op, Pool, Stream};

use super::figure::{Figure, Goal, Measurement, Spread, Unit};
use super::timing::{per_call, time};
use crate::Result;

/// Ops between two waits: so few that no device wakes a worker for them.
const BATCH: u64 = 24;

/// One op that does nothing, and waiting for it.
pub fn empty_op(pool: &Pool) -> Result<Measurement> {
    const FIGURE: Figure = Figure {
        key: "empty_op_ns",
        what: "launch an empty op, and wait for it",
        unit: Unit::Nanoseconds,
        goal: Some(Goal::AtMost(300.0)),
    };
    let (pool, stream) = (pool.clone(), pool.lease_alone()?);
    Ok(Measurement::new(FIGURE, move |slice| {
        pool.with_stream(&stream, || {
            per_call(slice, || {
                stream.encode(Op::Nop)?;
                stream.synchronize()
            })
        })?
    }))
}

/// What an op costs more that reads what another stream wrote some time ago.
///
/// It is the difference between two kinds of batches taken in turn, so it may come out below zero.
pub fn foreign_read(pool: &Pool) -> Result<Measurement> {
    const FIGURE: Figure = Figure {
        key: "order_ns",
        what: "order a read after another stream",
        unit: Unit::Nanoseconds,
        goal: Some(Goal::AtMost(10.0)),
    };
    let (stream, other) = (pool.lease_alone()?, pool.lease_alone()?);
    let own = written_on(&stream)?;
    let foreign = written_on(&other)?;
    let mut out = stream.allocate(DType::F32.size())?;
    let pool = pool.clone();
    Ok(Measurement::new(FIGURE, move |slice| {
        pool.with_stream(&stream, || {
            let mut took = |source| batch(&stream, source, &mut out);
            let begin = Instant::now();
            let mut differences = Vec::new();
            while differences.is_empty() || begin.elapsed() < slice {
                let first = took(&own)?;
                let between = took(&foreign)? + took(&foreign)?;
                let around = first + took(&own)?;
                differences.push((between - around) / 2.0);
            }
            Spread::of(&differences)
                .map(|spread| spread.median)
                .ok_or_else(|| "nothing was measured".into())
        })?
    }))
}

fn written_on(stream: &Stream) -> Result<Buffer> {
    let mut buffer = stream.allocate(DType::F32.size())?;
    stream.upload(&mut buffer, &[1.0f32])?;
    stream.synchronize()?;
    Ok(buffer)
}

/// Nanoseconds of encoding one op that reads `source`.
fn batch(stream: &Stream, source: &Buffer, out: &mut Buffer) -> Result<f64> {
    let mut encode = || {
        let src = source.read(DType::F32, &[1])?;
        let dst = out.write(DType::F32, &[1])?;
        stream.encode(Op::Copy { src, dst })?;
        Ok(())
    };
    let took: Duration = time(BATCH, &mut encode)?;
    stream.synchronize()?;
    Ok(took.as_nanos() as f64 / BATCH as f64)
}
