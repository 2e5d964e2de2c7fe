//! Comparisons, truth values and bits. Tensors broadcast as in NumPy.

use std::sync::Arc;

use streampool_device::{Binary, Compare, DType, Dims, Expr, Unary};

use super::formula::{ByType, formulas, launch, unary};
use super::other::{Other, number_fits};
use crate::{Error, Result, Tensor, shape};

formulas! {
    /// Where `self = other`, as `bool`; NaN equals nothing.
    eq(other): Any, own, |e, x, y| e.compare(Compare::Eq, x, y);
    /// Where `self ≠ other`, as `bool`.
    ne(other): Any, own, |e, x, y| e.compare(Compare::Ne, x, y);
    /// Where `self < other`, as `bool`.
    lt(other): Any, own, |e, x, y| e.compare(Compare::Lt, x, y);
    /// Where `self ≤ other`, as `bool`.
    le(other): Any, own, |e, x, y| e.compare(Compare::Le, x, y);
    /// Where `self > other`, as `bool`.
    gt(other): Any, own, |e, x, y| e.compare(Compare::Gt, x, y);
    /// Where `self ≥ other`, as `bool`.
    ge(other): Any, own, |e, x, y| e.compare(Compare::Ge, x, y);
    /// Where both are true, as `bool`; numbers are true unless they are zero.
    logical_and(other): Any, own, |e, x, y| {
        let (x, y) = (e.truth(x)?, e.truth(y)?);
        e.binary(Binary::And, x, y)
    };
    /// Where one is true, or both, as `bool`; numbers are true unless they are zero.
    logical_or(other): Any, own, |e, x, y| {
        let (x, y) = (e.truth(x)?, e.truth(y)?);
        e.binary(Binary::Or, x, y)
    };
    /// Where just one is true, as `bool`; numbers are true unless they are zero.
    logical_xor(other): Any, own, |e, x, y| {
        let (x, y) = (e.truth(x)?, e.truth(y)?);
        e.binary(Binary::Xor, x, y)
    };
    /// The bits that both have; of truth values, whether both are true.
    bitwise_and(other): Bits, own, |e, x, y| e.binary(Binary::And, x, y);
    /// The bits that one has, or both; of truth values, whether one is true.
    bitwise_or(other): Bits, own, |e, x, y| e.binary(Binary::Or, x, y);
    /// The bits that just one has; of truth values, whether just one is true.
    bitwise_xor(other): Bits, own, |e, x, y| e.binary(Binary::Xor, x, y);
    /// The bits moved up by `other`, which counts modulo the width of the type.
    bitwise_left_shift(other): Integer, own, |e, x, y| e.binary(Binary::Shl, x, y);
    /// The bits moved down by `other`, which counts modulo the width of the type; a sign stays.
    bitwise_right_shift(other): Integer, own, |e, x, y| e.binary(Binary::Shr, x, y);
}

unary! {
    /// Where it is false, as `bool`; numbers are false if they are zero.
    logical_not: Any, own, |e, x| {
        let truth = e.truth(x)?;
        e.unary(Unary::Not, truth)
    };
    /// The other bits; of truth values, the other one.
    bitwise_not: Bits, own, |e, x| e.unary(Unary::Not, x);
    /// Where it is NaN, as `bool`.
    is_nan: Float, own, |e, x| e.unary(Unary::IsNan, x);
    /// Where it is infinite, as `bool`.
    is_inf: Float, own, |e, x| e.unary(Unary::IsInf, x);
    /// Where it is plus infinity, as `bool`.
    is_pos_inf: Float, own, |e, x| {
        let infinity = e.number(f64::INFINITY)?;
        e.compare(Compare::Eq, x, infinity)
    };
    /// Where it is minus infinity, as `bool`.
    is_neg_inf: Float, own, |e, x| {
        let infinity = e.number(f64::NEG_INFINITY)?;
        e.compare(Compare::Eq, x, infinity)
    };
    /// Where it is neither infinite nor NaN, as `bool`.
    is_finite: Float, own, |e, x| {
        let (magnitude, infinity) = (e.unary(Unary::Abs, x)?, e.number(f64::INFINITY)?);
        e.compare(Compare::Lt, magnitude, infinity)
    };
}

impl Tensor {
    /// `a` where this is true, else `b`: PyTorch's `where`. All three broadcast; at least one of `a` and `b` is a
    /// tensor, and says the type of the result.
    pub fn where_cond<'a>(
        &self,
        a: impl Into<Other<'a>>,
        b: impl Into<Other<'a>>,
    ) -> Result<Tensor> {
        self.chosen(["where_cond", "self", "a", "b"], [a.into(), b.into()])
    }

    /// `value` where `mask` is true, else what is there; both broadcast with this.
    pub fn masked_fill<'a>(&'a self, mask: &Tensor, value: impl Into<Other<'a>>) -> Result<Tensor> {
        mask.chosen(
            ["masked_fill", "mask", "value", "self"],
            [value.into(), self.into()],
        )
    }

    /// The operands where this is true and where not, by the names that errors give to all.
    fn chosen(&self, names: [&'static str; 4], operands: [Other<'_>; 2]) -> Result<Tensor> {
        static SHARED: ByType = ByType::new();
        let [op, condition, first, second] = names;
        let mut on = self.encoder(op)?;
        if self.dtype() != DType::Bool {
            return Err(Error::dtype(op, condition, self.dtype(), "bool"));
        }
        let dtype = match operands {
            [Other::Tensor(tensor), _] | [_, Other::Tensor(tensor)] => tensor.dtype(),
            _ => {
                let expected = "at least one tensor of the two, for the type of the result";
                return Err(Error::parameter(
                    op,
                    second,
                    "a number, as the first is",
                    expected,
                ));
            }
        };
        let mut joined = Dims::new(self.shape())?;
        #[expect(clippy::disallowed_methods, reason = "as many as there are already")]
        let mut inputs = Vec::with_capacity(3);
        inputs.push(self.operand()?);
        for (argument, operand) in [first, second].into_iter().zip(operands) {
            match operand {
                Other::Number(number) => number_fits(op, argument, number, dtype)?,
                Other::Tensor(tensor) => {
                    on = on.with(argument, [tensor])?;
                    if tensor.dtype() != dtype {
                        let expected = format!("{dtype}, as the other: cast it with `to_dtype`");
                        return Err(Error::dtype(op, argument, tensor.dtype(), expected));
                    }
                    joined = shape::broadcast(op, argument, &joined, tensor.shape())?;
                    inputs.push(tensor.operand()?);
                }
            }
        }
        if inputs.len() == 3 {
            let expr = SHARED.get(dtype, || choice(dtype, operands))?;
            return launch(on, expr.clone(), inputs, &joined);
        }
        launch(on, Arc::new(choice(dtype, operands)?), inputs, &joined)
    }
}

fn choice(dtype: DType, [a, b]: [Other<'_>; 2]) -> Result<Expr> {
    let mut expr = Expr::builder();
    let condition = expr.input(DType::Bool)?;
    let mut value = |operand| match operand {
        Other::Tensor(_) => expr.input(dtype),
        Other::Number(number) => expr.constant(number, dtype),
    };
    let (a, b) = (value(a)?, value(b)?);
    let chosen = expr.select(condition, a, b)?;
    Ok(expr.finish(&[chosen])?)
}
