//! Elementwise formulas: what an operator computes for each element, in whatever type its tensors have.
//!
//! A formula becomes an expression of the device once for each element type, found again by its place in an
//! array. Only a number among the operands, which is a constant of the expression, makes a fresh one.

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, OnceLock};

use streampool_device::{DType, Dims, Expr, ExprBuilder, Op, Value};
use streampool_runtime::Operand;

use super::other::{Other, number_fits};
use crate::{Encoder, Error, Result, Tensor, shape};

/// What element types an operator takes.
#[derive(Debug, Clone, Copy)]
pub(super) enum Takes {
    Any,
    Number,
    Float,
    Integer,
    /// Truth values and integers.
    Bits,
}

impl Takes {
    #[inline]
    pub(super) fn check(
        self,
        op: &'static str,
        argument: &'static str,
        dtype: DType,
    ) -> Result<()> {
        let (fits, expected) = match self {
            Takes::Any => return Ok(()),
            Takes::Number => (dtype != DType::Bool, "a number type"),
            Takes::Float => (dtype.is_float(), "a float type"),
            Takes::Integer => (dtype.is_integer(), "an integer type"),
            Takes::Bits => (!dtype.is_float(), "bool or an integer type"),
        };
        if fits {
            return Ok(());
        }
        let expected = format!("{expected}: cast it with `to_dtype`");
        Err(Error::dtype(op, argument, dtype, expected))
    }
}

/// In what type a formula is computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Precision {
    /// The tensors': for formulas of one step.
    Own,
    /// That or `f32`, if that is wider, from the first step to the last, which rounds.
    Wide,
    /// As `Wide`, and that is the type of the result, too.
    Raised,
}

/// What a device says when an expression is built.
pub(super) type Built = streampool_device::Result<Value>;

type Build<const N: usize> = fn(&mut Terms, [Value; N]) -> Built;

/// An expression in the making, and the type it is computed in.
pub(super) struct Terms {
    expr: ExprBuilder,
    dtype: DType,
}

impl Terms {
    /// A constant of the type that the formula is computed in.
    pub(super) fn number(&mut self, value: f64) -> Built {
        let dtype = self.dtype;
        self.expr.constant(value, dtype)
    }

    /// The value of an operand: an input of type `dtype`, or a number for such ones.
    fn operand(
        &mut self,
        op: &'static str,
        argument: &'static str,
        operand: &Other<'_>,
        dtype: DType,
    ) -> Result<Value> {
        let inner = self.dtype;
        Ok(match *operand {
            Other::Number(number) => {
                number_fits(op, argument, number, dtype)?;
                self.expr.constant(number, inner)?
            }
            Other::Tensor(_) => {
                let input = self.expr.input(dtype)?;
                match inner == dtype {
                    true => input,
                    false => self.expr.cast(input, inner)?,
                }
            }
        })
    }

    /// Whether it is computed in a float type.
    pub(super) fn computes_floats(&self) -> bool {
        self.dtype.is_float()
    }

    /// Whether an operand is not zero.
    pub(super) fn truth(&mut self, x: Value) -> Built {
        match self.dtype {
            DType::Bool => Ok(x),
            _ => self.expr.cast(x, DType::Bool),
        }
    }
}

impl Deref for Terms {
    type Target = ExprBuilder;
    fn deref(&self) -> &ExprBuilder {
        &self.expr
    }
}

impl DerefMut for Terms {
    fn deref_mut(&mut self) -> &mut ExprBuilder {
        &mut self.expr
    }
}

/// Expressions by element type.
pub(super) struct ByType([OnceLock<Arc<Expr>>; DType::ALL.len()]);

impl ByType {
    pub(super) const fn new() -> ByType {
        ByType([const { OnceLock::new() }; DType::ALL.len()])
    }

    #[inline]
    pub(super) fn get(
        &self,
        dtype: DType,
        make: impl FnOnce() -> Result<Expr>,
    ) -> Result<&Arc<Expr>> {
        let place = &self.0[dtype as usize];
        if let Some(made) = place.get() {
            return Ok(made);
        }
        let made = make()?;
        Ok(place.get_or_init(|| Arc::new(made)))
    }
}

/// The type that values of `dtype` are computed in where several steps round.
pub(super) fn wide(dtype: DType) -> DType {
    match dtype {
        DType::F16 | DType::BF16 => DType::F32,
        other => other,
    }
}

/// What an operator of `N` operands of one type computes for each element.
pub(super) struct Formula<const N: usize> {
    op: &'static str,
    arguments: [&'static str; N],
    takes: Takes,
    precision: Precision,
    build: Build<N>,
    made: ByType,
}

impl<const N: usize> Formula<N> {
    const fn new(
        op: &'static str,
        arguments: [&'static str; N],
        takes: Takes,
        precision: Precision,
        build: Build<N>,
    ) -> Self {
        Formula {
            op,
            arguments,
            takes,
            precision,
            build,
            made: ByType::new(),
        }
    }

    /// A formula of one step, in the tensors' type.
    pub(super) const fn own(
        op: &'static str,
        arguments: [&'static str; N],
        takes: Takes,
        build: Build<N>,
    ) -> Self {
        Formula::new(op, arguments, takes, Precision::Own, build)
    }

    /// A formula of several steps, which round once, at the end.
    pub(super) const fn wide(
        op: &'static str,
        arguments: [&'static str; N],
        takes: Takes,
        build: Build<N>,
    ) -> Self {
        Formula::new(op, arguments, takes, Precision::Wide, build)
    }

    /// A formula whose result is to be summed, and therefore of the type it is computed in.
    pub(super) const fn raised(
        op: &'static str,
        arguments: [&'static str; N],
        takes: Takes,
        build: Build<N>,
    ) -> Self {
        Formula::new(op, arguments, takes, Precision::Raised, build)
    }

    /// The formula of these operands, which broadcast; `lead` is one of them, and the others have its type.
    #[inline]
    pub(super) fn apply(&self, lead: &Tensor, operands: [Other<'_>; N]) -> Result<Tensor> {
        let mut on = lead.encoder(self.op)?;
        let dtype = lead.dtype();
        let mut joined: Option<Dims> = None;
        #[expect(clippy::disallowed_methods, reason = "as many as there are already")]
        let mut inputs = Vec::with_capacity(N);
        for (&argument, operand) in self.arguments.iter().zip(&operands) {
            let Other::Tensor(tensor) = operand else {
                continue;
            };
            if !std::ptr::eq(*tensor, lead) {
                on = on.with(argument, [*tensor])?;
                if tensor.dtype() != dtype {
                    return Err(self.other_type(argument, tensor.dtype(), dtype));
                }
                let known = joined.as_deref().unwrap_or(lead.shape());
                if tensor.shape() != known {
                    joined = Some(shape::broadcast(self.op, argument, known, tensor.shape())?);
                }
            }
            inputs.push(tensor.operand()?);
        }
        let expr = self.expr(dtype, &operands)?;
        let shape = joined.as_deref().unwrap_or(lead.shape());
        launch(on, expr, inputs, shape)
    }

    /// The expression for tensors of type `dtype` and the numbers among `operands`.
    #[inline]
    pub(super) fn expr(&self, dtype: DType, operands: &[Other<'_>; N]) -> Result<Arc<Expr>> {
        let number = |operand: &Other<'_>| matches!(operand, Other::Number(_));
        if operands.iter().any(number) {
            return Ok(Arc::new(self.expression(dtype, operands)?));
        }
        Ok(self
            .made
            .get(dtype, || self.expression(dtype, operands))?
            .clone())
    }

    pub(super) fn op(&self) -> &'static str {
        self.op
    }

    pub(super) fn arguments(&self) -> &[&'static str] {
        &self.arguments
    }

    #[cold]
    fn other_type(&self, argument: &'static str, got: DType, dtype: DType) -> Error {
        let expected = format!("{dtype}, as the others: cast it with `to_dtype`");
        Error::dtype(self.op, argument, got, expected)
    }

    fn expression(&self, dtype: DType, operands: &[Other<'_>; N]) -> Result<Expr> {
        self.takes.check(self.op, self.arguments[0], dtype)?;
        let inner = match self.precision {
            Precision::Own => dtype,
            Precision::Wide | Precision::Raised => wide(dtype),
        };
        let mut terms = Terms {
            expr: Expr::builder(),
            dtype: inner,
        };
        let mut values = [terms.operand(self.op, self.arguments[0], &operands[0], dtype)?; N];
        for place in 1..N {
            values[place] =
                terms.operand(self.op, self.arguments[place], &operands[place], dtype)?;
        }
        let mut result = (self.build)(&mut terms, values)?;
        if self.precision == Precision::Wide && inner != dtype {
            result = terms.expr.cast(result, dtype)?;
        }
        Ok(terms.expr.finish(&[result])?)
    }
}

/// The one output of an expression, for operands that were checked to broadcast to `shape`.
#[inline]
pub(super) fn launch(
    on: Encoder<'_>,
    expr: Arc<Expr>,
    inputs: Vec<Operand<'_>>,
    shape: &[usize],
) -> Result<Tensor> {
    let mut result = on.blank(expr.dtype(expr.outputs()[0]), shape)?;
    on.encode(Op::Map {
        expr,
        inputs,
        outputs: vec![result.operand()?],
    })?;
    Ok(result.finish())
}

/// Operators of one tensor.
macro_rules! unary {
    ($($(#[$doc:meta])* $name:ident: $takes:ident, $precision:ident, |$terms:ident, $x:ident| $result:expr;)*) => {
        impl crate::Tensor {$(
            $(#[$doc])*
            pub fn $name(&self) -> crate::Result<crate::Tensor> {
                static FORMULA: super::formula::Formula<1> = super::formula::Formula::$precision(
                    stringify!($name),
                    ["self"],
                    super::formula::Takes::$takes,
                    |$terms, [$x]| $result,
                );
                FORMULA.apply(self, [self.into()])
            }
        )*}
    };
}

/// Operators of a tensor and further operands, which are tensors of its type or numbers.
macro_rules! formulas {
    ($($(#[$doc:meta])* $name:ident($($argument:ident),+): $takes:ident, $precision:ident,
        |$terms:ident, $x:ident, $($y:ident),+| $result:expr;)*) => {
        impl crate::Tensor {$(
            $(#[$doc])*
            pub fn $name<'a>(
                &self,
                $($argument: impl Into<super::other::Other<'a>>,)+
            ) -> crate::Result<crate::Tensor> {
                const OPERANDS: usize = 1 + [$(stringify!($argument)),+].len();
                static FORMULA: super::formula::Formula<OPERANDS> = super::formula::Formula::$precision(
                    stringify!($name),
                    ["self", $(stringify!($argument)),+],
                    super::formula::Takes::$takes,
                    |$terms, [$x, $($y),+]| $result,
                );
                FORMULA.apply(self, [self.into(), $($argument.into()),+])
            }
        )*}
    };
}

/// Operators of a tensor with parameters, which are floats.
macro_rules! parametric {
    ($($(#[$doc:meta])* $name:ident($($parameter:ident),+): $takes:ident, $precision:ident,
        |$terms:ident, $x:ident| $result:expr;)*) => {
        impl crate::Tensor {$(
            $(#[$doc])*
            pub fn $name(&self, $($parameter: f64),+) -> crate::Result<crate::Tensor> {
                const OPERANDS: usize = 1 + [$(stringify!($parameter)),+].len();
                static FORMULA: super::formula::Formula<OPERANDS> = super::formula::Formula::$precision(
                    stringify!($name),
                    ["self", $(stringify!($parameter)),+],
                    super::formula::Takes::$takes,
                    |$terms, [$x, $($parameter),+]| $result,
                );
                FORMULA.apply(self, [self.into(), $($parameter.into()),+])
            }
        )*}
    };
}

pub(super) use {formulas, parametric, unary};
