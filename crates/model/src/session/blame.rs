//! Whose fault a failure is: a run answers for its own values, whatever else its stream was given.
//!
//! A fault poisons its stream, and what lies behind it there is not executed. So a run that fails first asks whose work it
//! was. If it was its own, that is the answer, and the stream is recovered for who comes next. If it was that of another run,
//! the stream is recovered and the run is made again.

use std::cell::Cell;
use std::time::{Duration, Instant};

use streampool_runtime::{Culprit, Fault, OpKind, Stamp, Stream};

use super::RunOptions;
use crate::error::{Error, Result};

thread_local! {
    /// The stretch of a stream that this thread's latest run has encoded which was not over at its deadline.
    static LATE: Cell<Option<(Stamp, Stamp)>> = const { Cell::new(None) };
}

/// So long a late run waits for its work to end, so that its stream is ready for who comes next.
const GRACE: Duration = Duration::from_millis(20);

fn was_late(stream: &Stream, fault: &Fault) -> bool {
    LATE.get().is_some_and(|(begin, end)| {
        begin.stream == stream.index() && (begin.tick + 1..=end.tick).contains(&fault.tick())
    })
}

/// What `attempt` gives on the calling thread's stream, whatever others did there.
pub fn by_itself<R>(
    stream: &Stream,
    options: &RunOptions,
    mut attempt: impl FnMut() -> Result<R>,
) -> Result<R> {
    let mut last = None;
    loop {
        let begin = stream.position();
        let error = match attempt() {
            Ok(result) => return Ok(result),
            Err(error) => error.or_deadline(),
        };
        let Some(fault) = error.on_stream() else {
            if let Error::Deadline = error {
                LATE.set(Some((begin, stream.position())));
                if stream.give_up(begin) {
                    clean_up(stream, begin, Instant::now().checked_add(GRACE));
                }
            } else {
                if error.is_over_budget() {
                    stream.give_up(begin);
                }
                clean_up(stream, begin, options.deadline);
            }
            return Err(error);
        };
        match stream.culprit(fault) {
            Culprit::ThisThread if fault.tick() > begin.tick => {
                // If it cannot be recovered, who comes next is told why.
                let _ = stream.recover();
                return Err(error);
            }
            // The caller encoded it outside of any run, and is to hear of it.
            Culprit::ThisThread if fault.op() != OpKind::Replay && !was_late(stream, fault) => {
                return Err(error);
            }
            Culprit::Elsewhere => return Err(error),
            Culprit::ThisThread | Culprit::OtherThread => {}
        }
        // The same again: it is an input that failed.
        if last.as_ref() == Some(fault) || stream.recover().is_err() {
            return Err(error);
        }
        last = Some(fault.clone());
        options.check()?;
    }
}

/// Whether an earlier command of the stream failed, so that the one at `stamp` was not executed.
pub fn is_of_another(stream: &Stream, error: &Error, stamp: Stamp) -> bool {
    error.on_stream().is_some_and(|fault| {
        stream.culprit(fault) != Culprit::Elsewhere && fault.tick() < stamp.tick
    })
}

/// Sees to it that nothing is left on the stream which an attempt that failed otherwise has encoded behind `begin`, and
/// which fails later.
fn clean_up(stream: &Stream, begin: Stamp, deadline: Option<Instant>) {
    if let Err(error) = stream.wait_between(begin, stream.position(), deadline)
        && let Some(fault) = error.fault()
        && fault.tick() > begin.tick
        && stream.culprit(fault) == Culprit::ThisThread
    {
        // If it cannot be recovered, who comes next is told why.
        let _ = stream.recover();
    }
}
