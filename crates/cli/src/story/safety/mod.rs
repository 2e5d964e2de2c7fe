//! The chapter on safety: nothing crashes, races, leaks or fails for others.

mod fault;
mod handover;
mod leftover;
mod product;
mod quirks;
mod stage;

use std::rc::Rc;

use super::verdict::Chapter;
use crate::Result;
use stage::Stage;

/// The chapter. All steps but those on quirks share one device and one pool.
pub fn chapter() -> Result<Chapter> {
    let stage = Rc::new(Stage::new()?);
    let mut steps = vec![product::step(&stage), handover::step(&stage)];
    steps.extend(quirks::steps());
    steps.extend([fault::step(&stage), leftover::step(&stage)]);
    Ok(Chapter {
        name: "safety",
        question: "can any number of threads use one device at once?",
        moral: "Yes: with 31 threads on one device every result was right, every imitated driver bug was \
                held off, a fault stayed on its own stream, and no byte was left behind.",
        steps,
    })
}
