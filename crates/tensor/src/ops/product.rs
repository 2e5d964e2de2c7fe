//! Matrix products.

use streampool_device::{Activation, DType, Dims, MAX_RANK, MatMul, Op};

use super::checks;
use crate::{Encoder, Error, Result, Tensor, shape};

/// A factor, and what its argument is called.
type Factor<'a> = (&'static str, &'a Tensor);

/// What a product is finished with.
#[derive(Debug, Clone, Copy)]
struct Finish<'a> {
    bias: Option<&'a Tensor>,
    activation: Activation,
    alpha: f64,
}

impl Finish<'_> {
    const PLAIN: Finish<'static> = Finish {
        bias: None,
        activation: Activation::None,
        alpha: 1.0,
    };
}

impl Tensor {
    /// The product with `other`: of matrices `[..., m, k]` and `[..., k, n]`, whose leading axes broadcast. A
    /// tensor of one axis is a row on the left and a column on the right, and its axis is not in the result.
    ///
    /// Floats of one type give that type; `i8` and `u8` give `i32`.
    pub fn matmul(&self, other: &Tensor) -> Result<Tensor> {
        self.product("matmul", other, Finish::PLAIN)
    }

    /// As [`matmul`](Self::matmul), with `activation(alpha * product + bias)` in the same launch: `bias` broadcasts to
    /// the result.
    ///
    /// ```
    /// # use streampool_host::{HostDevice, HostOptions};
    /// # use streampool_tensor::{Activation, Pool, Tensor};
    /// # let pool = Pool::new(HostDevice::new(HostOptions::default())?)?;
    /// let x = Tensor::from_slice(&pool, &[1.0f32, 2.0], &[1, 2])?;
    /// let weight = Tensor::from_slice(&pool, &[1.0f32, -1.0, 1.0, -1.0], &[2, 2])?;
    /// let bias = Tensor::from_slice(&pool, &[0.5f32, 0.5], &[2])?;
    /// let y = x.matmul_with(&weight, Some(&bias), Activation::Relu, 2.0)?;
    /// assert_eq!(y.to_vec::<f32>()?, [6.5, 0.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn matmul_with(
        &self,
        other: &Tensor,
        bias: Option<&Tensor>,
        activation: Activation,
        alpha: f64,
    ) -> Result<Tensor> {
        // The product with a column has one more axis until the end.
        let column = bias.filter(|bias| other.rank() == 1 && bias.rank() > 0);
        let column = column.map(|bias| bias.unsqueeze(-1)).transpose()?;
        let finish = Finish {
            bias: column.as_ref().or(bias),
            activation,
            alpha,
        };
        self.product("matmul_with", other, finish)
    }

    fn product(&self, op: &'static str, other: &Tensor, finish: Finish<'_>) -> Result<Tensor> {
        let on = self
            .encoder(op)?
            .with("other", [other])?
            .with("bias", finish.bias)?;
        for (argument, tensor) in [("self", self), ("other", other)] {
            if tensor.rank() == 0 {
                return Err(Error::shape(op, argument, &[], "at least one axis"));
            }
        }
        let row = (self.rank() == 1).then(|| self.unsqueeze(0)).transpose()?;
        let column = (other.rank() == 1)
            .then(|| other.unsqueeze(1))
            .transpose()?;
        let a = ("self", row.as_ref().unwrap_or(self));
        let b = ("other", column.as_ref().unwrap_or(other));
        let product = multiplied(on, a, b, finish)?;
        let product = match row {
            Some(_) => product.squeeze(-2)?,
            None => product,
        };
        match column {
            Some(_) => product.squeeze(-1),
            None => Ok(product),
        }
    }

    /// The products of as many pairs of matrices: `[batch, m, k]` and `[batch, k, n]`.
    pub fn bmm(&self, other: &Tensor) -> Result<Tensor> {
        let on = self.encoder("bmm")?.with("other", [other])?;
        for (argument, tensor) in [("self", self), ("other", other)] {
            if tensor.rank() != 3 {
                let expected = "three axes";
                return Err(Error::shape(on.op(), argument, tensor.shape(), expected));
            }
        }
        if self.shape()[0] != other.shape()[0] {
            let expected = format!("{} matrices, as in self", self.shape()[0]);
            return Err(Error::shape(on.op(), "other", other.shape(), expected));
        }
        multiplied(on, ("self", self), ("other", other), Finish::PLAIN)
    }

    /// `self * weightᵀ + bias`, the layer: `self` is `[..., features in]`, `weight` `[features out, features in]` and
    /// `bias` `[features out]`.
    pub fn linear(&self, weight: &Tensor, bias: Option<&Tensor>) -> Result<Tensor> {
        self.linear_with(weight, bias, Activation::None)
    }

    /// As [`linear`](Self::linear), with an activation in the same launch.
    pub fn linear_with(
        &self,
        weight: &Tensor,
        bias: Option<&Tensor>,
        activation: Activation,
    ) -> Result<Tensor> {
        let on = self
            .encoder("linear")?
            .with("weight", [weight])?
            .with("bias", bias)?;
        let &[made, read] = weight.shape() else {
            let expected = "[features out, features in]";
            return Err(Error::shape(on.op(), "weight", weight.shape(), expected));
        };
        if self.shape().last() != Some(&read) {
            let expected = format!(
                "a last axis of {read}, as weight {:?} reads",
                weight.shape()
            );
            return Err(Error::shape(on.op(), "self", self.shape(), expected));
        }
        if let Some(bias) = bias {
            let why = format_args!("as weight {:?} makes", weight.shape());
            checks::shaped(on.op(), "bias", bias, &[made], why)?;
        }
        let finish = Finish {
            bias,
            activation,
            alpha: 1.0,
        };
        let weight = weight.transpose(0, 1)?;
        if self.rank() == 1 {
            let row = self.unsqueeze(0)?;
            return multiplied(on, ("self", &row), ("weight", &weight), finish)?.squeeze(0);
        }
        multiplied(on, ("self", self), ("weight", &weight), finish)
    }

    /// `alpha * a * b + beta * self`, where `self` broadcasts to the product. With a `beta` of 0, `self` does not count,
    /// not even its NaN.
    pub fn addmm(&self, a: &Tensor, b: &Tensor, beta: f64, alpha: f64) -> Result<Tensor> {
        let op = "addmm";
        let on = a.encoder(op)?.with("self", [self])?.with("b", [b])?;
        checks::of_type(op, "self", self, product_type(a))?;
        let whole = f64::from(beta as i32) == beta;
        if !beta.is_finite() || !(whole || self.dtype().is_float()) {
            let expected = "finite, and for integers one of them";
            return Err(Error::parameter(op, "beta", beta, expected));
        }
        let scaled;
        let bias = match beta {
            0.0 => None,
            1.0 => Some(self),
            _ => {
                scaled = self.mul(beta).map_err(|error| error.named(op))?;
                Some(&scaled)
            }
        };
        let finish = Finish {
            bias,
            activation: Activation::None,
            alpha,
        };
        multiplied(on, ("a", a), ("b", b), finish)
    }

    /// The product of two vectors of one length, without axes.
    pub fn dot(&self, other: &Tensor) -> Result<Tensor> {
        self.check_vectors("dot", other)?;
        self.product("dot", other, Finish::PLAIN)
    }

    /// Every element of one vector times every element of another: `[n]` and `[m]` give `[n, m]`.
    pub fn outer(&self, other: &Tensor) -> Result<Tensor> {
        let op = "outer";
        self.encoder(op)?.with("other", [other])?;
        self.check_vectors(op, other)?;
        checks::of_type(op, "other", other, self.dtype())?;
        if self.dtype() == DType::Bool {
            return Err(Error::dtype(op, "self", self.dtype(), "a number type"));
        }
        let product = self.unsqueeze(1)?.mul(other);
        product.map_err(|error| error.named(op))
    }

    fn check_vectors(&self, op: &'static str, other: &Tensor) -> Result<()> {
        for (argument, tensor) in [("self", self), ("other", other)] {
            if tensor.rank() != 1 {
                return Err(Error::shape(op, argument, tensor.shape(), "one axis"));
            }
        }
        Ok(())
    }
}

/// The product of matrices, in fresh memory.
fn multiplied(on: Encoder<'_>, a: Factor<'_>, b: Factor<'_>, finish: Finish<'_>) -> Result<Tensor> {
    let ((_, left), (right_name, right)) = (a, b);
    checks::of_type(on.op(), right_name, right, left.dtype())?;
    let mut out = on.blank(product_type(left), &product_shape(on.op(), a, b)?)?;
    let steps = left.dim(-1)?;
    let is_constant = |factor: &Tensor, from_end: usize| {
        let strides = factor.layout().strides();
        strides[strides.len() - from_end] == 0
    };
    // Where each step multiplies the same numbers, one is as good as all.
    let once =
        steps > 1 && left.dtype().is_float() && is_constant(left, 1) && is_constant(right, 2);
    let (left, right, alpha) = match once {
        true => (
            &left.narrow(-1, 0, 1)?,
            &right.narrow(-2, 0, 1)?,
            finish.alpha * steps as f64,
        ),
        false => (left, right, finish.alpha),
    };
    on.encode(Op::MatMul(MatMul {
        a: left.operand()?,
        b: right.operand()?,
        out: out.operand()?,
        bias: finish.bias.map(Tensor::operand).transpose()?,
        activation: finish.activation,
        alpha,
    }))?;
    Ok(out.finish())
}

fn product_type(factor: &Tensor) -> DType {
    match factor.dtype() {
        DType::I8 | DType::U8 => DType::I32,
        other => other,
    }
}

fn product_shape(
    op: &'static str,
    (left_name, left): Factor<'_>,
    (right_name, right): Factor<'_>,
) -> Result<Dims> {
    for (argument, tensor) in [(left_name, left), (right_name, right)] {
        if tensor.rank() < 2 {
            let expected = "at least two axes";
            return Err(Error::shape(op, argument, tensor.shape(), expected));
        }
    }
    let (left_batch, a) = left.shape().split_at(left.rank() - 2);
    let (right_batch, b) = right.shape().split_at(right.rank() - 2);
    if a[1] != b[0] {
        let expected = format!(
            "{} rows, as many as {left_name} {:?} has columns",
            a[1],
            left.shape()
        );
        return Err(Error::shape(op, right_name, right.shape(), expected));
    }
    let batch = shape::broadcast(op, right_name, left_batch, right_batch)?;
    let mut sizes = Dims::new(&[0; MAX_RANK][..batch.len() + 2])?;
    sizes[..batch.len()].copy_from_slice(&batch);
    sizes[batch.len()..].copy_from_slice(&[a[0], b[1]]);
    Ok(sizes)
}
