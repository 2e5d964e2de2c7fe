//! Outputs that can be made in the memory of an input, as a cache is: what is that input with a part of it changed, and what is
//! that input with more behind it along an axis.

use std::convert::Infallible;

use rustc_hash::FxHashMap;
use streampool_device::{Access, Layout, Op};

use super::plan::{Location, Operand, Output, Plan, Port};
use super::relaid::relaid;
use crate::trace::TensorKind;

/// An output that may be made where an input lies, if nobody wants that input any more.
///
/// Then the two are one memory. The op that makes the one from the other reads and writes the same elements of it: a copy has
/// nothing to do there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InPlace {
    /// Which of the plan's inputs.
    pub input: usize,
    /// Which of the outputs.
    pub output: usize,
    /// Where that lies otherwise.
    pub made: usize,
    /// The op that makes the one from the other.
    pub op: usize,
    /// Where the output is longer than the input.
    pub room: Option<Room>,
}

impl InPlace {
    /// The size of the memory for an input or an output of this kind.
    pub fn bytes(&self, kind: &TensorKind) -> usize {
        let whole = self.room.and_then(|room| room.whole(&kind.shape));
        whole.map_or(kind.bytes(), |whole| whole.elements() * kind.dtype.size())
    }

    /// How such an input or output lies there.
    pub fn layout(&self, kind: &TensorKind) -> Option<Layout> {
        match self.room {
            Some(room) => room.layout(&kind.shape),
            None => Layout::contiguous(&kind.shape).ok(),
        }
    }
}

/// How long an axis is in memory that has room for more than is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    /// Which axis.
    pub axis: usize,
    /// How many places it has.
    pub places: usize,
}

/// An axis that grows has room for at least so many.
const FEWEST_PLACES: usize = 64;

impl Room {
    /// That of what is so long along an axis: it is the same for all lengths that have room in it.
    fn of(axis: usize, length: usize) -> Option<Room> {
        let places = length.max(FEWEST_PLACES).checked_next_power_of_two()?;
        Some(Room { axis, places })
    }

    /// How all of the memory lies in which there is a tensor of this shape.
    pub fn whole(&self, shape: &[usize]) -> Option<Layout> {
        let mut sizes = shape.to_vec();
        *sizes.get_mut(self.axis)? = self.places;
        Layout::contiguous(&sizes).ok()
    }

    /// How a tensor of this shape lies there.
    pub fn layout(&self, shape: &[usize]) -> Option<Layout> {
        let whole = self.whole(shape)?;
        whole.slice(self.axis, 0, shape[self.axis], 1).ok()
    }

    /// What names there the elements that `layout` names in a row-major tensor of this shape. None if one of its axes does not
    /// go along one axis of the tensor.
    pub fn spaced(&self, layout: &Layout, shape: &[usize]) -> Option<Layout> {
        relaid(layout, &self.layout(shape)?)
    }
}

/// Which ops touch a piece of memory.
#[derive(Default)]
struct Touched {
    first_written: Option<usize>,
    last_read: Option<usize>,
}

/// The outputs of a plan for which that is certain: the first op that writes one puts all of the input there, and no op behind
/// that reads the input.
pub fn in_place(plan: &Plan) -> Vec<InPlace> {
    let mut touched: FxHashMap<usize, Touched> = FxHashMap::default();
    for (place, planned) in plan.ops.iter().enumerate() {
        each(&planned.op, |access, operand| {
            let Location::Shared(offset) = operand.place else {
                return;
            };
            let touched = touched.entry(offset).or_default();
            match access {
                Access::Read => touched.last_read = Some(place),
                Access::Write => drop(touched.first_written.get_or_insert(place)),
            }
        });
    }
    let mut found: Vec<InPlace> = Vec::new();
    for (output, (_, made)) in plan.outputs.iter().enumerate() {
        let Output::Tensor(port) = made else { continue };
        let written = touched.get(&port.offset);
        let Some(op) = written.and_then(|written| written.first_written) else {
            continue;
        };
        let Some(source) = source(&plan.ops[op].op, port) else {
            continue;
        };
        let inputs = plan.inputs.iter();
        let Some(input) = inputs.clone().position(|input| input.offset == source) else {
            continue;
        };
        let is_last = touched.get(&source).and_then(|read| read.last_read) == Some(op);
        let is_whole = changed(&plan.ops[op].op, &plan.inputs[input], port);
        let room = grown(plan, op, &plan.inputs[input], port);
        if is_last && (is_whole || room.is_some()) {
            found.push(InPlace {
                input,
                output,
                made: port.offset,
                op,
                room,
            });
        }
    }
    found
}

/// What an op that writes `port` puts there, in part changed.
fn put(op: &Op<Operand>) -> Option<(&Operand, &Operand)> {
    match op {
        Op::Copy { src, dst } => Some((src, dst)),
        Op::Scatter(scatter) => Some((&scatter.src, &scatter.dst)),
        _ => None,
    }
}

/// Where that lies, if nothing else of the op lies there.
fn source(op: &Op<Operand>, port: &Port) -> Option<usize> {
    let (src, dst) = put(op)?;
    let Location::Shared(offset) = src.place else {
        return None;
    };
    let mut reads = 0;
    each(op, |access, operand| {
        reads += usize::from(access == Access::Read && operand.place == src.place);
    });
    let fits = dst.place == Location::Shared(port.offset) && src.dtype == dst.dtype && reads == 1;
    fits.then_some(offset)
}

/// Whether an op makes all of `port` from all of `input`, each element from the one at its place.
fn changed(op: &Op<Operand>, input: &Port, port: &Port) -> bool {
    put(op).is_some_and(|(src, dst)| {
        input.kind == port.kind
            && is_all(src, input)
            && is_all(dst, port)
            && src.layout.shape() == dst.layout.shape()
    })
}

fn is_all(operand: &Operand, port: &Port) -> bool {
    operand.layout.is_contiguous()
        && operand.layout.offset() == 0
        && operand.layout.elements() * operand.dtype.size() == port.kind.bytes()
}

/// The room for `port`, where op `op` copies all of `input` to its beginning along an axis, and all ops can do with such room.
fn grown(plan: &Plan, op: usize, input: &Port, port: &Port) -> Option<Room> {
    let Op::Copy { src, dst } = &*plan.ops[op].op else {
        return None;
    };
    let (short, long) = (&input.kind.shape, &port.kind.shape);
    let mut longer = (0..long.len()).filter(|&axis| short.get(axis) != Some(&long[axis]));
    let (axis, None) = (longer.next()?, longer.next()) else {
        return None;
    };
    let is_put = short.len() == long.len()
        && input.kind.dtype == port.kind.dtype
        && is_all(src, input)
        && src.layout.shape() == &short[..]
        && short[axis] < long[axis]
        && Layout::contiguous(long)
            .ok()?
            .slice(axis, 0, short[axis], 1)
            == Ok(dst.layout);
    let room = Room::of(axis, long[axis]).filter(|_| is_put)?;
    let mut can = true;
    for planned in &plan.ops {
        each(&planned.op, |_, operand| {
            let base = match operand.place {
                Location::Shared(offset) if offset == input.offset => short,
                Location::Shared(offset) if offset == port.offset => long,
                _ => return,
            };
            can &= operand.dtype == port.kind.dtype && room.spaced(&operand.layout, base).is_some();
        });
    }
    can.then_some(room)
}

fn each<'o>(op: &'o Op<Operand>, mut see: impl FnMut(Access, &'o Operand)) {
    let Ok(_) = op.try_map(|_, access, operand| {
        see(access, operand);
        Ok::<(), Infallible>(())
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The addresses that a layout names, in order.
    fn addresses(layout: &Layout) -> Vec<usize> {
        let mut all = vec![layout.offset() as isize];
        for (&size, &stride) in layout.shape().iter().zip(layout.strides()) {
            let steps = |&first: &isize| (0..size as isize).map(move |step| first + step * stride);
            all = all.iter().flat_map(steps).collect();
        }
        all.iter().map(|&address| address as usize).collect()
    }

    /// Where an element of a dense tensor lies in the room.
    fn there(address: usize, shape: &[usize], room: Room) -> usize {
        let (mut rest, mut step) = (address, 1);
        let mut place = 0;
        for axis in (0..shape.len()).rev() {
            place += rest % shape[axis] * step;
            rest /= shape[axis];
            step *= if axis == room.axis {
                room.places
            } else {
                shape[axis]
            };
        }
        place
    }

    #[test]
    fn spaced_layouts_name_the_same_elements() {
        let shape = [2, 3, 5, 4];
        let dense = Layout::contiguous(&shape).unwrap();
        let room = Room {
            axis: 2,
            places: 64,
        };
        let strided = |shape: &[usize], strides: &[isize], offset| {
            Layout::strided(shape, strides, offset).unwrap()
        };
        let good = [
            dense,
            dense.permute(&[0, 1, 3, 2]).unwrap(),
            dense.permute(&[2, 0, 3, 1]).unwrap(),
            dense.slice(2, 4, 5, 1).unwrap(),
            dense.slice(2, 1, 5, 2).unwrap(),
            dense.slice(3, 1, 3, 1).unwrap(),
            // One axis as two.
            strided(&[2, 3, 5, 2, 2], &[60, 20, 4, 2, 1], 0),
            // The same for all of an axis.
            strided(&[2, 3, 7, 5, 4], &[60, 20, 0, 4, 1], 0),
            strided(&[4], &[1], 76),
            strided(&[1, 4], &[1000, 1], 16),
        ];
        for layout in good {
            let spaced = room
                .spaced(&layout, &shape)
                .unwrap_or_else(|| panic!("{layout:?}"));
            let expected = addresses(&layout).into_iter();
            let expected: Vec<usize> = expected.map(|at| there(at, &shape, room)).collect();
            assert_eq!(addresses(&spaced), expected, "{layout:?}");
            assert_eq!(spaced.shape(), layout.shape());
        }
        assert_eq!(room.spaced(&dense, &shape), room.layout(&shape));
        let bad = [
            // Along two axes at once.
            strided(&[6, 5, 4], &[20, 4, 1], 0),
            strided(&[4], &[1], 79),
            strided(&[2, 15, 4], &[60, 4, 1], 0),
            strided(&[120], &[1], 0),
            strided(&[3], &[5], 0),
            strided(&[2, 3], &[4, 4], 12),
            // Beyond the end.
            strided(&[1], &[1], 120),
        ];
        for layout in bad {
            assert_eq!(room.spaced(&layout, &shape), None, "{layout:?}");
        }
    }
}
