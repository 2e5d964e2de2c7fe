//! Picking and putting by index.
//!
//! All indices are checked before anything is picked or put; what follows relies on it.

mod check;
mod indices;
mod put;
mod resolve;

use streampool_device::{Combine, Gather, Scatter};
use streampool_kernels::Places;

use super::combine::{Max, Min, Prod, Sum};
use super::convert::{Native, with_native};
use super::copy;
use super::split::{Shared, split};
use super::strided::{Walk, address};
use crate::team::Team;
use indices::GRAIN;
use put::{Overwrite, With, put};
use resolve::Resolved;

/// `$body` with `$name` standing for a type of this many bytes.
macro_rules! with_size {
    ($size:expr, $name:ident => $body:expr) => {
        match $size {
            1 => {
                type $name = u8;
                $body
            }
            2 => {
                type $name = u16;
                $body
            }
            4 => {
                type $name = u32;
                $body
            }
            _ => {
                type $name = u64;
                $body
            }
        }
    };
}

/// `dst =` the elements of `src` that `indices` names.
///
/// # Safety
/// As for [`execute`](super::execute).
pub(super) unsafe fn gather(op: &Gather, team: &dyn Team) -> Result<(), String> {
    let places = Places::new(op.indexing, &op.indices, &op.src);
    // SAFETY: passed on; indices and elements are of the types and sizes.
    unsafe {
        check::indices(op.indexing, &places, &op.indices, team)?;
        with_size!(op.src.dtype().size(), T => pick::<T>(op, &places, team));
    }
    Ok(())
}

/// # Safety
/// As for [`gather`]; elements have the size of `T`, and all indices are in range.
unsafe fn pick<T: Native>(op: &Gather, places: &Places, team: &dyn Team) {
    let strides = [op.dst.layout().strides(), &places.indices, &places.data];
    let rank = op.dst.shape().len();
    let walk = Walk::new(op.dst.shape(), strides.map(|strides| &strides[..rank]));
    let (to, from) = (Shared(address::<T>(&op.dst)), Shared(address::<T>(&op.src)));
    let resolved = Resolved::new(places, &op.indices);
    let steps = walk.run_strides();
    split(walk.elements(), GRAIN, team, &|range| {
        walk.for_each_run(range, &mut |[target, index, datum], length| {
            // SAFETY: the walk stays inside the result and, with indices in range, inside the source; ranges
            // are disjoint.
            unsafe {
                resolved.for_each_part(index, steps[1], length, |start, part| {
                    let start = start as isize;
                    let to = to.at(target + start * steps[0]);
                    let from = from.at(datum + start * steps[2]);
                    move_part(to, from, [steps[0], steps[2]], part);
                });
            }
        });
    });
}

/// # Safety
/// The elements can be read and written.
#[inline(always)]
unsafe fn move_part<T: Native>(to: *mut T, from: *const T, steps: [isize; 2], part: resolve::Part) {
    // SAFETY: the caller's promise.
    unsafe {
        match (part, steps) {
            (resolve::Part::Slice { offset, length }, [1, 1]) => {
                std::ptr::copy_nonoverlapping(from.offset(offset), to, length);
            }
            (resolve::Part::Slice { offset, length }, [target, datum]) => {
                let from = from.offset(offset);
                for element in 0..length as isize {
                    to.offset(element * target)
                        .write(*from.offset(element * datum));
                }
            }
            (resolve::Part::Elements(offsets), [1, 0]) => {
                for (element, &offset) in offsets.iter().enumerate() {
                    to.add(element).write(*from.offset(offset));
                }
            }
            (resolve::Part::Elements(offsets), [target, datum]) => {
                for (element, &offset) in (0..).zip(offsets) {
                    to.offset(element * target)
                        .write(*from.offset(offset + element * datum));
                }
            }
        }
    }
}

/// `dst = src`, with `updates` put where `indices` names.
///
/// # Safety
/// As for [`execute`](super::execute).
pub(super) unsafe fn scatter(op: &Scatter, team: &dyn Team) -> Result<(), String> {
    let places = Places::new(op.indexing, &op.indices, &op.dst);
    // SAFETY: passed on; indices and elements are of the types and sizes.
    unsafe {
        check::indices(op.indexing, &places, &op.indices, team)?;
        if op.src != op.dst {
            copy::execute(&op.src, &op.dst, team);
        }
        combine(op, &places, team);
    }
    Ok(())
}

/// # Safety
/// As for [`scatter`]; all indices are in range.
unsafe fn combine(op: &Scatter, places: &Places, team: &dyn Team) {
    with_native!(op.dst.dtype(), T => {
        type Bits = <T as Native>::Bits;
        // SAFETY: elements are of type `T`, or, as sums go, as good as of its bits; the rest is passed on.
        unsafe {
            match op.combine {
                Combine::Replace => put::<Bits, Overwrite>(op, places, team),
                Combine::Add => put::<Bits, With<Sum>>(op, places, team),
                Combine::Mul => put::<Bits, With<Prod>>(op, places, team),
                Combine::Min => put::<T, With<Min>>(op, places, team),
                Combine::Max => put::<T, With<Max>>(op, places, team),
            }
        }
    });
}
