//! Several products of one value, with matrices side by side: query, key and value of attention, most of the time.

use std::collections::HashMap;

use streampool_tensor::{DType, Tensor};

use super::editor::{Editor, fused, with_operator};
use super::linear::is_linear;
use crate::graph::{Domain, Node, Operator, ValueId, ValueInfo};

/// Products that are one if their matrices are joined.
#[derive(PartialEq, Eq, Hash)]
struct Alike {
    x: ValueId,
    rows: usize,
    /// Those that feed attention are joined whatever their widths.
    columns: Option<usize>,
    dtype: DType,
    activation: String,
    alpha: u32,
}

/// All at once, when the sweep begins.
pub fn fuse(editor: &mut Editor<'_>, place: usize) -> Option<()> {
    if place > 0 {
        return None;
    }
    let feeding = feeding_attention(editor);
    let mut groups: HashMap<Alike, Vec<usize>> = HashMap::new();
    for (place, &feeds) in feeding.iter().enumerate() {
        let Some(alike) = editor
            .node(place)
            .and_then(|node| alike(editor, node, feeds))
        else {
            continue;
        };
        groups.entry(alike).or_default().push(place);
    }
    let mut groups: Vec<Vec<usize>> = groups
        .into_values()
        .filter(|group| group.len() > 1)
        .collect();
    groups.sort_unstable();
    for group in groups {
        // `None` says that the matrices could not be joined; then they stay as they are.
        let _ = pack(editor, &group);
    }
    Some(())
}

fn alike(editor: &Editor<'_>, node: &Node, feeds: bool) -> Option<Alike> {
    if !is_linear(node) {
        return None;
    }
    let weight = editor.constant(node.input(1)?)?;
    let &[rows, columns] = weight.shape() else {
        return None;
    };
    Some(Alike {
        x: node.input(0)?,
        rows,
        columns: (!feeds).then_some(columns),
        dtype: weight.dtype(),
        activation: node.string("activation", "none").to_owned(),
        alpha: node.float("alpha", 1.0).to_bits(),
    })
}

/// How many nodes may lie between a product and attention.
const STEPS: usize = 12;

/// For each place, whether a product is there that attention takes, turned and scaled.
fn feeding_attention(editor: &Editor<'_>) -> Vec<bool> {
    let mut feeding = vec![false; editor.len()];
    for place in 0..editor.len() {
        let Some(node) = editor.node(place) else {
            continue;
        };
        if node.operator.domain != Domain::Fused || node.operator.name != "Attention" {
            continue;
        }
        for id in node.inputs.iter().take(3).flatten() {
            let mut id = *id;
            for _ in 0..STEPS {
                let Some((place, maker)) = editor.maker(id) else {
                    break;
                };
                feeding[place] = is_linear(maker);
                let turns = matches!(
                    &maker.operator.name[..],
                    "Reshape"
                        | "Transpose"
                        | "Squeeze"
                        | "Unsqueeze"
                        | "Expand"
                        | "Mul"
                        | "Div"
                        | "Rotary"
                );
                let Some(next) = maker.input(0).filter(|_| turns) else {
                    break;
                };
                id = next;
            }
        }
    }
    feeding
}

/// Joins the products at these places: one takes the place of the first, and its result is split.
fn pack(editor: &mut Editor<'_>, places: &[usize]) -> Option<()> {
    let nodes: Vec<Node> = places
        .iter()
        .filter_map(|&place| editor.node(place).cloned())
        .collect();
    let first = nodes.first()?;
    let constant = |node: &Node, place: usize| editor.constant(node.input(place)?).cloned();
    let weights: Vec<Tensor> = nodes.iter().filter_map(|node| constant(node, 1)).collect();
    let widths: Vec<i64> = weights
        .iter()
        .map(|weight| weight.shape()[1] as i64)
        .collect();
    let weight = Tensor::cat(&weights.iter().collect::<Vec<_>>(), 1).ok()?;
    let mut inputs = vec![first.input(0), None];
    let bias = match nodes.iter().any(|node| node.input(2).is_some()) {
        false => None,
        true => {
            let mut biases = Vec::new();
            for (node, weight) in nodes.iter().zip(&weights) {
                biases.push(match node.input(2) {
                    Some(id) => editor.constant(id)?.clone(),
                    None => {
                        Tensor::zeros(editor.pool(), &weight.shape()[1..], weight.dtype()).ok()?
                    }
                });
            }
            Some(Tensor::cat(&biases.iter().collect::<Vec<_>>(), 0).ok()?)
        }
    };
    let sizes = Tensor::from_slice(editor.pool(), &widths, &[widths.len()]).ok()?;
    let name = first.name.clone();
    inputs[1] = Some(editor.add_constant(format!("{name}.weights"), weight));
    if let Some(bias) = bias {
        inputs.push(Some(editor.add_constant(format!("{name}.biases"), bias)));
    }
    let sizes = editor.add_constant(format!("{name}.widths"), sizes);
    let rank = editor.rank(first.input(0)?);
    let packed = editor.add_value(ValueInfo::named(format!("{name}.packed")), rank);
    let mut new = fused("Linear", first, inputs);
    new.outputs = vec![Some(packed)];
    new.attributes.clone_from(&first.attributes);
    let mut split = with_operator(
        Operator::onnx("Split", 13),
        first,
        vec![Some(packed), Some(sizes)],
    );
    split.name = format!("{name}.split");
    split.outputs = nodes.iter().map(|node| node.output(0)).collect();
    split.set("axis", -1);
    editor.take_over("packed_linear", places[0], &places[1..], new);
    editor.add_node(split);
    Some(())
}
