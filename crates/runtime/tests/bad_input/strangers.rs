//! Streams that are not there, and what belongs to another pool.

use streampool_runtime::{DType, Op};

use crate::{Case, done};

pub const CASES: &[Case] = &[
    (
        "a stream that is not there",
        |w| done(w.pool.stream(32)?),
        &["stream 32", "0 to 31"],
    ),
    (
        "a scope on another pool's stream",
        |w| Ok(w.pool.with_stream(&w.foreign, || ())?),
        &["another pool"],
    ),
    (
        "a task on another pool's stream",
        |w| done(w.pool.bind_future(&w.foreign, async {})?),
        &["another pool"],
    ),
    (
        "waiting for another pool's stream",
        |w| Ok(w.stream.wait_for_stream(&w.foreign)?),
        &["another pool"],
    ),
    (
        "another pool's buffer as an operand",
        |w| {
            let mut b = w.foreign.allocate(16)?;
            let dst = b.write(DType::F32, &[4])?;
            done(w.stream.encode(Op::Fill {
                dst,
                value: 0.0.into(),
            })?)
        },
        &["buffer", "another pool"],
    ),
    (
        "uploading to another pool's buffer",
        |w| done(w.stream.upload(&mut w.foreign.allocate(4)?, &[0f32])?),
        &["buffer", "another pool"],
    ),
    (
        "recording use on another pool's stream",
        |w| Ok(w.buffer().record_stream(&w.foreign)?),
        &["buffer", "another pool"],
    ),
    (
        "another pool's event",
        |w| done(w.stream.record(&w.other.event()?)?),
        &["event", "another pool"],
    ),
];
