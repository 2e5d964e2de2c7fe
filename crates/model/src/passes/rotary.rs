//! Rotary position embedding from its pieces: half of each row is turned by the other half.

use super::editor::{Editor, fused};
use crate::graph::{Node, ValueId};

/// Ends with the sum of `x` times cosines and turned `x` times sines.
pub fn fuse(editor: &mut Editor<'_>, place: usize) -> Option<()> {
    let node = editor.node(place)?;
    let [a, b] = node.pair().filter(|_| node.is("Add"))?;
    let (nodes, inputs, [half, end]) = rotated(editor, a, b).or_else(|| rotated(editor, b, a))?;
    let [x, cos, sin] = inputs.map(Some);
    let mut new = fused("Rotary", node, vec![x, cos, sin]);
    new.set("half", half);
    new.set("end", end);
    editor.replace("rotary", place, &nodes, new)
}

/// The nodes behind `kept`, which is `x` times cosines, and `turned`, which is turned `x` times sines; `x`, cosines and
/// sines; and where the second half of `x` begins and ends.
fn rotated(
    editor: &Editor<'_>,
    kept: ValueId,
    turned: ValueId,
) -> Option<(Vec<usize>, [ValueId; 3], [i64; 2])> {
    let (keeping, product) = editor.made_by(kept, "Mul")?;
    let kept = product.pair()?;
    let (turning, product) = editor.made_by(turned, "Mul")?;
    let turned = product.pair()?;
    let choices = [(0, 0), (0, 1), (1, 0), (1, 1)];
    choices.into_iter().find_map(|(from, swapped)| {
        let (x, cos) = (kept[from], kept[1 - from]);
        let (swapped, sin) = (turned[swapped], turned[1 - swapped]);
        let (mut nodes, halves) = halves_swapped(editor, swapped, x)?;
        nodes.extend([keeping, turning]);
        Some((nodes, [x, cos, sin], halves))
    })
}

/// The nodes that put the second half of `x`, negated, before its first half, and where that second half begins and ends.
fn halves_swapped(editor: &Editor<'_>, id: ValueId, x: ValueId) -> Option<(Vec<usize>, [i64; 2])> {
    let (joining, node) = editor.made_by(id, "Concat")?;
    let [negated, first] = node.pair()?;
    let rank = editor.rank(x).known()?;
    let is_last =
        |axis: i64| axis == -1 || usize::try_from(axis).is_ok_and(|axis| axis + 1 == rank);
    let (negating, negation) = editor.made_by(negated, "Neg")?;
    let (ending, second) = editor.made_by(negation.input(0)?, "Slice")?;
    let (beginning, first) = editor.made_by(first, "Slice")?;
    let along_last = |node: &Node| {
        let one = |place: usize| match editor.integers(node.input(place)?)?[..] {
            [one] => Some(one),
            _ => None,
        };
        let is_plain = node.input(0) == Some(x)
            && is_last(one(3)?)
            && (node.input(4).is_none() || one(4) == Some(1));
        is_plain.then_some((one(1)?, one(2)?))
    };
    let (from, middle) = along_last(first)?;
    let (half, end) = along_last(second)?;
    let fits = is_last(node.int("axis", 0)) && from == 0 && middle == half;
    // Counted from the front, both of them.
    let counted = 0 < half && half <= end;
    (fits && counted).then(|| (vec![joining, negating, ending, beginning], [half, end]))
}
