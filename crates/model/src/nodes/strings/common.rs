//! What operators over strings are made of.

use std::rc::Rc;

use streampool_runtime::Budget;
use streampool_tensor::room::collected;
use streampool_tensor::{Pool, Tensor};

use crate::error::NodeError;
use crate::nodes::call::Call;
use crate::words::OfRun;

/// Counts what is looked at as work of the run.
pub fn spend(elements: usize) -> Result<(), NodeError> {
    Ok(Budget::take_work(elements as u64).map_err(streampool_tensor::Error::from)?)
}

/// A node that looks into strings, or makes some.
pub struct Words<'a> {
    pub of_run: Rc<OfRun>,
    pub pool: &'a Pool,
}

impl<'a> Words<'a> {
    /// Those of the run; none while a plan is made.
    pub fn of(call: &Call<'a>) -> Result<Words<'a>, NodeError> {
        let (of_run, pool) = call.words()?;
        Ok(Words { of_run, pool })
    }

    /// The numbers of the strings of an input.
    pub fn given(&self, x: &Tensor) -> Result<Vec<i64>, NodeError> {
        let numbers = x.to_vec::<i64>()?;
        spend(numbers.len())?;
        Ok(numbers)
    }

    pub fn number(&self, string: &str) -> Result<i64, NodeError> {
        spend(string.len())?;
        Ok(self.of_run.number(string)?)
    }

    /// What `change` makes of each string; of strings that are the same, once where they are neighbours.
    pub fn each<T: Copy>(
        &self,
        numbers: &[i64],
        mut change: impl FnMut(&str) -> Result<T, NodeError>,
    ) -> Result<Vec<T>, NodeError> {
        let mut last: Option<(i64, T)> = None;
        collected(numbers.iter().map(|&number| match last {
            Some((other, made)) if other == number => Ok(made),
            _ => {
                let made = self.of_run.read(number, &mut change)?;
                last = Some((number, made));
                Ok(made)
            }
        }))
    }

    /// The tensor of these numbers.
    pub fn tensor(&self, numbers: &[i64], shape: &[usize]) -> Result<Tensor, NodeError> {
        Ok(Tensor::from_slice(self.pool, numbers, shape)?)
    }

    /// Lists of numbers as rows of one length: a tensor with one axis more. What is behind a list is filled.
    pub fn rows(
        &self,
        lists: &[Vec<i64>],
        shape: &[usize],
        fill: i64,
    ) -> Result<Tensor, NodeError> {
        let width = lists.iter().map(Vec::len).max().unwrap_or(0);
        let count = width.saturating_mul(lists.len());
        let mut all = streampool_tensor::room::room(count)?;
        for list in lists {
            all.extend(list);
            all.extend(std::iter::repeat_n(fill, width - list.len()));
        }
        let mut shape = shape.to_vec();
        shape.push(width);
        self.tensor(&all, &shape)
    }
}
