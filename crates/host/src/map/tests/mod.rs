//! Expressions against references written for the tests alone.

mod functions;
mod fused;
mod groups;
mod integers;
mod reference;
mod threads;

use std::sync::Arc;

use streampool_device::{Binary, Compare, DType, Expr, Layout, Op, Span, Unary, View};

use crate::team::{Solo, Team};

use super::Expressions;
use super::program::Program;
use super::run::run;
use crate::kernels::simd::Level;
use crate::kernels::simd::forced::levels;

/// Memory for one operand, aligned to a cache line, in which every byte not written keeps a mark.
pub(super) struct Buffer {
    lines: Vec<[u64; 8]>,
    bytes: usize,
}

pub(super) const MARK: u8 = 0xa5;

impl Buffer {
    pub(super) fn new(bytes: usize) -> Buffer {
        Buffer {
            lines: vec![[u64::from_ne_bytes([MARK; 8]); 8]; bytes.div_ceil(64).max(1)],
            bytes,
        }
    }

    pub(super) fn of(bytes: &[u8]) -> Buffer {
        let mut buffer = Buffer::new(bytes.len());
        buffer.bytes_mut().copy_from_slice(bytes);
        buffer
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &bytemuck::cast_slice(&self.lines)[..self.bytes]
    }

    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut bytemuck::cast_slice_mut(&mut self.lines)[..self.bytes]
    }

    pub(super) fn view(&mut self, dtype: DType, layout: Layout) -> View {
        let span = Span {
            handle: self.lines.as_mut_ptr().expose_provenance() as u64,
            offset: 0,
            bytes: self.bytes,
        };
        View::new(span, dtype, layout).unwrap()
    }
}

/// Validates and executes.
pub(super) fn execute(expr: &Arc<Expr>, inputs: &[View], outputs: &[View], team: &dyn Team) {
    let op = Op::Map {
        expr: expr.clone(),
        inputs: inputs.to_vec(),
        outputs: outputs.to_vec(),
    };
    op.validate().unwrap();
    // SAFETY: the views passed validation, and the caller keeps their buffers.
    unsafe { Expressions::new().execute(expr, inputs, outputs, team) }.unwrap();
}

/// The bytes that `expr` gives for contiguous inputs on every instruction set there is.
pub(super) fn on_each_level(expr: &Expr, inputs: &[&[u8]], n: usize) -> Vec<(Level, Vec<Vec<u8>>)> {
    let mut results = Vec::new();
    for level in levels() {
        let program = Program::compile(expr, level).unwrap();
        let flat = Layout::contiguous(&[n]).unwrap();
        let mut sources: Vec<Buffer> = inputs.iter().map(|bytes| Buffer::of(bytes)).collect();
        let types = expr.outputs().iter().map(|&value| expr.dtype(value));
        let mut targets: Vec<Buffer> = types
            .clone()
            .map(|dtype| Buffer::new(n * dtype.size()))
            .collect();
        let sources: Vec<View> = sources
            .iter_mut()
            .zip(expr.inputs())
            .map(|(buffer, &dtype)| buffer.view(dtype, flat))
            .collect();
        let views: Vec<View> = targets
            .iter_mut()
            .zip(types)
            .map(|(buffer, dtype)| buffer.view(dtype, flat))
            .collect();
        // SAFETY: the views are of buffers that live until the end of the loop and do not overlap.
        unsafe { run(&program, &sources, &views, &Solo) }.unwrap();
        let bytes = targets
            .iter_mut()
            .map(|target| target.bytes().to_vec())
            .collect();
        results.push((level, bytes));
    }
    results
}

/// A small generator of numbers that are the same at every run.
pub(super) struct Numbers(u64);

impl Numbers {
    pub(super) fn new(seed: u64) -> Numbers {
        Numbers(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub(super) fn below(&mut self, bound: usize) -> usize {
        ((self.next() >> 33) as usize) % bound
    }
}

#[rustfmt::skip]
pub(super) const UNARY: [Unary; 36] = {
    use Unary::*;
    [
        Neg, Abs, Sign, Relu, Exp, Log, Log1p, Expm1, Sqrt, Rsqrt, Recip, Sin, Cos, Tan, Asin, Acos, Atan, Sinh,
        Cosh, Tanh, Erf, Sigmoid, Silu, Gelu, GeluTanh, Softplus, Floor, Ceil, Round, Trunc, IsNan, IsInf, Not,
        Asinh, Acosh, Atanh,
    ]
};

#[rustfmt::skip]
pub(super) const BINARY: [Binary; 14] = {
    use Binary::*;
    [Add, Sub, Mul, Div, Rem, Pow, Min, Max, Atan2, And, Or, Xor, Shl, Shr]
};

pub(super) const COMPARE: [Compare; 6] = {
    use Compare::*;
    [Eq, Ne, Lt, Le, Gt, Ge]
};
