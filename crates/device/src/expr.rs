//! Fused elementwise expressions: what [`Op::Map`](crate::Op::Map) computes for each element.

use crate::{DType, Error, Result, Scalar};

/// A value inside an expression: the result of one node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Value(u16);

impl Value {
    /// The index of the node that computes it.
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// Functions of one value; the result has its type unless said otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "each name says the function")]
pub enum Unary {
    // Any number.
    Neg,
    Abs,
    Sign,
    Relu,
    // Floats.
    Exp,
    Log,
    Log1p,
    Expm1,
    Sqrt,
    Rsqrt,
    Recip,
    Sin,
    Cos,
    Tan,
    Asin,
    Acos,
    Atan,
    Sinh,
    Cosh,
    Tanh,
    Erf,
    Sigmoid,
    Silu,
    Gelu,
    GeluTanh,
    Softplus,
    Floor,
    Ceil,
    /// To the nearest integer, ties to even.
    Round,
    Trunc,
    /// Of a float; gives `bool`.
    IsNan,
    /// Of a float; gives `bool`.
    IsInf,
    /// Logical for `bool`, bitwise for integers.
    Not,
    // Floats. They come last: what is kept on disk names functions by their number.
    Asinh,
    Acosh,
    Atanh,
}

/// Functions of two values of one type; the result has that type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "each name says the function")]
pub enum Binary {
    /// Wraps for integers.
    Add,
    /// Wraps for integers.
    Sub,
    /// Wraps for integers.
    Mul,
    /// Truncates for integers; an integer divided by zero is zero.
    Div,
    /// The remainder with the dividend's sign; an integer's by zero is zero.
    Rem,
    /// Of floats; of integers by repeated wrapping product, zero for a negative exponent unless exact.
    Pow,
    /// NaN wins.
    Min,
    /// NaN wins.
    Max,
    Atan2,
    /// Logical for `bool`, bitwise for integers.
    And,
    /// Logical for `bool`, bitwise for integers.
    Or,
    /// Logical for `bool`, bitwise for integers.
    Xor,
    /// Of integers; the distance is taken modulo the width.
    Shl,
    /// Of integers, arithmetic for signed ones; the distance is taken modulo the width.
    Shr,
}

/// Comparisons of two values of one type; the result is `bool`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "each name says the comparison")]
pub enum Compare {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
}

/// One step of an expression; it names only values of earlier steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "fields are operands in order")]
pub enum Node {
    /// The element of the n-th input.
    Input(u16),
    /// A constant.
    Const(Scalar),
    /// A function of one value.
    Unary(Unary, Value),
    /// A function of two.
    Binary(Binary, Value, Value),
    /// A comparison of two.
    Compare(Compare, Value, Value),
    /// The second value where the first is true, else the third.
    Select(Value, Value, Value),
    /// The value in the node's own type: floats to integers truncate and saturate, NaN to 0; to `bool`
    /// asks whether it is not zero; integers to narrower ones wrap.
    Cast(Value),
}

/// A checked elementwise expression. Equal expressions are equal keys, in this process and on disk.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Expr {
    inputs: Vec<DType>,
    nodes: Vec<(Node, DType)>,
    outputs: Vec<Value>,
}

impl Expr {
    /// The most nodes one expression may have.
    pub const MAX_NODES: usize = 4096;

    /// Starts an empty expression.
    pub fn builder() -> ExprBuilder {
        ExprBuilder {
            inputs: Vec::new(),
            nodes: Vec::new(),
        }
    }

    /// The types of the inputs.
    pub fn inputs(&self) -> &[DType] {
        &self.inputs
    }

    /// The nodes in order, each with the type of its value.
    pub fn nodes(&self) -> &[(Node, DType)] {
        &self.nodes
    }

    /// The values that are stored.
    pub fn outputs(&self) -> &[Value] {
        &self.outputs
    }

    /// The type of a value.
    pub fn dtype(&self, value: Value) -> DType {
        self.nodes[value.index()].1
    }

    /// The expression of one input and one function.
    pub fn unary(function: Unary, dtype: DType) -> Result<Expr> {
        let mut builder = Expr::builder();
        let x = builder.input(dtype)?;
        let y = builder.unary(function, x)?;
        builder.finish(&[y])
    }

    /// The expression of two inputs of one type and one function.
    pub fn binary(function: Binary, dtype: DType) -> Result<Expr> {
        let mut builder = Expr::builder();
        let x = builder.input(dtype)?;
        let y = builder.input(dtype)?;
        let z = builder.binary(function, x, y)?;
        builder.finish(&[z])
    }
}

/// Builds an [`Expr`], checking types as it goes.
///
/// ```
/// use streampool_device::{Binary, DType, Expr, Unary};
///
/// let mut expr = Expr::builder();
/// let x = expr.input(DType::F32)?;
/// let two = expr.constant(2.0, DType::F32)?;
/// let doubled = expr.binary(Binary::Mul, x, two)?;
/// let y = expr.unary(Unary::Tanh, doubled)?;
/// let expr = expr.finish(&[y])?;
/// assert_eq!(expr.nodes().len(), 4);
/// # Ok::<(), streampool_device::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct ExprBuilder {
    inputs: Vec<DType>,
    nodes: Vec<(Node, DType)>,
}

impl ExprBuilder {
    /// The element of the next input.
    pub fn input(&mut self, dtype: DType) -> Result<Value> {
        let index = self.inputs.len() as u16;
        let value = self.push(Node::Input(index), dtype)?;
        self.inputs.push(dtype);
        Ok(value)
    }

    /// A constant of type `dtype`.
    pub fn constant(&mut self, value: impl Into<Scalar>, dtype: DType) -> Result<Value> {
        self.push(Node::Const(value.into()), dtype)
    }

    /// A function of one value.
    pub fn unary(&mut self, function: Unary, x: Value) -> Result<Value> {
        use Unary::{Abs, IsInf, IsNan, Neg, Not, Relu, Sign};
        let dtype = self.dtype(x)?;
        let (fits, wanted) = match function {
            Not => (!dtype.is_float(), "bool or an integer"),
            Neg | Abs | Sign | Relu => (dtype != DType::Bool, "a number"),
            _ => (dtype.is_float(), "a float"),
        };
        check(fits, function, dtype, wanted)?;
        let result = match function {
            IsNan | IsInf => DType::Bool,
            _ => dtype,
        };
        self.push(Node::Unary(function, x), result)
    }

    /// A function of two values of one type.
    pub fn binary(&mut self, function: Binary, x: Value, y: Value) -> Result<Value> {
        use Binary::{And, Atan2, Or, Shl, Shr, Xor};
        let dtype = self.same(x, y)?;
        let (fits, wanted) = match function {
            And | Or | Xor => (!dtype.is_float(), "bool or an integer"),
            Shl | Shr => (dtype.is_integer(), "an integer"),
            Atan2 => (dtype.is_float(), "a float"),
            _ => (dtype != DType::Bool, "a number"),
        };
        check(fits, function, dtype, wanted)?;
        self.push(Node::Binary(function, x, y), dtype)
    }

    /// A comparison of two values of one type.
    pub fn compare(&mut self, comparison: Compare, x: Value, y: Value) -> Result<Value> {
        self.same(x, y)?;
        self.push(Node::Compare(comparison, x, y), DType::Bool)
    }

    /// `x` where `condition` is true, else `y`.
    pub fn select(&mut self, condition: Value, x: Value, y: Value) -> Result<Value> {
        let found = self.dtype(condition)?;
        check(found == DType::Bool, "Select", found, "bool")?;
        let dtype = self.same(x, y)?;
        self.push(Node::Select(condition, x, y), dtype)
    }

    /// `x` in another type.
    pub fn cast(&mut self, x: Value, dtype: DType) -> Result<Value> {
        self.dtype(x)?;
        self.push(Node::Cast(x), dtype)
    }

    /// The expression that stores `outputs`.
    pub fn finish(self, outputs: &[Value]) -> Result<Expr> {
        if outputs.is_empty() {
            return Err(Error::Invalid {
                what: "the number of outputs of an expression",
                got: "0".to_owned(),
                expected: "at least one".to_owned(),
            });
        }
        for &output in outputs {
            self.dtype(output)?;
        }
        Ok(Expr {
            inputs: self.inputs,
            nodes: self.nodes,
            outputs: outputs.to_vec(),
        })
    }

    fn push(&mut self, node: Node, dtype: DType) -> Result<Value> {
        if self.nodes.len() >= Expr::MAX_NODES {
            return Err(Error::Invalid {
                what: "the number of nodes of an expression",
                got: (self.nodes.len() + 1).to_string(),
                expected: format!("at most {}", Expr::MAX_NODES),
            });
        }
        self.nodes.push((node, dtype));
        Ok(Value((self.nodes.len() - 1) as u16))
    }

    fn dtype(&self, value: Value) -> Result<DType> {
        match self.nodes.get(value.index()) {
            Some(&(_, dtype)) => Ok(dtype),
            None => Err(Error::Invalid {
                what: "a value of an expression",
                got: format!("number {}", value.0),
                expected: format!("one of this builder's {}", self.nodes.len()),
            }),
        }
    }

    fn same(&self, x: Value, y: Value) -> Result<DType> {
        let (left, right) = (self.dtype(x)?, self.dtype(y)?);
        if left != right {
            return Err(Error::Invalid {
                what: "the types of two operands",
                got: format!("{left} and {right}"),
                expected: "the same type: cast one of them".to_owned(),
            });
        }
        Ok(left)
    }
}

fn check(fits: bool, function: impl std::fmt::Debug, got: DType, expected: &str) -> Result<()> {
    if fits {
        return Ok(());
    }
    Err(Error::Invalid {
        what: "the operand of an elementwise function",
        got: format!("{got} for {function:?}"),
        expected: expected.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_checked_as_it_is_built() {
        let mut expr = Expr::builder();
        let x = expr.input(DType::F32).unwrap();
        let n = expr.input(DType::I32).unwrap();
        assert!(expr.binary(Binary::Add, x, n).is_err());
        assert!(expr.unary(Unary::Exp, n).is_err());
        assert!(expr.binary(Binary::Shl, x, x).is_err());
        assert!(expr.select(x, x, x).is_err());
        let cast = expr.cast(n, DType::F32).unwrap();
        let less = expr.compare(Compare::Lt, x, cast).unwrap();
        let y = expr.select(less, x, cast).unwrap();
        let expr = expr.finish(&[y, less]).unwrap();
        assert_eq!(expr.dtype(y), DType::F32);
        assert_eq!(expr.dtype(less), DType::Bool);
    }

    #[test]
    fn values_of_another_builder_are_refused() {
        let mut large = Expr::builder();
        large.input(DType::F32).unwrap();
        let stray = large.input(DType::F32).unwrap();
        let mut small = Expr::builder();
        small.input(DType::F32).unwrap();
        assert!(small.unary(Unary::Exp, stray).is_err());
        assert!(small.finish(&[stray]).is_err());
        assert!(large.finish(&[]).is_err());
    }
}
