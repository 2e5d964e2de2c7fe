//! Expressions that users write: many steps, one launch.

use std::sync::Arc;

use streampool_device::{Dims, Expr, Op};

use crate::{Encoder, Error, Result, Tensor, shape};

impl Tensor {
    /// The outputs of an expression of these tensors, which broadcast, in one launch. Keep the expression: a device
    /// compiles it once, and equal ones are the same to it.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use streampool_host::{HostDevice, HostOptions};
    /// # use streampool_runtime::{Binary, Expr, Unary};
    /// # use streampool_tensor::{DType, Pool, Tensor};
    /// # let pool = Pool::new(HostDevice::new(HostOptions::default())?)?;
    /// let mut expr = Expr::builder();
    /// let (x, y) = (expr.input(DType::F32)?, expr.input(DType::F32)?);
    /// let sum = expr.binary(Binary::Add, x, y)?;
    /// let root = expr.unary(Unary::Sqrt, sum)?;
    /// let expr = Arc::new(expr.finish(&[sum, root])?);
    ///
    /// let x = Tensor::from_slice(&pool, &[1.0f32, 6.0], &[2])?;
    /// let y = Tensor::scalar(&pool, 3.0f32)?;
    /// let both = Tensor::map(&expr, &[&x, &y])?;
    /// assert_eq!(both[0].to_vec::<f32>()?, [4.0, 9.0]);
    /// assert_eq!(both[1].to_vec::<f32>()?, [2.0, 3.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn map(expr: &Arc<Expr>, inputs: &[&Tensor]) -> Result<Vec<Tensor>> {
        let op = "map";
        let Some(first) = inputs.first() else {
            return Err(Error::parameter(
                op,
                "inputs",
                "none",
                "at least one tensor",
            ));
        };
        if inputs.len() != expr.inputs().len() {
            let expected = format!("{}, as the expression has", expr.inputs().len());
            let got = format!("{} tensors", inputs.len());
            return Err(Error::parameter(op, "inputs", got, expected));
        }
        let on = first.encoder(op)?.with("inputs", inputs.iter().copied())?;
        let mut joined = Dims::new(first.shape())?;
        #[expect(clippy::disallowed_methods, reason = "as many as there are already")]
        let mut operands = Vec::with_capacity(inputs.len());
        for (place, (input, &dtype)) in inputs.iter().zip(expr.inputs()).enumerate() {
            if input.dtype() != dtype {
                let expected = format!("{dtype} for input {place}, as the expression has");
                return Err(Error::dtype(op, "inputs", input.dtype(), expected));
            }
            joined = shape::broadcast(op, "inputs", &joined, input.shape())?;
            operands.push(input.operand()?);
        }
        mapped(on, expr, operands, &[joined])
    }
}

/// The outputs of an expression for as many groups of inputs as there are `shapes`, group after group.
pub(super) fn mapped(
    on: Encoder<'_>,
    expr: &Arc<Expr>,
    inputs: Vec<streampool_runtime::Operand<'_>>,
    shapes: &[Dims],
) -> Result<Vec<Tensor>> {
    #[expect(clippy::disallowed_methods, reason = "as many as there are already")]
    let mut results = Vec::with_capacity(shapes.len() * expr.outputs().len());
    for shape in shapes {
        for &output in expr.outputs() {
            results.push(on.blank(expr.dtype(output), shape)?);
        }
    }
    let outputs = results
        .iter_mut()
        .map(|result| result.operand())
        .collect::<Result<_>>()?;
    on.encode(Op::Map {
        expr: expr.clone(),
        inputs,
        outputs,
    })?;
    Ok(results.into_iter().map(|result| result.finish()).collect())
}
