//! Recurrent layers: one product for what all steps see of the input, then step by step a product of the states
//! with the recurrent weights, which are packed once.

mod gates;
mod layer;
mod weights;

use streampool_device::{DType, Layout, MatMul, Rnn, Span, View};

use self::layer::Layer;
use self::weights::Weights;
use super::convert::{Float, with_float};
use super::matmul::blocked::even_parts;
use super::matmul::factor::Factor;
use super::matmul::multiply::Unit;
use super::scratch::with_scratch;
use super::split::{Shared, split};
use super::{copy, matmul};
use crate::team::{Solo, Team};

/// Multiplications that are worth a thread.
const GRAIN: usize = 1 << 19;
/// Sequences that are stepped together, as many as are multiplied at a time.
const SEQUENCES: usize = 6;
/// The same where the weights are more than a second-level cache holds: they are read less often.
const MANY_SEQUENCES: usize = 24;
/// Bytes of weights that a second-level cache holds.
const SMALL_WEIGHTS: usize = 1 << 19;

/// # Safety
/// As for [`execute`](super::execute).
pub(super) unsafe fn execute(op: &Rnn, team: &dyn Team) -> Result<(), String> {
    with_float!(op.src.dtype(), T => {
        // SAFETY: the elements are of type `T`; the rest is passed on.
        unsafe { layer::<T>(op, team) }
    })
}

/// # Safety
/// As for [`execute`]; the elements are of type `T`.
unsafe fn layer<T>(op: &Rnn, team: &dyn Team) -> Result<(), String>
where
    T: Float + Factor<Unit = <T as Float>::Wide, Out = T>,
    T::Wide: Unit,
{
    let [steps, batch, input] = [0, 1, 2].map(|axis| op.src.shape()[axis]);
    let hidden = op.recurrent.shape()[2];
    let (directions, gates) = (op.direction.count(), op.cell.gates() * hidden);
    if batch * hidden == 0 {
        return Ok(());
    }
    let weights = Weights::<T>::new(op);
    let rows = steps * batch;
    // What is not multiplied where it lies is copied.
    let wide = wide_type(op.src.dtype());
    let short = wide != op.src.dtype();
    let rows_of_src = if short { None } else { as_rows(&op.src) };
    let line = 64 / size_of::<T::Wide>();
    let mut needed = 0;
    let mut room = |count: usize| {
        let at = needed;
        needed += count.next_multiple_of(line);
        at
    };
    let projected_at = room(directions * rows * gates);
    let bias_at = room(directions * gates);
    let weights_at = room(weights.packed_length());
    let src_at = room(if rows_of_src.is_none() {
        rows * input
    } else {
        0
    });
    let weight_at = room(if short { directions * gates * input } else { 0 });
    with_scratch(needed * size_of::<T::Wide>(), |memory| {
        let memory = Shared(memory.cast::<T::Wide>());
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
            let turned = weight.layout().permute(&[0, 2, 1]).map_err(told)?;
            let bias = match &op.bias {
                None => None,
                Some(bias) => {
                    weights.add_biases(bias, memory.at(bias_at as isize));
                    Some(view(bias_at, &[directions, 1, gates])?)
                }
            };
            let product = MatMul {
                a: src,
                b: View::new(weight.span(), wide, turned).map_err(told)?,
                out: projected,
                bias,
                activation: Default::default(),
                alpha: 1.0,
            };
            matmul::execute(&product, team)?;
            let packed = memory.at(weights_at as isize);
            weights.pack(packed, team);
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
                let part = even_parts(batch, together).nth(index % parts);
                layer.sequences(index / parts, part.unwrap_or(0..0), team);
            };
            let tasks = directions * parts;
            if tasks < team.width() {
                // Too few to go round: the threads share each one's steps.
                (0..tasks).for_each(|index| sequences(index, team));
            } else {
                let each = (steps * gates * hidden).saturating_mul(batch.div_ceil(parts));
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
