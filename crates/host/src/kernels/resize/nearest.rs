//! Elements picked by their places.

use streampool_device::{MAX_RANK, Resize, Rounding, Scalar};

use super::taps;
use crate::kernels::convert::Native;
use crate::kernels::scratch::{Count, filled, list};
use crate::kernels::simd::vectorised;
use crate::kernels::split::{Shared, split};
use crate::kernels::strided::{Walk, address};
use crate::team::Team;

/// Elements that are worth a thread.
const GRAIN: usize = 1 << 15;

/// Where the element for a place lies, if it is none outside.
type Offset = Option<isize>;

/// # Safety
/// As for `execute`; the elements are of type `T`.
pub(super) unsafe fn execute<T: Native>(op: &Resize, rounding: Rounding, team: &dyn Team) {
    let shape = op.dst.shape();
    let (from, to) = (op.src.layout().strides(), op.dst.layout().strides());
    let mut tables: Vec<Vec<Offset>> = list((0..shape.len()).map(|axis| {
        let offset = |place: Option<usize>| place.map(|place| place as isize * from[axis]);
        list(taps::nearest(op, axis, rounding).map(offset))
    }));
    let (last, step) = match tables.pop() {
        Some(table) => (table, to[shape.len() - 1]),
        None => (filled(Some(0), Count::of(1)), 1),
    };
    let outside = T::from_scalar(Scalar::Float(op.outside.unwrap_or(0.0)));
    // Elements that stay beside each other are copied at once.
    let stays = |(index, offset): (usize, &Offset)| *offset == Some(index as isize);
    let together = step == 1 && last.iter().enumerate().all(stays);
    let outer = &shape[..tables.len()];
    // The walk names lines of the result, and their numbers.
    let mut numbers = [0isize; MAX_RANK];
    let mut number = 1;
    for axis in (0..outer.len()).rev() {
        numbers[axis] = number;
        number *= outer[axis] as isize;
    }
    let walk = Walk::new(outer, [&to[..outer.len()], &numbers[..outer.len()]]);
    let [between, _] = walk.run_strides();
    let (from, to) = (Shared(address::<T>(&op.src)), Shared(address::<T>(&op.dst)));
    split(
        walk.elements(),
        GRAIN.div_ceil(last.len()),
        team,
        &|range| {
            walk.for_each_run(range, &mut |[offset, number], count| {
                for index in 0..count {
                    let place = start(&tables, outer, number as usize + index);
                    let to = to.at(offset + index as isize * between);
                    // SAFETY: places lie in the source, the line in the result; ranges are disjoint.
                    unsafe {
                        if let (true, Some(place)) = (together, place) {
                            let from = from.at(place);
                            std::ptr::copy_nonoverlapping(from, to, last.len());
                            continue;
                        }
                        line::<T>(
                            place.map(|place| from.at(place).cast_const()),
                            &last,
                            outside,
                            to,
                            step,
                        )
                    };
                }
            });
        },
    );
}

/// Where the line of this number is looked at.
fn start(tables: &[Vec<Offset>], outer: &[usize], mut number: usize) -> Offset {
    let mut offset = 0;
    for (table, &size) in tables.iter().zip(outer).rev() {
        offset += table[number % size]?;
        number /= size;
    }
    Some(offset)
}

vectorised! {
    /// # Safety
    /// The offsets can be read from, and the line be written.
    unsafe fn line[T: Native](
        from: Option<*const T>,
        offsets: &[Offset],
        outside: T,
        to: *mut T,
        step: isize,
    ) {
        for (index, &offset) in offsets.iter().enumerate() {
            // SAFETY: the caller's promise.
            unsafe {
                let value = match (from, offset) {
                    (Some(from), Some(offset)) => *from.offset(offset),
                    _ => outside,
                };
                *to.offset(index as isize * step) = value;
            }
        }
    }
}
