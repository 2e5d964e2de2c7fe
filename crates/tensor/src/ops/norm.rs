//! Softmax and normalisation.

use std::sync::Arc;

use streampool_device::{
    Binary, Compare, DType, Expr, ExprBuilder, Norm, NormKind, Op, Unary, Value,
};

use super::checks;
use super::formula::wide;
use super::pool::PoolOptions;
use crate::{Encoder, Error, Result, Tensor};

impl Tensor {
    /// `exp(x) / Σ exp(x)` along an axis.
    pub fn softmax(&self, axis: isize) -> Result<Tensor> {
        self.softmaxed("softmax", axis, false)
    }

    /// The logarithm of the softmax along an axis.
    pub fn log_softmax(&self, axis: isize) -> Result<Tensor> {
        self.softmaxed("log_softmax", axis, true)
    }

    fn softmaxed(&self, op: &'static str, axis: isize, log: bool) -> Result<Tensor> {
        let on = self.encoder(op)?;
        let axis = self.axis(op, axis)?;
        let mut y = on.blank(self.dtype(), self.shape())?;
        on.encode(Op::Softmax {
            src: self.operand()?,
            dst: y.operand()?,
            axis,
            log,
        })?;
        Ok(y.finish())
    }

    /// `(x - mean) / sqrt(variance + epsilon) * scale + bias` over the axes from `axis` to the last. `scale` and
    /// `bias` have the shape of those axes.
    pub fn layer_norm(
        &self,
        axis: isize,
        scale: Option<&Tensor>,
        bias: Option<&Tensor>,
        epsilon: f64,
    ) -> Result<Tensor> {
        let on = self.encoder("layer_norm")?;
        self.normalised(on, NormKind::Layer, axis, scale, bias, epsilon)
    }

    /// `x / sqrt(mean of x² + epsilon) * scale` over the axes from `axis` to the last.
    pub fn rms_norm(&self, axis: isize, scale: Option<&Tensor>, epsilon: f64) -> Result<Tensor> {
        let on = self.encoder("rms_norm")?;
        self.normalised(on, NormKind::Rms, axis, scale, None, epsilon)
    }

    fn normalised(
        &self,
        on: Encoder<'_>,
        kind: NormKind,
        axis: isize,
        scale: Option<&Tensor>,
        bias: Option<&Tensor>,
        epsilon: f64,
    ) -> Result<Tensor> {
        let on = on.with("scale", scale)?.with("bias", bias)?;
        let axis = self.axis(on.op(), axis)?;
        for (argument, tensor) in [("scale", scale), ("bias", bias)] {
            if let Some(tensor) = tensor {
                let normalised = &self.shape()[axis..];
                checks::shaped(on.op(), argument, tensor, normalised, "as normalised")?;
                checks::of_type(on.op(), argument, tensor, self.dtype())?;
            }
        }
        let mut y = on.blank(self.dtype(), self.shape())?;
        on.encode(Op::Norm(Norm {
            added: None,
            sum: None,
            kind,
            src: self.operand()?,
            dst: y.operand()?,
            scale: scale.map(Tensor::operand).transpose()?,
            bias: bias.map(Tensor::operand).transpose()?,
            axis,
            epsilon,
        }))?;
        Ok(y.finish())
    }

    /// Layer normalisation of each of `groups` groups of channels (axis 1) with all that lies behind them, then
    /// `scale` and `bias`, both `[channels]`.
    pub fn group_norm(
        &self,
        groups: usize,
        scale: Option<&Tensor>,
        bias: Option<&Tensor>,
        epsilon: f64,
    ) -> Result<Tensor> {
        self.normalised_by_groups("group_norm", Some(groups), scale, bias, epsilon)
    }

    /// Layer normalisation of each channel (axis 1) by itself, then `scale` and `bias`, both `[channels]`.
    pub fn instance_norm(
        &self,
        scale: Option<&Tensor>,
        bias: Option<&Tensor>,
        epsilon: f64,
    ) -> Result<Tensor> {
        self.normalised_by_groups("instance_norm", None, scale, bias, epsilon)
    }

    fn normalised_by_groups(
        &self,
        op: &'static str,
        groups: Option<usize>,
        scale: Option<&Tensor>,
        bias: Option<&Tensor>,
        epsilon: f64,
    ) -> Result<Tensor> {
        let on = self.encoder(op)?;
        let channels = self.channels(op)?;
        let groups = groups.unwrap_or(channels.max(1));
        if groups == 0 || !channels.is_multiple_of(groups) {
            let expected = format!("a divisor of {channels}, the number of channels");
            return Err(Error::parameter(op, "groups", groups, expected));
        }
        // Where there are no channels, any number divides them.
        let groups = groups.min(channels.max(1));
        let [scale, bias] = self.scale_and_bias(on, scale, bias)?;
        let behind: usize = self.shape()[1..].iter().product();
        let grouped = self.reshape(&[self.shape()[0], groups, behind / groups])?;
        let normal = grouped.normalised(on, NormKind::Layer, 2, None, None, epsilon)?;
        let normal = normal.view(self.shape())?;
        if scale.is_none() && bias.is_none() {
            return Ok(normal);
        }
        normal.with_values(on, [], [scale, bias], |_, x, []| Ok(x))
    }

    /// `(x - mean) / sqrt(variance + epsilon) * scale + bias` with what training found, all `[channels]` (axis 1).
    pub fn batch_norm(
        &self,
        mean: &Tensor,
        variance: &Tensor,
        scale: Option<&Tensor>,
        bias: Option<&Tensor>,
        epsilon: f64,
    ) -> Result<Tensor> {
        let op = "batch_norm";
        let on = self.encoder(op)?;
        checks::floats(op, "self", self)?;
        checks::not_negative(op, "epsilon", epsilon)?;
        let mean = self.channel_values(on, "mean", mean)?;
        let variance = self.channel_values(on, "variance", variance)?;
        let [scale, bias] = self.scale_and_bias(on, scale, bias)?;
        self.with_values(
            on,
            [&mean, &variance],
            [scale, bias],
            |expr, x, [mean, variance]| {
                let epsilon = expr.constant(epsilon, wide(self.dtype()))?;
                let spread = expr.binary(Binary::Add, variance, epsilon)?;
                let factor = expr.unary(Unary::Rsqrt, spread)?;
                let centred = expr.binary(Binary::Sub, x, mean)?;
                expr.binary(Binary::Mul, centred, factor)
            },
        )
    }

    /// `x * scale + shift`, both `[channels]` (axis 1).
    pub fn scale_shift(&self, scale: &Tensor, shift: &Tensor) -> Result<Tensor> {
        let op = "scale_shift";
        let on = self.encoder(op)?;
        checks::floats(op, "self", self)?;
        let scale = self.channel_values(on, "scale", scale)?;
        let shift = self.channel_values(on, "shift", shift)?;
        self.with_values(on, [], [Some(scale), Some(shift)], |_, x, []| Ok(x))
    }

    /// `x / max(‖x‖, epsilon)`, with the norm of power `p` (infinite for the largest) along an axis.
    pub fn normalize(&self, p: f64, axis: isize, epsilon: f64) -> Result<Tensor> {
        let op = "normalize";
        let on = self.encoder(op)?;
        let axis = self.axis(op, axis)?;
        let norm = self.norm_over(op, p, &[axis as isize])?;
        self.with_values(on, [&norm], [None, None], |expr, x, [norm]| {
            let least = expr.constant(epsilon, wide(self.dtype()))?;
            let norm = expr.binary(Binary::Max, norm, least)?;
            expr.binary(Binary::Div, x, norm)
        })
    }

    /// Each slice across `axis` whose norm of power `p` (infinite for the largest) is above `most`, scaled down to it.
    pub fn renorm(&self, p: f64, axis: isize, most: f64) -> Result<Tensor> {
        let op = "renorm";
        let on = self.encoder(op)?;
        let kept = self.axis(op, axis)?;
        if most.is_nan() || most < 0.0 {
            return Err(Error::parameter(op, "most", most, "not negative"));
        }
        let others: Vec<isize> = (0..self.rank() as isize)
            .filter(|&other| other != kept as isize)
            .collect();
        if others.is_empty() {
            return Err(Error::shape(op, "self", self.shape(), "at least two axes"));
        }
        let norm = self.norm_over(op, p, &others)?;
        self.with_values(on, [&norm], [None, None], |expr, x, [norm]| {
            let dtype = wide(self.dtype());
            let (most, one) = (expr.constant(most, dtype)?, expr.constant(1.0, dtype)?);
            // As PyTorch does, so that rounding never leaves the norm above the limit.
            let little = expr.constant(1e-7, dtype)?;
            let raised = expr.binary(Binary::Add, norm, little)?;
            let factor = expr.binary(Binary::Div, most, raised)?;
            let above = expr.compare(Compare::Gt, norm, most)?;
            let factor = expr.select(above, factor, one)?;
            expr.binary(Binary::Mul, x, factor)
        })
    }

    /// `(Σ |x|^p)^(1/p)` over axes, which stay with size one; in a type in which powers do not overflow so soon.
    fn norm_over(&self, op: &'static str, p: f64, axes: &[isize]) -> Result<Tensor> {
        checks::floats(op, "self", self)?;
        if p.is_nan() || p <= 0.0 {
            return Err(Error::parameter(op, "p", p, "positive"));
        }
        let x = self.to_dtype(wide(self.dtype()))?;
        if self.elem_count() == 0 {
            return x.sum(axes, true);
        }
        if p == f64::INFINITY {
            return x.abs()?.max(axes, true);
        }
        if p == 1.0 {
            return x.abs()?.sum(axes, true);
        }
        if p == 2.0 {
            return x.mul(&x)?.sum(axes, true)?.sqrt();
        }
        x.abs()?.pow(p)?.sum(axes, true)?.pow(1.0 / p)
    }

    /// `x / (k + alpha / size * Σ x²)^beta`, the sum over `size` neighbouring channels (axis 1), of which one more comes
    /// after than before if their number is even, as in ONNX.
    pub fn local_response_norm(
        &self,
        size: usize,
        alpha: f64,
        beta: f64,
        k: f64,
    ) -> Result<Tensor> {
        let op = "local_response_norm";
        let on = self.encoder(op)?;
        checks::floats(op, "self", self)?;
        let channels = self.channels(op)?;
        if size == 0 {
            return Err(Error::parameter(op, "size", size, "at least 1"));
        }
        if self.elem_count() == 0 {
            return Ok(self.clone());
        }
        // More than this reach no further.
        let window = size.min(2 * channels + 1);
        let x = self.to_dtype(wide(self.dtype()))?;
        let lines = [
            self.shape()[0],
            1,
            channels,
            self.shape()[2..].iter().product(),
        ];
        let squares = x.mul(&x)?.view(&lines)?;
        let neighbours = PoolOptions {
            padding: &[((window - 1) / 2, window / 2), (0, 0)],
            ..PoolOptions::default()
        };
        let mean = squares.avg_pool(&[window, 1], true, &neighbours)?;
        let mean = mean.view(self.shape())?;
        self.with_values(on, [&mean], [None, None], |expr, x, [mean]| {
            let dtype = wide(self.dtype());
            let alpha = expr.constant(alpha * (window as f64 / size as f64), dtype)?;
            let (beta, k) = (expr.constant(beta, dtype)?, expr.constant(k, dtype)?);
            let sum = expr.binary(Binary::Mul, mean, alpha)?;
            let sum = expr.binary(Binary::Add, sum, k)?;
            let scale = expr.binary(Binary::Pow, sum, beta)?;
            expr.binary(Binary::Div, x, scale)
        })
    }

    /// What `compute` makes of each element and of values that broadcast to it, then times a scale, plus a bias, if given;
    /// in one pass, which rounds once.
    fn with_values<const N: usize>(
        &self,
        on: Encoder<'_>,
        values: [&Tensor; N],
        [scale, bias]: [Option<Tensor>; 2],
        compute: impl FnOnce(&mut ExprBuilder, Value, [Value; N]) -> streampool_device::Result<Value>,
    ) -> Result<Tensor> {
        let dtype = wide(self.dtype());
        let mut expr = Expr::builder();
        #[expect(clippy::disallowed_methods, reason = "as many as there are already")]
        let mut inputs = Vec::with_capacity(N + 3);
        let input = |expr: &mut ExprBuilder, tensor: &Tensor| {
            let stored = expr.input(tensor.dtype())?;
            expr.cast(stored, dtype)
        };
        let x = input(&mut expr, self)?;
        inputs.push(self.operand()?);
        let mut given = [x; N];
        for (value, tensor) in given.iter_mut().zip(values) {
            *value = input(&mut expr, tensor)?;
            inputs.push(tensor.operand()?);
        }
        let mut result = compute(&mut expr, x, given)?;
        for (tensor, function) in [(&scale, Binary::Mul), (&bias, Binary::Add)] {
            if let Some(tensor) = tensor {
                let value = input(&mut expr, tensor)?;
                inputs.push(tensor.operand()?);
                result = expr.binary(function, result, value)?;
            }
        }
        let rounded = expr.cast(result, self.dtype())?;
        let mut y = on.blank(self.dtype(), self.shape())?;
        on.encode(Op::Map {
            expr: Arc::new(expr.finish(&[rounded])?),
            inputs,
            outputs: vec![y.operand()?],
        })?;
        Ok(y.finish())
    }

    fn scale_and_bias(
        &self,
        on: Encoder<'_>,
        scale: Option<&Tensor>,
        bias: Option<&Tensor>,
    ) -> Result<[Option<Tensor>; 2]> {
        let values = |argument, tensor: Option<&Tensor>| {
            tensor
                .map(|tensor| self.channel_values(on, argument, tensor))
                .transpose()
        };
        Ok([values("scale", scale)?, values("bias", bias)?])
    }

    /// `[channels]`, in this tensor's type or `f32`, seen so that it broadcasts to axis 1.
    fn channel_values(
        &self,
        on: Encoder<'_>,
        argument: &'static str,
        tensor: &Tensor,
    ) -> Result<Tensor> {
        let on = on.with(argument, [tensor])?;
        let channels = self.channels(on.op())?;
        let why = format_args!("one for each channel of {:?}", self.shape());
        checks::shaped(on.op(), argument, tensor, &[channels], why)?;
        if tensor.dtype() != DType::F32 {
            checks::of_type(on.op(), argument, tensor, self.dtype())?;
        }
        let mut seen = vec![1; self.rank() - 1];
        seen[0] = channels;
        tensor.view(&seen)
    }

    fn channels(&self, op: &'static str) -> Result<usize> {
        match self.shape() {
            [_, channels, ..] => Ok(*channels),
            other => Err(Error::shape(op, "self", other, "[batch, channels, ...]")),
        }
    }
}
