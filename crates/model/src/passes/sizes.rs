//! Lists of sizes: which of their elements are sizes of a value, and which are numbers.

use streampool_tensor::{DType, Tensor};

use super::editor::{Editor, with_operator};
use super::rank::{axes_of_shape, part};
use crate::graph::{Node, ValueId};

/// An element of a list of sizes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Size {
    /// The size of this axis of the value.
    Axis(usize),
    /// A number that never changes.
    Number(i64),
}

/// A list is made by a chain of at most as many nodes.
const MOST_STEPS: usize = 16;
/// What has more elements is no list of sizes.
const MOST_SIZES: usize = 16;
/// Types to which sizes may be cast: `int32` and `int64`.
const TYPES_OF_SIZES: [i64; 2] = [6, 7];

/// The elements of the list `id`, if all are numbers or sizes of `of`.
pub fn sizes(editor: &Editor<'_>, id: ValueId, of: ValueId) -> Option<Vec<Size>> {
    let rank = editor.rank(of).known()?;
    let list = List { editor, of, rank };
    list.read(id, MOST_STEPS)
}

/// Has a node that reshapes keep the sizes that its list says are those of its input: `0` stands for them. What makes the list
/// need not be computed for each shape then.
pub fn keep_sizes(editor: &mut Editor<'_>, place: usize) -> Option<()> {
    let node = editor.node(place)?;
    let [x, list] = node.pair().filter(|_| node.is("Reshape"))?;
    if editor.constant(list).is_some() {
        return None;
    }
    let zero_is_a_size = node.int("allowzero", 0) != 0;
    let number = |(place, size): (usize, Size)| match size {
        Size::Axis(axis) if axis == place => Some(0),
        Size::Axis(_) => None,
        Size::Number(0) if zero_is_a_size => None,
        Size::Number(number) => Some(number),
    };
    let sizes = sizes(editor, list, x)?.into_iter();
    let numbers: Vec<i64> = sizes.enumerate().map(number).collect::<Option<_>>()?;
    let old = node.clone();
    let numbers = Tensor::from_slice(editor.pool(), &numbers, &[numbers.len()]).ok()?;
    let list = editor.add_constant(format!("{}.sizes", old.name), numbers);
    let new = with_operator(old.operator.clone(), &old, vec![Some(x), Some(list)]);
    editor.take_over("reshape", place, &[], new);
    Some(())
}

/// Lists of the sizes of one value.
struct List<'a> {
    editor: &'a Editor<'a>,
    of: ValueId,
    rank: usize,
}

impl List<'_> {
    fn read(&self, id: ValueId, steps: usize) -> Option<Vec<Size>> {
        let (editor, steps) = (self.editor, steps.checked_sub(1)?);
        if let Some(tensor) = editor.constant(id) {
            let is_list = tensor.rank() <= 1 && tensor.elem_count() <= MOST_SIZES;
            let is_whole = matches!(tensor.dtype(), DType::I32 | DType::I64);
            let numbers = editor.integers(id).filter(|_| is_list && is_whole)?;
            return Some(numbers.into_iter().map(Size::Number).collect());
        }
        let (_, node) = editor.maker(id)?;
        let listed = |place: usize| {
            let input = node.input(place)?;
            let is_list = editor.rank(input).known() == Some(1);
            is_list.then(|| self.read(input, steps))?
        };
        if node.is("Shape") && node.input(0) == Some(self.of) {
            let axes = axes_of_shape(node, self.rank);
            return Some(axes.map(Size::Axis).collect());
        }
        if node.is("Identity") || node.is("Squeeze") || node.is("Unsqueeze") {
            return self.read(node.input(0)?, steps);
        }
        if node.is("Cast") && TYPES_OF_SIZES.contains(&node.int("to", 0)) {
            return self.read(node.input(0)?, steps);
        }
        if node.is("Concat") {
            let lists = (0..node.inputs.len()).map(listed);
            let lists = lists.collect::<Option<Vec<_>>>()?;
            return Some(lists.concat());
        }
        if node.is("Slice") {
            let (mut list, start, end) = (listed(0)?, self.one(node, 1)?, self.one(node, 2)?);
            let is_plain = |place: usize, number: i64| {
                node.input(place).is_none() || self.one(node, place) == Some(number)
            };
            let taken = part(list.len(), start, end);
            list.truncate(taken.end);
            list.drain(..taken.start);
            return (is_plain(3, 0) && is_plain(4, 1)).then_some(list);
        }
        if node.is("Gather") && node.int("axis", 0) == 0 {
            let (list, indices) = (listed(0)?, editor.integers(node.input(1)?)?);
            let at = |index: i64| {
                let index = if index < 0 {
                    index.checked_add(list.len() as i64)?
                } else {
                    index
                };
                list.get(usize::try_from(index).ok()?).copied()
            };
            return indices.into_iter().map(at).collect();
        }
        None
    }

    /// The one number of an input that never changes.
    fn one(&self, node: &Node, place: usize) -> Option<i64> {
        match self.editor.integers(node.input(place)?)?[..] {
            [number] => Some(number),
            _ => None,
        }
    }
}
