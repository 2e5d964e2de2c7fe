//! Attention of many heads, with the projections around it.

use streampool_device::{Attention, Op};
use streampool_tensor::{AttentionOptions, Error, Result, Tensor};

use super::linear::Linear;
use super::module::{Module, Parts};
use super::weights::{Initial, Weights};

const OP: &str = "MultiHeadAttention";

/// Attention between the projections of queries, keys and values, and a projection of what comes out of it.
///
/// As a [`Module`] it is self-attention over `[batch, length, features]`, or without the batch. Projections that read the
/// same are one product; its parts are given to the attention, and what the heads give is written, without copies.
#[derive(Clone)]
pub struct MultiHeadAttention {
    projections: Projections,
    output: Linear,
    heads: usize,
    key_heads: usize,
    /// Whether the projections were given one by one, also if one was made of them.
    of_three: bool,
}

#[derive(Clone)]
enum Projections {
    /// One product: its features are those of queries, then of keys, then of values. The others are parts of it.
    Packed {
        joined: Linear,
        query: Linear,
        memory: Linear,
    },
    Separate([Linear; 3]),
}

/// Queries, keys and values, each `[batch, length, features]`.
type Projected = [Tensor; 3];

impl MultiHeadAttention {
    /// Takes what PyTorch's layer of this name has: `in_proj_weight`, `[3 * features, features]`, `in_proj_bias`,
    /// `[3 * features]`, `out_proj.weight`, `[features, features]`, and `out_proj.bias`, `[features]`.
    pub fn new(weights: &Weights, features: usize, heads: usize) -> Result<MultiHeadAttention> {
        let all = features.saturating_mul(3);
        let packed = weights.tensor("in_proj_weight", &[all, features])?;
        let zeros = Initial::Constant(0.0);
        let bias = weights.tensor_from("in_proj_bias", &[all], zeros)?;
        let output = Linear::new(&weights.at("out_proj"), features, features)?;
        let packed = Linear::from_tensors(packed, Some(bias))?;
        MultiHeadAttention::packed(packed, output, heads, heads)
    }

    /// Of one projection, whose features are those of queries, then of keys, then of values. Where there are fewer
    /// `key_heads` than `heads`, each of those serves as many neighbouring ones, and keys and values have as much fewer
    /// features.
    pub fn packed(
        joined: Linear,
        output: Linear,
        heads: usize,
        key_heads: usize,
    ) -> Result<MultiHeadAttention> {
        let groups = heads.saturating_add(key_heads.saturating_mul(2));
        check_heads(heads, key_heads)?;
        if !joined.features_out().is_multiple_of(groups) {
            let expected = format!(
                "a multiple of {groups} features, as {heads} heads of queries and {key_heads} of keys and values make"
            );
            let got = joined.weight().shape();
            return Err(Error::shape(OP, "joined", got, expected));
        }
        let width = joined.features_out() / groups;
        check_output(&output, heads * width)?;
        let queries = heads * width;
        let projections = Projections::Packed {
            query: joined.narrow(0, queries)?,
            memory: joined.narrow(queries, joined.features_out() - queries)?,
            joined,
        };
        Ok(MultiHeadAttention {
            projections,
            output,
            heads,
            key_heads,
            of_three: false,
        })
    }

    /// Of a projection for each of queries, keys and values, which are packed into one if they are alike. There may be
    /// fewer `key_heads` than `heads`, as in [`packed`](Self::packed).
    pub fn from_projections(
        [query, key, value]: [Linear; 3],
        output: Linear,
        heads: usize,
        key_heads: usize,
    ) -> Result<MultiHeadAttention> {
        check_heads(heads, key_heads)?;
        let (queries, keys) = (query.features_out(), key.features_out());
        if !queries.is_multiple_of(heads) || queries / heads * key_heads != keys {
            let expected = format!(
                "{key_heads} heads as wide as the {heads} of query, which makes {queries} features"
            );
            return Err(Error::shape(OP, "key", key.weight().shape(), expected));
        }
        let values = value.features_out();
        if !values.is_multiple_of(key_heads) {
            let expected = format!("a multiple of {key_heads} features");
            return Err(Error::shape(OP, "value", value.weight().shape(), expected));
        }
        if values == keys && alike(&query, &key) && alike(&query, &value) {
            let weight = Tensor::cat(&[query.weight(), key.weight(), value.weight()], 0)?;
            let bias = match (query.bias(), key.bias(), value.bias()) {
                (Some(query), Some(key), Some(value)) => {
                    Some(Tensor::cat(&[query, key, value], 0)?)
                }
                _ => None,
            };
            let joined = Linear::from_tensors(weight, bias)?.with_activation(query.activation());
            let packed = MultiHeadAttention::packed(joined, output, heads, key_heads)?;
            return Ok(MultiHeadAttention {
                of_three: true,
                ..packed
            });
        }
        check_output(&output, heads * (values / key_heads))?;
        Ok(MultiHeadAttention {
            projections: Projections::Separate([query, key, value]),
            output,
            heads,
            key_heads,
            of_three: true,
        })
    }

    /// How many heads of queries there are.
    pub fn heads(&self) -> usize {
        self.heads
    }

    /// Self-attention of `x`, `[batch, length, features]` or without the batch, with a mask or as otherwise said.
    pub fn attend(&self, x: &Tensor, options: &AttentionOptions<'_>) -> Result<Tensor> {
        let projected = match &self.projections {
            Projections::Packed {
                joined,
                query,
                memory,
            } => {
                let packed = joined.forward(x)?;
                let queries = query.features_out();
                let memory = packed.narrow(-1, queries, memory.features_out())?;
                with_halves(packed.narrow(-1, 0, queries)?, &memory)?
            }
            Projections::Separate(_) => self.cross_projected(x, x)?,
        };
        self.mixed(projected, options)
    }

    /// Attention of the queries of `x` to the keys and values of `memory`, `[batch, keys, features]` or without the batch.
    pub fn attend_to(
        &self,
        x: &Tensor,
        memory: &Tensor,
        options: &AttentionOptions<'_>,
    ) -> Result<Tensor> {
        self.mixed(self.cross_projected(x, memory)?, options)
    }

    fn cross_projected(&self, x: &Tensor, from: &Tensor) -> Result<Projected> {
        match &self.projections {
            Projections::Packed { query, memory, .. } => {
                with_halves(query.forward(x)?, &memory.forward(from)?)
            }
            Projections::Separate([query, key, value]) => {
                Ok([query.forward(x)?, key.forward(from)?, value.forward(from)?])
            }
        }
    }

    /// The attention of what was projected, and the projection of what it gives.
    fn mixed(&self, projected: Projected, options: &AttentionOptions<'_>) -> Result<Tensor> {
        let [query, key, value] = projected;
        let whole = query.shape().to_vec();
        let (batch, length) = match whole[..] {
            [batch, length, _] => (batch, length),
            [length, _] => (1, length),
            _ => {
                let expected = "[batch, length, features] or [length, features]";
                return Err(Error::shape(OP, "x", &whole, expected));
            }
        };
        let query = in_heads(&query, self.heads, whole.len())?;
        let key = in_heads(&key, self.key_heads, whole.len())?;
        let value = in_heads(&value, self.key_heads, whole.len())?;
        let on = query
            .encoder(OP)?
            .with("memory", [&key, &value])?
            .with("mask", options.mask)?;
        let (width, made) = (query.shape()[3], value.shape()[3]);
        // Heads lie side by side, as the projection reads them.
        let mut out = on.blank(query.dtype(), &[batch, length, self.heads, made])?;
        let by_head = out.layout().permute(&[0, 2, 1, 3])?;
        let past = i64::try_from(options.past).unwrap_or(i64::MAX);
        on.encode(Op::Attention(Box::new(Attention {
            query: query.operand()?,
            key: key.operand()?,
            value: value.operand()?,
            mask: options.mask.map(Tensor::operand).transpose()?,
            out: out.operand_as(by_head)?,
            scale: options.scale.unwrap_or(1.0 / (width.max(1) as f64).sqrt()),
            causal: options.causal.then_some(past),
            softcap: options.softcap,
        })))?;
        let mut shape = whole;
        if let Some(features) = shape.last_mut() {
            *features = self.heads * made;
        }
        self.output.forward(&out.finish_as(&shape)?)
    }
}

impl Module for MultiHeadAttention {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.attend(x, &AttentionOptions::default())
    }

    /// One projection for all has PyTorch's names, `in_proj_weight` and `in_proj_bias`; the parts of one that was made of three
    /// are below `q_proj`, `k_proj` and `v_proj`.
    fn parameters(&self) -> Result<Vec<(String, Tensor)>> {
        let parts = Parts::new();
        let parts = match &self.projections {
            Projections::Packed { joined, .. } if !self.of_three => parts
                .with("in_proj_weight", joined.weight())?
                .with("in_proj_bias", &joined.bias().cloned())?,
            Projections::Packed { query, memory, .. } => {
                let keys = memory.features_out() / 2;
                parts
                    .with("q_proj", query)?
                    .with("k_proj", &memory.narrow(0, keys)?)?
                    .with("v_proj", &memory.narrow(keys, keys)?)?
            }
            Projections::Separate([query, key, value]) => parts
                .with("q_proj", query)?
                .with("k_proj", key)?
                .with("v_proj", value)?,
        };
        Ok(parts.with("out_proj", &self.output)?.into_parameters())
    }
}

/// Whether one product can be made of both.
fn alike(a: &Linear, b: &Linear) -> bool {
    a.features_in() == b.features_in()
        && a.bias().is_some() == b.bias().is_some()
        && a.activation() == b.activation()
        && a.weight().dtype() == b.weight().dtype()
}

/// Queries, and the keys and values that `memory` holds one half each of.
fn with_halves(queries: Tensor, memory: &Tensor) -> Result<Projected> {
    let half = memory.dim(-1)? / 2;
    let (keys, values) = (memory.narrow(-1, 0, half)?, memory.narrow(-1, half, half)?);
    Ok([queries, keys, values])
}

/// `[batch, heads, length, width]` of `[batch, length, features]`, or of one without the batch if `rank` is 2; a view.
fn in_heads(x: &Tensor, heads: usize, rank: usize) -> Result<Tensor> {
    let (batch, length, features) = match *x.shape() {
        [batch, length, features] if rank == 3 => (batch, length, features),
        [length, features] if rank == 2 => (1, length, features),
        _ => {
            let expected = format!("{rank} axes, as x has");
            return Err(Error::shape(OP, "memory", x.shape(), expected));
        }
    };
    x.view(&[batch, length, heads, features / heads])?
        .transpose(1, 2)
}

fn check_heads(heads: usize, key_heads: usize) -> Result<()> {
    if key_heads == 0 || heads == 0 || !heads.is_multiple_of(key_heads) {
        let got = format!("{heads}, with {key_heads} of keys");
        let expected = "a multiple of those of keys, which are at least one";
        return Err(Error::parameter(OP, "heads", got, expected));
    }
    Ok(())
}

fn check_output(output: &Linear, features: usize) -> Result<()> {
    if output.features_in() != features {
        let expected = format!("[features out, {features}], as the heads make");
        let got = output.weight().shape();
        return Err(Error::shape(OP, "output", got, expected));
    }
    Ok(())
}
