//! Scaled dot-product attention, and the layer around it.

use streampool_device::{Attention, Op};

use super::checks;
use crate::{Encoder, Error, Result, Tensor};

/// How attention is computed.
#[derive(Debug, Clone, Copy, Default)]
pub struct AttentionOptions<'a> {
    /// Broadcast to `[batch, heads, queries, keys]`: as `bool`, true where a query attends to a key; else added.
    pub mask: Option<&'a Tensor>,
    /// Whether query `i` attends to keys `0..=i` only, counted from the same start.
    pub causal: bool,
    /// How many keys come before the first query, as with a cache; only with `causal`.
    pub past: usize,
    /// Multiplied onto the products; `1 / sqrt(width)` if left out.
    pub scale: Option<f64>,
    /// If not zero, a scaled product `x` counts as `softcap * tanh(x / softcap)`. From 1e-30 to 1e30.
    pub softcap: f64,
}

impl Tensor {
    /// `softmax(query keyᵀ * scale + mask) value` with `self` as the query: `[batch, heads, queries, width]`, on
    /// `[batch, key heads, keys, width]` and `[batch, key heads, keys, value width]`. `heads` is a multiple of
    /// `key heads`; each of those serves as many neighbouring heads. Also without the batch.
    ///
    /// The matrix of products is never in memory, and the parts of a packed projection need no copy.
    pub fn attention(
        &self,
        key: &Tensor,
        value: &Tensor,
        options: &AttentionOptions<'_>,
    ) -> Result<Tensor> {
        self.attended(self.encoder("attention")?, key, value, options)
    }

    fn attended(
        &self,
        on: Encoder<'_>,
        key: &Tensor,
        value: &Tensor,
        options: &AttentionOptions<'_>,
    ) -> Result<Tensor> {
        let on = on
            .with("key", [key])?
            .with("value", [value])?
            .with("mask", options.mask)?;
        let expected = match self.rank() {
            3 => "[heads, length, width]",
            _ => "[batch, heads, length, width]",
        };
        for (argument, tensor) in [("self", self), ("key", key), ("value", value)] {
            if tensor.rank() != self.rank().clamp(3, 4) {
                return Err(Error::shape(on.op(), argument, tensor.shape(), expected));
            }
        }
        if self.rank() == 3 {
            let (query, key, value) = (self.unsqueeze(0)?, key.unsqueeze(0)?, value.unsqueeze(0)?);
            return query.attended(on, &key, &value, options)?.squeeze(0);
        }
        let mut out = on.blank(self.dtype(), &with_width(self.shape(), value.shape()[3]))?;
        let width = self.shape()[3].max(1) as f64;
        on.encode(Op::Attention(Box::new(Attention {
            query: self.operand()?,
            key: key.operand()?,
            value: value.operand()?,
            mask: options.mask.map(Tensor::operand).transpose()?,
            out: out.operand()?,
            scale: options.scale.unwrap_or(1.0 / width.sqrt()),
            causal: options
                .causal
                .then(|| i64::try_from(options.past).unwrap_or(i64::MAX)),
            softcap: options.softcap,
        })))?;
        Ok(out.finish())
    }

    /// Self-attention as a layer, with one packed projection: `self` is `[batch, length, features]`, `packed`
    /// `[3 * features, features]` (query, key, value), `projection` `[features, features]`, and the biases as long as
    /// their weights make.
    pub fn multi_head_attention(
        &self,
        heads: usize,
        packed: &Tensor,
        packed_bias: Option<&Tensor>,
        projection: &Tensor,
        projection_bias: Option<&Tensor>,
        options: &AttentionOptions<'_>,
    ) -> Result<Tensor> {
        let op = "multi_head_attention";
        let on = self
            .encoder(op)?
            .with("packed", [packed])?
            .with("packed_bias", packed_bias)?
            .with("projection", [projection])?
            .with("projection_bias", projection_bias)?;
        checks::floats(op, "self", self)?;
        let &[batch, length, features] = self.shape() else {
            let expected = "[batch, length, features]";
            return Err(Error::shape(op, "self", self.shape(), expected));
        };
        if heads == 0 || !features.is_multiple_of(heads) {
            let expected = format!("a divisor of {features}, the number of features");
            return Err(Error::parameter(op, "heads", heads, expected));
        }
        let weights: [(_, _, &[usize]); 4] = [
            ("packed", Some(packed), &[3 * features, features]),
            ("packed_bias", packed_bias, &[3 * features]),
            ("projection", Some(projection), &[features, features]),
            ("projection_bias", projection_bias, &[features]),
        ];
        for (argument, tensor, shape) in weights {
            if let Some(tensor) = tensor {
                let why = format_args!("for {features} features");
                checks::shaped(op, argument, tensor, shape, why)?;
                checks::of_type(op, argument, tensor, self.dtype())?;
            }
        }
        let joined = self.linear(packed, packed_bias)?;
        let joined = joined.view(&[batch, length, 3, heads, features / heads])?;
        let part = |index| joined.select(2, index)?.transpose(1, 2);
        let mixed = part(0)?.attended(on, &part(1)?, &part(2)?, options)?;
        let mixed = mixed.transpose(1, 2)?.reshape(&[batch, length, features])?;
        mixed.linear(projection, projection_bias)
    }
}

fn with_width(shape: &[usize], width: usize) -> [usize; 4] {
    [shape[0], shape[1], shape[2], width]
}
