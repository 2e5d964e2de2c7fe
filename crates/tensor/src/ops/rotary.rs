//! Rotary position embedding.

use crate::{Error, Result, Tensor};

impl Tensor {
    /// Pairs of its last axis, turned by angles whose cosines and sines are given, one for each pair; these broadcast. A
    /// pair is an element and the one half the axis behind, or, `interleaved`, two neighbours.
    pub fn rotary(&self, cos: &Tensor, sin: &Tensor, interleaved: bool) -> Result<Tensor> {
        let op = "rotary";
        let width = self.shape().last().copied().unwrap_or(1);
        if width % 2 != 0 {
            return Err(Error::shape(op, "self", self.shape(), "an even last axis"));
        }
        let (first, second) = match interleaved {
            true => (self.slice(-1, .., 2)?, self.slice(-1, 1.., 2)?),
            false => (
                self.narrow(-1, 0, width / 2)?,
                self.narrow(-1, width / 2, width / 2)?,
            ),
        };
        let x = first.mul(cos)?.sub(&second.mul(sin)?)?;
        let y = first.mul(sin)?.add(&second.mul(cos)?)?;
        match interleaved {
            true => Tensor::stack(&[&x, &y], -1)?.reshape(self.shape()),
            false => Tensor::cat(&[&x, &y], -1),
        }
    }
}
