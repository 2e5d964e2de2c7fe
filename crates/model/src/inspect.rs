//! What is in a model, and what it takes to run it.

use std::collections::BTreeMap;
use std::time::Duration;

use streampool_device::OpKind;
use streampool_tensor::{DType, Tensor};

use crate::check::check_operators;
use crate::error::{Error, Result, UnsupportedOperator};
use crate::graph::{Attribute, Graph, ValueInfo};
use crate::session::{Input, RunOptions, Session};

/// What is in a graph, the graphs inside its nodes included.
#[derive(Debug, Clone, Default)]
pub struct Contents {
    /// What a caller gives.
    pub inputs: Vec<ValueInfo>,
    /// What a caller may give, and need not.
    pub defaults: Vec<ValueInfo>,
    /// What a caller gets.
    pub outputs: Vec<ValueInfo>,
    /// How often each operator stands, the most frequent first.
    pub operators: Vec<(String, usize)>,
    /// The tensors that it brings, by element type.
    pub parameters: Vec<Parameters>,
    /// What cannot be run, and every place of it.
    pub unsupported: Vec<UnsupportedOperator>,
}

/// The tensors of one element type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parameters {
    /// The type.
    pub dtype: DType,
    /// How many there are.
    pub tensors: usize,
    /// Elements of all.
    pub elements: usize,
    /// Bytes of all.
    pub bytes: usize,
}

/// What one part of a model takes when it runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// How many ops it has of each kind, the most frequent first.
    pub ops: Vec<(OpKind, usize)>,
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

impl Graph {
    /// What is in it.
    pub fn contents(&self) -> Contents {
        let port = |&id| self.value(id).clone();
        let mut census = Census::default();
        census.add(self);
        let mut operators: Vec<(String, usize)> = census.operators.into_iter().collect();
        operators.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        Contents {
            inputs: self.inputs.iter().map(port).collect(),
            defaults: self.defaults.iter().map(|(_, info)| info.clone()).collect(),
            outputs: self.outputs.iter().map(port).collect(),
            operators,
            parameters: census.parameters.into_values().collect(),
            unsupported: match check_operators(self) {
                Err(Error::Unsupported(all)) => all,
                _ => Vec::new(),
            },
        }
    }
}

/// What was counted so far.
#[derive(Default)]
struct Census {
    operators: BTreeMap<String, usize>,
    parameters: BTreeMap<DType, Parameters>,
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
        let dtype = tensor.dtype();
        let of_type = self.parameters.entry(dtype).or_insert(Parameters {
            dtype,
            tensors: 0,
            elements: 0,
            bytes: 0,
        });
        of_type.tensors += 1;
        of_type.elements += tensor.elem_count();
        of_type.bytes += tensor.elem_count() * dtype.size();
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
    use crate::graph::{Node, Operator};

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
        let contents = graph.contents();
        assert_eq!(contents.inputs[0].name, "w");
        let counted = |name: &str, count| (name.to_owned(), count);
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
