//! Requests of about the same size, made the same size, so that they can go together.

use std::sync::atomic::{AtomicU64, Ordering};

use streampool_tensor::Array;
use streampool_tensor::room::{filled, room};

use crate::error::{Error, Result};
use crate::request::Request;

/// Fills an axis of requests up with zeros, so that those of about the same size can go together.
#[derive(Debug, Clone)]
pub struct Padding {
    axis: usize,
    edges: Edges,
    extra: Extra,
    /// Those that have the axis, if it is known.
    inputs: Option<Vec<usize>>,
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
            inputs: None,
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

    /// These inputs have the axis, and are equally long along it. If nothing is said, those are taken to have it that are as long
    /// as the first that may: name them where another input may happen to be as long.
    pub fn inputs(mut self, inputs: &[usize]) -> Padding {
        self.inputs = Some(inputs.to_vec());
        self
    }

    /// These outputs of the function have the axis, too: each caller gets them cut to its own size.
    pub fn outputs(mut self, outputs: &[usize]) -> Padding {
        self.outputs = outputs.to_vec();
        self
    }

    pub(crate) fn check(&self) -> Result<()> {
        let expected = "an axis behind the first, sizes above 0, and inputs if any are named";
        let sizes_fit = match &self.edges {
            Edges::At(edges) => edges.first().is_some_and(|&edge| edge > 0),
            Edges::Multiples(step) => *step > 0,
        };
        let inputs_fit = self.inputs.as_ref().is_none_or(|named| !named.is_empty());
        match self.axis > 0 && sizes_fit && inputs_fit {
            true => Ok(()),
            false => Err(Error::setting("padding", self, expected)),
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

    /// Fills the inputs up that have the axis. Nothing, if there is none.
    pub(crate) fn apply(&self, request: &mut Request) -> Result<Option<Filled>> {
        let along = |array: &Array| array.shape().get(self.axis).copied();
        let size = match &self.inputs {
            Some(named) => Some(self.size_of(named, request)?),
            None => request.inputs.iter().find_map(along),
        };
        let Some(size) = size else {
            return Ok(None);
        };
        let edge = self.edge(size);
        let rows = request.inputs.first().map_or(0, Array::row_count);
        if edge > size {
            for (input, array) in request.inputs.iter_mut().enumerate() {
                let has_it = match &self.inputs {
                    Some(named) => named.contains(&input),
                    None => along(array) == Some(size),
                };
                if has_it {
                    *array = array.filled_up(self.axis, edge).map_err(Error::failed)?;
                }
            }
        }
        let extra = match self.extra {
            Extra::Nothing => None,
            Extra::Mask => {
                let count = rows.saturating_mul(edge);
                let mask = room(count).map(|mut mask: Vec<i64>| {
                    mask.extend((0..count).map(|at| i64::from(at % edge < size)));
                    mask
                });
                Some(mask.and_then(|mask| Array::new(&mask, &[rows, edge])))
            }
            Extra::Lengths => {
                let lengths = filled(size as i64, rows);
                Some(lengths.and_then(|lengths| Array::new(&lengths, &[rows])))
            }
        };
        if let Some(extra) = extra {
            request.inputs.push(extra.map_err(Error::failed)?);
        }
        Ok(Some(Filled {
            axis: self.axis,
            size,
            own: rows * size,
            all: rows * edge,
            outputs: self.outputs.clone(),
        }))
    }

    /// How long these inputs are along the axis.
    fn size_of(&self, named: &[usize], request: &Request) -> Result<usize> {
        let mut first = None;
        for &input in named {
            let expected = || {
                let axis = self.axis;
                format!("an axis {axis}, as long as in all inputs that `padding` names")
            };
            let Some(array) = request.inputs.get(input) else {
                return Err(Error::no_input(input, expected()));
            };
            let given = (array.dtype(), array.shape());
            match array.shape().get(self.axis) {
                Some(&size) if first.is_none_or(|first| first == size) => first = Some(size),
                _ => return Err(Error::request(input, given, expected())),
            }
        }
        Ok(first.unwrap_or(0))
    }
}

/// How a request was filled up, and so what has to be cut from its outputs.
#[derive(Debug)]
pub struct Filled {
    axis: usize,
    size: usize,
    /// Elements along the axis in all rows: the request's own, and with those that fill it up.
    own: usize,
    all: usize,
    outputs: Vec<usize>,
}

impl Filled {
    /// Cuts the outputs that have the axis to the request's own size. They have to be there, whether or not there is anything to
    /// cut: so it does not depend on the sizes of requests whether a setting is right.
    pub fn cut(&self, arrays: &mut [Array]) -> Result<()> {
        for &output in &self.outputs {
            let (axis, size) = (self.axis, self.size);
            let wrong = |got: String| Error::Output {
                output,
                got,
                expected: format!("an axis {axis} of at least {size}, as `padding` says"),
            };
            let Some(array) = arrays.get_mut(output) else {
                return Err(wrong("not there".to_owned()));
            };
            if array.shape().get(axis) != Some(&size) {
                let cut = array.cut_to(axis, size);
                let shape = || format!("{} {:?}", array.dtype(), array.shape());
                *array = cut.map_err(|_| wrong(shape()))?;
            }
        }
        Ok(())
    }
}

/// How much of what came in was filled up.
#[derive(Debug, Default)]
pub struct Waste {
    own: AtomicU64,
    all: AtomicU64,
}

impl Waste {
    /// A request came in.
    pub fn count(&self, filled: &Filled) {
        self.own.fetch_add(filled.own as u64, Ordering::Relaxed);
        self.all.fetch_add(filled.all as u64, Ordering::Relaxed);
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
        let filled = padding.apply(&mut request).unwrap().unwrap();
        waste.count(&filled);
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
        filled.cut(&mut outputs).unwrap();
        assert_eq!(outputs[0].shape(), [2, 3, 2]);
        assert_eq!(outputs[1].shape(), [2, 4], "not said to have the axis");
    }

    #[test]
    fn a_mask_of_more_than_there_is_memory_for_is_refused() {
        // Nothing is in it, however long its axis is.
        let padding = Padding::to_edges(1, [8, 4]).with_mask();
        let told = padding.apply(&mut request(&[&[1, 1 << 45, 0]])).err();
        assert!(told.unwrap().to_string().contains("memory"));
    }

    #[test]
    fn what_fits_or_is_too_long_stays() {
        let padding = Padding::to_edges(1, [4]).outputs(&[0]).with_lengths();
        for size in [4, 9] {
            let mut request = request(&[&[1, size]]);
            let filled = padding.apply(&mut request).unwrap().unwrap();
            let mut outputs = vec![request.inputs[0].clone()];
            filled.cut(&mut outputs).unwrap();
            for array in [&request.inputs[0], &outputs[0]] {
                assert_eq!(array.shape(), [1, size]);
            }
            assert_eq!(request.inputs[1].values::<i64>().unwrap(), [size as i64]);
        }
        let mut flat = request(&[&[3]]);
        assert!(padding.apply(&mut flat).unwrap().is_none());
    }

    #[test]
    fn inputs_that_are_named_are_filled_up_and_no_others() {
        let padding = || Padding::to_edges(1, [8]);
        // The second happens to be as long.
        let shapes: [&[usize]; 3] = [&[1, 3], &[1, 3], &[1, 3, 2]];
        let mut named = request(&shapes);
        padding().inputs(&[0, 2]).apply(&mut named).unwrap();
        let sizes = named.inputs.iter().map(|array| array.shape()[1]);
        assert_eq!(Vec::from_iter(sizes), [8, 3, 8]);
        let told = |inputs: &[usize], shapes: &[&[usize]]| {
            let filled = padding().inputs(inputs).apply(&mut request(shapes));
            filled.unwrap_err().to_string()
        };
        let error = told(&[0, 3], &shapes);
        assert!(error.contains("input 3 is not there"), "{error}");
        let error = told(&[0, 1], &[&[1, 3], &[1]]);
        assert!(error.contains("input 1 is i32 [1]"), "{error}");
        let error = told(&[0, 1], &[&[1, 3], &[1, 4]]);
        assert!(error.contains("input 1 is i32 [1, 4]"), "{error}");
    }

    /// Whether or not there is anything to cut.
    #[test]
    fn outputs_that_are_not_there_are_told() {
        let padding = Padding::to_edges(1, [4]).outputs(&[1]);
        for size in [3, 4, 9] {
            let mut request = request(&[&[1, size]]);
            let filled = padding.apply(&mut request).unwrap().unwrap();
            let told = |outputs: &mut [Array]| filled.cut(outputs).unwrap_err().to_string();
            let error = told(&mut request.inputs.clone());
            assert!(
                error.contains("output 1 of the batch is not there"),
                "{error}"
            );
            let flat = Array::new(&[1i32], &[1]).unwrap();
            let error = told(&mut [request.inputs[0].clone(), flat]);
            assert!(
                error.contains("output 1 of the batch is i32 [1]"),
                "{error}"
            );
        }
    }

    #[test]
    fn nonsense_is_refused() {
        assert!(Padding::to_edges(0, [4]).check().is_err());
        assert!(Padding::to_edges(1, []).check().is_err());
        assert!(Padding::to_multiples(1, 0).check().is_err());
        assert!(Padding::to_multiples(2, 16).inputs(&[]).check().is_err());
        assert!(Padding::to_multiples(2, 16).inputs(&[1]).check().is_ok());
    }
}
