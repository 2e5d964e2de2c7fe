//! Evaluates graphs, node by node, through the operators of tensors.
//!
//! What depends on nothing that a caller gives is *known*: it is computed at once, in a pool on the host. The rest is
//! made in the pool where the work is: on a device, or in the pool of a [trace](crate::trace), which only lists it.

use streampool_runtime::Budget;
use streampool_tensor::{Pool, Tensor};

use crate::error::{Error, NodeError, Result};
use crate::graph::{Graph, Node, ValueId};
use crate::nodes::{self, Call, Pools, Value, Values};

/// Two pools, which may be one.
pub struct TwoPools<'a> {
    pub known: &'a Pool,
    pub work: &'a Pool,
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

/// Whether two tensors are the same values in the same memory, type and order.
pub fn is_same(one: &Tensor, other: &Tensor) -> bool {
    one.buffer().span() == other.buffer().span()
        && (one.dtype(), one.layout()) == (other.dtype(), other.layout())
}

/// The values of one graph while it is evaluated.
pub struct Scope<'a> {
    pools: &'a dyn Pools,
    /// Which of the graphs inside nodes it is, and which time it is evaluated: zero for the whole model.
    turn: u64,
    values: Vec<Option<Value>>,
}

impl<'a> Scope<'a> {
    /// No values but the constants of `graph`.
    pub fn new(graph: &Graph, pools: &'a dyn Pools) -> Scope<'a> {
        let mut values = vec![None; graph.value_count()];
        for (&id, tensor) in &graph.constants {
            values[id.index()] = Some(Value::Tensor(tensor.clone()));
        }
        Scope {
            pools,
            turn: 0,
            values,
        }
    }

    /// Gives a value.
    pub fn set(&mut self, id: ValueId, value: Value) {
        self.values[id.index()] = Some(value);
    }

    /// A value, if it was made or given.
    pub fn get(&self, id: ValueId) -> Option<&Value> {
        self.values[id.index()].as_ref()
    }

    /// The results of a graph inside a node of this one, for these inputs. `turn` is another number for each node and time.
    fn inner(&self, graph: &Graph, inputs: Vec<Value>, turn: u64) -> Values {
        if inputs.len() != graph.inputs.len() {
            let (got, expected) = (graph.inputs.len(), inputs.len());
            return Err(NodeError::malformed(
                "the number of inputs of a graph inside",
                got,
                expected,
            ));
        }
        self.pools.enter(graph.nodes.len())?;
        let mut scope = Scope {
            turn,
            ..Scope::new(graph, self.pools)
        };
        for (&id, value) in graph.inputs.iter().zip(inputs) {
            scope.set(id, value);
        }
        for capture in &graph.captures {
            let value = self
                .get(capture.around)
                .ok_or_else(|| not_made(graph, capture.here))?;
            scope.set(capture.here, value.clone());
        }
        evaluate(&mut scope, graph).map_err(|error| NodeError::Inner(Box::new(error)))
    }
}

/// Evaluates all nodes, and gives the outputs.
pub fn evaluate(scope: &mut Scope<'_>, graph: &Graph) -> Result<Vec<Value>> {
    for node in &graph.nodes {
        step(scope, graph, node)?;
    }
    let outputs = graph.outputs.iter().map(|&id| {
        let value = scope.get(id).cloned();
        value.ok_or_else(|| Error::Graph(not_made(graph, id)))
    });
    outputs.collect()
}

/// Evaluates one node.
pub fn step(scope: &mut Scope<'_>, graph: &Graph, node: &Node) -> Result<()> {
    Budget::take_step()?;
    let made = outputs(scope, graph, node).map_err(|why| Error::Node {
        node: node.name.clone(),
        op: node.operator.to_string(),
        why: Box::new(why),
    })?;
    for (&id, value) in node.outputs.iter().zip(made) {
        if let Some(id) = id {
            scope.set(id, value);
        }
    }
    Ok(())
}

fn outputs(scope: &Scope<'_>, graph: &Graph, node: &Node) -> Values {
    #[expect(clippy::disallowed_methods, reason = "as many as there are already")]
    let mut inputs = Vec::with_capacity(node.inputs.len());
    for input in &node.inputs {
        inputs.push(match *input {
            None => None,
            Some(id) => Some(scope.get(id).cloned().ok_or_else(|| not_made(graph, id))?),
        });
    }
    let inner = |graph: &Graph, inputs: Vec<Value>, turn: u64| scope.inner(graph, inputs, turn);
    let call = Call::new(node, inputs, scope.pools, scope.turn, &inner);
    let outputs = nodes::evaluate(&call)?;
    let wanted = node
        .outputs
        .iter()
        .rposition(Option::is_some)
        .map_or(0, |last| last + 1);
    if outputs.len() < wanted {
        return Err(NodeError::unsupported(format_args!(
            "output {}",
            outputs.len()
        )));
    }
    for (&id, value) in node.outputs.iter().zip(&outputs) {
        if let Some(id) = id.filter(|id| graph.outputs.contains(id)) {
            as_declared(graph, id, value)?;
        }
    }
    Ok(outputs)
}

/// Refuses an output of another element type than its graph says.
fn as_declared(graph: &Graph, id: ValueId, value: &Value) -> Result<(), NodeError> {
    let Some(declared) = graph.value(id).dtype else {
        return Ok(());
    };
    let tensors = value.tensors();
    match tensors.iter().find(|tensor| tensor.dtype() != declared) {
        Some(tensor) => {
            let what = format_args!("output {:?}", graph.name(id));
            let expected = format!("{declared}, as it is declared");
            Err(NodeError::malformed(what, tensor.dtype(), expected))
        }
        None => Ok(()),
    }
}

fn not_made(graph: &Graph, id: ValueId) -> NodeError {
    NodeError::malformed(
        format_args!("value {:?}", graph.name(id)),
        "not made",
        "made before",
    )
}
