//! For tests of operators: graphs evaluated node by node, without a plan.

use streampool_tensor::{Pool, Tensor};

pub use crate::evaluate::Value;

use crate::error::{Fault, Result};
use crate::evaluate::{Place, Scope, evaluate};
use crate::graph::{Graph, Operator};
use crate::nodes;

/// Two pools, which may be one.
struct Pools<'a> {
    known: &'a Pool,
    work: &'a Pool,
}

impl Place for Pools<'_> {
    fn known(&self) -> &Pool {
        self.known
    }

    fn work(&self) -> &Pool {
        self.work
    }

    fn lift(&self, known: &Tensor) -> Result<Tensor, Fault> {
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
    let pools = Pools { known, work };
    let mut scope = Scope::new(graph, &pools);
    for (&id, input) in graph.inputs.iter().zip(inputs) {
        if let Some(value) = input {
            scope.set(id, value.clone());
        }
    }
    evaluate(&mut scope, graph)
}

/// The family of an operator, if there is such an operator.
pub fn family(operator: &Operator) -> Option<&'static str> {
    nodes::family(operator)
}
