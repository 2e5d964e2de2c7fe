//! Convolutions of bytes.

mod each;
mod matrix;
mod operands;

use std::sync::Arc;

use streampool_device::Conv;

use self::each::Each;
use self::operands::{Ends, Seen, is_for_each};
use super::then::Call;
use crate::kernels::preparation::Preparation;
use crate::kernels::scratch::{Count, LINE, with_scratch};
use crate::packs::{Form, Pack};
use crate::team::Team;

/// Weights in the order in which they meet what a window sees.
pub(crate) struct Ready {
    pack: Arc<Pack>,
}

fn packed_bytes(op: &Conv) -> Count {
    match is_for_each(op) {
        true => Count::of(op.weight.layout().elements()) * size_of::<f32>(),
        false => matrix::packed_bytes(op),
    }
}

/// # Safety
/// The weights can be read, and [`packed_bytes`] be written.
unsafe fn pack(op: &Conv, to: *mut u8) {
    // SAFETY: passed on from the caller.
    unsafe {
        match is_for_each(op) {
            true => each::pack(op, to.cast()),
            false => matrix::pack(op, to),
        }
    }
}

/// # Safety
/// Constants can be read.
pub(super) unsafe fn prepare(op: &Conv, preparation: &Preparation<'_>) -> Option<Ready> {
    let form = Form::ChannelsLast { groups: op.groups };
    let made = preparation
        .packs
        .get(&op.weight, form, packed_bytes(op).known()?, |to| {
            // SAFETY: the caller lets constants be read, and the memory has room for all.
            unsafe { pack(op, to) };
        });
    Some(Ready { pack: made? })
}

/// # Safety
/// As for [`execute`](super::execute); what is ready was prepared for an op that differs in where its operands lie.
pub(super) unsafe fn execute(
    op: &Conv,
    ready: Option<&Ready>,
    team: &dyn Team,
    then: Option<&Call<'_>>,
) {
    let fresh = match ready {
        Some(_) => Count::of(0),
        None => packed_bytes(op).rounded_to(LINE),
    };
    let is_in_order = Seen::is_in_order(op);
    let copy = match is_in_order {
        true => Count::of(0),
        false => Seen::copied_bytes(op).rounded_to(LINE),
    };
    let ends = Ends::bytes(op);
    with_scratch(ends.rounded_to(LINE) + copy + fresh, |ends_at: *mut u8| {
        let copied = ends_at.wrapping_add(ends.rounded_to(LINE).here());
        let fresh = copied.wrapping_add(copy.here());
        // SAFETY: there is room for what ends sums, the copy and the weights; the rest is passed on from the caller.
        unsafe {
            let weights = match ready {
                Some(ready) => ready.pack.at(),
                None => {
                    pack(op, fresh);
                    fresh.cast_const()
                }
            };
            let seen = match is_in_order {
                true => Seen::in_place(op),
                false => Seen::copied(op, copied, team),
            };
            let ends = Ends::written(op, weights.cast(), ends_at.cast());
            match is_for_each(op) {
                true => Each::new(op, &seen, weights.cast(), ends).execute(team, then),
                false => matrix::run(op, &seen, weights.cast(), ends, (team, then)),
            }
        }
    });
}
