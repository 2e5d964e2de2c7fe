//! What the choice of an algorithm depends on.

use std::hash::{Hash, Hasher};

use cudarc::driver::sys::CUdeviceptr;
use streampool_device::{Activation, DType};

use super::problem::Problem;
use crate::options::Precision;

/// Everything that the choice of an algorithm depends on, on one device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Key {
    pub problem: Problem,
    /// The type of both factors.
    pub factors: DType,
    /// The type of the result and of the bias.
    pub result: DType,
    pub ending: Ending,
    /// What the addresses are multiples of.
    pub alignment: Alignment,
}

impl Hash for Key {
    /// Of what tells most keys apart, in few words: it is computed for each product.
    fn hash<H: Hasher>(&self, state: &mut H) {
        let problem = &self.problem;
        let Alignment { a, b, out } = self.alignment;
        let kinds = [
            self.factors as u8,
            self.result as u8,
            self.ending.activation as u8,
            u8::from(self.ending.bias),
            u8::from(problem.a.turned) | u8::from(problem.b.turned) << 1,
            a,
            b,
            out,
        ];
        state.write_u64(u64::from_le_bytes(kinds));
        state.write_u64(problem.batch as u64);
        for size in [problem.m, problem.n, problem.k] {
            state.write_usize(size);
        }
        for matrix in [&problem.a, &problem.b, &problem.out] {
            state.write_u64(matrix.lead as u64);
        }
    }
}

/// What the library does to each element before it stores it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ending {
    pub bias: bool,
    /// One of those that [`Ending::is_known`] knows.
    pub activation: Activation,
}

/// The powers of two that the addresses of the factors and of the result are multiples of, as exponents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Alignment {
    pub a: u8,
    pub b: u8,
    pub out: u8,
}

/// What a device lets the library use.
#[derive(Debug, Clone, Copy)]
pub(super) struct Terms {
    pub precision: Precision,
    /// The most bytes of scratch memory for one product.
    pub workspace: usize,
}

impl Ending {
    /// Nothing is done.
    pub const PLAIN: Ending = Ending {
        bias: false,
        activation: Activation::None,
    };

    /// Whether the library has this activation. Its GELU is the one by tanh.
    pub fn is_known(activation: Activation) -> bool {
        matches!(
            activation,
            Activation::None | Activation::Relu | Activation::GeluTanh
        )
    }
}

impl Alignment {
    /// No algorithm asks for more than 256 bytes.
    pub fn of(a: CUdeviceptr, b: CUdeviceptr, out: CUdeviceptr) -> Alignment {
        let exponent = |address: CUdeviceptr| address.trailing_zeros().min(8) as u8;
        Alignment {
            a: exponent(a),
            b: exponent(b),
            out: exponent(out),
        }
    }
}
