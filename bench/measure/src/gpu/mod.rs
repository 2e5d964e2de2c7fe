//! `streampool-measure runtime --device cuda`: the runtime on a GPU, beside the bare driver in the same process.

mod bandwidth;
mod dense;
mod driver;
mod launch;
mod layers;
mod memory;
mod point;
mod product;
mod report;
mod sharing;
mod stage;

use std::time::Duration;

use crate::progress::Progress;
use crate::{Outcome, Result, output};
use point::Group;
use report::Report;
use stage::Stage;

/// From how many threads at a time.
const THREADS: [usize; 6] = [1, 2, 4, 8, 16, 31];

/// Memory that the large figures need.
const ROOM: usize = 8 << 30;

/// One group of figures: its name while it is measured, and how it is taken.
type Take = (&'static str, fn(&mut Stage) -> Result<Group>);

const SMALL: [Take; 6] = [
    ("launch and wait", launch::waiting),
    ("pipelining", launch::pipelining),
    ("a linear layer", layers::linear),
    ("a program of three layers", layers::program),
    ("memory", memory::pairs),
    ("the driver by itself", driver::calls),
];

const LARGE: [Take; 3] = [
    ("large blocks", driver::chunks),
    ("a large product", product::product),
    ("bandwidth", bandwidth::bandwidth),
];

/// Measures, and says what it came to. A goal that is missed is no failure of the program; a result that is
/// wrong is one.
pub fn run(as_json: bool, quick: bool) -> Result<Outcome> {
    let slice = Duration::from_millis(if quick { 100 } else { 400 });
    let mut stage = Stage::new(slice)?;
    let roomy = stage.properties().memory_capacity >= ROOM;
    let takes: Vec<Take> = match roomy {
        true => SMALL.into_iter().chain(LARGE).collect(),
        false => SMALL.into(),
    };
    let progress = Progress::new();
    let steps = takes.len() + 1;
    let mut groups = Vec::new();
    for (number, (what, take)) in takes.into_iter().enumerate() {
        progress.step(number + 1, steps, what);
        groups.push(take(&mut stage)?);
    }
    progress.step(steps, steps, "31 threads sharing");
    let sharing = sharing::share(&stage)?;
    drop(progress);
    let report = Report::new(&stage, quick, roomy, groups, sharing);
    if as_json {
        output::json(&report)?;
    } else {
        output::text(&report.page())?;
    }
    Ok(Outcome::of(report.sharing.met))
}
