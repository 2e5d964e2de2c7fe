//! The chapter on safety: nothing crashes, races, leaks or fails for others.

mod fault;
mod handover;
mod leftover;
mod product;
mod runs;
mod stage;

use super::chapter::{Chapter, Drawing, Found};
use super::setting::Setting;
use super::steps::{Step, Tried, sums};
use crate::Result;
use crate::plot::{Bars, Group};
use crate::text::count;
use stage::Stage;

/// The chapter.
pub fn chapter() -> Chapter {
    Chapter {
        name: "safety",
        claim: "8 and 31 threads use one device at once, with weights that all share, and every output is the one that a single \
                thread gets. A fault stays on its own stream, and no memory is left behind."
            .to_owned(),
        how: "One thread runs each model on inputs that differ; then 8 and 31 threads run it at the same time, and each output is \
              compared with that of one thread, bit by bit. On a host device that can be made slow and faulty, threads multiply \
              with shared weights, a producer hands memory to slow readers and uses it again, and one stream of 31 is hit by a \
              fault."
            .to_owned(),
        tell,
    }
}

/// All steps but those that run models share one device and one pool.
fn tell(setting: &Setting, now: &dyn Fn(&str)) -> Result<Found> {
    let stage = Stage::new()?;
    let steps = runs::steps(setting).into_iter().chain([
        product::step(&stage),
        handover::step(&stage),
        fault::step(&stage),
        leftover::step(&stage),
    ]);
    let tried: Vec<Tried> = steps.map(|step: Step<'_>| step.tried(now)).collect();
    let [right, wrong] = sums(&tried);
    let drawn = tried.iter().filter(|one| !one.drawn.is_empty());
    let group = |one: &Tried| Group {
        name: one.check.name.clone(),
        values: one.drawn.iter().map(|&count| count as f64).collect(),
    };
    Ok(Found {
        drawings: vec![Drawing::Bars(Bars {
            title: "Safety: results that were compared".to_owned(),
            label: "results".to_owned(),
            series: vec!["right".to_owned(), "wrong".to_owned()],
            groups: drawn.map(group).collect(),
        })],
        sum: format!(
            "Of {} results {} were wrong; the fault stayed where it was, and all memory came back.",
            count(right + wrong),
            count(wrong)
        ),
        checks: tried.into_iter().map(|one| one.check).collect(),
        ..Found::default()
    })
}
