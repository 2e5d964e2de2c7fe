//! Values that are put together time and again with one more at the end, as dense blocks do: each takes what the one before made.

use std::collections::HashMap;

use super::editor::{Editor, with_operator};
use crate::graph::{Node, ValueId};

/// The axis and the values of a node that puts several together.
fn parts(node: &Node) -> Option<(i64, &[Option<ValueId>])> {
    (node.is("Concat") && node.inputs.iter().all(Option::is_some))
        .then(|| (node.int("axis", 0), &node.inputs[..]))
}

/// All at once, when the sweep begins.
pub fn fuse(editor: &mut Editor<'_>, place: usize) -> Option<()> {
    if place > 0 {
        return None;
    }
    let nodes = (0..editor.len()).filter_map(|place| Some((place, editor.node(place)?)));
    let all: Vec<(usize, Node)> = nodes
        .filter(|(_, node)| parts(node).is_some())
        .map(|(place, node)| (place, node.clone()))
        .collect();
    let known: HashMap<_, _> = all
        .iter()
        .filter_map(|(_, node)| Some((parts(node)?, node.output(0)?)))
        .collect();
    for (place, node) in &all {
        let (axis, values) = parts(node)?;
        let begun = |count: usize| Some((count, *known.get(&(axis, &values[..count]))?));
        let Some((count, made)) = (2..values.len()).rev().find_map(begun) else {
            continue;
        };
        let inputs = [&[Some(made)], &values[count..]].concat();
        let mut new = with_operator(node.operator.clone(), node, inputs);
        new.attributes.clone_from(&node.attributes);
        editor.take_over("concat", *place, &[], new);
    }
    Some(())
}
