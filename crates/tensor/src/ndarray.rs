//! Arrays of the crate `ndarray`.

use ndarray::{ArrayBase, ArrayD, ArrayViewD, Data, Dimension, IxDyn};
use streampool_device::Element;
use streampool_runtime::Pool;

use crate::room::room;
use crate::{Array, Error, Result, Tensor};

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

/// A copy, however it lies in memory.
impl<T, S, D> TryFrom<&ArrayBase<S, D>> for Array
where
    T: Element,
    S: Data<Elem = T>,
    D: Dimension,
{
    type Error = Error;

    fn try_from(array: &ArrayBase<S, D>) -> Result<Array> {
        match array.as_slice() {
            Some(values) => Array::new(values, array.shape()),
            None => {
                let mut values = room(array.len())?;
                values.extend(array.iter().copied());
                Array::new(&values, array.shape())
            }
        }
    }
}

impl Array {
    /// Its values as a view of the crate `ndarray`, without a copy. The type has to be its own.
    pub fn view<T: Element>(&self) -> Result<ArrayViewD<'_, T>> {
        let values = self.values()?;
        ArrayViewD::from_shape(IxDyn(self.shape()), values)
            .map_err(|error| Error::shape("view", "self", self.shape(), error))
    }
}
