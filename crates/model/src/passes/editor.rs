//! A graph under rewriting: who makes a value, how often it is read, and the one way to put a node for several.

use std::collections::HashMap;

use streampool_tensor::{DType, Pool, Tensor};

use super::identity;
use super::rank::{Rank, ranks};
use super::report::Fusion;
use crate::graph::{Graph, Node, Operator, ValueId, ValueInfo};

/// A graph whose nodes are being rewritten.
pub struct Editor<'a> {
    graph: &'a mut Graph,
    pool: &'a Pool,
    nodes: Vec<Slot>,
    /// For each value, the node that makes it.
    makers: Vec<Option<usize>>,
    /// For each value, how often it is read.
    uses: Vec<usize>,
    ranks: Vec<Rank>,
    types: HashMap<ValueId, DType>,
}

/// A node's place.
#[derive(Default)]
struct Slot {
    node: Option<Node>,
    /// What it was made of, if it was made here.
    made_of: Option<(&'static str, Vec<String>)>,
}

impl<'a> Editor<'a> {
    /// Takes the nodes out of a graph whose constants are in `pool`.
    pub fn new(graph: &'a mut Graph, pool: &'a Pool) -> Editor<'a> {
        let (ranks, types) = (ranks(graph), identity::types(graph));
        let mut makers = vec![None; graph.value_count()];
        let mut uses = vec![0; graph.value_count()];
        for (place, node) in graph.nodes.iter().enumerate() {
            for id in node.outputs.iter().flatten() {
                makers[id.index()] = Some(place);
            }
            for id in node.reads() {
                uses[id.index()] += 1;
            }
        }
        for id in &graph.outputs {
            uses[id.index()] += 1;
        }
        let nodes = std::mem::take(&mut graph.nodes).into_iter();
        let slot = |node| Slot {
            node: Some(node),
            made_of: None,
        };
        Editor {
            nodes: nodes.map(slot).collect(),
            graph,
            pool,
            makers,
            uses,
            ranks,
            types,
        }
    }

    /// Gives the graph its nodes back, not sorted, and says what became one.
    pub fn finish(self) -> Vec<Fusion> {
        let mut fusions = Vec::new();
        for slot in self.nodes {
            let Some(node) = slot.node else { continue };
            if let Some((what, nodes)) = slot.made_of.filter(|(_, nodes)| nodes.len() > 1) {
                let name = node.name.clone();
                fusions.push(Fusion { what, name, nodes });
            }
            self.graph.nodes.push(node);
        }
        fusions
    }

    /// How many places of nodes there are.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// The pool of constants.
    pub fn pool(&self) -> &'a Pool {
        self.pool
    }

    /// The node at a place, if it was not fused.
    pub fn node(&self, place: usize) -> Option<&Node> {
        self.nodes.get(place)?.node.as_ref()
    }

    /// The node that makes a value first of all, and its place.
    pub fn maker(&self, id: ValueId) -> Option<(usize, &Node)> {
        let place = self.makers[id.index()]?;
        let node = self.node(place)?;
        (node.outputs.first() == Some(&Some(id))).then_some((place, node))
    }

    /// The node that makes a value, if it is this operator of ONNX.
    pub fn made_by(&self, id: ValueId, op: &str) -> Option<(usize, &Node)> {
        self.maker(id).filter(|(_, node)| node.is(op))
    }

    /// How often a value is read.
    pub fn uses(&self, id: ValueId) -> usize {
        self.uses[id.index()]
    }

    /// The rank of a value.
    pub fn rank(&self, id: ValueId) -> Rank {
        self.ranks[id.index()]
    }

    /// The type of a value, if it was certain before anything was rewritten.
    pub fn dtype(&self, id: ValueId) -> Option<DType> {
        self.types.get(&id).copied()
    }

    /// A value that never changes.
    pub fn constant(&self, id: ValueId) -> Option<&Tensor> {
        self.graph.constants.get(&id)
    }

    /// The integers of a value that never changes.
    pub fn integers(&self, id: ValueId) -> Option<Vec<i64>> {
        self.constant(id)?.to_dtype(DType::I64).ok()?.to_vec().ok()
    }

    /// The one number of a value that never changes, whatever its rank.
    pub fn number(&self, id: ValueId) -> Option<f64> {
        let tensor = self
            .constant(id)
            .filter(|tensor| tensor.elem_count() == 1)?;
        tensor.to_dtype(DType::F64).ok()?.item().ok()
    }

    /// Whether a constant meets `other` without giving it more axes.
    pub fn adds_no_axis(&self, constant: ValueId, other: ValueId) -> bool {
        let rank = self.rank(constant);
        rank.exact && rank.least <= self.rank(other).least
    }

    /// The two inputs of a node, the second a number that gives the first no axis.
    pub fn ordered(&self, node: &Node) -> Option<(ValueId, f64)> {
        let [a, b] = node.pair()?;
        let number = self.number(b)?;
        self.adds_no_axis(b, a).then_some((a, number))
    }

    /// The two inputs of a node, one of them a number that gives the other no axis.
    pub fn with_number(&self, node: &Node) -> Option<(ValueId, f64)> {
        self.ordered(node).or_else(|| {
            let [a, b] = node.pair()?;
            let number = self.number(a)?;
            self.adds_no_axis(a, b).then_some((b, number))
        })
    }

    /// The two inputs of a node of which at least one is a constant: the other, and that.
    pub fn with_constant(&self, node: &Node) -> Option<(ValueId, ValueId)> {
        let [a, b] = node.pair()?;
        match (self.constant(a), self.constant(b)) {
            (_, Some(_)) => Some((a, b)),
            (Some(_), None) => Some((b, a)),
            (None, None) => None,
        }
    }

    /// A new value that never changes.
    pub fn add_constant(&mut self, name: String, tensor: Tensor) -> ValueId {
        let rank = Rank {
            least: tensor.rank(),
            exact: true,
        };
        let info = ValueInfo {
            dtype: Some(tensor.dtype()),
            ..ValueInfo::named(name)
        };
        let id = self.add_value(info, rank);
        self.graph.constants.insert(id, tensor);
        id
    }

    /// A new value.
    pub fn add_value(&mut self, info: ValueInfo, rank: Rank) -> ValueId {
        let id = self.graph.add_value(info);
        self.makers.push(None);
        self.uses.push(0);
        self.ranks.push(rank);
        id
    }

    /// A new node beside those that were there.
    pub fn add_node(&mut self, node: Node) {
        self.count(&node, 1);
        for id in node.outputs.iter().flatten() {
            self.makers[id.index()] = Some(self.nodes.len());
        }
        self.nodes.push(Slot {
            node: Some(node),
            made_of: None,
        });
    }

    /// Puts `node` for the one at `root` and those at `inner`, if nobody else, nor it, reads what the latter make. What
    /// the new node makes is what the old one made.
    pub fn replace(
        &mut self,
        what: &'static str,
        root: usize,
        inner: &[usize],
        node: Node,
    ) -> Option<()> {
        let mut inner = inner.to_vec();
        inner.sort_unstable();
        inner.dedup();
        if !self.closed(root, &inner) || self.reads_made(&node, &inner) {
            return None;
        }
        self.take_over(what, root, &inner, node);
        Some(())
    }

    /// As [`replace`](Self::replace), whoever reads what is made.
    pub fn take_over(&mut self, what: &'static str, root: usize, inner: &[usize], node: Node) {
        self.count(&node, 1);
        let mut names = Vec::new();
        for &place in inner.iter().chain([&root]) {
            let slot = std::mem::take(&mut self.nodes[place]);
            if let Some(old) = slot.node {
                self.count(&old, -1);
                match slot.made_of {
                    Some((_, made_of)) => names.extend(made_of),
                    None => names.push(old.name),
                }
            }
        }
        for id in node.outputs.iter().flatten() {
            self.makers[id.index()] = Some(root);
        }
        self.nodes[root] = Slot {
            node: Some(node),
            made_of: Some((what, names)),
        };
    }

    /// Whether what the nodes at `inner` make is read by them and `root` alone.
    fn closed(&self, root: usize, inner: &[usize]) -> bool {
        let nodes = || {
            inner
                .iter()
                .chain([&root])
                .filter_map(|&place| self.node(place))
        };
        let made = inner.iter().filter_map(|&place| self.node(place));
        let mut made = made.flat_map(|node| node.outputs.iter().flatten());
        made.all(|id| {
            let reads = nodes()
                .flat_map(|node| node.reads())
                .filter(|read| read == id);
            reads.count() == self.uses(*id)
        })
    }

    /// Whether a node reads what those at `inner` make, which would be gone.
    fn reads_made(&self, node: &Node, inner: &[usize]) -> bool {
        let made = |id: ValueId| self.makers[id.index()];
        let mut reads = node.reads();
        reads.any(|id| made(id).is_some_and(|place| inner.contains(&place)))
    }

    fn count(&mut self, node: &Node, change: isize) {
        for id in node.reads() {
            let uses = &mut self.uses[id.index()];
            *uses = uses.saturating_add_signed(change);
        }
    }
}

/// A node for `old`, of an operator of ours.
pub fn fused(op: &str, old: &Node, inputs: Vec<Option<ValueId>>) -> Node {
    with_operator(Operator::fused(op), old, inputs)
}

/// A node for `old`, of some operator.
pub fn with_operator(operator: Operator, old: &Node, inputs: Vec<Option<ValueId>>) -> Node {
    Node {
        name: old.name.clone(),
        operator,
        inputs,
        outputs: old.outputs.clone(),
        attributes: Vec::new(),
    }
}

/// Whether a number of a file is meant to be `expected`.
pub fn close(number: f64, expected: f64) -> bool {
    (number - expected).abs() <= 2e-4 * expected.abs()
}
