//! GELU, SiLU and hard swish from their pieces.

use super::editor::{Editor, close, fused, with_operator};
use super::factors::{Product, product};
use crate::graph::{Attribute, Domain, Node, Operator, ValueId};

const SQRT_2_OVER_PI: f64 = 0.797_884_560_802_865_4;
const CUBE: f64 = 0.044715;

/// What a product turned out to be.
struct Found {
    x: ValueId,
    kind: Activation,
    nodes: Vec<usize>,
}

enum Activation {
    Gelu(&'static str),
    Silu,
    HardSwish,
}

/// Each of them is a product that ends here.
pub fn fuse(editor: &mut Editor<'_>, place: usize) -> Option<()> {
    let node = editor.node(place)?;
    if !node.is("Mul") && !node.is("Div") {
        return None;
    }
    let whole = product(editor, node.output(0)?);
    let pairs = whole.two()?;
    let found = pairs
        .into_iter()
        .find_map(|(x, gate)| found(editor, &whole, x, gate))?;
    let inputs = vec![Some(found.x)];
    let (what, new) = match found.kind {
        Activation::Gelu(approximate) => {
            let mut new = fused("Gelu", node, inputs);
            new.set("approximate", approximate);
            ("gelu", new)
        }
        Activation::Silu => ("silu", fused("Silu", node, inputs)),
        Activation::HardSwish => (
            "hard_swish",
            with_operator(Operator::onnx("HardSwish", 14), node, inputs),
        ),
    };
    let inner = whole.nodes.iter().chain(&found.nodes).copied();
    let inner: Vec<usize> = inner.filter(|&inner| inner != place).collect();
    editor.replace(what, place, &inner, new)
}

/// What `x` times `gate` is.
fn found(editor: &Editor<'_>, whole: &Product, x: ValueId, gate: ValueId) -> Option<Found> {
    let (place, node) = editor.maker(gate)?;
    if node.operator.domain != Domain::Onnx {
        return None;
    }
    let mut nodes = vec![place];
    let kind = match &node.operator.name[..] {
        "Add" if close(whole.scale, 0.5) => {
            let (inner, one) = editor.with_number(node)?;
            let (place, inner) = editor.maker(inner).filter(|_| close(one, 1.0))?;
            nodes.push(place);
            let argument = product(editor, inner.input(0)?);
            nodes.extend(&argument.nodes);
            if inner.is("Erf") {
                let same =
                    argument.one()? == x && close(argument.scale, std::f64::consts::FRAC_1_SQRT_2);
                same.then_some(Activation::Gelu("none"))?
            } else {
                let same = inner.is("Tanh") && close(argument.scale, SQRT_2_OVER_PI);
                nodes.extend(same.then(|| cubic(editor, &argument, x))??);
                Activation::Gelu("tanh")
            }
        }
        "Sigmoid" if close(whole.scale, 1.0) => {
            let argument = product(editor, node.input(0)?);
            nodes.extend(&argument.nodes);
            let same = argument.one()? == x && close(argument.scale, 1.0);
            same.then_some(Activation::Silu)?
        }
        "HardSigmoid" if close(whole.scale, 1.0) => {
            let (alpha, beta) = (node.float("alpha", 0.2), node.float("beta", 0.5));
            let same =
                node.input(0)? == x && close(alpha.into(), 1.0 / 6.0) && close(beta.into(), 0.5);
            same.then_some(Activation::HardSwish)?
        }
        "Clip" if close(whole.scale, 1.0 / 6.0) => {
            let (place, inner) = editor.made_by(node.input(0)?, "Add")?;
            nodes.push(place);
            let (least, most) = bounds(editor, node)?;
            // The operator is one of floats, and so are the bounds of theirs.
            let [a, b] = inner.pair()?;
            let three = editor.constant(if a == x { b } else { a })?;
            let same = editor.with_number(inner)? == (x, 3.0)
                && three.dtype().is_float()
                && (least, most) == (0.0, 6.0);
            same.then_some(Activation::HardSwish)?
        }
        _ => return None,
    };
    Some(Found { x, kind, nodes })
}

/// The nodes that make `x + 0.044715 x³`, as a sum or as `x (1 + 0.044715 x²)`.
fn cubic(editor: &Editor<'_>, argument: &Product, x: ValueId) -> Option<Vec<usize>> {
    if let Some(sum) = argument.one() {
        let (place, node) = editor.made_by(sum, "Add")?;
        let (a, b) = (node.input(0)?, node.input(1)?);
        let cube = if a == x { b } else { (b == x).then_some(a)? };
        let mut nodes = power(editor, cube, x, 3)?;
        nodes.push(place);
        return Some(nodes);
    }
    argument.two()?.into_iter().find_map(|(first, sum)| {
        let (place, node) = editor.made_by(sum, "Add").filter(|_| first == x)?;
        let (square, one) = editor.with_number(node)?;
        let mut nodes = power(editor, square, x, 2).filter(|_| close(one, 1.0))?;
        nodes.push(place);
        Some(nodes)
    })
}

/// The nodes that make `0.044715` times a power of `x`.
fn power(editor: &Editor<'_>, id: ValueId, x: ValueId, exponent: usize) -> Option<Vec<usize>> {
    let Product {
        scale,
        factors,
        mut nodes,
    } = product(editor, id);
    if !close(scale, CUBE) {
        return None;
    }
    let mut found = 0;
    for factor in factors {
        match editor.made_by(factor, "Pow") {
            _ if factor == x => found += 1,
            Some((place, node)) => {
                let (base, power) = editor.ordered(node)?;
                if base != x || power != power.trunc() || !(1.0..=3.0).contains(&power) {
                    return None;
                }
                found += power as usize;
                nodes.push(place);
            }
            None => {
                let square = product(editor, factor);
                if square.scale != 1.0 || square.factors != [x, x] {
                    return None;
                }
                found += 2;
                nodes.extend(square.nodes);
            }
        }
    }
    (found == exponent).then_some(nodes)
}

/// Between which numbers a `Clip` keeps values.
fn bounds(editor: &Editor<'_>, node: &Node) -> Option<(f64, f64)> {
    if node.operator.version < 11 {
        let bound = |name: &str| match node.attribute(name) {
            Some(Attribute::Float(value)) => Some(f64::from(*value)),
            _ => None,
        };
        return Some((bound("min")?, bound("max")?));
    }
    Some((
        editor.number(node.input(1)?)?,
        editor.number(node.input(2)?)?,
    ))
}

/// The activation that a product or a convolution can end with, if a node is one.
pub fn name(node: &Node) -> Option<&'static str> {
    let gelu = || match node.string("approximate", "none") {
        "none" => Some("gelu"),
        "tanh" => Some("gelu_tanh"),
        _ => None,
    };
    match (node.operator.domain, &node.operator.name[..]) {
        (Domain::Onnx, "Relu") => Some("relu"),
        (Domain::Onnx, "Sigmoid") => Some("sigmoid"),
        (Domain::Onnx, "Tanh") => Some("tanh"),
        (Domain::Onnx, "HardSwish") => Some("hard_swish"),
        (Domain::Onnx | Domain::Fused, "Gelu") => gelu(),
        (Domain::Fused, "Silu") => Some("silu"),
        _ => None,
    }
}

/// The axis that a node names, counted from the last, `-1` being that.
pub fn from_last(editor: &Editor<'_>, node: &Node, default: i64) -> Option<i64> {
    match node.int("axis", default) {
        axis @ ..0 => Some(axis),
        axis => Some(axis - editor.rank(node.input(0)?).known()? as i64),
    }
}
