//! Several threads that begin at the same time.

use std::sync::{Barrier, OnceLock};
use std::thread;
use std::time::Instant;

use streampool::{Settings, WhenExhausted};

use crate::{Failure, Result};

/// What threads did together.
pub struct Together<B, T> {
    /// What was found when all were ready and none had begun.
    pub before: B,
    /// When they began.
    pub begin: Instant,
    /// What each did.
    pub done: Vec<T>,
}

/// Reads how many threads there shall be.
pub fn count(text: &str) -> Result<usize, String> {
    let value = text.parse().ok();
    let value = value.filter(|threads| (1..=1024).contains(threads));
    value.ok_or_else(|| "expected a number from 1 to 1024".to_owned())
}

/// Refuses more threads than have streams, where a thread without one would wait for another to end.
pub fn check(threads: usize) -> Result<()> {
    let settings = Settings::builder().build()?;
    let waits = matches!(settings.exhaustion, WhenExhausted::Wait(_));
    if waits && threads >= settings.streams {
        return Err(format!(
            "{threads} threads need {} streams, since a thread waits for one here: set STREAMPOOL_STREAMS",
            threads + 1
        )
        .into());
    }
    Ok(())
}

/// A thread for each of `callers`: it prepares, waits until all have, and works. `before` is called in between.
pub fn together<C: Send, P, B, T: Send>(
    callers: impl ExactSizeIterator<Item = C>,
    prepare: impl Fn(C) -> Result<P> + Sync,
    before: impl FnOnce() -> B,
    work: impl Fn(P, Instant) -> Result<T> + Sync,
) -> Result<Together<B, T>> {
    let gate = &Barrier::new(callers.len() + 1);
    let begin = &OnceLock::new();
    let (prepare, work) = (&prepare, &work);
    thread::scope(|scope| {
        let run = |caller| {
            let prepared = prepare(caller);
            // All come here, also one that failed: the others wait for it.
            gate.wait();
            gate.wait();
            work(prepared?, *begin.get_or_init(Instant::now))
        };
        let running: Vec<_> = callers
            .map(|caller| scope.spawn(move || run(caller)))
            .collect();
        gate.wait();
        let before = before();
        gate.wait();
        let begin = *begin.get_or_init(Instant::now);
        let ended = running.into_iter().map(|thread| {
            thread
                .join()
                .map_err(|_| Failure::from("a thread panicked"))?
        });
        let done = ended.collect::<Result<_>>()?;
        Ok(Together {
            before,
            begin,
            done,
        })
    })
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn nobody_works_before_all_are_ready() {
        let ready = AtomicUsize::new(0);
        let done = together(
            0..8,
            |number| {
                ready.fetch_add(1, Ordering::Relaxed);
                Ok(number)
            },
            || ready.load(Ordering::Relaxed),
            |number, begin| Ok((number, begin, ready.load(Ordering::Relaxed))),
        )
        .unwrap();
        assert_eq!(done.before, 8);
        let expected: Vec<_> = (0..8).map(|number| (number, done.begin, 8)).collect();
        assert_eq!(done.done, expected);
    }

    #[test]
    fn one_that_fails_keeps_nobody_waiting() {
        let prepare = |number| match number {
            3 => Err("the fourth is not ready".into()),
            _ => Ok(()),
        };
        let outcome = together(0..8, prepare, || (), |(), _| Ok(()));
        let error = outcome.err().map(|error| error.to_string());
        assert_eq!(error.as_deref(), Some("the fourth is not ready"));
    }
}
