//! Fewer ops for the same: elementwise ops are joined with those that read them, and copies that only turn axes are left
//! out where the op before writes, or the op after reads, in any order.

use std::sync::Arc;

use streampool_device::{
    Binary, Compare, DType, Expr, ExprBuilder, Layout, Node, Norm, Op, Unary, Value, View,
};

use super::relaid::relaid;
use super::uses::{self, Uses};
use crate::trace::{ListedOp, Listing, Memory};

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
            *step.op = map;
        }
    }
    for place in 0..listing.steps.len() {
        while let Some((writer, joined)) = join_map(&listing.steps, place, &uses) {
            listing.merge(&mut uses, place, writer, joined);
            fused.maps += 1;
        }
        if let Some((writer, normalised)) = join_norm(&listing.steps, place, &uses) {
            listing.merge(&mut uses, place, writer, normalised);
            fused.maps += 1;
        }
        if let Some((writer, direct)) = write_turned(&listing.steps, place, &uses) {
            listing.merge(&mut uses, writer, place, direct);
            fused.copies += 1;
        }
        while let Some((writer, scaled)) = join_factor(&listing.steps, place, &uses) {
            listing.merge(&mut uses, place, writer, scaled);
            fused.maps += 1;
        }
    }
    for place in 0..listing.steps.len() {
        if let Some((copies, once)) = read_once(&listing.steps, place, &uses) {
            for copy in copies {
                listing.merge(&mut uses, place, copy, once.clone());
                fused.copies += 1;
            }
        }
    }
    for place in 0..listing.steps.len() {
        if let Some(readers) = read_uncopied(&listing.steps, place, &uses) {
            for (reader, direct) in readers {
                listing.merge(&mut uses, reader, place, direct);
            }
            fused.copies += 1;
        }
    }
    listing.steps.retain(|step| *step.op != Op::Nop);
    fused
}

impl Listing {
    /// Step `place` becomes `op`, which does what step `gone` did, too.
    pub(super) fn merge(&mut self, uses: &mut Uses, place: usize, gone: usize, op: Op) {
        uses.replace(place, &self.steps[place].op, &op);
        *self.steps[place].op = op;
        uses.replace(gone, &self.steps[gone].op, &Op::Nop);
        *self.steps[gone].op = Op::Nop;
        for node in std::mem::take(&mut self.steps[gone].nodes) {
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
        let mut inputs = made.inputs.iter();
        if writer >= place || !alike || !inputs.all(|input| uses.is_settled(input, writer, place)) {
            continue;
        }
        if let Some(op) = joined(&made, &reader, number) {
            return Some((writer, op));
        }
    }
    None
}

/// The normalisation at `place` of a sum, and where that is made. If others read it, they do so later: it writes the sum, too.
fn join_norm(steps: &[ListedOp], place: usize, uses: &Uses) -> Option<(usize, Op)> {
    let Op::Norm(norm) = &*steps[place].op else {
        return None;
    };
    if norm.added.is_some() || !uses::is_whole(&norm.src) {
        return None;
    }
    let writer = uses.writer(&norm.src).filter(|&writer| writer < place)?;
    let mut steps_there = uses.steps(&norm.src);
    if steps_there.any(|step| step != writer && step < place) {
        return None;
    }
    let is_alone = uses.only_reader(&norm.src) == Some(place);
    let made = Map::of(&steps[writer].op)?;
    let ([output], &[src, added]) = (made.outputs, made.inputs) else {
        return None;
    };
    let settled = (made.inputs.iter()).all(|input| uses.is_settled(input, writer, place));
    if !settled || !is_sum(made.expr) || output.dtype() != norm.src.dtype() {
        return None;
    }
    let as_src = |view: &View| laid_as(view, norm.src.layout());
    let op = Op::Norm(Norm {
        src: as_src(&src)?,
        added: Some(as_src(&added)?),
        sum: match is_alone {
            true => None,
            false => Some(as_src(output)?),
        },
        ..*norm
    });
    op.validate().is_ok().then_some((writer, op))
}

/// A view of the same elements with the strides of `layout`, from which those of axes of one element may differ.
fn laid_as(view: &View, layout: &Layout) -> Option<View> {
    let axes = view.shape().iter().zip(view.layout().strides());
    let same = axes
        .zip(layout.strides())
        .all(|((&size, own), stride)| size <= 1 || own == stride);
    if view.shape() != layout.shape() || !same {
        return None;
    }
    let layout = Layout::strided(view.shape(), layout.strides(), view.layout().offset()).ok()?;
    View::new(view.span(), view.dtype(), layout).ok()
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
    let Op::Copy { src, dst } = &*steps[place].op else {
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
    let out = match &*steps[writer].op {
        Op::Attention(attention) => attention.out,
        Op::MatMul(product) => product.out,
        _ => return None,
    };
    if !uses::is_whole(&out) {
        return None;
    }
    let layout = turned_back(src, dst, &out)?;
    let direct = View::new(dst.span(), dst.dtype(), layout).ok()?;
    let mut op = Op::clone(&steps[writer].op);
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

/// The attention at `place` on queries or keys that it alone reads and that are only multiplied by a number, which becomes part
/// of its scale; and where they are multiplied.
fn join_factor(steps: &[ListedOp], place: usize, uses: &Uses) -> Option<(usize, Op)> {
    let Op::Attention(attention) = &*steps[place].op else {
        return None;
    };
    [attention.query, attention.key]
        .iter()
        .enumerate()
        .find_map(|(number, view)| {
            let writer = uses.writer(view).filter(|&writer| writer < place)?;
            let made = Map::of(&steps[writer].op)?;
            let ([output], [input]) = (made.outputs, made.inputs) else {
                return None;
            };
            let alike = (input.shape(), input.dtype()) == (output.shape(), view.dtype());
            let alone =
                uses.only_reader(view) == Some(place) && uses.is_settled(input, writer, place);
            if !alike || !alone || !uses::is_whole(output) {
                return None;
            }
            let layout = relaid(view.layout(), input.layout())?;
            let direct = View::new(input.span(), input.dtype(), layout).ok()?;
            let mut attention = attention.clone();
            attention.scale *= factor(made.expr)?;
            match number {
                0 => attention.query = direct,
                _ => attention.key = direct,
            }
            let op = Op::Attention(attention);
            op.validate().is_ok().then_some((writer, op))
        })
}

/// What an expression multiplies its one input by, if that is all and makes nothing larger: what would have been infinite stays so.
fn factor(expr: &Expr) -> Option<f64> {
    let [output] = expr.outputs() else {
        return None;
    };
    times(expr, *output).filter(|&factor| factor != 0.0)
}

/// What `value` is times the input, at most once, but for rounding.
fn times(expr: &Expr, value: Value) -> Option<f64> {
    let node = |value: Value| expr.nodes()[value.index()].0;
    let number = |value: Value| match node(value) {
        Node::Const(number) => Some(number.to_f64()),
        _ => None,
    };
    let factor = match node(value) {
        Node::Input(0) => 1.0,
        Node::Cast(x) if holds(expr.dtype(value), expr.inputs()) => times(expr, x)?,
        Node::Binary(Binary::Mul, a, b) => match number(a) {
            Some(number) => number * times(expr, b)?,
            None => times(expr, a)? * number(b)?,
        },
        Node::Binary(Binary::Div, a, b) => times(expr, a)? / number(b)?,
        Node::Select(condition, _, x) if is_never(expr, condition) => times(expr, x)?,
        _ => return None,
    };
    (factor.abs() <= 1.0).then_some(factor)
}

/// Whether a type has all numbers of the inputs.
fn holds(dtype: DType, inputs: &[DType]) -> bool {
    let of = |&input: &DType| input == dtype || input.size() < dtype.size();
    dtype.is_float() && inputs.iter().all(of)
}

/// Whether this asks for a finite number beyond those of `f16`, of a number that is no larger than one of `f16`.
fn is_never(expr: &Expr, condition: Value) -> bool {
    let node = |value: Value| expr.nodes()[value.index()].0;
    let Node::Binary(Binary::And, a, b) = node(condition) else {
        return false;
    };
    let bounds = |value: Value, wanted: Compare, bound: f64| match node(value) {
        Node::Compare(compare, x, y) if compare == wanted => match (node(x), node(y)) {
            (Node::Unary(Unary::Abs, x), Node::Const(number)) => {
                number.to_f64() == bound && times(expr, x).is_some()
            }
            _ => false,
        },
        _ => false,
    };
    let (beyond, finite) = (
        |value| bounds(value, Compare::Gt, 65504.0),
        |value| bounds(value, Compare::Lt, f64::INFINITY),
    );
    let of_halves = expr.inputs().iter().all(|&dtype| dtype == DType::F16);
    of_halves && ((beyond(a) && finite(b)) || (beyond(b) && finite(a)))
}

/// Where the op at `place` only copies what attention reads: those that read it, reading what is copied, and where they are.
fn read_uncopied(steps: &[ListedOp], place: usize, uses: &Uses) -> Option<Vec<(usize, Op)>> {
    let Op::Copy { src, dst } = &*steps[place].op else {
        return None;
    };
    let plain = src.dtype() == dst.dtype() && uses::is_whole(dst);
    if !plain || uses.writer(dst) != Some(place) {
        return None;
    }
    let readers = uses.readers(dst)?;
    let last = *readers.iter().max()?;
    if !uses.is_settled(src, place, last) {
        return None;
    }
    let once = |&(place, reader): &(usize, &usize)| !readers[..place].contains(reader);
    let once = readers.iter().enumerate().filter(once);
    let direct = once.map(|(_, &reader)| {
        let Op::Attention(attention) = &*steps[reader].op else {
            return None;
        };
        let mut attention = attention.clone();
        for view in [
            &mut attention.query,
            &mut attention.key,
            &mut attention.value,
        ] {
            if view.span() == dst.span() {
                let layout = relaid(view.layout(), src.layout())?;
                *view = View::new(src.span(), src.dtype(), layout).ok()?;
            }
        }
        let op = Op::Attention(attention);
        let mut still = false;
        op.for_each_operand(|_, _, view| {
            still |= Memory::of(view.span()) == Memory::of(dst.span())
        });
        (!still && op.validate().is_ok()).then_some((reader, op))
    });
    direct.collect()
}

/// The attention at `place` on keys and values that copies repeat for groups of heads: one that reads them where they are once, and
/// where the copies are.
fn read_once(steps: &[ListedOp], place: usize, uses: &Uses) -> Option<([usize; 2], Op)> {
    let Op::Attention(attention) = &*steps[place].op else {
        return None;
    };
    let once = |view: &View| {
        let copy = uses.writer(view).filter(|&copy| copy < place)?;
        let Op::Copy { src, dst } = &*steps[copy].op else {
            return None;
        };
        let plain = src.dtype() == dst.dtype() && uses::is_whole(dst);
        let alone = uses.only_reader(view) == Some(place) && uses.is_settled(src, copy, place);
        let (read, made) = (view.layout(), dst.layout());
        let &[batch, heads, keys, width] = read.shape() else {
            return None;
        };
        let repeats = |&axis: &usize| {
            src.layout().strides()[axis] == 0
                && made.shape()[axis] > 1
                && made.strides()[axis] == read.strides()[1]
        };
        let axis = (0..made.rank()).find(repeats)?;
        let (times, step) = (made.shape()[axis], made.strides()[axis]);
        let begins = read.offset() / usize::try_from(step).ok()? % times == 0;
        if !plain || !alone || !begins || !heads.is_multiple_of(times) {
            return None;
        }
        let &[each, _, down, across] = read.strides() else {
            return None;
        };
        let strides = [
            each,
            step.checked_mul(isize::try_from(times).ok()?)?,
            down,
            across,
        ];
        let sizes = [batch, heads / times, keys, width];
        let first = Layout::strided(&sizes, &strides, read.offset()).ok()?;
        let layout = relaid(&first, src.layout())?;
        Some((copy, View::new(src.span(), src.dtype(), layout).ok()?))
    };
    let (of_key, key) = once(&attention.key)?;
    let (of_value, value) = once(&attention.value)?;
    let mut attention = attention.clone();
    (attention.key, attention.value) = (key, value);
    let op = Op::Attention(attention);
    op.validate().ok()?;
    Some(([of_key, of_value], op))
}

#[cfg(test)]
mod tests;
