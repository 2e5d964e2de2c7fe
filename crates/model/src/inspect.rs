//! What is in a model, and what it takes to run it.

mod values;

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;
use streampool_tensor::{Pool, Tensor};

use crate::check::check_operators;
use crate::error::{Error, Result, UnsupportedOperator};
use crate::graph::{Attribute, Graph};
use crate::onnx::Model;
use crate::passes;
use crate::session::{Input, RunOptions, Session};
use crate::symbols::Shapes;

pub use values::Value;

/// What a file says of a model, and what is left of it when it is loaded.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
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
    /// What a caller gives; at the end, what a caller need not give.
    pub inputs: Vec<Value>,
    /// What a caller gets.
    pub outputs: Vec<Value>,
    /// What is made on the way, as far as its sizes are known.
    pub values: Vec<Value>,
    /// What it is made of.
    #[serde(flatten)]
    pub contents: Contents,
    /// What is left of it when it is loaded, if it can be run.
    pub simplified: Option<Simplified>,
}

/// What is in a graph, the graphs inside its nodes included.
#[derive(Debug, Clone, Serialize)]
pub struct Contents {
    /// How many nodes there are.
    pub nodes: usize,
    /// How often each operator stands, the most frequent first.
    pub operators: Vec<Count>,
    /// The tensors that it brings, by element type.
    pub parameters: Vec<Parameters>,
    /// The memory that these take.
    pub parameter_bytes: usize,
    /// What cannot be run.
    pub unsupported: Vec<Unsupported>,
}

/// How often something stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Count {
    /// What.
    pub name: String,
    /// How often.
    pub count: usize,
}

/// The tensors of one element type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Parameters {
    /// The type.
    pub dtype: &'static str,
    /// How many there are.
    pub tensors: usize,
    /// Elements of all.
    pub elements: usize,
    /// Bytes of all.
    pub bytes: usize,
}

/// An operator that cannot be run.
#[derive(Debug, Clone, Serialize)]
pub struct Unsupported {
    /// Its name.
    pub operator: String,
    /// Its version.
    pub version: i64,
    /// Why, if it is not simply unknown.
    pub why: Option<String>,
    /// The nodes.
    pub nodes: Vec<String>,
}

/// What loading makes of a model.
#[derive(Debug, Clone, Serialize)]
pub struct Simplified {
    /// How many nodes are left.
    pub nodes: usize,
    /// Nodes whose results are known.
    pub folded: usize,
    /// Nodes that did nothing, or that nobody needs.
    pub removed: usize,
    /// Nodes that became one, by what they became.
    pub fused: Vec<Count>,
    /// How often each operator is left, the most frequent first.
    pub operators: Vec<Count>,
}

/// What one part of a model takes when it runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Part {
    /// How many ops it has of each kind, the most frequent first.
    pub ops: Vec<Count>,
    /// Elementwise ops that became part of others.
    pub joined_maps: usize,
    /// Copies that were left out, since the op before or after takes any order of axes.
    pub dropped_copies: usize,
    /// Memory of what it makes on the way.
    pub scratch_bytes: usize,
    /// Memory of its inputs and outputs.
    pub shared_bytes: usize,
    /// The node after it, which asks for values and is computed by itself; the last part has none.
    pub ended_by: Option<String>,
}

/// What is in a model whose tensors are in the pool `known`. Its weights are let go of.
pub fn report(mut model: Model, known: &Pool) -> Result<Report> {
    let graph = &mut model.graph;
    let contents = Contents::of(graph);
    let can_run = contents.unsupported.is_empty();
    let shapes = match can_run {
        true => graph.shapes(known),
        false => Shapes::default(),
    };
    let (outputs, values) = values::found(graph, &shapes);
    Ok(Report {
        inputs: values::inputs(graph),
        outputs,
        values,
        contents,
        simplified: match can_run {
            true => Some(Simplified::of(graph, known)?),
            false => None,
        },
        name: model.name,
        producer: model.producer,
        doc: model.doc,
        ir_version: model.ir_version,
        opsets: model.opsets,
        metadata: model.metadata,
    })
}

impl Contents {
    fn of(graph: &Graph) -> Contents {
        let mut census = Census::default();
        census.add(graph);
        let parameters: Vec<Parameters> = census.parameters.into_values().collect();
        Contents {
            nodes: census.operators.values().sum(),
            operators: Count::sorted(census.operators),
            parameter_bytes: parameters.iter().map(|of_type| of_type.bytes).sum(),
            parameters,
            unsupported: match check_operators(graph) {
                Err(Error::Unsupported(all)) => all.into_iter().map(Unsupported::from).collect(),
                _ => Vec::new(),
            },
        }
    }
}

impl Count {
    /// These, the most frequent first.
    pub(crate) fn sorted(counts: BTreeMap<impl ToString, usize>) -> Vec<Count> {
        let counts = counts.into_iter().map(|(name, count)| Count {
            name: name.to_string(),
            count,
        });
        let mut counts: Vec<Count> = counts.collect();
        counts.sort_by_key(|one| Reverse(one.count));
        counts
    }
}

impl From<UnsupportedOperator> for Unsupported {
    fn from(one: UnsupportedOperator) -> Unsupported {
        Unsupported {
            operator: one.operator.to_string(),
            version: one.operator.version,
            why: one.why,
            nodes: one.nodes,
        }
    }
}

impl Simplified {
    fn of(graph: &mut Graph, known: &Pool) -> Result<Simplified> {
        let rewritten = passes::simplify(graph, known)?;
        let mut fused: BTreeMap<&str, usize> = BTreeMap::new();
        for fusion in &rewritten.fusions {
            *fused.entry(fusion.what).or_default() += 1;
        }
        Ok(Simplified {
            nodes: rewritten.after,
            folded: rewritten.folded,
            removed: rewritten.removed,
            fused: Count::sorted(fused),
            operators: Contents::of(graph).operators,
        })
    }
}

/// What was counted so far.
#[derive(Default)]
struct Census {
    operators: BTreeMap<String, usize>,
    parameters: BTreeMap<&'static str, Parameters>,
}

impl Census {
    fn add(&mut self, graph: &Graph) {
        graph
            .constants
            .values()
            .for_each(|tensor| self.tensor(tensor));
        for node in &graph.nodes {
            *self.operators.entry(node.operator.to_string()).or_default() += 1;
            for (_, attribute) in &node.attributes {
                match attribute {
                    Attribute::Tensor(tensor) => self.tensor(tensor),
                    Attribute::Graph(graph) => self.add(graph),
                    _ => {}
                }
            }
        }
    }

    fn tensor(&mut self, tensor: &Tensor) {
        let dtype = tensor.dtype().name();
        let of_type = self.parameters.entry(dtype).or_insert(Parameters {
            dtype,
            tensors: 0,
            elements: 0,
            bytes: 0,
        });
        of_type.tensors += 1;
        of_type.elements += tensor.elem_count();
        of_type.bytes += tensor.elem_count() * tensor.dtype().size();
    }
}

impl Session {
    /// What each part of the model takes when it runs on these inputs. It is run on them once, and should not have been
    /// run before: of several plans for the same part the latest is told. A run of more than a million steps or five minutes
    /// is given up.
    pub fn parts(&self, inputs: &[Input<'_>]) -> Result<Vec<Part>> {
        let options = RunOptions {
            steps: Some(1_000_000),
            ..RunOptions::within(Duration::from_secs(300))
        };
        self.run_positional_with(inputs, &options)?;
        Ok(self.latest_parts())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::{Node, Operator, ValueInfo};

    #[test]
    fn what_is_inside_of_nodes_counts_too() {
        let pool = crate::testing::host_pool();
        let node = |name: &str, op: &str, attributes| Node {
            name: name.to_owned(),
            operator: Operator::onnx(op, 17),
            inputs: Vec::new(),
            outputs: Vec::new(),
            attributes,
        };
        let tensor = Tensor::from_slice(&pool, &[1.0f32, 2.0, 3.0], &[3]).unwrap();
        let mut inner = Graph::default();
        inner.nodes.push(node("deep", "Levitate", Vec::new()));
        inner.nodes.push(node("plain", "Relu", Vec::new()));
        let mut graph = Graph::default();
        let id = graph.add_value(ValueInfo::named("w"));
        graph.constants.insert(id, tensor.clone());
        graph.inputs.push(id);
        let branch = ("then_branch".to_owned(), Attribute::Graph(Box::new(inner)));
        graph.nodes.push(node("fork", "If", vec![branch]));
        let value = ("value".to_owned(), Attribute::Tensor(tensor));
        graph.nodes.push(node("high", "Levitate", vec![value]));
        let contents = Contents::of(&graph);
        let counted = |name: &str, count| Count {
            name: name.to_owned(),
            count,
        };
        assert_eq!(contents.nodes, 4);
        assert_eq!(
            contents.operators,
            [counted("Levitate", 2), counted("If", 1), counted("Relu", 1)]
        );
        let [parameters] = contents.parameters[..] else {
            panic!("{:?}", contents.parameters);
        };
        assert_eq!((parameters.tensors, parameters.bytes), (2, 24));
        let [refused] = &contents.unsupported[..] else {
            panic!("{:?}", contents.unsupported);
        };
        assert_eq!(refused.nodes, ["deep", "high"]);
    }
}
