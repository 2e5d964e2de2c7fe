//! Tables of vectors.

use streampool_tensor::{Error, Result, Tensor};

use super::module::{Module, Parts};
use super::weights::{Initial, Weights};

/// The rows of a table that indices name.
#[derive(Clone)]
pub struct Embedding {
    table: Tensor,
}

impl Embedding {
    /// Takes `weight`, `[entries, features]`.
    pub fn new(weights: &Weights, entries: usize, features: usize) -> Result<Embedding> {
        let initial = Initial::Normal { deviation: 1.0 };
        Embedding::from_tensor(weights.tensor_from("weight", &[entries, features], initial)?)
    }

    /// Of a table, `[entries, features]`.
    pub fn from_tensor(table: Tensor) -> Result<Embedding> {
        match table.shape() {
            [_, _] => Ok(Embedding { table }),
            other => {
                let expected = "[entries, features]";
                Err(Error::shape(
                    "Embedding::from_tensor",
                    "table",
                    other,
                    expected,
                ))
            }
        }
    }

    /// `[entries, features]`.
    pub fn table(&self) -> &Tensor {
        &self.table
    }
}

impl Module for Embedding {
    /// `[...]` of `i64` or `i32` gives `[..., features]`. An index out of range is a fault of the stream on the host, and
    /// picks zeros elsewhere.
    fn forward(&self, indices: &Tensor) -> Result<Tensor> {
        self.table.embedding(indices)
    }

    fn parameters(&self) -> Result<Vec<(String, Tensor)>> {
        Ok(Parts::new().with("weight", &self.table)?.into_parameters())
    }
}
