//! A batch: the rows of several requests, as the function of a queue gets them and gives them back.

use std::sync::Arc;
use std::time::Instant;

use streampool_tensor::Array;

use crate::error::{Error, Result};

/// Rows of several arrays. All arrays of a batch have the same number of rows: their first axis.
#[derive(Debug, Clone)]
pub struct Batch {
    /// The arrays of each request.
    requests: Vec<Arc<Vec<Array>>>,
    rows: usize,
    lane: usize,
    deadline: Option<Instant>,
}

impl Batch {
    /// A batch of these arrays.
    pub fn new(arrays: Vec<Array>) -> Result<Batch> {
        let rows = arrays.first().map_or(0, Array::row_count);
        check_rows(&arrays, rows)?;
        Ok(Batch {
            requests: vec![Arc::new(arrays)],
            rows,
            lane: 0,
            deadline: None,
        })
    }

    /// A batch of the first rows of these arrays, which may have more: for functions that compute some in vain.
    pub fn of_first(arrays: Vec<Array>, rows: usize) -> Result<Batch> {
        let all = arrays.first().map_or(rows, Array::row_count);
        check_rows(&arrays, all.max(rows))?;
        Ok(Batch {
            requests: vec![Arc::new(arrays)],
            rows,
            lane: 0,
            deadline: None,
        })
    }

    /// A batch of the arrays of each request, for functions that divide what they compute.
    pub fn divided(requests: Vec<Vec<Array>>) -> Result<Batch> {
        let mut rows = 0;
        for arrays in &requests {
            let own = arrays.first().map_or(0, Array::row_count);
            check_rows(arrays, own)?;
            rows += own;
        }
        let requests = requests.into_iter().map(Arc::new).collect();
        Ok(Batch::of(requests, rows, 0))
    }

    /// A batch of requests that are of one kind.
    pub(crate) fn of(requests: Vec<Arc<Vec<Array>>>, rows: usize, lane: usize) -> Batch {
        Batch {
            requests,
            rows,
            lane,
            deadline: None,
        }
    }

    pub(crate) fn with_deadline(self, deadline: Option<Instant>) -> Batch {
        Batch { deadline, ..self }
    }

    /// How many rows it has.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Which of the queue's lanes it runs on: a number below `max_in_flight`, which no other batch has at the same time.
    pub fn lane(&self) -> usize {
        self.lane
    }

    /// When none of its requests is of use any more; `None` if one of them has no deadline.
    pub fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// How many arrays each of its requests has.
    pub fn inputs(&self) -> usize {
        self.requests.first().map_or(0, |request| request.len())
    }

    /// The arrays of each of its requests, in the order of their rows.
    pub fn requests(&self) -> impl ExactSizeIterator<Item = &[Array]> {
        self.requests.iter().map(|request| request.as_slice())
    }

    /// One input's array of each request: its rows in order, not copied.
    pub fn parts(&self, input: usize) -> Vec<&Array> {
        self.requests()
            .filter_map(|request| request.get(input))
            .collect()
    }

    /// One input's rows as one array.
    pub fn array(&self, input: usize) -> Result<Array> {
        match self.parts(input)[..] {
            [whole] if whole.row_count() == self.rows => Ok(whole.clone()),
            [longer] => longer.rows(0..self.rows).map_err(Error::failed),
            _ => self.joined(input),
        }
    }

    /// Each input's rows as one array.
    pub fn into_arrays(self) -> Result<Vec<Array>> {
        let rows = self.rows;
        let mut arrays = self.into_at_least()?;
        for array in &mut arrays {
            if array.row_count() > rows {
                *array = array.rows(0..rows).map_err(Error::failed)?;
            }
        }
        Ok(arrays)
    }

    /// Whether it has one request for each of these, and with as many rows.
    pub(crate) fn is_divided(&self, rows: impl ExactSizeIterator<Item = usize>) -> bool {
        let own = self
            .requests()
            .map(|arrays| arrays.first().map_or(0, Array::row_count));
        own.eq(rows)
    }

    pub(crate) fn into_requests(self) -> Vec<Arc<Vec<Array>>> {
        self.requests
    }

    /// As [`into_arrays`](Self::into_arrays), with the rows that were computed in vain.
    pub(crate) fn into_at_least(mut self) -> Result<Vec<Array>> {
        if let [_] = self.requests[..]
            && let Some(whole) = self.requests.pop()
        {
            return Ok(Arc::unwrap_or_clone(whole));
        }
        (0..self.inputs()).map(|input| self.joined(input)).collect()
    }

    fn joined(&self, input: usize) -> Result<Array> {
        Array::join(&self.parts(input)).map_err(Error::failed)
    }
}

/// Refuses arrays that have not so many rows.
fn check_rows(arrays: &[Array], rows: usize) -> Result<()> {
    for (output, array) in arrays.iter().enumerate() {
        if array.shape().is_empty() || array.row_count() != rows {
            return Err(Error::Output {
                output,
                got: format!("{} {:?}", array.dtype(), array.shape()),
                expected: format!("{rows} rows along the first axis, as the batch has"),
            });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rows_of_requests_are_joined_in_order() {
        let request = |values: &[i32]| {
            let arrays = vec![Array::new(values, &[values.len()]).unwrap()];
            Arc::new(arrays)
        };
        let batch = Batch::of(vec![request(&[1, 2]), request(&[3])], 3, 1);
        assert_eq!((batch.rows(), batch.lane(), batch.inputs()), (3, 1, 1));
        assert_eq!(batch.requests().len(), 2);
        assert_eq!(batch.array(0).unwrap().values::<i32>().unwrap(), [1, 2, 3]);
        let arrays = batch.into_arrays().unwrap();
        assert_eq!(arrays[0].shape(), [3]);
    }

    #[test]
    fn rows_computed_in_vain_are_cut() {
        let arrays = vec![Array::new(&[1, 2, 3], &[3]).unwrap()];
        let batch = Batch::of_first(arrays.clone(), 2).unwrap();
        assert_eq!(batch.array(0).unwrap().values::<i32>().unwrap(), [1, 2]);
        assert_eq!(batch.into_arrays().unwrap()[0].shape(), [2]);
        assert!(Batch::of_first(arrays, 4).is_err());
    }

    #[test]
    fn arrays_of_other_rows_make_no_batch() {
        let arrays = vec![
            Array::new(&[1, 2], &[2]).unwrap(),
            Array::new(&[1], &[1]).unwrap(),
        ];
        let error = Batch::new(arrays).unwrap_err().to_string();
        assert!(
            error.contains("output 1") && error.contains("2 rows"),
            "{error}"
        );
        assert!(Batch::new(vec![Array::scalar(1)]).is_err());
    }
}
