//! What is left in memory after all of it.

use serde_json::json;
use streampool::Device;

use super::stage::Stage;
use crate::Result;
use crate::story::steps::{Seen, Step};
use crate::text::bytes;

/// The step. The pool keeps memory for the next who asks; trimmed, it gives all of it back.
pub fn step(stage: &Stage) -> Step<'_> {
    Step::new("leftover", "memory left in use after all this", || {
        count(stage)
    })
}

fn count(stage: &Stage) -> Result<Seen> {
    stage.pool.synchronize()?;
    let memory = stage.pool.snapshot()?.memory;
    let trimmed = stage.pool.trim()?;
    let held = stage.device.memory_use().in_use;
    Ok(Seen {
        ok: memory.in_use == 0 && memory.pending == 0 && held == 0,
        figures: format!(
            "{} in buffers, {} once trimmed",
            bytes(memory.in_use + memory.pending),
            bytes(held)
        ),
        numbers: json!({
            "in_use": memory.in_use,
            "pending": memory.pending,
            "given_back": trimmed,
            "kept": held,
        }),
        drawn: Vec::new(),
    })
}
