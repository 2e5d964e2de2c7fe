//! A request: some rows, and how they are to be served.

use std::sync::Arc;
use std::time::{Duration, Instant};

use smallvec::SmallVec;
use streampool_tensor::Array;

use crate::error::{Error, Result};
use crate::schedule::Priority;
use crate::traced::Traced;

/// Some rows of each input, and how they are to be served.
#[derive(Debug, Clone)]
pub struct Request {
    pub(crate) inputs: Vec<Array>,
    pub(crate) tenant: Option<String>,
    pub(crate) priority: Priority,
    pub(crate) deadline: Option<Instant>,
    pub(crate) behind: Option<Instant>,
    pub(crate) key: u64,
    pub(crate) traced: Option<Arc<Traced>>,
}

impl Request {
    /// These inputs: the first axis of each is its rows, and all have as many.
    pub fn new(inputs: Vec<Array>) -> Request {
        Request {
            inputs,
            tenant: None,
            priority: Priority::default(),
            deadline: None,
            behind: None,
            key: 0,
            traced: None,
        }
    }

    /// On whose account it goes.
    pub fn tenant(mut self, tenant: impl Into<String>) -> Request {
        self.tenant = Some(tenant.into());
        self
    }

    /// What it comes before.
    pub fn priority(mut self, priority: Priority) -> Request {
        self.priority = priority;
        self
    }

    /// When it is of no use any more: if it has not begun by then it never does, and fails at once.
    pub fn deadline(mut self, deadline: Instant) -> Request {
        self.deadline = Some(deadline);
        self
    }

    /// As [`deadline`](Self::deadline), this long from now.
    pub fn within(mut self, time: Duration) -> Request {
        self.deadline = Instant::now().checked_add(time);
        self
    }

    /// When it goes behind all others of its priority, if it has not begun by then: it is served when none of these waits, also of
    /// those that come later, however many batches pass over it.
    pub fn behind_from(mut self, time: Instant) -> Request {
        self.behind = Some(time);
        self
    }

    /// Only requests with the same key go together, whatever their shapes. It is 0 if nothing is said.
    pub fn key(mut self, key: u64) -> Request {
        self.key = key;
        self
    }

    /// Writes down when it comes and when its batch runs.
    pub fn traced(mut self, traced: Arc<Traced>) -> Request {
        self.traced = Some(traced);
        self
    }

    /// How many rows it has.
    pub(crate) fn rows(&self) -> Result<usize> {
        let Some(first) = self.inputs.first() else {
            return Err(Error::no_input(0, "at least one array"));
        };
        let rows = first.row_count();
        for (input, array) in self.inputs.iter().enumerate() {
            let given = (array.dtype(), array.shape());
            if array.shape().is_empty() {
                return Err(Error::request(input, given, "rows along a first axis"));
            }
            if array.row_count() != rows {
                let expected = format!("{rows} rows, as input 0 has");
                return Err(Error::request(input, given, expected));
            }
        }
        if rows == 0 {
            let given = (first.dtype(), first.shape());
            return Err(Error::request(0, given, "at least one row"));
        }
        Ok(rows)
    }

    pub(crate) fn bytes(&self) -> usize {
        self.inputs.iter().map(|array| array.bytes().len()).sum()
    }
}

impl From<Vec<Array>> for Request {
    fn from(inputs: Vec<Array>) -> Request {
        Request::new(inputs)
    }
}

impl From<Array> for Request {
    fn from(input: Array) -> Request {
        Request::new(vec![input])
    }
}

/// What requests that go together have in common: key, and types and sizes of their rows.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Kind(SmallVec<[u64; 12]>);

impl Kind {
    pub fn of(request: &Request) -> Kind {
        let mut words = SmallVec::new();
        words.push(request.key);
        for array in &request.inputs {
            words.push(array.dtype() as u64);
            words.push(array.shape().len() as u64);
            words.extend(array.shape().iter().skip(1).map(|&size| size as u64));
        }
        Kind(words)
    }
}

#[cfg(test)]
mod tests {
    use streampool_tensor::DType;

    use super::*;

    fn zeros(shape: &[usize]) -> Array {
        Array::zeros(DType::F32, shape).unwrap()
    }

    #[test]
    fn requests_of_other_rows_go_together_and_those_of_other_shapes_do_not() {
        let kind = |shapes: &[&[usize]]| {
            Kind::of(&Request::new(
                shapes.iter().map(|shape| zeros(shape)).collect(),
            ))
        };
        assert_eq!(kind(&[&[1, 4]]), kind(&[&[7, 4]]));
        assert_ne!(kind(&[&[1, 4]]), kind(&[&[1, 5]]));
        assert_ne!(kind(&[&[1, 4], &[1]]), kind(&[&[1, 4]]));
        assert_ne!(kind(&[&[1, 4, 1], &[1]]), kind(&[&[1, 4], &[1, 1]]));
        let keyed = Kind::of(&Request::new(vec![zeros(&[1, 4])]).key(1));
        assert_ne!(keyed, kind(&[&[1, 4]]));
    }

    #[test]
    fn what_has_no_rows_is_refused_and_told_apart() {
        let told = |inputs: Vec<Array>| Request::new(inputs).rows().unwrap_err().to_string();
        assert!(told(vec![]).contains("at least one array"));
        assert!(told(vec![zeros(&[0, 4])]).contains("at least one row"));
        assert!(
            told(vec![zeros(&[2, 4]), zeros(&[3])]).contains("input 1 is f32 [3], expected 2 rows")
        );
        assert!(told(vec![zeros(&[2]), zeros(&[])]).contains("input 1 is f32 []"));
    }
}
