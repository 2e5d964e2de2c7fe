//! For tests of operators: graphs evaluated node by node, without a plan.

use streampool_tensor::{DType, Pool, Tensor};

pub use crate::nodes::Value;

use crate::error::{NodeError, Result};
use crate::evaluate::{Scope, evaluate};
use crate::graph::{Graph, Operator};
use crate::nodes;
use crate::nodes::Pools;

/// Two pools, which may be one.
struct TwoPools<'a> {
    known: &'a Pool,
    work: &'a Pool,
}

impl Pools for TwoPools<'_> {
    fn known(&self) -> &Pool {
        self.known
    }

    fn work(&self) -> &Pool {
        self.work
    }

    fn lift(&self, known: &Tensor) -> Result<Tensor, NodeError> {
        Ok(known.to(self.work)?)
    }
}

/// The outputs of a graph whose constants are in the pool `known`, for these inputs; what depends on inputs that are
/// not in that pool has to be in the pool `work`, and is computed there.
pub fn evaluate_eagerly(
    graph: &Graph,
    (known, work): (&Pool, &Pool),
    inputs: &[Option<Value>],
) -> Result<Vec<Value>> {
    let pools = TwoPools { known, work };
    let mut scope = Scope::new(graph, &pools);
    for (&id, input) in graph.inputs.iter().zip(inputs) {
        if let Some(value) = input {
            scope.set(id, value.clone());
        }
    }
    evaluate(&mut scope, graph)
}

/// The largest difference between the elements of two tensors, as a part of one and what it should be; infinite where their
/// shapes differ.
pub fn difference(expected: &Tensor, got: &Tensor) -> Result<f64> {
    if expected.shape() != got.shape() {
        return Ok(f64::INFINITY);
    }
    let numbers = |tensor: &Tensor| tensor.to_dtype(DType::F64)?.to_vec::<f64>();
    let pairs = numbers(expected)?.into_iter().zip(numbers(got)?);
    Ok(pairs.fold(0.0, |most, (expected, got)| {
        let apart = (expected - got).abs() / (1.0 + expected.abs());
        if apart <= most { most } else { apart }
    }))
}

/// The family of an operator, if there is such an operator.
pub fn family(operator: &Operator) -> Option<&'static str> {
    nodes::family(operator)
}
