//! Fewer ops for the same: elementwise ops are joined with those that read them, and copies that only turn axes are left
//! out where the op before writes, or the op after reads, in any order.

use std::sync::Arc;

use streampool_device::{Binary, Expr, ExprBuilder, Layout, Node, Norm, Op, Value, View};

use super::uses::{self, Uses};
use crate::trace::{ListedOp, Listing};

/// The most inputs of a joined expression: each is a pointer to walk along.
const MOST_INPUTS: usize = 8;

/// The most nodes of a joined expression.
const MOST_NODES: usize = 96;

/// What was joined and left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Fused {
    /// Elementwise ops that became part of another.
    pub maps: usize,
    /// Copies that were left out.
    pub copies: usize,
}

/// Joins what can be joined.
pub fn fuse(listing: &mut Listing) -> Fused {
    let mut uses = Uses::of(&listing.steps, uses::outputs(&listing.outputs));
    let mut fused = Fused::default();
    for step in &mut listing.steps {
        if let Some(map) = as_map(&step.op) {
            step.op = map;
        }
    }
    for place in 0..listing.steps.len() {
        while let Some((writer, joined)) = join_map(&listing.steps, place, &uses) {
            uses.replace(place, &listing.steps[place].op, &joined);
            uses.replace(writer, &listing.steps[writer].op, &Op::Nop);
            listing.steps[place].op = joined;
            listing.join(place, writer);
            fused.maps += 1;
        }
        if let Some((writer, normalised)) = join_norm(&listing.steps, place, &uses) {
            uses.replace(place, &listing.steps[place].op, &normalised);
            uses.replace(writer, &listing.steps[writer].op, &Op::Nop);
            listing.steps[place].op = normalised;
            listing.join(place, writer);
            fused.maps += 1;
        }
        if let Some((writer, direct)) = write_turned(&listing.steps, place, &uses) {
            uses.replace(writer, &listing.steps[writer].op, &direct);
            uses.replace(place, &listing.steps[place].op, &Op::Nop);
            listing.steps[writer].op = direct;
            listing.join(writer, place);
            fused.copies += 1;
        }
    }
    listing.steps.retain(|step| step.op != Op::Nop);
    fused
}

impl Listing {
    /// What step `gone` did is done by step `place`.
    pub(super) fn join(&mut self, place: usize, gone: usize) {
        let nodes = std::mem::take(&mut self.steps[gone].nodes);
        self.steps[gone].op = Op::Nop;
        for node in nodes {
            let own = &mut self.steps[place].nodes;
            if !own.contains(&node) {
                own.push(node);
            }
        }
    }
}

/// A casting copy as an elementwise op.
fn as_map(op: &Op) -> Option<Op> {
    let Op::Copy { src, dst } = op else {
        return None;
    };
    if src.dtype() == dst.dtype() || !uses::is_whole(dst) {
        return None;
    }
    let mut expr = Expr::builder();
    let x = expr.input(src.dtype()).ok()?;
    let y = expr.cast(x, dst.dtype()).ok()?;
    Some(Op::Map {
        expr: Arc::new(expr.finish(&[y]).ok()?),
        inputs: vec![*src],
        outputs: vec![*dst],
    })
}

/// An elementwise op of one group.
struct Map<'a> {
    expr: &'a Expr,
    inputs: &'a [View],
    outputs: &'a [View],
}

impl<'a> Map<'a> {
    fn of(op: &'a Op) -> Option<Map<'a>> {
        match op {
            Op::Map {
                expr,
                inputs,
                outputs,
            } if outputs.len() == expr.outputs().len() => Some(Map {
                expr,
                inputs,
                outputs,
            }),
            _ => None,
        }
    }
}

/// The elementwise op at `place` joined with one that makes what it alone reads, and where that one is.
fn join_map(steps: &[ListedOp], place: usize, uses: &Uses) -> Option<(usize, Op)> {
    let reader = Map::of(&steps[place].op)?;
    let shape = reader.outputs.first()?.shape();
    for (number, input) in reader.inputs.iter().enumerate() {
        if !uses::is_whole(input)
            || input.shape() != shape
            || uses.only_reader(input) != Some(place)
        {
            continue;
        }
        let Some(writer) = uses.writer(input) else {
            continue;
        };
        let Some(made) = Map::of(&steps[writer].op) else {
            continue;
        };
        let [output] = made.outputs else { continue };
        let alike = output.layout() == input.layout() && output.dtype() == input.dtype();
        if writer >= place || !alike || !made.inputs.iter().all(|input| uses.is_settled(input)) {
            continue;
        }
        if let Some(op) = joined(&made, &reader, number) {
            return Some((writer, op));
        }
    }
    None
}

/// The normalisation at `place` of the sum that it alone reads, and where that is made.
fn join_norm(steps: &[ListedOp], place: usize, uses: &Uses) -> Option<(usize, Op)> {
    let Op::Norm(norm) = &steps[place].op else {
        return None;
    };
    if norm.added.is_some()
        || !uses::is_whole(&norm.src)
        || uses.only_reader(&norm.src) != Some(place)
    {
        return None;
    }
    let writer = uses.writer(&norm.src).filter(|&writer| writer < place)?;
    let made = Map::of(&steps[writer].op)?;
    let ([output], &[src, added]) = (made.outputs, made.inputs) else {
        return None;
    };
    let alike = |view: &View| {
        (view.shape(), view.layout().strides(), view.dtype())
            == (
                norm.src.shape(),
                norm.src.layout().strides(),
                norm.src.dtype(),
            )
    };
    let fits = is_sum(made.expr)
        && [output, &src, &added].into_iter().all(alike)
        && made.inputs.iter().all(|input| uses.is_settled(input));
    let op = Op::Norm(Norm {
        src,
        added: Some(added),
        ..*norm
    });
    fits.then_some((writer, op))
}

/// Whether it is the sum of its two inputs.
fn is_sum(expr: &Expr) -> bool {
    let [output] = expr.outputs() else {
        return false;
    };
    let (Node::Binary(Binary::Add, a, b), _) = expr.nodes()[output.index()] else {
        return false;
    };
    let input = |value: Value| match expr.nodes()[value.index()] {
        (Node::Input(number), _) => Some(number),
        _ => None,
    };
    input(a).is_some() && input(b).is_some() && input(a) != input(b)
}

/// `reader` with its input `number` computed by `made`.
fn joined(made: &Map<'_>, reader: &Map<'_>, number: usize) -> Option<Op> {
    if made.expr.nodes().len() + reader.expr.nodes().len() > MOST_NODES {
        return None;
    }
    let mut joining = Joining {
        expr: Expr::builder(),
        inputs: Vec::new(),
    };
    let inner = joining.add(made, None)?;
    let value = inner[made.expr.outputs()[0].index()];
    let outer = joining.add(reader, Some((number, value)))?;
    if joining.inputs.len() > MOST_INPUTS {
        return None;
    }
    let outputs = reader
        .expr
        .outputs()
        .iter()
        .map(|output| outer[output.index()]);
    let outputs: Vec<Value> = outputs.collect();
    Some(Op::Map {
        expr: Arc::new(joining.expr.finish(&outputs).ok()?),
        inputs: joining.inputs.into_iter().map(|(view, _)| view).collect(),
        outputs: reader.outputs.to_vec(),
    })
}

/// An expression in the making, and what its inputs read.
struct Joining {
    expr: ExprBuilder,
    inputs: Vec<(View, Value)>,
}

impl Joining {
    /// Adds the nodes of an expression, one of whose inputs may be a value that is there already; gives the value of each.
    fn add(&mut self, map: &Map<'_>, given: Option<(usize, Value)>) -> Option<Vec<Value>> {
        let mut values: Vec<Value> = Vec::new();
        for &(node, dtype) in map.expr.nodes() {
            let of = |value: Value| values[value.index()];
            let value = match node {
                Node::Input(input) => match given {
                    Some((number, value)) if number == usize::from(input) => value,
                    _ => self.input(map.inputs[usize::from(input)])?,
                },
                Node::Const(value) => self.expr.constant(value, dtype).ok()?,
                Node::Unary(function, x) => self.expr.unary(function, of(x)).ok()?,
                Node::Binary(function, x, y) => self.expr.binary(function, of(x), of(y)).ok()?,
                Node::Compare(comparison, x, y) => {
                    self.expr.compare(comparison, of(x), of(y)).ok()?
                }
                Node::Select(condition, x, y) => {
                    self.expr.select(of(condition), of(x), of(y)).ok()?
                }
                Node::Cast(x) => self.expr.cast(of(x), dtype).ok()?,
            };
            values.push(value);
        }
        Some(values)
    }

    /// The value of an input; what is read already is not read again.
    fn input(&mut self, view: View) -> Option<Value> {
        if let Some(&(_, value)) = self.inputs.iter().find(|(other, _)| *other == view) {
            return Some(value);
        }
        let value = self.expr.input(view.dtype()).ok()?;
        self.inputs.push((view, value));
        Some(value)
    }
}

/// Where the op at `place` only copies what one op makes in another order: that op, writing in that order, and where it is.
fn write_turned(steps: &[ListedOp], place: usize, uses: &Uses) -> Option<(usize, Op)> {
    let Op::Copy { src, dst } = &steps[place].op else {
        return None;
    };
    if src.dtype() != dst.dtype() || !uses::is_whole(dst) || uses.only_reader(src) != Some(place) {
        return None;
    }
    // What another step wrote before would be on top.
    if uses.writer(dst) != Some(place) {
        return None;
    }
    let writer = uses.writer(src)?;
    let out = match &steps[writer].op {
        Op::Attention(attention) => attention.out,
        Op::MatMul(product) => product.out,
        _ => return None,
    };
    if !uses::is_whole(&out) {
        return None;
    }
    let layout = turned_back(src, dst, &out)?;
    let direct = View::new(dst.span(), dst.dtype(), layout).ok()?;
    let mut op = steps[writer].op.clone();
    match &mut op {
        Op::Attention(attention) => attention.out = direct,
        Op::MatMul(product) => product.out = direct,
        _ => return None,
    }
    op.validate().ok()?;
    Some((writer, op))
}

/// How `out`, which a copy reads as `src` and writes as `dst`, lies in the memory of `dst`.
fn turned_back(src: &View, dst: &View, out: &View) -> Option<Layout> {
    let (read, made) = (src.layout(), out.layout());
    if read.rank() != made.rank() || read.offset() != 0 {
        return None;
    }
    let mut strides = vec![0; made.rank()];
    let mut taken = vec![false; made.rank()];
    for axis in 0..read.rank() {
        let same = |other: &usize| {
            !taken[*other]
                && made.shape()[*other] == read.shape()[axis]
                && made.strides()[*other] == read.strides()[axis]
        };
        let other = (0..made.rank()).find(same)?;
        taken[other] = true;
        strides[other] = dst.layout().strides()[axis];
    }
    Layout::strided(made.shape(), &strides, 0).ok()
}

#[cfg(test)]
mod tests;
