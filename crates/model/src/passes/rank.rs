//! How many axes values have, as far as the graph tells.

use std::collections::HashMap;
use std::ops::Range;

use streampool_tensor::DType;

use crate::graph::{Domain, Graph, Node, ValueId};

/// How many axes a value has: at least so many, or exactly.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Rank {
    pub least: usize,
    pub exact: bool,
}

impl Rank {
    fn exactly(rank: usize) -> Rank {
        Rank {
            least: rank,
            exact: true,
        }
    }

    /// The rank, if it is certain.
    pub fn known(self) -> Option<usize> {
        self.exact.then_some(self.least)
    }

    /// The rank of what broadcasts both.
    fn with(self, other: Rank) -> Rank {
        Rank {
            least: self.least.max(other.least),
            exact: self.exact && other.exact,
        }
    }

    fn more(self, axes: usize) -> Rank {
        Rank {
            least: self.least + axes,
            ..self
        }
    }
}

/// What broadcasts its inputs.
const BROADCASTING: &str =
    "Add Sub Mul Div Pow Max Min Where Equal Less LessOrEqual Greater GreaterOrEqual And Or PRelu";

/// What gives as many axes as its first input has.
const KEEPING: &str = "Relu Sigmoid Tanh Erf Exp Log Sqrt Reciprocal Neg Abs Not Cast Clip Softmax HardSwish HardSigmoid LeakyRelu \
    Gelu Silu ScaleShift Slice Split Pad Concat LayerNormalization BatchNormalization InstanceNormalization MaxPool \
    AveragePool GlobalAveragePool GlobalMaxPool Resize Identity Trilu";

/// The ranks of the values of a graph whose nodes are in order.
pub fn ranks(graph: &Graph) -> Vec<Rank> {
    let mut finder = Finder {
        graph,
        ranks: vec![Rank::default(); graph.value_count()],
        lengths: HashMap::new(),
        lengths_in: HashMap::new(),
    };
    for &id in &graph.inputs {
        if let Some(shape) = &graph.value(id).shape {
            finder.ranks[id.index()] = Rank::exactly(shape.len());
        }
    }
    for (&id, tensor) in &graph.constants {
        finder.ranks[id.index()] = Rank::exactly(tensor.rank());
        if let &[length] = tensor.shape() {
            finder.lengths.insert(id, length);
        }
    }
    for node in &graph.nodes {
        let domain = node.operator.domain;
        let is_microsoft = domain == Domain::Microsoft && node.operator.name != "MatMulNBits";
        if is_microsoft || domain == Domain::Ml {
            continue;
        }
        let rank = finder.rank(node).unwrap_or_default();
        for id in node.outputs.iter().flatten() {
            finder.ranks[id.index()] = rank;
        }
        if let (Some(length), Some(&Some(id))) = (finder.length(node), node.outputs.first()) {
            finder.lengths.insert(id, length);
        }
        if let (true, Some(id), Some(input)) = (node.is("Shape"), node.output(0), node.input(0))
            && let Some(&length) = finder.lengths.get(&input)
            && finder.lengths.get(&id) == Some(&1)
        {
            finder.lengths_in.insert(id, length);
        }
    }
    finder.ranks
}

struct Finder<'a> {
    graph: &'a Graph,
    ranks: Vec<Rank>,
    /// Of some values of one axis, how long they are: shapes, most of the time.
    lengths: HashMap<ValueId, usize>,
    /// Of some of these with one element, what it is: how long another is.
    lengths_in: HashMap<ValueId, usize>,
}

impl Finder<'_> {
    fn input(&self, node: &Node, place: usize) -> Option<Rank> {
        Some(self.ranks[node.input(place)?.index()])
    }

    /// The rank of what a node makes.
    fn rank(&self, node: &Node) -> Option<Rank> {
        let input = |place: usize| self.input(node, place);
        Some(match &node.operator.name[..] {
            _ if node.is_among(BROADCASTING) => {
                let all = (0..node.inputs.len()).map(input);
                all.reduce(|all, rank| Some(all?.with(rank?)))??
            }
            "Transpose" => match node.ints("perm") {
                Some(order) => Rank::exactly(order.len()),
                None => input(0)?,
            },
            "MatMul" => {
                let (a, b) = (input(0)?, input(1)?);
                match (a.least, b.known()) {
                    (least, Some(2)) => Rank {
                        least: least.max(1),
                        ..a
                    },
                    (2.., _) if b.least >= 2 => a.with(b),
                    _ => return None,
                }
            }
            "MatMulNBits" => Rank {
                least: input(0)?.least.max(1),
                ..input(0)?
            },
            "Gemm" => Rank::exactly(2),
            "Conv" | "ConvTranspose" => input(1)?,
            "Unsqueeze" => input(0)?.more(self.axes(node)?),
            "Squeeze" => Rank {
                least: input(0)?.least.checked_sub(self.axes(node)?)?,
                ..input(0)?
            },
            "Reshape" => Rank::exactly(self.lengths.get(&node.input(1)?).copied()?),
            "Expand" => match self.lengths.get(&node.input(1)?) {
                Some(&length) => input(0)?.with(Rank::exactly(length)),
                None => Rank {
                    exact: false,
                    ..input(0)?
                },
            },
            "Gather" => {
                let (data, indices) = (input(0)?, input(1)?);
                Rank {
                    least: (data.least + indices.least).saturating_sub(1),
                    exact: data.exact && indices.exact,
                }
            }
            "ReduceMean" | "ReduceSum" | "ReduceMax" if node.int("keepdims", 1) != 0 => input(0)?,
            "Einsum" => {
                let (_, out) = node.string("equation", "").split_once("->")?;
                let named = !out.contains('.');
                let labels = out.chars().filter(|label| !label.is_whitespace());
                named.then(|| Rank::exactly(labels.count()))?
            }
            "Shape" | "Range" => Rank::exactly(1),
            "ConstantOfShape" => Rank::exactly(self.lengths.get(&node.input(0)?).copied()?),
            _ if node.is_among(KEEPING) => input(0)?,
            _ => return None,
        })
    }

    /// How many axes a node names.
    fn axes(&self, node: &Node) -> Option<usize> {
        let named = || self.lengths.get(&node.input(1)?).copied();
        node.ints("axes").map(<[i64]>::len).or_else(named)
    }

    /// The one number of an input that never changes.
    fn number(&self, node: &Node, place: usize) -> Option<i64> {
        let tensor = self.graph.constants.get(&node.input(place)?)?;
        tensor.to_dtype(DType::I64).ok()?.item::<i64>().ok()
    }

    /// How long the one axis is of what a node makes.
    fn length(&self, node: &Node) -> Option<usize> {
        let of = |id: &Option<ValueId>| self.lengths.get(&(*id)?).copied();
        match &node.operator.name[..] {
            "Shape" => {
                let rank = self.input(node, 0)?.known()?;
                Some(axes_of_shape(node, rank).len())
            }
            "Concat" => node.inputs.iter().map(of).sum(),
            "Cast" => of(node.inputs.first()?),
            "Unsqueeze" if self.input(node, 0)?.known() == Some(0) => Some(1),
            "Reshape" if self.number(node, 1)? == -1 => of(node.inputs.first()?),
            "ConstantOfShape" => self.lengths_in.get(&node.input(0)?).copied(),
            _ if node.is_among(BROADCASTING) => {
                let long = |id: &Option<ValueId>| match self.ranks[(*id)?.index()].known() {
                    Some(0) => Some(1),
                    _ => of(id),
                };
                let mut all = node.inputs.iter().map(long);
                all.try_fold(1, |most, length| {
                    Some(length.filter(|&length| length > 0)?.max(most))
                })
            }
            // One value of a list, for which no axis is left out.
            "Slice" => {
                let (start, end) = (self.number(node, 1)?, self.number(node, 2)?);
                let whole = of(node.inputs.first()?)?;
                let stepless = node.input(4).is_none() || self.number(node, 4)? == 1;
                stepless.then(|| part(whole, start, end).len())
            }
            _ => None,
        }
    }
}

/// Which of so many axes a `Shape` tells the sizes of.
pub fn axes_of_shape(node: &Node, rank: usize) -> Range<usize> {
    part(rank, node.int("start", 0), node.int("end", i64::MAX))
}

/// The places from `start` to `end` of `count`: those below zero are counted from the end, and those beyond are none.
pub fn part(count: usize, start: i64, end: i64) -> Range<usize> {
    let count = count as i64;
    let bound = |place: i64| {
        let place = if place < 0 {
            place.saturating_add(count)
        } else {
            place
        };
        place.clamp(0, count) as usize
    };
    bound(start)..bound(end).max(bound(start))
}
