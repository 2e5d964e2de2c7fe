//! Events that have no time to tell.

use std::time::Duration;

use crate::{Case, done};

pub const CASES: &[Case] = &[
    (
        "waiting on the host for an event never recorded",
        |w| Ok(w.pool.event()?.wait()?),
        &["never recorded"],
    ),
    (
        "waiting with a limit for an event never recorded",
        |w| Ok(w.pool.event()?.wait_timeout(Duration::from_secs(60))?),
        &["never recorded"],
    ),
    (
        "waiting on a stream for an event never recorded",
        |w| Ok(w.stream.wait(&w.pool.event()?)?),
        &["never recorded"],
    ),
    (
        "the time since an event never recorded",
        |w| {
            let (start, end) = (w.pool.timed_event()?, w.pool.timed_event()?);
            w.stream.record(&end)?;
            done(end.elapsed_since(&start)?)
        },
        &["never recorded"],
    ),
    (
        "the time between events without timing",
        |w| {
            let (start, end) = (w.pool.event()?, w.pool.event()?);
            w.stream.record(&start)?;
            w.stream.record(&end)?;
            done(end.elapsed_since(&start)?)
        },
        &["keeps no time", "timed_event"],
    ),
    (
        "time that runs backwards",
        |w| {
            let (start, end) = (w.pool.timed_event()?, w.pool.timed_event()?);
            w.stream.record(&start)?;
            w.stream.record(&end)?;
            done(start.elapsed_since(&end)?)
        },
        &["elapsed", "before the end"],
    ),
];
