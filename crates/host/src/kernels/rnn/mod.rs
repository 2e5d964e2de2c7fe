//! Recurrent layers: one product for what all steps see of the input, then step by step a product of the states
//! with the recurrent weights, which are packed once.

mod gates;
mod layer;
mod weights;

use std::sync::Arc;

use streampool_device::{DType, Layout, MatMul, Rnn, Span, View};

use self::layer::Layer;
use self::weights::Weights;
use super::convert::{Float, with_float};
use super::matmul::blocked::even_part;
use super::matmul::factor::Factor;
use super::matmul::multiply::InPlaceUnit;
use super::preparation::Preparation;
use super::scratch::{Count, with_scratch};
use super::split::{Shared, split};
use super::{copy, matmul};
use crate::packs::{Form, Pack};
use crate::team::{Solo, Team};

/// Multiplications that are worth a thread.
const GRAIN: usize = 1 << 19;
/// Sequences that are stepped together, as many as are multiplied at a time.
const SEQUENCES: usize = 6;
/// The same where the weights are more than a second-level cache holds: they are read less often.
const MANY_SEQUENCES: usize = 24;
/// Bytes of weights that a second-level cache holds.
const SMALL_WEIGHTS: usize = 1 << 19;

/// What a layer with constant weights is executed with.
pub(crate) struct Ready {
    /// The input's weights.
    product: Option<matmul::Ready>,
    /// The recurrent weights as the steps read them.
    recurrent: Option<Arc<Pack>>,
}

/// # Safety
/// Constants can be read.
pub(super) unsafe fn prepare(op: &Rnn, preparation: &Preparation<'_>) -> Option<Ready> {
    let [steps, batch, input] = [0, 1, 2].map(|axis| op.src.shape()[axis]);
    let hidden = op.recurrent.shape()[2];
    let (directions, gates) = (op.direction.count(), op.cell.gates() * hidden);
    if batch * hidden == 0 {
        return None;
    }
    let dtype = op.src.dtype();
    // Weights that are copied to be multiplied are no constants then.
    let product = match wide_type(dtype) == dtype && preparation.is_constant(&op.weight) {
        true => {
            // Somewhere: only their shapes matter.
            let nowhere = |shape: &[usize]| view_of::<u8>(std::ptr::null_mut(), dtype, shape);
            let src = nowhere(&[steps * batch, input]).ok()?;
            let projected = nowhere(&[directions, steps * batch, gates]).ok()?;
            let product = product(src, &op.weight, projected, None).ok()?;
            // SAFETY: passed on from the caller.
            unsafe { matmul::prepare(&product, preparation) }
        }
        false => None,
    };
    let recurrent = match preparation.is_constant(&op.recurrent) {
        true => with_float!(dtype, T => {
            let weights = Weights::<T>::new(op);
            let bytes = weights.packed_length() * size_of::<<T as Float>::Wide>();
            let form = Form::Gates { first: weights.sheets()[0].rows };
            Ok(preparation.packs.get(&op.recurrent, form, bytes, |to| {
                // SAFETY: the caller lets constants be read, and the memory has room for all panels.
                unsafe { weights.pack(to.cast(), preparation.team) };
            }))
        })
        .ok()?,
        false => None,
    };
    Some(Ready { product, recurrent })
}

/// The product of all steps' input with the weights.
fn product(
    src: View,
    weight: &View,
    projected: View,
    bias: Option<View>,
) -> Result<MatMul, String> {
    let turned = weight.layout().permute(&[0, 2, 1]).map_err(told)?;
    Ok(MatMul {
        a: src,
        b: View::new(weight.span(), weight.dtype(), turned).map_err(told)?,
        out: projected,
        bias,
        activation: Default::default(),
        alpha: 1.0,
    })
}

/// # Safety
/// As for [`execute`](super::execute).
pub(super) unsafe fn execute(
    op: &Rnn,
    ready: Option<&Ready>,
    team: &dyn Team,
) -> Result<(), String> {
    with_float!(op.src.dtype(), T => {
        // SAFETY: the elements are of type `T`; the rest is passed on.
        unsafe { layer::<T>(op, ready, team) }
    })
}

/// # Safety
/// As for [`execute`]; the elements are of type `T`.
unsafe fn layer<T>(op: &Rnn, ready: Option<&Ready>, team: &dyn Team) -> Result<(), String>
where
    T: Float + Factor<Unit = <T as Float>::Wide, Out = T>,
    T::Wide: InPlaceUnit,
{
    let [steps, batch, input] = [0, 1, 2].map(|axis| op.src.shape()[axis]);
    let hidden = op.recurrent.shape()[2];
    let (directions, gates) = (op.direction.count(), op.cell.gates() * hidden);
    // There may be any number of sequences without steps.
    let written = [
        Some(&op.dst),
        op.last_hidden.as_ref(),
        op.last_cell.as_ref(),
    ];
    if (written.into_iter().flatten()).all(|view| view.layout().elements() == 0) {
        return Ok(());
    }
    let weights = Weights::<T>::new(op);
    let rows = steps * batch;
    // What is not multiplied where it lies is copied.
    let wide = wide_type(op.src.dtype());
    let short = wide != op.src.dtype();
    let rows_of_src = if short { None } else { as_rows(&op.src) };
    let line = 64 / size_of::<T::Wide>();
    let mut needed = Count::of(0);
    let mut room = |count: Count| {
        let at = needed.here();
        needed = needed + count.rounded_to(line);
        at
    };
    let none = Count::of(0);
    let projected_at = room(Count::of(directions) * rows * gates);
    let bias_at = room(Count::of(directions) * gates);
    let recurrent = ready.and_then(|ready| ready.recurrent.as_ref());
    let weights_at = room(match recurrent {
        Some(_) => none,
        None => Count::of(weights.packed_length()),
    });
    let src_at = room(match rows_of_src {
        Some(_) => none,
        None => Count::of(rows) * input,
    });
    let weight_at = room(match short {
        true => Count::of(directions) * gates * input,
        false => none,
    });
    with_scratch(needed, |memory: *mut T::Wide| {
        let memory = Shared(memory);
        let view = |at: usize, shape: &[usize]| view_of(memory.at(at as isize), wide, shape);
        // SAFETY: the views are as promised; the memory has room for all that is placed in it.
        unsafe {
            let src = match rows_of_src {
                Some(src) => src,
                None => {
                    copy::execute(&op.src, &view(src_at, op.src.shape())?, team);
                    view(src_at, &[rows, input])?
                }
            };
            let weight = match short {
                false => op.weight,
                true => {
                    let copied = view(weight_at, op.weight.shape())?;
                    copy::execute(&op.weight, &copied, team);
                    copied
                }
            };
            let projected = view(projected_at, &[directions, rows, gates])?;
            let bias = match &op.bias {
                None => None,
                Some(bias) => {
                    weights.add_biases(bias, memory.at(bias_at as isize));
                    Some(view(bias_at, &[directions, 1, gates])?)
                }
            };
            let product = product(src, &weight, projected, bias)?;
            matmul::execute(
                &product,
                ready.and_then(|ready| ready.product.as_ref()),
                team,
            )?;
            let packed = match recurrent {
                Some(pack) => pack.at::<T::Wide>().cast_mut(),
                None => {
                    let packed = memory.at(weights_at as isize);
                    weights.pack(packed, team);
                    packed
                }
            };
            let layer = Layer::<T> {
                op,
                weights: &weights,
                projected: Shared(memory.at(projected_at as isize)),
                packed: Shared(packed),
            };
            let together = match weights.packed_length() * size_of::<T::Wide>() {
                bytes if bytes <= directions * SMALL_WEIGHTS => SEQUENCES,
                _ => MANY_SEQUENCES,
            };
            let parts = batch.div_ceil(together);
            let sequences = |index: usize, team: &dyn Team| {
                let part = even_part(batch, together, index % parts);
                layer.sequences(index / parts, part, team);
            };
            let tasks = directions * parts;
            if tasks < team.width() {
                // Too few to go round: the threads share each one's steps.
                (0..tasks).for_each(|index| sequences(index, team));
            } else {
                let each = steps.saturating_mul(gates).saturating_mul(hidden);
                let each = each.saturating_mul(batch.div_ceil(parts));
                split(tasks, GRAIN.div_ceil(each.max(1)), team, &|range| {
                    range.for_each(|index| sequences(index, &Solo));
                });
            }
            Ok(())
        }
    })
}

/// The type that elements are computed in.
fn wide_type(dtype: DType) -> DType {
    match dtype {
        DType::F64 => DType::F64,
        _ => DType::F32,
    }
}

/// The first two dimensions as one, where they are one in memory.
fn as_rows(src: &View) -> Option<View> {
    let (shape, strides) = (src.shape(), src.layout().strides());
    let row = match shape {
        [_, 1, _] => strides[0],
        [1, ..] => strides[1],
        _ if strides[0] == strides[1] * shape[1] as isize => strides[1],
        _ => return None,
    };
    let shape = [shape[0] * shape[1], shape[2]];
    let layout = Layout::strided(&shape, &[row, strides[2]], src.layout().offset()).ok()?;
    View::new(src.span(), src.dtype(), layout).ok()
}

/// Row-major elements at an address.
fn view_of<R>(at: *mut R, dtype: DType, shape: &[usize]) -> Result<View, String> {
    let layout = Layout::contiguous(shape).map_err(told)?;
    let span = Span {
        handle: at.expose_provenance() as u64,
        offset: 0,
        bytes: layout.elements() * dtype.size(),
    };
    View::new(span, dtype, layout).map_err(told)
}

fn told(error: streampool_device::Error) -> String {
    error.to_string()
}
