//! Constant matrices of few bits, widened once when a model is loaded.

use super::editor::{Editor, fused};
use crate::graph::Domain;
use crate::nodes::FewBits;

/// A product with such a matrix becomes a linear layer.
pub fn fuse(editor: &mut Editor<'_>, place: usize) -> Option<()> {
    let node = editor.node(place)?;
    let is_product =
        node.operator.domain == Domain::Microsoft && node.operator.name == "MatMulNBits";
    if !is_product || node.input(4).is_some() {
        return None;
    }
    let size = |name, default| usize::try_from(node.int(name, default)).ok();
    let blocks = FewBits {
        bits: size("bits", 4)?,
        size: size("block_size", 0)?,
        rows: size("N", 0)?,
        columns: size("K", 0)?,
    };
    let (packed, scales) = (
        editor.constant(node.input(1)?)?,
        editor.constant(node.input(2)?)?,
    );
    let zeros = match node.input(3) {
        Some(id) => Some(editor.constant(id)?),
        None => None,
    };
    // What cannot be widened is told by the node itself.
    let weight = blocks
        .widened(packed, scales, zeros)
        .ok()?
        .transpose(0, 1)
        .ok()?;
    let node = node.clone();
    let weight = editor.add_constant(format!("{}.weight", node.name), weight);
    let mut inputs = vec![node.input(0), Some(weight)];
    inputs.extend(node.input(5).map(Some));
    let new = fused("Linear", &node, inputs);
    editor.replace("few_bits", place, &[], new)
}
