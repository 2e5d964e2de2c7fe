//! A fault on one stream while all others work.

use serde_json::json;
use streampool::{OpKind, Stream};
use streampool_host::OpMatcher;

use super::product::Weights;
use super::stage::{Stage, THREADS};
use crate::Result;
use crate::story::crowd;
use crate::story::steps::{Seen, Step};

/// The stream that is hit.
const VICTIM: u8 = 16;

const PRODUCTS: usize = 40;

/// Which product of the victim fails.
const FAILING: u64 = 20;

/// What one thread saw.
#[derive(Debug, Default)]
struct Outcome {
    stream: u8,
    faults: usize,
    recovered: usize,
    right: usize,
    wrong: usize,
}

/// The step.
pub fn step(stage: &Stage) -> Step<'_> {
    Step::new(
        "fault",
        format!("a fault on one of {THREADS} streams"),
        || break_one(stage),
    )
}

fn break_one(stage: &Stage) -> Result<Seen> {
    let weights = Weights::new(stage.pool.current()?)?;
    let injector = stage.device.injector();
    let target = OpMatcher::any()
        .on_queue(u32::from(VICTIM))
        .of_kind(OpKind::MatMul);
    injector.fail_op(target, FAILING, "injected by the story");
    let seen = crowd::on_own_streams(&stage.pool, THREADS, |thread, stream| {
        multiply(&weights, stream, thread)
    });
    injector.clear();
    let seen = seen?;
    let faulted: Vec<&Outcome> = seen.iter().filter(|seen| seen.faults > 0).collect();
    let wrong: usize = seen.iter().map(|seen| seen.wrong).sum();
    let right: usize = seen.iter().map(|seen| seen.right).sum();
    let as_meant = match faulted[..] {
        [hit] => hit.stream == VICTIM && (hit.faults, hit.recovered) == (1, 1),
        _ => false,
    };
    // The one that failed is the one that is missing.
    let complete = right == THREADS * PRODUCTS - 1;
    Ok(Seen {
        ok: as_meant && wrong == 0 && complete,
        figures: format!(
            "{} faulted, {} recovered, {} wrong",
            faulted.len(),
            faulted.iter().filter(|seen| seen.recovered > 0).count(),
            wrong
        ),
        numbers: json!({
            "streams": THREADS,
            "faulted": faulted.len(),
            "recovered": faulted.iter().map(|seen| seen.recovered).sum::<usize>(),
            "right": right,
            "wrong": wrong,
        }),
        drawn: vec![right as u64, wrong as u64],
    })
}

fn multiply(weights: &Weights, stream: &Stream, thread: usize) -> streampool::Result<Outcome> {
    let mut seen = Outcome {
        stream: stream.index(),
        ..Outcome::default()
    };
    for number in 0..PRODUCTS {
        match weights.multiply(stream, 1 + thread * PRODUCTS + number) {
            Ok(true) => seen.right += 1,
            Ok(false) => seen.wrong += 1,
            Err(error) if error.fault().is_some() => {
                seen.faults += 1;
                stream.recover()?;
                seen.recovered += usize::from(stream.fault().is_none());
            }
            Err(error) => return Err(error),
        }
    }
    Ok(seen)
}
