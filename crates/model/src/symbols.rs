//! Sizes as formulas: what the sizes of a graph's values are, said by those of its inputs.
//!
//! The graph is traced for a few choices of sizes, distinct primes for all that is open, and a size is what fits all of
//! them: a number, a sum or a product of the names, for sizes like those that were tried. What no such formula fits is left
//! open, and so is all that follows where values decide. Nothing here can fail: not to know is an answer.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use streampool_device::ChannelsLast;
use streampool_tensor::{DType, Pool, Tensor};

use crate::error::Result;
use crate::graph::{Dim, Graph, ValueId, ValueInfo};
use crate::nodes::Value;
use crate::trace::{self, Given, Outcome, trace};

/// Three for each name.
const PRIMES: [usize; 24] = [
    5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61, 67, 71, 73, 79, 83, 89, 97, 101,
];

/// Primes times these are tried in order: some models take only sizes that can be halved again and again.
const SCALES: [usize; 3] = [1, 8, 32];

/// When it has taken so long, no other choice is traced.
const PATIENCE: Duration = Duration::from_secs(2);

/// What is known of the values of a graph.
#[derive(Debug, Clone, Default)]
pub struct Shapes(BTreeMap<ValueId, (DType, Vec<Dim>)>);

impl Shapes {
    /// The type and the sizes of a value, if it is one tensor whose rank is always the same.
    pub fn get(&self, id: ValueId) -> Option<(DType, &[Dim])> {
        let (dtype, sizes) = self.0.get(&id)?;
        Some((*dtype, sizes))
    }

    /// What is declared of a value, and where that is open, what is known.
    pub fn complete(&self, id: ValueId, declared: &ValueInfo) -> ValueInfo {
        let Some((dtype, sizes)) = self.get(id) else {
            return declared.clone();
        };
        let declared_size = |axis: usize| declared.shape.as_ref().and_then(|shape| shape.get(axis));
        let size = |(axis, size): (usize, &Dim)| match (size, declared_size(axis)) {
            (Dim::Free, Some(declared)) => declared.clone(),
            _ => size.clone(),
        };
        ValueInfo {
            dtype: Some(dtype),
            shape: Some(sizes.iter().enumerate().map(size).collect()),
            ..declared.clone()
        }
    }
}

impl Graph {
    /// What can be found out of the types and sizes of its values, beyond what is declared. `known` is the pool of its
    /// constants.
    pub fn shapes(&self, known: &Pool) -> Shapes {
        let Some(open) = Open::of(self) else {
            return Shapes::default();
        };
        let begun = Instant::now();
        for scale in SCALES {
            let points = open.points(scale);
            let traced = points.iter().map(|point| {
                let in_time = begun.elapsed() < PATIENCE;
                in_time.then(|| open.trace(self, point, known).ok())?
            });
            if let Some(traced) = traced.collect::<Option<Vec<Found>>>() {
                return open.fitted(&points, &traced);
            }
            if open.names.is_empty() {
                break;
            }
        }
        Shapes::default()
    }
}

/// The types and sizes of values for one choice of sizes.
type Found = BTreeMap<ValueId, (DType, Vec<usize>)>;

/// What is left open of a graph's inputs.
struct Open {
    names: Vec<String>,
    inputs: Vec<(ValueId, DType, Vec<Size>)>,
}

/// The size of an axis of an input.
enum Size {
    Fixed(usize),
    /// The name of this number.
    Named(usize),
}

impl Open {
    /// `None` if an input's type or rank is open, or too much else.
    fn of(graph: &Graph) -> Option<Open> {
        let mut names: Vec<String> = Vec::new();
        let mut inputs = Vec::new();
        for &id in &graph.inputs {
            let info = graph.value(id);
            let mut sizes = Vec::new();
            for (axis, dim) in info.shape.as_ref()?.iter().enumerate() {
                let name = match dim {
                    Dim::Fixed(size) => {
                        sizes.push(Size::Fixed(*size));
                        continue;
                    }
                    Dim::Named(name) => name.clone(),
                    Dim::Free => format!("{}.{axis}", info.name),
                };
                let known = names.iter().position(|other| *other == name);
                sizes.push(Size::Named(known.unwrap_or(names.len())));
                if known.is_none() {
                    names.push(name);
                }
            }
            let is_tensor = info.kind == crate::graph::ValueKind::Tensor;
            inputs.push((id, info.dtype.filter(|_| is_tensor)?, sizes));
        }
        (3 * names.len() <= PRIMES.len()).then_some(Open { names, inputs })
    }

    /// Choices of a size for each name: the first, then for each name two in which only that one differs, and two in which
    /// all do.
    fn points(&self, scale: usize) -> Vec<Vec<usize>> {
        let size = |name: usize, choice: usize| scale * PRIMES[3 * name + choice];
        let count = self.names.len();
        let all = |choice| (0..count).map(|name| size(name, choice)).collect();
        let mut points: Vec<Vec<usize>> = vec![all(0)];
        for name in 0..count {
            for choice in 1..3 {
                let mut point: Vec<usize> = all(0);
                point[name] = size(name, choice);
                points.push(point);
            }
        }
        points.push(all(1));
        // What was smaller is larger.
        points.push((0..count).map(|name| size(count - 1 - name, 2)).collect());
        points
    }

    fn trace(&self, graph: &Graph, point: &[usize], known: &Pool) -> Result<Found> {
        let given = self.inputs.iter().map(|(id, dtype, sizes)| {
            let size = |size: &Size| match *size {
                Size::Fixed(size) => size,
                Size::Named(name) => point[name],
            };
            let kind = trace::TensorKind {
                dtype: *dtype,
                shape: sizes.iter().map(size).collect(),
            };
            (*id, Given::Input(kind))
        });
        let made = graph
            .nodes
            .iter()
            .flat_map(|node| node.outputs.iter().flatten().copied());
        let wanted = made.chain(graph.outputs.iter().copied()).collect();
        let (listing, _) = trace(
            graph,
            0..graph.nodes.len(),
            known,
            given.collect(),
            ChannelsLast::default(),
            |_| wanted,
        )?;
        let of = |tensor: &Tensor| (tensor.dtype(), tensor.shape().to_vec());
        let found = listing
            .outputs
            .into_iter()
            .filter_map(|(id, outcome)| match outcome {
                Outcome::Known(Value::Tensor(tensor)) => Some((id, of(&tensor))),
                Outcome::Tensor(made) => Some((id, (made.kind.dtype, made.kind.shape))),
                Outcome::Known(_) | Outcome::Sequence(_) => None,
            });
        Ok(found.collect())
    }

    /// What fits all that was found at these points.
    fn fitted(&self, points: &[Vec<usize>], traced: &[Found]) -> Shapes {
        let Some((first, others)) = traced.split_first() else {
            return Shapes::default();
        };
        let fitted = first.iter().filter_map(|(&id, (dtype, sizes))| {
            let others: Option<Vec<&Vec<usize>>> = others
                .iter()
                .map(|found| found.get(&id).map(|(_, other)| other))
                .collect();
            let others = others?;
            let same_rank = others.iter().all(|other| other.len() == sizes.len());
            let dims = sizes.iter().enumerate().map(|(axis, &size)| {
                let all = std::iter::once(size).chain(others.iter().map(|other| other[axis]));
                self.dim(points, &all.collect::<Vec<_>>())
            });
            same_rank.then(|| (id, (*dtype, dims.collect())))
        });
        Shapes(fitted.collect())
    }

    /// The formula of one size, given what it is at each point.
    fn dim(&self, points: &[Vec<usize>], sizes: &[usize]) -> Dim {
        let Some(&first) = sizes.first() else {
            return Dim::Free;
        };
        if sizes.iter().all(|&size| size == first) {
            return Dim::Fixed(first);
        }
        let sum = self.sum(points, sizes);
        match sum.or_else(|| self.product(points, sizes)) {
            Some(text) => Dim::Named(text),
            None => Dim::Free,
        }
    }

    /// A sum of the names, each some times.
    fn sum(&self, points: &[Vec<usize>], sizes: &[usize]) -> Option<String> {
        let number = |size: usize| i64::try_from(size).ok();
        let first = number(sizes[0])?;
        let mut times = Vec::new();
        let mut rest = first;
        for (name, &size) in points[0].iter().enumerate() {
            // Where only this one differs for the first time.
            let place = 1 + 2 * name;
            let change = number(points[place][name])? - number(size)?;
            let factor = number(sizes[place])? - first;
            if factor % change != 0 {
                return None;
            }
            times.push(factor / change);
            rest -= factor / change * number(size)?;
        }
        for (point, &size) in points.iter().zip(sizes) {
            let each = point.iter().zip(&times);
            let terms = each.map(|(&size, times)| Some(number(size)? * times));
            let sum = terms.sum::<Option<i64>>()? + rest;
            if sum != number(size)? {
                return None;
            }
        }
        let mut text = String::new();
        for (name, &times) in self
            .names
            .iter()
            .zip(&times)
            .filter(|&(_, &times)| times != 0)
        {
            let sign = match (text.is_empty(), times < 0) {
                (true, false) => "",
                (true, true) => "-",
                (false, false) => " + ",
                (false, true) => " - ",
            };
            let times = match times.abs() {
                1 => String::new(),
                several => format!("{several}*"),
            };
            text.push_str(&format!("{sign}{times}{name}"));
        }
        match rest {
            0 => {}
            more if more > 0 => text.push_str(&format!(" + {more}")),
            less => text.push_str(&format!(" - {}", -less)),
        }
        Some(text)
    }

    /// A product of some of the names.
    fn product(&self, points: &[Vec<usize>], sizes: &[usize]) -> Option<String> {
        let counts = |name: &usize| sizes[1 + 2 * name] != sizes[0];
        let factors: Vec<usize> = (0..self.names.len()).filter(counts).collect();
        let of = |point: &[usize]| -> Option<usize> {
            let mut each = factors.iter().map(|&name| point[name]);
            each.try_fold(1usize, usize::checked_mul)
        };
        let times = sizes[0] / of(&points[0])?.max(1);
        for (point, &size) in points.iter().zip(sizes) {
            if of(point)?.checked_mul(times)? != size {
                return None;
            }
        }
        let names = factors.iter().map(|&name| self.names[name].clone());
        let number = (times != 1).then(|| times.to_string());
        Some(
            number
                .into_iter()
                .chain(names)
                .collect::<Vec<_>>()
                .join("*"),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(names: &[&str]) -> Open {
        Open {
            names: names.iter().map(|&name| name.to_owned()).collect(),
            inputs: Vec::new(),
        }
    }

    /// The formula found for what `size` says of three names.
    fn formula(size: impl Fn(usize, usize, usize) -> usize) -> String {
        let open = open(&["a", "b", "c"]);
        let points = open.points(1);
        let sizes = points
            .iter()
            .map(|point| size(point[0], point[1], point[2]));
        open.dim(&points, &sizes.collect::<Vec<_>>()).to_string()
    }

    #[test]
    fn sizes_have_the_formula_that_fits() {
        assert_eq!(formula(|_, _, _| 384), "384");
        assert_eq!(formula(|_, b, _| b), "b");
        assert_eq!(formula(|a, _, _| 2 * a + 3), "2*a + 3");
        assert_eq!(formula(|a, _, c| 4 * c + a - 1), "a + 4*c - 1");
        assert_eq!(formula(|a, b, _| 100 * a - b), "100*a - b");
        assert_eq!(formula(|a, b, _| a * b), "a*b");
        assert_eq!(formula(|a, b, c| 12 * a * b * c), "12*a*b*c");
    }

    #[test]
    fn what_nothing_fits_is_left_open() {
        assert_eq!(formula(|a, _, _| a * a), "?");
        assert_eq!(formula(|a, b, _| a * (b + 1)), "?");
        assert_eq!(formula(|a, b, _| a.max(b)), "?");
        assert_eq!(formula(|a, _, _| a.div_ceil(2)), "?");
        assert_eq!(formula(|a, b, _| a * b + a + b), "?");
    }
}
