//! Sorting and top-k.
//!
//! The elements of a line become keys whose order as unsigned numbers is the wanted one, each with its place
//! behind it: all are different, so that there is one right order, however it is found.

mod key;
mod order;

use streampool_device::{MAX_RANK, Sort};

use super::convert::{Truth, with_types};
use super::split::{Shared, split};
use super::strided::{Walk, address};
use crate::team::Team;
use key::{Key, Ranked};

/// Elements that are worth a thread.
const GRAIN: usize = 1 << 12;

/// The first elements of each line, once ordered, and where they were.
///
/// # Safety
/// As for [`execute`](super::execute).
pub(super) unsafe fn execute(op: &Sort, team: &dyn Team) -> Result<(), String> {
    with_types!(op.src.dtype(), T => {
        // SAFETY: elements are of type `T`; the rest is passed on.
        unsafe {
            if T::BYTES <= 4 && u32::try_from(op.src.shape()[op.axis]).is_ok() {
                sort::<T, u64>(op, team)
            } else {
                sort::<T, u128>(op, team)
            }
        }
    }, {
        F32 = f32, F16 = half::f16, BF16 = half::bf16, F64 = f64, Bool = Truth,
        I8 = i8, U8 = u8, I16 = i16, U16 = u16, I32 = i32, U32 = u32, I64 = i64, U64 = u64
    });
    Ok(())
}

/// # Safety
/// As for [`execute`]; elements are of type `T`, and their keys and places fit in an `R`.
unsafe fn sort<T: Key, R: Ranked>(op: &Sort, team: &dyn Team) {
    let (length, wanted) = (op.src.shape()[op.axis], op.values.shape()[op.axis]);
    if wanted == 0 {
        return;
    }
    let indices = op.indices.as_ref();
    let mut shape = [1; MAX_RANK];
    let rank = op.src.shape().len();
    shape[..rank].copy_from_slice(op.src.shape());
    shape[op.axis] = 1;
    let places = indices.unwrap_or(&op.values);
    let strides = [&op.src, &op.values, places].map(|view| view.layout().strides());
    let lines = Walk::in_memory_order(&shape[..rank], strides, 0);
    let steps = lines.run_strides();
    let along = strides.map(|strides| strides[op.axis]);
    // Along a broadcast axis all are one element, and those that come first stay first.
    let length = if along[0] == 0 { wanted } else { length };
    let from = Shared(address::<T>(&op.src));
    let values = Shared(address::<T>(&op.values));
    let at = indices.map(|indices| Shared(address::<i64>(indices)));
    let each = |offsets: [isize; 3], inner: &dyn Team, ranked: &mut Vec<R>| {
        // SAFETY: the walk's offsets lie in the views.
        let read = |place: usize| unsafe { *from.at(offsets[0] + place as isize * along[0]) };
        let ranks = (0..length).map(|place| R::new(read(place).key(op.descending), place));
        order::first(ranks, wanted, T::BYTES, inner, ranked);
        for (number, place) in (0..).zip(ranked.iter().map(R::place)) {
            // SAFETY: as above; each line is written once.
            unsafe {
                values.at(offsets[1] + number * along[1]).write(read(place));
                if let Some(at) = at {
                    at.at(offsets[2] + number * along[2]).write(place as i64);
                }
            }
        }
    };
    let each_of = |range, inner: &dyn Team| {
        let mut ranked = Vec::new();
        lines.for_each_run(range, &mut |offsets, count| {
            for line in 0..count as isize {
                each(
                    [0, 1, 2].map(|operand| offsets[operand] + line * steps[operand]),
                    inner,
                    &mut ranked,
                );
            }
        });
    };
    if lines.elements() < team.width() {
        return each_of(0..lines.elements(), team);
    }
    split(lines.elements(), GRAIN.div_ceil(length), team, &|range| {
        each_of(range, &crate::team::Solo);
    });
}
