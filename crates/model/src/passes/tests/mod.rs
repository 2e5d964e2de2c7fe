//! Graphs before and after, and what both compute.

mod activations;
mod attention;
mod clean;
mod draw;
mod half;
mod layers;
mod norms;
mod quantised;
mod random;
mod unchanged;

use streampool_tensor::{DType, Generator, Pool, Tensor};

use super::{Report, simplify, simplify_within};
use crate::graph::{Attribute, Dim, Graph, Node, Operator, ValueId, ValueInfo};
use crate::nodes::Value;
use crate::testing::{difference, evaluate_eagerly};

/// A graph as a test draws it.
struct Sketch {
    graph: Graph,
    pool: Pool,
    generator: Generator,
    version: i64,
}

impl Sketch {
    fn new() -> Sketch {
        Sketch {
            graph: Graph::default(),
            pool: crate::testing::host_pool(),
            generator: Generator::new(7),
            version: 17,
        }
    }

    /// A value of which nothing is said.
    fn value(&mut self, name: &str) -> ValueId {
        self.graph.add_value(ValueInfo::named(name))
    }

    fn input(&mut self, shape: &[usize]) -> ValueId {
        self.input_of(shape, DType::F32)
    }

    fn input_of(&mut self, shape: &[usize], dtype: DType) -> ValueId {
        let sizes = shape.iter().map(|&size| Dim::Fixed(size));
        let id = self.graph.add_value(ValueInfo {
            dtype: Some(dtype),
            shape: Some(sizes.collect()),
            ..ValueInfo::named("input")
        });
        self.graph.inputs.push(id);
        id
    }

    fn random(&mut self, shape: &[usize]) -> Tensor {
        self.generator
            .uniform(&self.pool, shape, 0.0, 1.0, DType::F32)
            .unwrap()
    }

    /// A constant of random numbers between zero and one.
    fn weights(&mut self, shape: &[usize]) -> ValueId {
        let tensor = self.random(shape);
        self.constant(tensor)
    }

    fn number(&mut self, value: f32) -> ValueId {
        let tensor = Tensor::scalar(&self.pool, value).unwrap();
        self.constant(tensor)
    }

    fn integers(&mut self, values: &[i64]) -> ValueId {
        let tensor = Tensor::from_slice(&self.pool, values, &[values.len()]).unwrap();
        self.constant(tensor)
    }

    fn constant(&mut self, tensor: Tensor) -> ValueId {
        let id = self.value("constant");
        self.graph.constants.insert(id, tensor);
        id
    }

    fn node(&mut self, op: &str, inputs: &[ValueId]) -> ValueId {
        self.with(op, inputs, &[])
    }

    fn with(&mut self, op: &str, inputs: &[ValueId], attributes: &[(&str, Attribute)]) -> ValueId {
        let name = format!("{op} {}", self.graph.nodes.len());
        let output = self.value(&name);
        let attributes = attributes
            .iter()
            .map(|(name, value)| (name.to_string(), value.clone()));
        self.graph.nodes.push(Node {
            name,
            operator: Operator::onnx(op, self.version),
            inputs: inputs.iter().copied().map(Some).collect(),
            outputs: vec![Some(output)],
            attributes: attributes.collect(),
        });
        output
    }

    /// What is left of the graph with these outputs, which has to compute the same.
    fn simplified(&mut self, outputs: &[ValueId]) -> (Graph, Report) {
        self.graph.outputs = outputs.to_vec();
        let mut graph = self.graph.clone();
        let report = simplify(&mut graph, &self.pool).unwrap();
        let inputs: Vec<Option<Value>> = self
            .graph
            .inputs
            .clone()
            .into_iter()
            .map(|id| {
                let shape = self.graph.value(id).shape.clone().unwrap();
                let sizes: Vec<usize> = shape
                    .iter()
                    .map(|dim| match dim {
                        Dim::Fixed(size) => *size,
                        _ => 2,
                    })
                    .collect();
                Some(
                    self.random(&sizes)
                        .sub(0.5)
                        .unwrap()
                        .mul(4.0)
                        .unwrap()
                        .into(),
                )
            })
            .collect();
        let run =
            |graph: &Graph| evaluate_eagerly(graph, (&self.pool, &self.pool), &inputs).unwrap();
        for (before, after) in run(&self.graph).iter().zip(run(&graph)) {
            let (before, after) = (before.tensor().unwrap(), after.tensor().unwrap());
            assert_eq!(before.dtype(), after.dtype());
            // Half precision rounds wherever a value is stored.
            let most = match before.dtype() {
                DType::F16 => 4e-3,
                _ => 1e-4,
            };
            let apart = difference(before, after).unwrap();
            assert!(apart <= most, "{apart}: {report:?}");
        }
        (graph, report)
    }

    /// The operators that are left, in order.
    fn operators(&mut self, outputs: &[ValueId]) -> Vec<String> {
        let (graph, report) = self.simplified(outputs);
        assert_eq!(report.after, graph.nodes.len());
        graph
            .nodes
            .iter()
            .map(|node| node.operator.to_string())
            .collect()
    }
}

fn int(name: &str, value: i64) -> (&str, Attribute) {
    (name, Attribute::Int(value))
}

fn ints<'a>(name: &'a str, values: &[i64]) -> (&'a str, Attribute) {
    (name, Attribute::Ints(values.to_vec()))
}

fn string(value: &str) -> Attribute {
    Attribute::String(value.to_owned())
}
