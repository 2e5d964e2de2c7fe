//! What is seen of a model: gathered once, then written as text or as JSON.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Serialize;
use streampool::device::DeviceKind;
use streampool::model::{UnsupportedOperator, ValueInfo};
use streampool::{Pool, Session};
use streampool_model::inspect::{Contents, Part};
use streampool_model::symbols::Shapes;
use streampool_model::{onnx, passes};

use super::values::{self, Value};
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
    /// The name of its graph.
    pub name: String,
    /// What wrote it.
    pub producer: String,
    /// What it says of itself.
    pub doc: String,
    /// The version of the file format.
    pub ir_version: i64,
    /// The version of each domain's operators.
    pub opsets: BTreeMap<String, i64>,
    /// What else it says.
    pub metadata: BTreeMap<String, String>,
    /// What is given to it.
    pub inputs: Vec<Value>,
    /// What it gives.
    pub outputs: Vec<Value>,
    /// What is made on the way, as far as its sizes are known.
    pub values: Vec<Value>,
    /// Nodes, those of graphs inside others included.
    pub nodes: usize,
    /// How often each operator stands, the most frequent first.
    pub operators: Vec<Operator>,
    /// Its tensors by element type.
    pub parameters: Vec<Parameters>,
    /// The memory that these take.
    pub parameter_bytes: usize,
    /// What cannot be run.
    pub unsupported: Vec<Unsupported>,
    /// What is left of it when it is loaded.
    pub simplified: Option<Simplified>,
    /// What it takes for certain shapes.
    pub plan: Option<Plan>,
}

/// How often an operator stands.
#[derive(Debug, Serialize)]
pub struct Operator {
    pub name: String,
    pub count: usize,
}

/// The tensors of one element type.
#[derive(Debug, Serialize)]
pub struct Parameters {
    pub dtype: &'static str,
    pub tensors: usize,
    pub elements: usize,
    pub bytes: usize,
}

/// An operator that cannot be run.
#[derive(Debug, Serialize)]
pub struct Unsupported {
    pub operator: String,
    pub version: i64,
    pub why: Option<String>,
    pub nodes: Vec<String>,
}

/// What loading makes of a model.
#[derive(Debug, Serialize)]
pub struct Simplified {
    pub nodes: usize,
    /// Nodes whose results are known.
    pub folded: usize,
    /// Nodes that did nothing, or that nobody needs.
    pub removed: usize,
    /// Nodes that became one, by what they became.
    pub fused: Vec<Operator>,
    pub operators: Vec<Operator>,
}

/// What a model takes for certain shapes.
#[derive(Debug, Serialize)]
pub struct Plan {
    pub device: String,
    pub inputs: Vec<Planned>,
    pub parts: Vec<PartOf>,
    /// The memory of weights on the device, and of what else was taken for them.
    pub memory_in_use: usize,
}

/// The shape of an input of the plan.
#[derive(Debug, Serialize)]
pub struct Planned {
    pub name: String,
    pub shape: Vec<usize>,
}

/// One part of it.
#[derive(Debug, Serialize)]
pub struct PartOf {
    pub ops: Vec<Operator>,
    pub joined_maps: usize,
    pub dropped_copies: usize,
    pub scratch_bytes: usize,
    pub shared_bytes: usize,
    pub ended_by: Option<String>,
}

/// Looks at the model.
pub fn examine(model: &Path, shapes: &[Given], device: On) -> Result<Report> {
    let pool = device.pool()?;
    let mut report = match pool.device().properties().kind {
        DeviceKind::Host => read(model, &pool)?,
        _ => read(model, &streampool::host_pool()?)?,
    };
    if report.ok && !shapes.is_empty() {
        report.plan = Some(plan(model, shapes, &pool)?);
    }
    Ok(report)
}

/// What the file says; its weights are let go of.
fn read(path: &Path, known: &Pool) -> Result<Report> {
    let mut model = onnx::read(path, known)?;
    let contents = model.graph.contents();
    let shapes = match contents.unsupported.is_empty() {
        true => model.graph.shapes(known),
        false => Shapes::default(),
    };
    let (outputs, values) = values::found(&model.graph, &shapes);
    let mut simplified = None;
    if contents.unsupported.is_empty() {
        let rewritten = passes::simplify(&mut model.graph, known)?;
        simplified = Some(Simplified::of(rewritten, model.graph.contents()));
    }
    let mut report = Report::of(path, model, contents);
    report.simplified = simplified;
    (report.outputs, report.values) = (outputs, values);
    Ok(report)
}

fn size(path: &Path) -> Option<u64> {
    Some(std::fs::metadata(path).ok()?.len())
}

fn plan(model: &Path, shapes: &[Given], pool: &Pool) -> Result<Plan> {
    let session = Session::load(pool, model)?;
    let inputs = From::Seed(0, shapes).inputs(session.inputs(), 0, pool)?;
    let parts = session.parts(&refer(&inputs))?;
    let planned = session
        .inputs()
        .iter()
        .zip(&inputs)
        .map(|(port, array)| Planned {
            name: port.name.clone(),
            shape: array.shape().to_vec(),
        });
    Ok(Plan {
        device: pool.device().properties().name.clone(),
        inputs: planned.collect(),
        parts: parts.into_iter().map(PartOf::from).collect(),
        memory_in_use: pool.snapshot()?.memory.in_use,
    })
}

impl Report {
    fn of(path: &Path, model: onnx::Model, contents: Contents) -> Report {
        let parameters = contents.parameters.iter().map(|of| Parameters {
            dtype: of.dtype.name(),
            tensors: of.tensors,
            elements: of.elements,
            bytes: of.bytes,
        });
        Report {
            ok: contents.unsupported.is_empty(),
            inputs: inputs(&contents),
            outputs: Vec::new(),
            values: Vec::new(),
            nodes: contents.operators.iter().map(|(_, count)| count).sum(),
            operators: contents.operators.into_iter().map(Operator::from).collect(),
            parameters: parameters.collect(),
            parameter_bytes: contents.parameters.iter().map(|of| of.bytes).sum(),
            unsupported: contents
                .unsupported
                .into_iter()
                .map(Unsupported::from)
                .collect(),
            model: path.to_owned(),
            file_bytes: size(path),
            name: model.name,
            producer: model.producer,
            doc: model.doc,
            ir_version: model.ir_version,
            opsets: model.opsets,
            metadata: model.metadata,
            simplified: None,
            plan: None,
        }
    }
}

fn inputs(contents: &Contents) -> Vec<Value> {
    let of = |ports: &[ValueInfo], required| -> Vec<Value> {
        let value = |port| Value {
            required: Some(required),
            ..Value::from(port)
        };
        ports.iter().map(value).collect()
    };
    [of(&contents.inputs, true), of(&contents.defaults, false)].concat()
}

impl Simplified {
    fn of(rewritten: passes::Report, left: Contents) -> Simplified {
        let mut fused: BTreeMap<&str, usize> = BTreeMap::new();
        for fusion in &rewritten.fusions {
            *fused.entry(fusion.what).or_default() += 1;
        }
        let fused = fused
            .into_iter()
            .map(|(what, count)| (what.to_owned(), count));
        Simplified {
            nodes: rewritten.after,
            folded: rewritten.folded,
            removed: rewritten.removed,
            fused: fused.map(Operator::from).collect(),
            operators: left.operators.into_iter().map(Operator::from).collect(),
        }
    }
}

impl std::convert::From<(String, usize)> for Operator {
    fn from((name, count): (String, usize)) -> Operator {
        Operator { name, count }
    }
}

impl std::convert::From<UnsupportedOperator> for Unsupported {
    fn from(one: UnsupportedOperator) -> Unsupported {
        Unsupported {
            operator: one.operator.to_string(),
            version: one.operator.version,
            why: one.why,
            nodes: one.nodes,
        }
    }
}

impl std::convert::From<Part> for PartOf {
    fn from(part: Part) -> PartOf {
        let ops = part
            .ops
            .into_iter()
            .map(|(op, count)| (op.to_string(), count));
        PartOf {
            ops: ops.map(Operator::from).collect(),
            joined_maps: part.joined_maps,
            dropped_copies: part.dropped_copies,
            scratch_bytes: part.scratch_bytes,
            shared_bytes: part.shared_bytes,
            ended_by: part.ended_by,
        }
    }
}
