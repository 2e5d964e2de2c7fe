//! Finding and taking a stream.

use std::hint::black_box;

use streampool::Pool;

use super::figure::{Figure, Goal, Measurement, Unit};
use super::timing::per_call;

/// Asking for the current stream on a thread that has one.
pub fn current(pool: &Pool) -> Measurement {
    const FIGURE: Figure = Figure {
        key: "current_ns",
        what: "look up the current stream",
        unit: Unit::Nanoseconds,
        goal: Some(Goal::AtMost(5.0)),
    };
    let pool = pool.clone();
    Measurement::new(FIGURE, move |slice| {
        per_call(slice, || {
            black_box(black_box(&pool).current()?);
            Ok(())
        })
    })
}

/// Taking a stream out of the pool and putting it back.
pub fn lease(pool: &Pool) -> Measurement {
    const FIGURE: Figure = Figure {
        key: "lease_ns",
        what: "lease a stream and return it",
        unit: Unit::Nanoseconds,
        goal: Some(Goal::AtMost(60.0)),
    };
    let pool = pool.clone();
    Measurement::new(FIGURE, move |slice| {
        per_call(slice, || {
            drop(black_box(pool.lease_alone()?));
            Ok(())
        })
    })
}
