//! Each element by itself: copies, constants, sequences, fused expressions.
//!
//! An op becomes one launch of a kernel whose text depends on what is computed ([`body`]) and on how its
//! elements are found ([`form`], [`transpose`]), but not on sizes, strides and constants, which it is told.

mod body;
pub(crate) mod constant;
mod each;
mod expression;
pub(crate) mod form;
mod fused;
mod many;
mod space;
mod transpose;

use std::sync::Arc;

use streampool_device::{Expr, Scalar, View};

use body::Body;
use form::{Form, MOST_ARGUMENT_BYTES, THREADS};
use fused::Fused;
use many::Many;
use space::{Order, Space};
use transpose::Transpose;

use crate::dispatch::{Dispatch, Limits, Operand, Params, Plan};
use crate::text::{Dialect, KernelText};

/// A kernel that computes each element by itself.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Elementwise(Shape);

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Shape {
    Each(Body, Form),
    Transpose(Transpose),
    Many(Many),
}

/// The most operands of a kernel in Metal, which has 31 buffers and needs one for the parameters.
const MOST_METAL_OPERANDS: usize = 30;

impl Elementwise {
    pub(crate) fn text(&self, dialect: Dialect) -> Option<KernelText> {
        let body = match &self.0 {
            Shape::Each(body, _) => body,
            Shape::Transpose(transpose) => &transpose.body,
            Shape::Many(many) => &many.body,
        };
        if !body.exists_in(dialect) {
            return None;
        }
        let text = match &self.0 {
            Shape::Each(body, form) => each::text(body, form, dialect),
            Shape::Transpose(transpose) => transpose.text(dialect),
            Shape::Many(many) => many.text(dialect),
        };
        (dialect == Dialect::Cuda || text.buffers.len() <= MOST_METAL_OPERANDS).then_some(text)
    }
}

/// `dst = cast(src)`.
pub(crate) fn copy<K: From<Elementwise>>(src: &View, dst: &View, limits: &Limits) -> Plan<K> {
    let Some(space) = Space::new([src, dst].into_iter(), Order::Any) else {
        return Plan::default();
    };
    let body = Body::copy(src.dtype(), dst.dtype());
    each(body, &space, Params::new(), limits)
}

/// `dst = value`.
pub(crate) fn fill<K: From<Elementwise>>(dst: &View, value: Scalar, limits: &Limits) -> Plan<K> {
    let Some(space) = Space::new([dst].into_iter(), Order::Any) else {
        return Plan::default();
    };
    let bits = constant::stored(value, dst.dtype());
    let size = dst.dtype().size();
    let params = match size {
        8 => Params::new().i64(bits as i64),
        _ => Params::new().u32(bits as u32),
    };
    each(Body::Fill(size), &space, params, limits)
}

/// `dst[i] = start + i * step`.
pub(crate) fn iota<K: From<Elementwise>>(
    dst: &View,
    start: Scalar,
    step: Scalar,
    limits: &Limits,
) -> Plan<K> {
    let Some(space) = Space::new([dst].into_iter(), Order::RowMajor) else {
        return Plan::default();
    };
    let params = body::iota_params(dst.dtype(), start, step);
    each(Body::Iota(dst.dtype()), &space, params, limits)
}

/// `outputs = expr(inputs)`; `None` if there are more operands than a kernel can be passed: those whose
/// addresses, with four or eight bytes for each constant and each stride of those that are not contiguous,
/// take more than about 4000 bytes. For Metal there is no text from 31 operands on. Several groups of operands
/// share launches.
pub(crate) fn map<K: From<Elementwise>>(
    expr: &Arc<Expr>,
    inputs: &[View],
    outputs: &[View],
    limits: &Limits,
) -> Option<Plan<K>> {
    if outputs.len() != expr.outputs().len() {
        let kind = |kernel| Elementwise(Shape::Many(kernel)).into();
        let one = |inputs: &[View], outputs: &[View]| map(expr, inputs, outputs, limits);
        return many::plan(expr, inputs, outputs, limits, kind, one);
    }
    let Some(space) = Space::new(inputs.iter().chain(outputs), Order::Any) else {
        return Some(Plan::default());
    };
    let fused = Fused::new(expr);
    let (constants, own) = (fused.params_size(), fused.params());
    let body = Body::Map(fused);
    let form = Form::new(&space, each::widest(&body));
    let addresses = 8 * space.operands.len();
    if addresses + constants + form.params_size() > MOST_ARGUMENT_BYTES {
        return None;
    }
    Some(in_tiles_or_each(form, body, &space, own, limits))
}

fn each<K: From<Elementwise>>(body: Body, space: &Space, own: Params, limits: &Limits) -> Plan<K> {
    let form = Form::new(space, each::widest(&body));
    in_tiles_or_each(form, body, space, own, limits)
}

fn in_tiles_or_each<K: From<Elementwise>>(
    form: Form,
    body: Body,
    space: &Space,
    own: Params,
    limits: &Limits,
) -> Plan<K> {
    if let Some((transpose, params, groups)) = Transpose::new(&body, space, &own, limits) {
        return plan(Shape::Transpose(transpose), space, params, groups);
    }
    let params = form.params(space, own);
    let groups = form.groups(space, limits);
    plan(Shape::Each(body, form), space, params, groups)
}

fn plan<K: From<Elementwise>>(shape: Shape, space: &Space, params: Params, groups: u32) -> Plan<K> {
    let operands = space.operands.iter();
    Plan::of(Dispatch {
        kernel: Elementwise(shape).into(),
        groups: [groups, 1, 1],
        threads: THREADS,
        operands: operands
            .map(|operand| Operand::Memory(operand.span()))
            .collect(),
        params,
    })
}
