//! For tests: graphs evaluated node by node, without a plan, a pool, and numbers that look drawn.

use std::path::Path;

use streampool_host::{HostDevice, HostOptions};
use streampool_tensor::{Array, DType, Pool, Tensor};

pub use crate::nodes::Value;

use crate::error::Result;
use crate::evaluate::{Scope, TwoPools, evaluate};
use crate::graph::{Graph, Operator};
use crate::nodes;

/// The outputs of a graph whose constants are in the pool `known`, for these inputs; what depends on inputs that are
/// not in that pool has to be in the pool `work`, and is computed there.
pub fn evaluate_eagerly(
    graph: &Graph,
    (known, work): (&Pool, &Pool),
    inputs: &[Option<Value>],
) -> Result<Vec<Value>> {
    let pools = TwoPools { known, work };
    let mut scope = Scope::new(graph, &pools);
    for (&id, input) in graph.inputs.iter().zip(inputs) {
        if let Some(value) = input {
            scope.set(id, value.clone());
        }
    }
    evaluate(&mut scope, graph)
}

/// The largest difference between the elements of two tensors, as a part of one and what it should be; infinite where their
/// shapes differ.
pub fn difference(expected: &Tensor, got: &Tensor) -> Result<f64> {
    if expected.shape() != got.shape() {
        return Ok(f64::INFINITY);
    }
    let numbers = |tensor: &Tensor| tensor.to_dtype(DType::F64)?.to_vec::<f64>();
    let pairs = numbers(expected)?.into_iter().zip(numbers(got)?);
    Ok(pairs.fold(0.0, |most, (expected, got)| {
        let apart = (expected - got).abs() / (1.0 + expected.abs());
        if apart <= most { most } else { apart }
    }))
}

/// The family of an operator, if there is such an operator.
pub fn family(operator: &Operator) -> Option<&'static str> {
    nodes::family(operator)
}

/// Writes a model, its inputs, and what ours makes of them, for another to make the same: names, types and shapes in lines,
/// the bytes behind each other. `bench/graphs/compare.py` reads it.
pub fn save_case<'n, 'a>(
    folder: &Path,
    number: u64,
    model: &[u8],
    inputs: impl Iterator<Item = (&'n str, &'a Array)>,
    made: std::result::Result<&'a [Array], &str>,
) {
    let (mut lines, mut bytes) = (String::new(), Vec::new());
    let outputs = made.unwrap_or_default().iter().map(|array| ("-", array));
    for (name, array) in inputs.chain(outputs) {
        lines += &format!("{name} {}", array.dtype());
        for size in array.shape() {
            lines += &format!(" {size}");
        }
        lines.push('\n');
        bytes.extend(array.bytes());
    }
    if let Err(why) = made {
        lines += &format!("! {}\n", why.replace('\n', " "));
    }
    for (ending, content) in [("onnx", model), ("txt", lines.as_bytes()), ("bin", &bytes)] {
        let file = folder.join(format!("{number}.{ending}"));
        std::fs::write(file, content).expect("the folder can be written");
    }
}

/// A pool on a host device of its own.
pub fn host_pool() -> Pool {
    let device = HostDevice::new(HostOptions::default()).expect("every machine is a host");
    Pool::new(device).expect("a pool on the host")
}

/// Seeded random numbers: SplitMix64.
pub struct Random(u64);

impl Random {
    /// The sequence of a seed.
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// A number below `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    /// One time of so many.
    pub fn one_of(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }

    /// One of these.
    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize]
    }

    /// A number in -1..1.
    pub fn real(&mut self) -> f32 {
        (self.next() >> 40) as f32 / (1u64 << 23) as f32 - 1.0
    }

    /// Numbers in -1..1.
    pub fn reals(&mut self, shape: &[usize]) -> Array {
        let count = shape.iter().product();
        let values: Vec<f32> = (0..count).map(|_| self.real()).collect();
        Array::new(&values, shape).expect("as many values as the shape has")
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}
