//! What is seen of a model: gathered once, then written as text or as JSON.

use std::path::{Path, PathBuf};

use serde::Serialize;
use streampool::device::DeviceKind;
use streampool::{Pool, Session};
use streampool_model::{inspect, onnx};

use crate::Result;
use crate::device::On;
use crate::inputs::{From, Given, refer};

/// Everything.
#[derive(Debug, Serialize)]
pub struct Report {
    /// Whether all of it can be run.
    pub ok: bool,
    /// The file.
    #[serde(serialize_with = "crate::output::path")]
    pub model: PathBuf,
    /// The size of it, without data that it keeps elsewhere.
    pub file_bytes: Option<u64>,
    /// What is in it.
    #[serde(flatten)]
    pub found: inspect::Report,
    /// What it takes for certain shapes.
    pub plan: Option<Plan>,
}

/// What a model takes for certain shapes.
#[derive(Debug, Serialize)]
pub struct Plan {
    pub device: String,
    pub inputs: Vec<Planned>,
    pub parts: Vec<inspect::Part>,
    /// The memory of weights on the device, and of what else was taken for them.
    pub memory_in_use: usize,
}

/// The shape of an input of the plan.
#[derive(Debug, Serialize)]
pub struct Planned {
    pub name: String,
    pub shape: Vec<usize>,
}

/// Looks at the model.
pub fn examine(model: &Path, shapes: &[Given], device: On) -> Result<Report> {
    let pool = device.pool()?;
    let known = match pool.device().properties().kind {
        DeviceKind::Host => pool.clone(),
        _ => streampool::host_pool()?,
    };
    let found = inspect::report(onnx::read(model, &known)?, &known)?;
    let ok = found.contents.unsupported.is_empty();
    Ok(Report {
        ok,
        model: model.to_owned(),
        file_bytes: std::fs::metadata(model).ok().map(|file| file.len()),
        found,
        plan: match ok && !shapes.is_empty() {
            true => Some(plan(model, shapes, &pool)?),
            false => None,
        },
    })
}

fn plan(model: &Path, shapes: &[Given], pool: &Pool) -> Result<Plan> {
    let session = Session::load(pool, model)?;
    let inputs = From::Seed(0, shapes).inputs(session.inputs(), 0, pool)?;
    let parts = session.parts(&refer(&inputs))?;
    let planned = session.inputs().iter().zip(&inputs);
    let planned = planned.map(|(port, array)| Planned {
        name: port.name.clone(),
        shape: array.shape().to_vec(),
    });
    Ok(Plan {
        device: pool.device().properties().name.clone(),
        inputs: planned.collect(),
        parts,
        memory_in_use: pool.snapshot()?.memory.in_use,
    })
}
