//! Ensembles of decision trees.

use streampool_device::{Op, TreeCombine, TreeTest, Trees};

use crate::{Result, Tensor};

/// How an ensemble of trees is evaluated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TreeOptions {
    /// How many trees there are.
    pub trees: usize,
    /// How many columns the result has.
    pub targets: usize,
    /// How many tests lie one below the other, at most.
    pub depth: usize,
    /// What tests ask.
    pub test: TreeTest,
    /// What becomes of several weights for a target.
    pub combine: TreeCombine,
}

impl Tensor {
    /// What an ensemble of trees says of each row of `[rows, features]`: `[rows, targets]`. `records` are those of
    /// [`Trees`].
    pub fn trees(&self, records: &Tensor, options: &TreeOptions) -> Result<Tensor> {
        let on = self.encoder("trees")?.with("records", [records])?;
        let rows = self.dim(0)?;
        let mut dst = on.blank(self.dtype(), &[rows, options.targets])?;
        on.encode(Op::Trees(Trees {
            src: self.operand()?,
            records: records.operand()?,
            dst: dst.operand()?,
            trees: options.trees,
            depth: options.depth,
            test: options.test,
            combine: options.combine,
        }))?;
        Ok(dst.finish())
    }
}
