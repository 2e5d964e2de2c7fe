//! `streampool-measure runtime --device cuda`: the runtime on a GPU, beside the bare driver in the same process.

mod large;
mod layers;
mod point;
mod report;
mod sharing;
mod small;
mod stage;

use std::time::Duration;

use crate::progress::Progress;
use crate::{Outcome, Result, output};
use point::Group;
use report::Report;
use stage::Stage;

/// Memory that the large figures need.
const ROOM: usize = 8 << 30;

/// One group of figures: its name while it is measured, how it is taken, and whether it needs that memory.
type Take = (&'static str, fn(&mut Stage) -> Result<Group>, bool);

const TAKES: [Take; 9] = [
    ("launch and wait", small::waiting, false),
    ("pipelining", small::pipelining, false),
    ("a linear layer", layers::linear, false),
    ("a program of three layers", layers::program, false),
    ("memory", small::memory, false),
    ("the driver by itself", small::driver, false),
    ("large blocks", large::blocks, true),
    ("a large product", large::product, true),
    ("bandwidth", large::bandwidth, true),
];

/// Measures, and says what it came to. A result that is wrong is a failure.
pub fn run(as_json: bool, quick: bool) -> Result<Outcome> {
    let slice = Duration::from_millis(if quick { 100 } else { 400 });
    let mut stage = Stage::new(slice)?;
    let roomy = stage.properties().memory_capacity >= ROOM;
    let takes = TAKES.into_iter().filter(|(.., large)| roomy || !large);
    let progress = Progress::on_terminal();
    let mut groups = Vec::new();
    for (number, (what, take, _)) in takes.enumerate() {
        progress.step(number + 1, TAKES.len() + 1, what);
        groups.push(take(&mut stage)?);
    }
    progress.step(TAKES.len() + 1, TAKES.len() + 1, "31 threads sharing");
    let sharing = sharing::share(&stage.crew)?;
    drop(progress);
    let report = Report::new(&stage, quick, roomy, groups, sharing);
    output::told(as_json, &report, || report.page())?;
    Ok(Outcome::of(report.sharing.met))
}
