//! Products of several factors, in whatever order a model multiplies them.

use super::editor::Editor;
use crate::graph::ValueId;

/// More factors than this are left alone.
const MOST: usize = 8;

/// A product.
pub struct Product {
    /// The numbers among the factors, multiplied.
    pub scale: f64,
    /// The other factors.
    pub factors: Vec<ValueId>,
    /// The nodes that multiply.
    pub nodes: Vec<usize>,
}

impl Product {
    /// The one factor.
    pub fn one(&self) -> Option<ValueId> {
        match self.factors[..] {
            [factor] => Some(factor),
            _ => None,
        }
    }

    /// The two factors, in both orders.
    pub fn two(&self) -> Option<[(ValueId, ValueId); 2]> {
        match self.factors[..] {
            [a, b] => Some([(a, b), (b, a)]),
            _ => None,
        }
    }
}

/// The factors of a value. What others read, too, is a factor as it is.
pub fn product(editor: &Editor<'_>, id: ValueId) -> Product {
    let mut product = Product {
        scale: 1.0,
        factors: Vec::new(),
        nodes: Vec::new(),
    };
    let mut open = vec![id];
    while let Some(value) = open.pop() {
        let own = value == id || editor.uses(value) == 1;
        let maker = editor
            .maker(value)
            .filter(|_| own && product.nodes.len() < MOST);
        let Some((place, node)) = maker else {
            product.factors.push(value);
            continue;
        };
        if let Some((other, number)) = editor.with_number(node).filter(|_| node.is("Mul")) {
            product.scale *= number;
            open.push(other);
        } else if let Some([a, b]) = node.pair().filter(|_| node.is("Mul")) {
            open.extend([a, b]);
        } else if let Some((other, number)) = editor.ordered(node).filter(|_| node.is("Div")) {
            product.scale /= number;
            open.push(other);
        } else {
            product.factors.push(value);
            continue;
        }
        product.nodes.push(place);
    }
    product
}
