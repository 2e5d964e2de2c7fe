//! Requests of about the same size, made the same size, so that they can go together.

use std::sync::atomic::{AtomicU64, Ordering};

use streampool_tensor::Array;

use crate::error::{Error, Result};
use crate::request::Request;

/// Fills an axis of requests up with zeros, so that those of about the same size can go together.
#[derive(Debug, Clone)]
pub struct Padding {
    axis: usize,
    edges: Edges,
    extra: Extra,
    outputs: Vec<usize>,
}

#[derive(Debug, Clone)]
enum Edges {
    At(Vec<usize>),
    Multiples(usize),
}

/// What the function is told of where the requests' own elements end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Extra {
    Nothing,
    Mask,
    Lengths,
}

impl Padding {
    /// Up to the next of these sizes; larger requests stay as they are.
    pub fn to_edges(axis: usize, edges: impl IntoIterator<Item = usize>) -> Padding {
        let mut edges: Vec<usize> = edges.into_iter().collect();
        edges.sort_unstable();
        Padding::new(axis, Edges::At(edges))
    }

    /// Up to the next multiple of a step.
    pub fn to_multiples(axis: usize, step: usize) -> Padding {
        Padding::new(axis, Edges::Multiples(step))
    }

    fn new(axis: usize, edges: Edges) -> Padding {
        Padding {
            axis,
            edges,
            extra: Extra::Nothing,
            outputs: Vec::new(),
        }
    }

    /// With one more input behind the others: an `i64` for each element of the axis in each row, 1 for the request's own and 0 for
    /// those filled up.
    pub fn with_mask(mut self) -> Padding {
        self.extra = Extra::Mask;
        self
    }

    /// With one more input behind the others: an `i64` for each row, how many elements of the axis are the request's own.
    pub fn with_lengths(mut self) -> Padding {
        self.extra = Extra::Lengths;
        self
    }

    /// These outputs of the function have the axis, too: each caller gets them cut to its own size.
    pub fn outputs(mut self, outputs: &[usize]) -> Padding {
        self.outputs = outputs.to_vec();
        self
    }

    pub(crate) fn check(&self) -> Result<()> {
        let (setting, expected) = ("padding", "an axis behind the first, and sizes above 0");
        let sizes_fit = match &self.edges {
            Edges::At(edges) => edges.first().is_some_and(|&edge| edge > 0),
            Edges::Multiples(step) => *step > 0,
        };
        match self.axis > 0 && sizes_fit {
            true => Ok(()),
            false => Err(Error::setting(setting, self, expected)),
        }
    }

    fn edge(&self, size: usize) -> usize {
        match &self.edges {
            Edges::At(edges) => edges
                .iter()
                .copied()
                .find(|&edge| edge >= size)
                .unwrap_or(size),
            Edges::Multiples(step) => size.next_multiple_of(*step),
        }
    }

    /// Fills the inputs up that are as long along the axis as the first that has it. Returns what has to be cut from the outputs.
    pub(crate) fn apply(&self, request: &mut Request, waste: &Waste) -> Result<Option<Cut>> {
        let along = |array: &Array| array.shape().get(self.axis).copied();
        let Some(size) = request.inputs.iter().find_map(along) else {
            return Ok(None);
        };
        let edge = self.edge(size);
        let rows = request.inputs.first().map_or(0, Array::row_count);
        waste.add(rows * size, rows * edge);
        if edge > size {
            for input in &mut request.inputs {
                if along(input) == Some(size) {
                    *input = input.filled_up(self.axis, edge).map_err(Error::failed)?;
                }
            }
        }
        let extra = match self.extra {
            Extra::Nothing => None,
            Extra::Mask => {
                let row = (0..edge).map(|at| i64::from(at < size));
                let mask: Vec<i64> = row.cycle().take(rows * edge).collect();
                Some(Array::new(&mask, &[rows, edge]))
            }
            Extra::Lengths => Some(Array::new(&vec![size as i64; rows], &[rows])),
        };
        if let Some(extra) = extra {
            request.inputs.push(extra.map_err(Error::failed)?);
        }
        Ok((edge > size && !self.outputs.is_empty()).then(|| Cut {
            axis: self.axis,
            size,
            outputs: self.outputs.clone(),
        }))
    }
}

/// What has to be cut from the outputs of a request that was filled up.
#[derive(Debug)]
pub struct Cut {
    axis: usize,
    size: usize,
    outputs: Vec<usize>,
}

impl Cut {
    /// Cuts it.
    pub fn apply(&self, arrays: &mut [Array]) -> Result<()> {
        for &output in &self.outputs {
            if let Some(array) = arrays.get_mut(output) {
                *array = array
                    .cut_to(self.axis, self.size)
                    .map_err(|_| Error::Output {
                        output,
                        got: format!("{} {:?}", array.dtype(), array.shape()),
                        expected: format!(
                            "an axis {} of at least {}, as `padding` says",
                            self.axis, self.size
                        ),
                    })?;
            }
        }
        Ok(())
    }
}

/// How much of what is computed was filled up.
#[derive(Debug, Default)]
pub struct Waste {
    own: AtomicU64,
    all: AtomicU64,
}

impl Waste {
    fn add(&self, own: usize, all: usize) {
        self.own.fetch_add(own as u64, Ordering::Relaxed);
        self.all.fetch_add(all as u64, Ordering::Relaxed);
    }

    /// The part of all elements that was filled up.
    pub fn part(&self) -> f64 {
        let all = self.all.load(Ordering::Relaxed);
        let own = self.own.load(Ordering::Relaxed);
        all.saturating_sub(own) as f64 / all.max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(sizes: &[&[usize]]) -> Request {
        let array = |shape: &&[usize]| {
            let values = vec![1i32; shape.iter().product()];
            Array::new(&values, shape).unwrap()
        };
        Request::new(sizes.iter().map(array).collect())
    }

    #[test]
    fn inputs_are_filled_up_and_outputs_cut() {
        let padding = Padding::to_edges(1, [8, 4]).with_mask().outputs(&[0]);
        padding.check().unwrap();
        let (mut request, waste) = (request(&[&[2, 3], &[2], &[2, 3, 2]]), Waste::default());
        let cut = padding.apply(&mut request, &waste).unwrap().unwrap();
        let shapes: Vec<&[usize]> = request.inputs.iter().map(Array::shape).collect();
        assert_eq!(shapes, [&[2, 4][..], &[2], &[2, 4, 2], &[2, 4]]);
        assert_eq!(
            request.inputs[0].values::<i32>().unwrap(),
            [1, 1, 1, 0, 1, 1, 1, 0]
        );
        assert_eq!(
            request.inputs[3].values::<i64>().unwrap(),
            [1, 1, 1, 0, 1, 1, 1, 0]
        );
        assert_eq!(waste.part(), 0.25);
        let mut outputs = vec![request.inputs[2].clone(), request.inputs[0].clone()];
        cut.apply(&mut outputs).unwrap();
        assert_eq!(outputs[0].shape(), [2, 3, 2]);
        assert_eq!(outputs[1].shape(), [2, 4], "not said to have the axis");
    }

    #[test]
    fn what_fits_or_is_too_long_stays() {
        let padding = Padding::to_edges(1, [4]).outputs(&[0]).with_lengths();
        for size in [4, 9] {
            let mut request = request(&[&[1, size]]);
            let cut = padding.apply(&mut request, &Waste::default()).unwrap();
            assert!(cut.is_none());
            assert_eq!(request.inputs[0].shape(), [1, size]);
            assert_eq!(request.inputs[1].values::<i64>().unwrap(), [size as i64]);
        }
        let mut flat = request(&[&[3]]);
        assert!(
            padding
                .apply(&mut flat, &Waste::default())
                .unwrap()
                .is_none()
        );
    }

    #[test]
    fn nonsense_is_refused() {
        assert!(Padding::to_edges(0, [4]).check().is_err());
        assert!(Padding::to_edges(1, []).check().is_err());
        assert!(Padding::to_multiples(1, 0).check().is_err());
        assert!(Padding::to_multiples(2, 16).check().is_ok());
    }
}
