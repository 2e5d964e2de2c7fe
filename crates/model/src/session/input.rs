//! What is given to a run.

use std::borrow::Cow;

use streampool_tensor::{Array, DType, Pool, Tensor, room::filled};

use crate::error::Result;
use crate::trace::TensorKind;
use crate::words::OfRun;

/// What is given to a run: values on the host, or a tensor.
#[derive(Clone, Copy)]
pub enum Input<'a> {
    /// Values on the host. They are copied, but on the host a run reads many of them where they are.
    Array(&'a Array),
    /// Rows of several arrays on the host, which are copied.
    Rows(&'a Rows<'a>),
    /// A tensor of the session's pool.
    Tensor(&'a Tensor),
}

/// Rows of several arrays as one input: they are gathered where the run reads them, and nowhere before.
pub struct Rows<'a> {
    parts: Vec<&'a Array>,
    dtype: DType,
    shape: Vec<usize>,
}

impl<'a> Rows<'a> {
    /// The rows of these arrays, one after the other, and zeros behind them up to so many rows. They have to be of one type, and
    /// of one shape but for their rows.
    pub fn new(parts: Vec<&'a Array>, rows: usize) -> Result<Rows<'a>> {
        let (dtype, mut shape) = Array::joined(&parts)?;
        shape[0] = shape[0].max(rows);
        Ok(Rows {
            parts,
            dtype,
            shape,
        })
    }

    fn copy_to(&self, mut room: &mut [u8]) {
        for part in &self.parts {
            let (place, rest) = room.split_at_mut(part.bytes().len());
            place.copy_from_slice(part.bytes());
            room = rest;
        }
        room.fill(0);
    }

    fn to_bytes(&self) -> Result<Vec<u8>> {
        let kind = TensorKind {
            dtype: self.dtype,
            shape: self.shape.clone(),
        };
        let mut bytes = filled(0, kind.bytes())?;
        self.copy_to(&mut bytes);
        Ok(bytes)
    }

    fn tensor(&self, pool: &Pool) -> Result<Tensor> {
        let bytes = self.to_bytes()?;
        Ok(Tensor::from_bytes(pool, self.dtype, &bytes, &self.shape)?)
    }
}

impl<'a> From<&'a Array> for Input<'a> {
    fn from(array: &'a Array) -> Input<'a> {
        Input::Array(array)
    }
}

impl<'a> From<&'a Rows<'a>> for Input<'a> {
    fn from(rows: &'a Rows<'a>) -> Input<'a> {
        Input::Rows(rows)
    }
}

impl<'a> From<&'a Tensor> for Input<'a> {
    fn from(tensor: &'a Tensor) -> Input<'a> {
        Input::Tensor(tensor)
    }
}

impl<'a> Input<'a> {
    /// The type of its elements.
    pub fn dtype(&self) -> DType {
        match self {
            Input::Array(array) => array.dtype(),
            Input::Rows(rows) => rows.dtype,
            Input::Tensor(tensor) => tensor.dtype(),
        }
    }

    /// The size of each axis.
    pub fn shape(&self) -> &[usize] {
        match self {
            Input::Array(array) => array.shape(),
            Input::Rows(rows) => &rows.shape,
            Input::Tensor(tensor) => tensor.shape(),
        }
    }

    /// Whether its elements are strings.
    pub(super) fn is_strings(&self) -> bool {
        match self {
            Input::Array(array) => array.is_strings(),
            Input::Rows(rows) => rows.parts.iter().any(|part| part.is_strings()),
            Input::Tensor(_) => false,
        }
    }

    /// The numbers of its strings in a run, if these are strings.
    pub(super) fn numbered(&self, words: &OfRun) -> Result<Option<Array>> {
        if !self.is_strings() {
            return Ok(None);
        }
        let Input::Rows(rows) = self else {
            let Input::Array(array) = self else {
                return Ok(None);
            };
            return Ok(Some(words.numbered(array)?));
        };
        let mut array = Array::join(&rows.parts)?;
        if array.shape()[0] < rows.shape[0] {
            array = array.filled_up(0, rows.shape[0])?;
        }
        Ok(Some(words.numbered(&array)?))
    }

    /// Its bytes, after waiting for them.
    pub(super) fn to_bytes(self) -> Result<Cow<'a, [u8]>> {
        Ok(match self {
            Input::Array(array) => Cow::Borrowed(array.bytes()),
            Input::Rows(rows) => Cow::Owned(rows.to_bytes()?),
            Input::Tensor(tensor) => Cow::Owned(tensor.to_bytes()?),
        })
    }

    /// Copies its bytes to where there is room for just them, after waiting for them.
    pub(super) fn copy_to(self, room: &mut [u8]) -> Result<()> {
        match self {
            Input::Rows(rows) => rows.copy_to(room),
            other => room.copy_from_slice(&other.to_bytes()?),
        }
        Ok(())
    }

    /// It where the work is, filling its memory: values in this pool, tensors as they are.
    pub(super) fn at_work(self, pool: &Pool) -> Result<Tensor> {
        Ok(match self {
            Input::Array(array) => array.tensor(pool)?,
            Input::Rows(rows) => rows.tensor(pool)?,
            Input::Tensor(tensor) => tensor.dense()?,
        })
    }

    /// It in the pool of what is known.
    pub(super) fn known(self, pool: &Pool) -> Result<Tensor> {
        match self {
            Input::Tensor(tensor) => Ok(tensor.to(pool)?),
            values => values.at_work(pool),
        }
    }
}
