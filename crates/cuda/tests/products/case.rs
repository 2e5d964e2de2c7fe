//! One product: its operands, what it should come to, and what a device makes of it.

use half::{bf16, f16};
use streampool_device::{Activation, Element, Layout, MatMul, Op};
use streampool_runtime::{Buffer, Stream};

/// A type that products are made of.
pub trait Real: Element + bytemuck::AnyBitPattern {
    /// How far a result may be off, as a part of the magnitudes it came from.
    const TOLERANCE: f64;
    fn of(value: f64) -> Self;
    fn to(self) -> f64;
}

macro_rules! reals {
    ($($real:ty, $tolerance:expr, $of:expr, $to:expr;)*) => {$(
        impl Real for $real {
            const TOLERANCE: f64 = $tolerance;
            fn of(value: f64) -> Self {
                $of(value)
            }
            fn to(self) -> f64 {
                $to(self)
            }
        }
    )*};
}

reals! {
    f32, 4e-6, |value| value as f32, f64::from;
    f64, 1e-13, |value| value, |value| value;
    f16, 2e-3, f16::from_f64, f16::to_f64;
    bf16, 1.6e-2, bf16::from_f64, bf16::to_f64;
}

/// A product before it has memory.
#[derive(Debug, Clone, Copy)]
pub struct Case {
    pub a: Layout,
    pub b: Layout,
    pub out: Layout,
    pub bias: Option<Layout>,
    pub activation: Activation,
    pub alpha: f64,
}

/// The values of a case's operands, as they lie in memory.
#[derive(Clone)]
pub struct Values<T> {
    pub a: Vec<T>,
    pub b: Vec<T>,
    pub bias: Vec<T>,
}

pub fn dense(shape: &[usize]) -> Layout {
    Layout::contiguous(shape).unwrap()
}

/// The matrix that is stored as its transpose.
pub fn turned(shape: [usize; 2]) -> Layout {
    dense(&[shape[1], shape[0]]).permute(&[1, 0]).unwrap()
}

pub fn strided(shape: &[usize], strides: &[isize], offset: usize) -> Layout {
    Layout::strided(shape, strides, offset).unwrap()
}

pub fn plain(a: Layout, b: Layout, out: Layout) -> Case {
    Case {
        a,
        b,
        out,
        bias: None,
        activation: Activation::None,
        alpha: 1.0,
    }
}

pub fn cube([m, k, n]: [usize; 3]) -> Case {
    plain(dense(&[m, k]), dense(&[k, n]), dense(&[m, n]))
}

/// Where the elements of a layout lie, row-major.
fn positions(layout: &Layout) -> Vec<usize> {
    let mut positions = vec![layout.offset() as isize];
    for (&size, &stride) in layout.shape().iter().zip(layout.strides()) {
        positions = positions
            .iter()
            .flat_map(|&start| (0..size as isize).map(move |index| start + index * stride))
            .collect();
    }
    positions.iter().map(|&at| at as usize).collect()
}

fn room(layout: &Layout) -> usize {
    layout.extent().map_or(0, |(_, last)| last as usize + 1)
}

/// The same numbers for the same seed, from -1 to 1.
pub fn numbers<T: Real>(count: usize, seed: u64) -> Vec<T> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        T::of((state >> 11) as f64 / (1u64 << 52) as f64 - 1.0)
    };
    std::iter::repeat_with(next).take(count).collect()
}

pub fn random<T: Real>(case: &Case) -> Values<T> {
    Values {
        a: numbers(room(&case.a), 1),
        b: numbers(room(&case.b), 2),
        bias: numbers(case.bias.as_ref().map_or(0, room), 3),
    }
}

fn activated(activation: Activation, x: f64) -> f64 {
    let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
    match activation {
        Activation::None => x,
        Activation::Relu if x.is_nan() => x,
        Activation::Relu => x.max(0.0),
        Activation::Gelu => x * normal(x),
        Activation::GeluTanh => {
            let inner = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x.powi(3));
            0.5 * x * (1.0 + inner.tanh())
        }
        Activation::Silu => x * sigmoid(x),
        Activation::Sigmoid => sigmoid(x),
        Activation::Tanh => x.tanh(),
        Activation::HardSwish => x * (x / 6.0 + 0.5).clamp(0.0, 1.0),
    }
}

/// The distribution function of the normal distribution, as an integral by Simpson's rule.
fn normal(x: f64) -> f64 {
    if x.is_nan() || x.abs() > 12.0 {
        return if x > 0.0 { 1.0 } else { x.max(0.0) };
    }
    let density = |x: f64| (-x * x / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt();
    let (steps, mut sum) = (2000, density(0.0) + density(x));
    for step in 1..steps {
        let weight = if step % 2 == 1 { 4.0 } else { 2.0 };
        sum += weight * density(x * f64::from(step) / f64::from(steps));
    }
    0.5 + sum * x / f64::from(steps) / 3.0
}

/// Each element's value and the magnitude of what it came from.
fn expected<T: Real>(case: &Case, values: &Values<T>) -> Vec<(f64, f64)> {
    let shape = case.out.shape();
    let (lead, last) = shape.split_at(shape.len() - 2);
    let (m, n, k) = (last[0], last[1], case.a.shape()[case.a.rank() - 1]);
    let whole = |layout: &Layout, matrix: [usize; 2], values: &[T]| -> Vec<f64> {
        let layout = layout.broadcast_to(&[lead, &matrix].concat()).unwrap();
        let at = positions(&layout);
        at.iter().map(|&at| values[at].to()).collect()
    };
    let a = whole(&case.a, [m, k], &values.a);
    let b = whole(&case.b, [k, n], &values.b);
    let bias = match &case.bias {
        Some(bias) => whole(bias, [m, n], &values.bias),
        None => vec![0.0; case.out.elements()],
    };
    let mut expected = Vec::with_capacity(bias.len());
    for (index, bias) in bias.iter().enumerate() {
        let (column, row) = (index % n, index / n);
        let matrix = row / m;
        let (mut sum, mut magnitude) = (0.0, 0.0);
        for inner in 0..k {
            let product = a[row * k + inner] * b[(matrix * k + inner) * n + column];
            sum += product;
            magnitude += product.abs();
        }
        let value = activated(case.activation, case.alpha * sum + bias);
        expected.push((value, case.alpha.abs() * magnitude + bias.abs()));
    }
    expected
}

fn uploaded<T: Real>(stream: &Stream, values: &[T]) -> Buffer {
    let mut buffer = stream
        .allocate(values.len().max(1) * size_of::<T>())
        .unwrap();
    stream.upload(&mut buffer, values).unwrap();
    buffer
}

/// What the device makes of a case. The memory of the result is full of NaN before.
pub fn computed<T: Real>(stream: &Stream, case: &Case, values: &Values<T>) -> Vec<T> {
    let (a, b) = (uploaded(stream, &values.a), uploaded(stream, &values.b));
    let bias = uploaded(stream, &values.bias);
    let mut out = uploaded(stream, &vec![T::of(f64::NAN); room(&case.out)]);
    let op = MatMul {
        a: a.read_as(T::DTYPE, case.a).unwrap(),
        b: b.read_as(T::DTYPE, case.b).unwrap(),
        out: out.write_as(T::DTYPE, case.out).unwrap(),
        bias: case
            .bias
            .map(|layout| bias.read_as(T::DTYPE, layout).unwrap()),
        activation: case.activation,
        alpha: case.alpha,
    };
    stream.encode(Op::MatMul(op)).unwrap();
    stream.download(&out).unwrap()
}

/// Compares what the device makes of `values` with what it should be, within `tolerance`.
pub fn compare<T: Real>(stream: &Stream, case: &Case, values: &Values<T>, tolerance: f64) {
    let found = computed(stream, case, values);
    let at = positions(&case.out);
    for (index, (&at, (value, magnitude))) in at.iter().zip(expected(case, values)).enumerate() {
        let (got, rounded) = (found[at].to(), T::of(value).to());
        let allowed = tolerance * (1.2 * magnitude + f64::MIN_POSITIVE) + 1e-7 * value.abs();
        let agrees = got == rounded
            || got.is_nan() && rounded.is_nan()
            || (got - value).abs() <= allowed.max((rounded - value).abs());
        assert!(
            agrees,
            "element {index} is {got}, expected {value} within {allowed:e}: {} {case:?}",
            T::DTYPE
        );
    }
    let mut left_alone = vec![true; found.len()];
    at.iter().for_each(|&at| left_alone[at] = false);
    for (index, value) in found.iter().enumerate() {
        assert!(
            !left_alone[index] || value.to().is_nan(),
            "element {index} of the memory was written, which the result does not name: {case:?}"
        );
    }
}

pub fn check<T: Real>(stream: &Stream, case: &Case) {
    compare::<T>(stream, case, &random(case), T::TOLERANCE);
}
