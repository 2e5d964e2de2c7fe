//! Picking and putting by index.
//!
//! Indices out of range pick zero and put nothing.

mod combine;
mod places;
mod text;

use smallvec::SmallVec;
use streampool_device::{Combine, DType, Gather, Indexing, Scatter, View};

use crate::dispatch::{Dispatch, Limits, Operand, Params, Plan, grid};
use crate::elementwise::{self, Elementwise};
use crate::rows::dims::{Dim, Dims};
use crate::rows::packs::{begins_aligned, packs};

pub use places::{IndexedAxis, Places};

/// Threads in each group.
const THREADS: u32 = 256;

/// Groups for each processor, at most: beyond that, each thread goes on to further elements.
const GROUPS_PER_UNIT: usize = 32;

/// A kernel that picks or puts by index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Index {
    action: Action,
    /// The type of the indices.
    index: DType,
    /// Neighbours that a thread takes at once.
    pack: u8,
    /// The class of the dimensions of the indexed elements.
    class: u8,
    /// How many indices there are for each place.
    depth: u8,
}

/// What is done with the indexed elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Action {
    /// They are picked; of this many bytes.
    Pick(u8),
    /// Others of this many bytes are put in their places.
    Replace(u8),
    /// Others are combined with them.
    Combine(DType, Combine),
}

/// `dst =` the elements of `src` that `indices` names.
pub(crate) fn gather<K: From<Index>>(op: &Gather, limits: &Limits) -> Plan<K> {
    let action = Action::Pick(op.src.dtype().size() as u8);
    let picked = launch(action, op.indexing, &op.dst, &op.indices, &op.src, limits);
    picked.map_or_else(Plan::default, Plan::of)
}

/// `dst = src`, with `updates` put where `indices` names.
pub(crate) fn scatter<K>(op: &Scatter, limits: &Limits) -> Plan<K>
where
    K: From<Index> + From<Elementwise>,
{
    let action = match op.combine {
        Combine::Replace => Action::Replace(op.dst.dtype().size() as u8),
        combine => Action::Combine(op.dst.dtype(), combine),
    };
    let mut plan = match op.src == op.dst {
        true => Plan::default(),
        false => elementwise::copy(&op.src, &op.dst, limits),
    };
    let put = launch(
        action,
        op.indexing,
        &op.updates,
        &op.indices,
        &op.dst,
        limits,
    );
    if let Some(put) = put {
        plan.push(put);
    }
    plan
}

/// The launch over the indexed elements `picked` of `data`; none if there are no elements.
fn launch<K: From<Index>>(
    action: Action,
    indexing: Indexing,
    picked: &View,
    indices: &View,
    data: &View,
    limits: &Limits,
) -> Option<Dispatch<K>> {
    let places = Places::new(indexing, indices, data);
    let dims = Dims::collapsed(picked.shape().iter().enumerate().map(|(axis, &size)| Dim {
        size,
        strides: [
            picked.layout().strides()[axis],
            places.indices[axis],
            places.data[axis],
        ],
    }));
    if dims.elements() == 0 {
        return None;
    }
    let pack = match action {
        Action::Combine(..) => 1,
        Action::Pick(size) | Action::Replace(size) => packs(usize::from(size))
            .find(|&pack| in_packs(&dims, &places, [picked, data], pack))
            .unwrap_or(1),
    };
    let dims = dims.in_packs(pack);
    let kernel = Index {
        action,
        index: indices.dtype(),
        pack: pack as u8,
        class: dims.class(),
        depth: places.axes().len() as u8,
    };
    let count = dims.elements();
    let most = GROUPS_PER_UNIT * limits.compute_units.max(1) as usize;
    let groups = count
        .div_ceil(THREADS as usize * kernel.in_flight())
        .min(most);
    let begins = [picked, indices, data].map(|view| view.layout().offset() as i64);
    let params = begins
        .into_iter()
        .fold(Params::new().i64(count as i64), Params::i64);
    let params = dims.params(params).i64(places.step as i64);
    let params = places.axes().iter().fold(params, |params, axis| {
        params.i64(axis.size as i64).i64(axis.stride as i64)
    });
    let views = match action {
        Action::Pick(_) => [data, indices, picked],
        Action::Replace(_) | Action::Combine(..) => [picked, indices, data],
    };
    Some(Dispatch {
        kernel: kernel.into(),
        groups: grid([groups, 1, 1]),
        threads: THREADS,
        operands: SmallVec::from_iter(views.map(|view| Operand::Memory(view.span()))),
        params,
    })
}

/// Whether slices, indexed and not, can be taken `pack` elements at a time.
fn in_packs(dims: &Dims<3>, places: &Places, [picked, data]: [&View; 2], pack: usize) -> bool {
    dims.innermost().strides[1] == 0
        && [0, 2]
            .into_iter()
            .all(|operand| dims.divides_into(operand, pack))
        && [picked, data]
            .into_iter()
            .all(|view| begins_aligned(view, pack))
        && places
            .axes()
            .iter()
            .all(|axis| axis.stride % pack as isize == 0)
}

#[cfg(test)]
mod tests;
