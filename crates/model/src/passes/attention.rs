//! Attention from its pieces.

use streampool_device::MAX_RANK;
use streampool_tensor::Tensor;

use super::activation::from_last;
use super::editor::{Editor, fused, with_operator};
use super::rank::Rank;
use super::sizes::{Size, sizes};
use crate::graph::{Attribute, Node, Operator, ValueId, ValueInfo};

/// No finite score is lower by so much that this would count beside it. -1e9 would: scores may be lower still.
const OUT_OF_REACH: f64 = -3e38;

/// What the softmax is taken of.
struct Scores {
    query: ValueId,
    key: ValueId,
    scale: f64,
    mask: Option<Mask>,
    /// A mask for each of several windows.
    windows: Option<Windows>,
    nodes: Vec<usize>,
}

/// Scores are parted into windows that follow one another, to each of which a mask is added, and then joined again.
struct Windows {
    mask: ValueId,
    parted: Vec<i64>,
    joined: Vec<i64>,
}

#[derive(Clone, Copy)]
enum Mask {
    Added(ValueId),
    /// One, and then the other.
    BothAdded([ValueId; 2]),
    /// Where this says so, or does not, this takes the place of the scores.
    Filled {
        condition: ValueId,
        fill: ValueId,
        where_true: bool,
    },
}

/// Ends with the product of softmax and values.
pub fn fuse(editor: &mut Editor<'_>, place: usize) -> Option<()> {
    let node = editor.node(place)?;
    let [weights, value] = node.pair().filter(|_| node.is("MatMul"))?;
    let (weights, clearing) = cleared(editor, weights);
    let (softmax_place, softmax) = editor.made_by(weights, "Softmax")?;
    let default = if softmax.operator.version < 13 { 1 } else { -1 };
    if from_last(editor, softmax, default)? != -1 {
        return None;
    }
    let mut scores = scores(editor, softmax.input(0)?)?;
    scores.nodes.push(softmax_place);
    let is_cleared = !clearing.is_empty();
    scores.nodes.extend(clearing);
    let rank = editor
        .rank(scores.query)
        .known()
        .filter(|rank| (3..=MAX_RANK).contains(rank))?;
    if [scores.key, value]
        .iter()
        .any(|&id| editor.rank(id).known() != Some(rank))
    {
        return None;
    }
    let (key, turned) = match untransposed(editor, scores.key) {
        Some(key) => (key, false),
        None => (scores.key, true),
    };
    let mut inputs = vec![Some(scores.query), Some(key), Some(value)];
    let masks: &[ValueId] = match &scores.mask {
        None => &[],
        Some(Mask::Added(mask)) => &[*mask],
        Some(Mask::BothAdded(masks)) => masks,
        Some(Mask::Filled { condition, .. }) => &[*condition],
    };
    // Where it has more than that is found when it is computed, by its pieces then.
    if masks.iter().any(|&mask| editor.rank(mask).least > rank) {
        return None;
    }
    // It is read by what takes the place of the nodes.
    let of_windows = scores.windows.iter().map(|windows| &windows.mask);
    if masks
        .iter()
        .chain(of_windows)
        .any(|&mask| made_within(editor, mask, &scores.nodes))
    {
        return None;
    }
    let old = node.clone();
    let scale = Tensor::scalar(editor.pool(), scores.scale).ok()?;
    let mut fill_where = None;
    let mut beside = Vec::new();
    let mask = match scores.mask {
        Some(Mask::BothAdded(masks)) => {
            let rank = masks.map(|mask| editor.rank(mask));
            let rank = Rank {
                least: rank[0].least.max(rank[1].least),
                exact: rank[0].exact && rank[1].exact,
            };
            let (sum, node) = shared(editor, Operator::onnx("Add", 14), &masks, rank, &old);
            beside.extend(node);
            Some(Mask::Added(sum))
        }
        mask => mask,
    };
    match mask {
        None | Some(Mask::BothAdded(_)) => {}
        Some(Mask::Added(bias)) if scores.windows.is_some() => inputs.push(Some(bias)),
        // Attention makes zeros of such rows, as what clears them does.
        Some(Mask::Added(mask)) if is_cleared => inputs.push(Some(mask)),
        Some(Mask::Added(mask)) => {
            let rank = editor.rank(mask);
            let (made, node) = shared(editor, Operator::fused("EmptyRows"), &[mask], rank, &old);
            inputs.push(Some(made));
            beside.extend(node);
        }
        Some(Mask::Filled {
            condition,
            fill,
            where_true,
        }) => {
            inputs.extend([Some(condition), Some(fill)]);
            fill_where = Some(where_true);
        }
    }
    if let Some(windows) = &scores.windows {
        if scores.mask.is_none() {
            inputs.push(None);
        }
        // No number that a mask fills with.
        inputs.extend([None, Some(windows.mask)]);
    }
    let mut new = fused("Attention", &old, inputs);
    new.set("scale", scale);
    new.set("key_transposed", i64::from(turned));
    new.set("empty_rows_are_zero", i64::from(is_cleared));
    if let Some(windows) = scores.windows {
        for (name, sizes) in [("parted", windows.parted), ("joined", windows.joined)] {
            let sizes = Attribute::Ints(sizes);
            new.attributes.push((name.to_owned(), sizes));
        }
    }
    if let Some(where_true) = fill_where {
        new.set("fill_where", i64::from(where_true));
    }
    editor.replace("attention", place, &scores.nodes, new)?;
    for node in beside {
        editor.add_node(node);
    }
    Some(())
}

/// What takes the place of NaN by zero, as PyTorch does where a mask leaves nothing: the value before, and the nodes.
fn cleared(editor: &Editor<'_>, id: ValueId) -> (ValueId, Vec<usize>) {
    let before = || -> Option<(ValueId, Vec<usize>)> {
        let (place, node) = editor.made_by(id, "Where")?;
        let (is_nan, zero, from) = (node.input(0)?, node.input(1)?, node.input(2)?);
        let (asking, asks) = editor.made_by(is_nan, "IsNaN")?;
        let is_zero = editor.number(zero) == Some(0.0) && editor.adds_no_axis(zero, from);
        (is_zero && asks.input(0) == Some(from)).then(|| (from, vec![place, asking]))
    };
    before().unwrap_or((id, Vec::new()))
}

/// Whether one of these nodes makes a value.
fn made_within(editor: &Editor<'_>, id: ValueId, nodes: &[usize]) -> bool {
    let maker = editor.maker(id);
    maker.is_some_and(|(place, _)| nodes.contains(&place))
}

/// What an operator makes of masks, and the node that does, unless there is one, as layers share their mask.
fn shared(
    editor: &mut Editor<'_>,
    operator: Operator,
    masks: &[ValueId],
    rank: Rank,
    old: &Node,
) -> (ValueId, Option<Node>) {
    let inputs: Vec<_> = masks.iter().copied().map(Some).collect();
    let ours = |node: &&Node| node.operator == operator && node.inputs == inputs;
    let nodes = (0..editor.len()).filter_map(|place| editor.node(place));
    let there = nodes
        .filter(|node| node.attributes.is_empty())
        .find(ours)
        .and_then(|node| node.output(0));
    if let Some(there) = there {
        return (there, None);
    }
    let name = format!("{}.mask.{}", old.name, operator.name);
    let made = editor.add_value(ValueInfo::named(name.clone()), rank);
    let mut node = with_operator(operator, old, inputs);
    node.name = name;
    node.outputs = vec![Some(made)];
    (made, Some(node))
}

/// The product of queries and keys behind what the softmax is taken of.
fn scores(editor: &Editor<'_>, id: ValueId) -> Option<Scores> {
    match editor.made_by(id, "Reshape") {
        Some(_) => windowed(editor, id),
        None => scores_of_one(editor, id),
    }
}

/// As [`scores`], where there are no windows.
fn scores_of_one(editor: &Editor<'_>, id: ValueId) -> Option<Scores> {
    let (place, node) = editor.maker(id)?;
    let masked = |from: ValueId, mask: Mask| {
        let mut scores = scaled(editor, from)?;
        scores.mask = Some(mask);
        scores.nodes.push(place);
        Some(scores)
    };
    if node.is("Add") {
        let [a, b] = node.pair()?;
        let twice = |from: ValueId, second: ValueId| {
            let (inner, sum) = editor.made_by(from, "Add")?;
            let [a, b] = sum.pair()?;
            let both = |from: ValueId, first: ValueId| {
                let mut scores = masked(from, Mask::BothAdded([first, second]))?;
                scores.nodes.push(inner);
                Some(scores)
            };
            both(a, b).or_else(|| both(b, a))
        };
        return masked(a, Mask::Added(b))
            .or_else(|| masked(b, Mask::Added(a)))
            .or_else(|| twice(a, b))
            .or_else(|| twice(b, a));
    }
    if node.is("Where") {
        let (condition, yes, no) = (node.input(0)?, node.input(1)?, node.input(2)?);
        let filled = |from: ValueId, fill: ValueId, where_true: bool| {
            let number = editor.number(fill)?;
            let out = number <= OUT_OF_REACH && editor.rank(fill).least <= editor.rank(from).least;
            out.then(|| {
                masked(
                    from,
                    Mask::Filled {
                        condition,
                        fill,
                        where_true,
                    },
                )
            })?
        };
        return filled(no, yes, true).or_else(|| filled(yes, no, false));
    }
    scaled(editor, id)
}

/// Scores by window, to which a mask is added for each of several windows that follow one another.
fn windowed(editor: &Editor<'_>, id: ValueId) -> Option<Scores> {
    let reshaped = |id: ValueId| {
        let (place, node) = editor.made_by(id, "Reshape")?;
        let [from, sizes] = node.pair()?;
        Some((place, from, editor.integers(sizes)?))
    };
    let (joining, masked, joined) = reshaped(id)?;
    let (adding, sum) = editor.made_by(masked, "Add")?;
    let [a, b] = sum.pair()?;
    let (parting, from, parted, mask) =
        [(a, b), (b, a)].into_iter().find_map(|(parted, mask)| {
            let (place, from, sizes) = reshaped(parted)?;
            Some((place, from, sizes, mask))
        })?;
    // A zero would stand for a size of what is parted.
    let says_all = !parted.contains(&0) && !joined.contains(&0);
    if parted.len() != 5 || joined.len() != 4 || parted[2..] != joined[1..] || !says_all {
        return None;
    }
    let mut scores = scores_of_one(editor, from)?;
    if !matches!(scores.mask, None | Some(Mask::Added(_))) {
        return None;
    }
    scores.nodes.extend([joining, adding, parting]);
    scores.windows = Some(Windows {
        mask,
        parted,
        joined,
    });
    Some(scores)
}

/// A product of queries and keys, and the numbers that it is multiplied with before or after.
fn scaled(editor: &Editor<'_>, id: ValueId) -> Option<Scores> {
    let mut nodes = Vec::new();
    let (id, mut scale) = unscaled(editor, id, &mut nodes);
    let (place, node) = editor.maker(id)?;
    let [query, key] = node.pair().filter(|_| node.is("MatMul"))?;
    nodes.push(place);
    let (query, of_query) = unscaled(editor, query, &mut nodes);
    let (key, of_key) = unscaled(editor, key, &mut nodes);
    scale *= of_query * of_key;
    let scores = Scores {
        query,
        key,
        scale,
        mask: None,
        windows: None,
        nodes,
    };
    scale.is_finite().then_some(scores)
}

/// What is multiplied with numbers, and their product.
fn unscaled(editor: &Editor<'_>, mut id: ValueId, nodes: &mut Vec<usize>) -> (ValueId, f64) {
    let mut scale = 1.0;
    while let Some((place, node)) = editor.maker(id).filter(|_| editor.uses(id) == 1) {
        let found = match &node.operator.name[..] {
            "Mul" if node.is("Mul") => editor.with_number(node),
            "Div" if node.is("Div") => editor.ordered(node).map(|(of, number)| (of, 1.0 / number)),
            _ => None,
        };
        let Some((of, number)) = found else { break };
        scale *= number;
        nodes.push(place);
        id = of;
    }
    (id, scale)
}

/// What a node swapped the last two axes of, or several nodes that see the other axes as one meanwhile.
fn untransposed(editor: &Editor<'_>, id: ValueId) -> Option<ValueId> {
    if let Some((_, node)) = editor.made_by(id, "Transpose") {
        return swaps_last(node).then(|| node.input(0))?;
    }
    let reshaped = |id: ValueId| editor.made_by(id, "Reshape")?.1.pair();
    let [turned, sizes_after] = reshaped(id)?;
    let (_, turn) = editor.made_by(turned, "Transpose")?;
    let [from, sizes_before] = reshaped(turn.input(0)?)?;
    let before = editor.rank(from).known()?.checked_sub(2)?;
    let [rows, columns] = [before, before + 1];
    let as_matrices = [Size::Number(-1), Size::Axis(rows), Size::Axis(columns)];
    let as_before = (0..before).chain([columns, rows]).map(Size::Axis);
    let swaps = turn.ints("perm") == Some(&[0, 2, 1])
        && sizes(editor, sizes_before, from)? == as_matrices
        && sizes(editor, sizes_after, from)?.into_iter().eq(as_before);
    swaps.then_some(from)
}

fn swaps_last(node: &Node) -> bool {
    let Some(order) = node.ints("perm") else {
        return false;
    };
    let mut swapped: Vec<i64> = (0..order.len() as i64).collect();
    if let [.., a, b] = &mut swapped[..] {
        std::mem::swap(a, b);
    }
    order == swapped
}
