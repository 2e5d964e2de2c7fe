//! Multi-tensor apply: one expression over lists of tensors, in one launch where the device can.
//!
//! Lists have one tensor for each result; those in one place broadcast, those in different places need not have
//! the same shape, but all have one type.
//!
//! ```
//! # use streampool_host::{HostDevice, HostOptions};
//! # use streampool_tensor::{DType, Pool, Tensor, multi};
//! # let pool = Pool::new(HostDevice::new(HostOptions::default())?)?;
//! let weights = [Tensor::ones(&pool, &[2, 2], DType::F32)?, Tensor::ones(&pool, &[3], DType::F32)?];
//! let steps = [Tensor::ones(&pool, &[2, 2], DType::F32)?, Tensor::ones(&pool, &[3], DType::F32)?];
//! let weights = multi::add_scaled(&weights, &steps, -0.5)?;
//! assert_eq!(weights[1].to_vec::<f32>()?, [0.5, 0.5, 0.5]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::borrow::Borrow;
use std::sync::Arc;

use streampool_device::{Binary, DType, Dims, Expr};
use streampool_runtime::Operand;

use super::formula::Formula;
use super::formula::Takes;
use super::map::mapped;
use super::other::Other;
use crate::{Error, Result, Tensor, shape};

/// The outputs of an expression: for each list of `lists` it has an input, and for each output there is a list of
/// results.
pub fn map<T: Borrow<Tensor>>(expr: &Arc<Expr>, lists: &[&[T]]) -> Result<Vec<Vec<Tensor>>> {
    let op = "multi::map";
    if lists.len() != expr.inputs().len() {
        let expected = format!("{}, as the expression has inputs", expr.inputs().len());
        let got = format!("{} lists", lists.len());
        return Err(Error::parameter(op, "lists", got, expected));
    }
    let names: Vec<_> = lists.iter().map(|_| "lists").collect();
    let lists: Vec<Vec<&Tensor>> = lists.iter().map(|list| borrowed(list)).collect();
    let results = over(op, &names, expr, &lists)?;
    let outputs = expr.outputs().len();
    let mut sorted: Vec<Vec<Tensor>> = (0..outputs).map(|_| Vec::new()).collect();
    for (place, result) in results.into_iter().enumerate() {
        sorted[place % outputs].push(result);
    }
    Ok(sorted)
}

macro_rules! multi {
    ($($(#[$doc:meta])* $name:ident($first:ident $(, $list:ident)*; $($number:ident),*): $takes:ident, $precision:ident,
        |$e:ident, $($value:ident),+| $result:expr;)*) => {$(
        $(#[$doc])*
        pub fn $name<T: Borrow<Tensor>>($first: &[T] $(, $list: &[T])* $(, $number: f64)*) -> Result<Vec<Tensor>> {
            const NAMES: &[&str] = &[stringify!($first) $(, stringify!($list))* $(, stringify!($number))*];
            static FORMULA: Formula<{ NAMES.len() }> = Formula::$precision(
                concat!("multi::", stringify!($name)),
                [stringify!($first) $(, stringify!($list))* $(, stringify!($number))*],
                Takes::$takes,
                |$e, [$($value),+]| $result,
            );
            FORMULA.apply_each(&[borrowed($first) $(, borrowed($list))*], &[$($number.into()),*])
        }
    )*};
}

multi! {
    /// `a + b` of each pair; integers wrap.
    add(a, b;): Number, own, |e, a, b| e.binary(Binary::Add, a, b);
    /// `a - b` of each pair; integers wrap.
    sub(a, b;): Number, own, |e, a, b| e.binary(Binary::Sub, a, b);
    /// `a * b` of each pair; integers wrap.
    mul(a, b;): Number, own, |e, a, b| e.binary(Binary::Mul, a, b);
    /// `a / b` of each pair; of integers, rounded towards zero, and zero where `b` is zero.
    div(a, b;): Number, own, |e, a, b| e.binary(Binary::Div, a, b);
    /// The larger of each pair of elements; NaN where one is.
    maximum(a, b;): Number, own, |e, a, b| e.binary(Binary::Max, a, b);
    /// The smaller of each pair of elements; NaN where one is.
    minimum(a, b;): Number, own, |e, a, b| e.binary(Binary::Min, a, b);
    /// `factor * a` of each.
    scale(a; factor): Number, own, |e, a, factor| e.binary(Binary::Mul, a, factor);
    /// `a + alpha * b` of each pair.
    add_scaled(a, b; alpha): Number, wide, |e, a, b, alpha| {
        let scaled = e.binary(Binary::Mul, alpha, b)?;
        e.binary(Binary::Add, a, scaled)
    };
    /// `a + weight * (b - a)` of each pair, and exactly `b` for a weight of one.
    lerp(a, b; weight): Float, wide, |e, a, b, weight| super::arithmetic::lerp(e, a, b, weight);
    /// `a + value * b * c` of each three.
    addcmul(a, b, c; value): Number, wide, |e, a, b, c, value| {
        let product = e.binary(Binary::Mul, b, c)?;
        let scaled = e.binary(Binary::Mul, value, product)?;
        e.binary(Binary::Add, a, scaled)
    };
    /// `a + value * b / c` of each three.
    addcdiv(a, b, c; value): Float, wide, |e, a, b, c, value| {
        let quotient = e.binary(Binary::Div, b, c)?;
        let scaled = e.binary(Binary::Mul, value, quotient)?;
        e.binary(Binary::Add, a, scaled)
    };
}

impl<const N: usize> Formula<N> {
    /// The formula of what is in each place of `lists`, and numbers, which come last.
    fn apply_each(&self, lists: &[Vec<&Tensor>], numbers: &[Other<'_>]) -> Result<Vec<Tensor>> {
        let Some(&lead) = lists.iter().flatten().next() else {
            return Ok(Vec::new());
        };
        let mut operands = [Other::Tensor(lead); N];
        operands[N - numbers.len()..].copy_from_slice(numbers);
        let expr = self.expr(lead.dtype(), &operands)?;
        over(self.op(), self.arguments(), &expr, lists)
    }
}

fn borrowed<T: Borrow<Tensor>>(list: &[T]) -> Vec<&Tensor> {
    list.iter().map(Borrow::borrow).collect()
}

/// The outputs of `expr` for what is in each place of `lists`, in that order.
fn over(
    op: &'static str,
    names: &[&'static str],
    expr: &Arc<Expr>,
    lists: &[Vec<&Tensor>],
) -> Result<Vec<Tensor>> {
    let Some(first) = lists.first() else {
        return Err(Error::parameter(op, "lists", "none", "at least one list"));
    };
    for (&name, list) in names.iter().zip(lists) {
        if list.len() != first.len() {
            let expected = format!("{}, as many as in the first list", first.len());
            let got = format!("{} tensors", list.len());
            return Err(Error::parameter(op, name, got, expected));
        }
    }
    let Some(lead) = first.first() else {
        return Ok(Vec::new());
    };
    let mut on = lead.encoder(op)?;
    for (&name, list) in names.iter().zip(lists) {
        on = on.with(name, list.iter().copied())?;
    }
    #[expect(clippy::disallowed_methods, reason = "as many as there are already")]
    let mut shapes = Vec::with_capacity(first.len());
    #[expect(clippy::disallowed_methods, reason = "as many as there are already")]
    let mut inputs: Vec<Operand<'_>> = Vec::with_capacity(first.len() * lists.len());
    for place in 0..first.len() {
        let mut joined = Dims::new(first[place].shape())?;
        for (number, (list, &dtype)) in lists.iter().zip(expr.inputs()).enumerate() {
            let tensor = list[place];
            check_type(op, names[number], [number, place], tensor.dtype(), dtype)?;
            joined =
                shape::broadcast(op, names[number], &joined, tensor.shape()).map_err(|_| {
                    let expected = format!(
                        "one that broadcasts with {joined:?}, for {}",
                        at(number, place)
                    );
                    Error::shape(op, names[number], tensor.shape(), expected)
                })?;
            inputs.push(tensor.operand()?);
        }
        shapes.push(joined);
    }
    mapped(on, expr, inputs, &shapes)
}

fn check_type(
    op: &'static str,
    name: &'static str,
    [number, place]: [usize; 2],
    got: DType,
    dtype: DType,
) -> Result<()> {
    if got == dtype {
        return Ok(());
    }
    let expected = format!("{dtype} for {}: cast it with `to_dtype`", at(number, place));
    Err(Error::dtype(op, name, got, expected))
}

fn at(number: usize, place: usize) -> String {
    format!("tensor {place} of list {number}")
}
