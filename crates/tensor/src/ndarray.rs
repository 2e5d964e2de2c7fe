//! Arrays of the crate `ndarray`.

use ndarray::{ArrayBase, ArrayD, Data, Dimension, IxDyn};
use streampool_device::Element;
use streampool_runtime::Pool;

use crate::{Error, Result, Tensor};

impl Tensor {
    /// A copy of an array, however it lies in memory.
    pub fn from_ndarray<T, S, D>(pool: &Pool, array: &ArrayBase<S, D>) -> Result<Tensor>
    where
        T: Element,
        S: Data<Elem = T>,
        D: Dimension,
    {
        match array.as_slice() {
            Some(values) => Tensor::from_slice(pool, values, array.shape()),
            None => {
                let values: Vec<T> = array.iter().copied().collect();
                Tensor::from_slice(pool, &values, array.shape())
            }
        }
    }

    /// Its values as an array, after waiting for them.
    pub fn to_ndarray<T: Element>(&self) -> Result<ArrayD<T>> {
        let values = self.to_vec()?;
        ArrayD::from_shape_vec(IxDyn(self.shape()), values)
            .map_err(|error| Error::shape("to_ndarray", "self", self.shape(), error))
    }
}
