//! Scaled dot-product attention.

use super::optional;
use crate::check::{
    broadcasts, countable, float, invalid, rank, require, same_type, shape, single, steps, writable,
};
use crate::{Access, DType, OpKind, Result, View};

/// `out = softmax(cap(scale * query @ keyᵀ) + mask) @ value` for each batch and head.
///
/// A packed projection is three views of one tensor. With fewer heads in `key` and `value` than in `query`,
/// each serves as many neighbouring heads of `query` as there are to one of it. A query that may attend to
/// no key, as the mask is false or minus infinity for all within its bound, gives zeros; one that may, with scores
/// of minus infinity alone, gives NaN.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Attention<T = View> {
    /// `[batch, heads, queries, width]`.
    pub query: T,
    /// `[batch, key heads, keys, width]`; `heads` is a multiple of `key heads`.
    pub key: T,
    /// `[batch, key heads, keys, value width]`.
    pub value: T,
    /// Broadcast to `[batch, heads, queries, keys]`: as `bool`, true where a query attends to a key; else of the
    /// type of `query`, and added.
    pub mask: Option<T>,
    /// `[batch, heads, queries, value width]`.
    pub out: T,
    /// Multiplied onto the products.
    pub scale: f64,
    /// With a distance, query `i` attends to keys `0..=i + distance` only.
    pub causal: Option<i64>,
    /// If not zero, a scaled product `x` counts as `softcap * tanh(x / softcap)`. From 1e-30 to 1e30: kernels compute it in `f32`.
    pub softcap: f64,
}

impl<T> Attention<T> {
    #[inline(always)]
    pub(crate) fn try_map<'a, U, E>(
        &'a self,
        f: &mut impl FnMut(&'static str, Access, &'a T) -> Result<U, E>,
    ) -> Result<Attention<U>, E> {
        Ok(Attention {
            query: f("query", Access::Read, &self.query)?,
            key: f("key", Access::Read, &self.key)?,
            value: f("value", Access::Read, &self.value)?,
            mask: optional(&self.mask, "mask", Access::Read, f)?,
            out: f("out", Access::Write, &self.out)?,
            scale: self.scale,
            causal: self.causal,
            softcap: self.softcap,
        })
    }
}

impl Attention<View> {
    pub(crate) fn check(&self) -> Result<()> {
        let kind = OpKind::Attention;
        writable(kind, "out", &self.out)?;
        float(kind, "query", &self.query)?;
        for (argument, view) in [
            ("query", &self.query),
            ("key", &self.key),
            ("value", &self.value),
            ("out", &self.out),
        ] {
            rank(kind, argument, view, 4)?;
            same_type(kind, argument, view, &self.query)?;
        }
        let [batch, heads, queries, width] = four(&self.query);
        let [_, key_heads, keys, _] = four(&self.key);
        let [_, _, _, value_width] = four(&self.value);
        shape(
            kind,
            "key",
            self.key.shape(),
            &[batch, key_heads, keys, width],
        )?;
        shape(
            kind,
            "value",
            self.value.shape(),
            &[batch, key_heads, keys, value_width],
        )?;
        shape(
            kind,
            "out",
            self.out.shape(),
            &[batch, heads, queries, value_width],
        )?;
        require(
            kind,
            "key",
            heads == 0 || (key_heads > 0 && heads.is_multiple_of(key_heads)),
            format_args!("of {key_heads} heads"),
            format_args!("a number that divides the {heads} heads of query"),
        )?;
        let scores = [batch, heads, queries, keys];
        countable(kind, "key", "scores", scores)?;
        let widths = width.saturating_add(value_width);
        steps(kind, "key", [batch, heads, queries, keys, widths])?;
        if let Some(mask) = &self.mask {
            if mask.dtype() != DType::Bool && mask.dtype() != self.query.dtype() {
                return Err(invalid(
                    kind,
                    "mask",
                    format_args!("of type {}", mask.dtype()),
                    format_args!("bool or {}", self.query.dtype()),
                ));
            }
            broadcasts(kind, "mask", mask, &scores)?;
        }
        single(kind, "scale", self.scale, self.query.dtype())?;
        require(
            kind,
            "softcap",
            self.softcap == 0.0 || (1e-30..=1e30).contains(&self.softcap),
            self.softcap,
            "0, or from 1e-30 to 1e30",
        )
    }
}

fn four(view: &View) -> [usize; 4] {
    let mut sizes = [0; 4];
    sizes.copy_from_slice(view.shape());
    sizes
}
