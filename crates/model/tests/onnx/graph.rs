//! Evaluates graphs, node by node, through the operators of tensors.

use std::collections::HashMap;

use streampool_tensor::{Pool, Tensor};

use crate::error::{Error, Fault, Result};
use crate::node::Node;
use crate::nodes;
use crate::proto::{Graph, Model, NodeProto};

/// The values that have names, in one graph and those around it.
pub struct Scope<'a> {
    pub pool: &'a Pool,
    /// The version of the operators.
    pub opset: i64,
    values: HashMap<String, Tensor>,
    around: Option<&'a Scope<'a>>,
}

impl Scope<'_> {
    fn value(&self, name: &str) -> Option<&Tensor> {
        let around = || self.around?.value(name);
        self.values.get(name).or_else(around)
    }

    /// The results of a graph that lies inside this one, for these inputs.
    pub fn inner(&self, graph: &Graph, inputs: Vec<Tensor>) -> Result<Vec<Tensor>, Fault> {
        let scope = Scope {
            pool: self.pool,
            opset: self.opset,
            values: HashMap::new(),
            around: Some(self),
        };
        let inputs = inputs.into_iter().map(Some).collect();
        evaluate(scope, graph, inputs).map_err(|error| Fault::Inner(Box::new(error)))
    }
}

/// The outputs of a model for these inputs, in the order in which it lists them.
pub fn run(pool: &Pool, model: &Model, inputs: Vec<Option<Tensor>>) -> Result<Vec<Tensor>> {
    let graph = model.graph.as_ref().ok_or_else(|| {
        Error::Graph(Fault::malformed("the model's graph", "left out", "a graph"))
    })?;
    let own = model.opsets.iter().find(|opset| opset.domain.is_empty());
    let scope = Scope {
        pool,
        opset: own.map_or(1, |opset| opset.version),
        values: HashMap::new(),
        around: None,
    };
    evaluate(scope, graph, inputs)
}

fn evaluate(
    mut scope: Scope<'_>,
    graph: &Graph,
    inputs: Vec<Option<Tensor>>,
) -> Result<Vec<Tensor>> {
    if inputs.len() > graph.inputs.len() {
        let (got, expected) = (inputs.len(), format!("at most {}", graph.inputs.len()));
        return Err(Error::Graph(Fault::malformed(
            "the number of inputs",
            got,
            expected,
        )));
    }
    for initializer in &graph.initializers {
        let tensor = initializer.tensor(scope.pool).map_err(Error::Graph)?;
        scope.values.insert(initializer.name.clone(), tensor);
    }
    for (input, tensor) in graph.inputs.iter().zip(inputs) {
        if let Some(tensor) = tensor {
            scope.values.insert(input.name.clone(), tensor);
        }
    }
    for proto in &graph.nodes {
        let outputs = step(&scope, proto).map_err(|fault| Error::Node {
            node: match &proto.name[..] {
                "" => proto.outputs.first().cloned().unwrap_or_default(),
                name => name.to_owned(),
            },
            op: proto.op.clone(),
            fault: Box::new(fault),
        })?;
        for (name, tensor) in proto.outputs.iter().zip(outputs) {
            scope.values.insert(name.clone(), tensor);
        }
    }
    let output = |name: &str| {
        let missing = || Fault::malformed(format_args!("output {name:?}"), "not made", "a tensor");
        scope.value(name).cloned().ok_or_else(missing)
    };
    let outputs = graph.outputs.iter().map(|info| output(&info.name));
    outputs.collect::<Result<_, _>>().map_err(Error::Graph)
}

fn step(scope: &Scope<'_>, proto: &NodeProto) -> Result<Vec<Tensor>, Fault> {
    if !matches!(&proto.domain[..], "" | "ai.onnx") {
        return Err(Fault::unsupported(format_args!("domain {}", proto.domain)));
    }
    let mut inputs = Vec::with_capacity(proto.inputs.len());
    for name in &proto.inputs {
        let value = match &name[..] {
            "" => None,
            name => Some(scope.value(name).cloned().ok_or_else(|| {
                Fault::malformed(format_args!("input {name:?}"), "not made", "made before")
            })?),
        };
        inputs.push(value);
    }
    let node = Node {
        proto,
        inputs,
        scope,
    };
    let outputs = nodes::evaluate(&node)?;
    if outputs.len() < node.wanted() {
        let what = format!("output {} of {}", outputs.len(), node.op());
        return Err(Fault::unsupported(what));
    }
    Ok(outputs)
}
