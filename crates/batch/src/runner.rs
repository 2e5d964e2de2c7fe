//! Runs batches: calls the function, gives each request its rows, and finds the guilty one when a batch fails.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;

use streampool_tensor::Array;

use crate::answer::{Part, Share};
use crate::batch::Batch;
use crate::engine::{Done, Job};
use crate::error::{Error, Result};
use crate::figures::Fate;
use crate::outcome::discard;
use crate::schedule::Entry;
use crate::traced::{self, Ended};

/// What a queue calls.
pub type Function = dyn Fn(Batch) -> Result<Batch> + Send + Sync;

/// Runs the requests of a batch on a lane, but for those that nobody wants any more.
pub fn run(function: &Function, entries: Vec<Entry<Part>>, lane: usize) -> Done {
    let mut done = Done::default();
    let all = entries.len();
    let entries = wanted(entries, &mut done);
    if entries.is_empty() {
        return done;
    }
    let begun = Instant::now();
    let given = call(function, &entries, lane);
    // Before an answer wakes who asks for it.
    let traced = entries.iter().filter_map(|entry| entry.job.traced.as_ref());
    let batch = Ended {
        begun,
        rows: entries.iter().map(|entry| entry.rows).sum(),
        lane,
        succeeded: given.is_ok(),
    };
    traced::tell(traced, &batch);
    match given {
        Ok(given) => {
            // The time of fewer rows than the batch had says nothing about others.
            done.took = (entries.len() == all).then(|| begun.elapsed());
            share(entries, given, &mut done);
        }
        Err(error) => fail(function, entries, lane, error, &mut done),
    }
    done
}

/// A batch failed: parts of it are tried, so that in the end only those requests fail that are guilty. Nobody is found guilty who
/// was not tried alone, unless the function says that it cannot run anything.
///
/// A part that fails is tried again by its first half; once half of it went well, the guilty one is looked for in half of the rest,
/// and behind that, parts are twice as large as those that went well. So one that is guilty is found as by halving, and if all
/// of n are, the parts are soon single requests: n + log2(n) calls.
fn fail(
    function: &Function,
    mut rest: Vec<Entry<Part>>,
    lane: usize,
    error: Error,
    done: &mut Done,
) {
    if rest.len() == 1 || matches!(error, Error::Unavailable(_)) {
        return refuse(rest, &error, done);
    }
    // Of so many at the front one is guilty.
    let mut suspects = rest.len();
    let mut size = suspects / 2;
    loop {
        rest = wanted(rest, done);
        if rest.is_empty() {
            return;
        }
        let mut behind = rest.split_off(size.min(rest.len()));
        let tried = rest.len();
        done.retries += 1;
        match call(function, &rest, lane) {
            Ok(given) => {
                share(rest, given, done);
                suspects = suspects.saturating_sub(tried);
                size = if suspects > 0 {
                    suspects.div_ceil(2)
                } else {
                    2 * tried
                };
            }
            Err(error) if matches!(error, Error::Unavailable(_)) => {
                rest.append(&mut behind);
                return refuse(rest, &error, done);
            }
            Err(error) if tried == 1 => {
                refuse(rest, &error, done);
                suspects = 0;
            }
            Err(_) => {
                rest.append(&mut behind);
                behind = rest;
                suspects = tried;
                size = tried / 2;
            }
        }
        rest = behind;
    }
}

fn refuse(entries: Vec<Entry<Part>>, error: &Error, done: &mut Done) {
    for entry in entries {
        answer(entry, Err(error.clone()), done);
    }
}

/// Those that somebody wants. What becomes of the others is known.
fn wanted(entries: Vec<Entry<Part>>, done: &mut Done) -> Vec<Entry<Part>> {
    if !entries.iter().any(|entry| entry.job.is_moot()) {
        return entries;
    }
    let (moot, wanted): (Vec<_>, Vec<_>) =
        entries.into_iter().partition(|entry| entry.job.is_moot());
    let given_up = moot.into_iter().filter(|entry| entry.job.settles());
    let fates = given_up.map(|entry| (entry.tenant, Fate::Cancelled));
    done.fates.extend(fates);
    wanted
}

/// Calls the function. A panic in it is an error.
fn call(function: &Function, entries: &[Entry<Part>], lane: usize) -> Result<Given> {
    let rows = entries.iter().map(|entry| entry.rows).sum();
    let inputs = entries.iter().map(|entry| entry.job.inputs.clone());
    // As long as somebody wants it.
    let deadlines = entries.iter().map(|entry| entry.deadline);
    let deadline = deadlines.collect::<Option<Vec<Instant>>>();
    let deadline = deadline.and_then(|all| all.into_iter().max());
    let batch = Batch::of(inputs.collect(), rows, lane).with_deadline(deadline);
    let result = catch_unwind(AssertUnwindSafe(|| function(batch)));
    let given = result.unwrap_or_else(|panic| {
        let message = message(&*panic);
        discard(panic);
        Err(Error::Panicked(message))
    })?;
    if given.rows() != rows {
        return Err(Error::Rows {
            got: given.rows(),
            expected: rows,
        });
    }
    match given.is_divided(entries.iter().map(|entry| entry.rows)) {
        true => Ok(Given::Divided(given.into_requests())),
        false => given.into_at_least().map(Given::Whole),
    }
}

/// What a function gave back.
enum Given {
    /// Arrays of each request.
    Divided(Vec<Arc<Vec<Array>>>),
    /// Arrays of all.
    Whole(Vec<Array>),
}

fn message(panic: &(dyn std::any::Any + Send)) -> Arc<str> {
    let text = panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("it did not say why").into()
}

/// Gives each request its rows.
fn share(entries: Vec<Entry<Part>>, given: Given, done: &mut Done) {
    let asked = |entry: &Entry<Part>| Some(entry.job.inputs.clone());
    let shares: Vec<Share> = match given {
        Given::Divided(requests) => {
            let each = entries.iter().zip(&requests);
            each.map(|(entry, arrays)| Share::new(arrays, 0..entry.rows, asked(entry)))
                .collect()
        }
        // The last caller to cut its rows may have the arrays themselves.
        Given::Whole(arrays) => {
            let arrays = Arc::new(arrays);
            let mut begin = 0;
            let own = |entry: &Entry<Part>| {
                let rows = begin..begin + entry.rows;
                begin = rows.end;
                Share::new(&arrays, rows, asked(entry))
            };
            entries.iter().map(own).collect()
        }
    };
    for (entry, share) in entries.into_iter().zip(shares) {
        answer(entry, Ok(share), done);
    }
}

fn answer(entry: Entry<Part>, result: Result<Share>, done: &mut Done) {
    let (fate, waiter) = entry.job.answer(result);
    done.fates.extend(fate.map(|fate| (entry.tenant, fate)));
    done.waiters.extend(waiter);
}
