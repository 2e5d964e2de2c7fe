//! Einstein sums that are products of matrices, as attention and linear layers are written with them.

use streampool_device::MAX_RANK;
use streampool_tensor::Tensor;
use streampool_tensor::room::copied;

use super::editor::{Editor, with_operator};
use crate::graph::{Attribute, Node, Operator, ValueId, ValueInfo};

/// A product of matrices: which operand is first, and whether the last two axes of the other change places before.
struct Product {
    first: usize,
    turned: bool,
}

pub fn fuse(editor: &mut Editor<'_>, place: usize) -> Option<()> {
    let node = editor.node(place)?;
    let pair = node.pair().filter(|_| node.is("Einsum"))?;
    let Product { first, turned } = product(node.string("equation", ""))?;
    let (a, mut b) = (pair[first], pair[1 - first]);
    let old = node.clone();
    if turned {
        b = transposed(editor, b, &old)?;
    }
    let new = with_operator(Operator::onnx("MatMul", 13), &old, vec![Some(a), Some(b)]);
    editor.take_over("einsum", place, &[], new);
    Some(())
}

/// What an equation says, where that is one product of matrices.
fn product(equation: &str) -> Option<Product> {
    let equation: String = equation.split_whitespace().collect();
    let (operands, out) = equation.split_once("->")?;
    let (a, b) = operands.split_once(',')?;
    let once = |labels: &str| {
        let mut letters = labels.chars();
        let known = letters.all(|letter| letter.is_ascii_alphabetic());
        known
            && labels
                .char_indices()
                .all(|(at, letter)| labels.find(letter) == Some(at))
    };
    if ![a, b, out].into_iter().all(once) {
        return None;
    }
    let of = |a: &str, b: &str| {
        let (rows, inner) = a.split_at_checked(a.len().checked_sub(1)?)?;
        let (kept, column) = out.split_at_checked(out.len().checked_sub(1)?)?;
        let (outer, matrix) = b.split_at_checked(b.len().checked_sub(2)?)?;
        // A matrix for all, or one for each of as many.
        let fits = outer.is_empty() || rows.len() == outer.len() + 1 && rows.starts_with(outer);
        if rows.is_empty() || kept != rows || !fits || a.contains(column) || out.contains(inner) {
            return None;
        }
        match () {
            () if matrix.strip_prefix(inner) == Some(column) => Some(false),
            () if matrix.strip_suffix(inner) == Some(column) => Some(true),
            () => None,
        }
    };
    let found = |first: usize, turned: Option<bool>| {
        Some(Product {
            first,
            turned: turned?,
        })
    };
    found(0, of(a, b)).or_else(|| found(1, of(b, a)))
}

/// A value with its last two axes the other way round.
fn transposed(editor: &mut Editor<'_>, id: ValueId, old: &Node) -> Option<ValueId> {
    let name = format!("{}.transposed", old.name);
    if let Some(tensor) = editor.constant(id) {
        let tensor: Tensor = tensor.transpose(-2, -1).ok()?.contiguous().ok()?;
        return Some(editor.add_constant(name, tensor));
    }
    let rank = editor.rank(id);
    let axes = rank.known()?;
    let mut order: [i64; MAX_RANK] = std::array::from_fn(|axis| axis as i64);
    let order = order.get_mut(..axes)?;
    order.swap(axes.checked_sub(2)?, axes - 1);
    let order = copied(order).ok()?;
    let made = editor.add_value(ValueInfo::named(name.clone()), rank);
    let mut node = with_operator(Operator::onnx("Transpose", 13), old, vec![Some(id)]);
    node.name = name;
    node.outputs = vec![Some(made)];
    node.set("perm", Attribute::Ints(order));
    editor.add_node(node);
    Some(made)
}
