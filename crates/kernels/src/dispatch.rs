//! Launches of kernels: what an op becomes on a device that compiles kernels.

use smallvec::SmallVec;
use streampool_device::Span;

use crate::Kernel;

/// What a device can hold at once, as far as it decides how an op is split.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Processors that run groups at the same time.
    pub compute_units: u32,
    /// The most bytes of memory that the threads of a group share.
    pub shared_bytes: u32,
    /// The most operands of a kernel.
    pub buffers: u32,
}

/// The launches that execute one op, in order.
#[derive(Debug, Clone, Default)]
pub struct Plan {
    /// Each sees what the ones before it wrote.
    pub dispatches: SmallVec<[Dispatch; 1]>,
    /// Bytes of memory they share, of no meaning before and after. The device lends it.
    pub scratch: usize,
}

/// One launch of a kernel.
#[derive(Debug, Clone)]
pub struct Dispatch {
    /// What runs.
    pub kernel: Kernel,
    /// How many groups along each axis, none of them zero.
    pub groups: [u32; 3],
    /// Threads in each group: a multiple of 32, at most 1024.
    pub threads: u32,
    /// The memory it works on, in the order of the kernel's buffers.
    pub operands: SmallVec<[Operand; 4]>,
    /// The values of the kernel's parameters.
    pub params: Params,
}

/// Memory that a kernel works on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operand {
    /// Memory of the op. The kernel gets the address of its first byte.
    Memory(Span),
    /// A place in the plan's scratch memory, in bytes from its start.
    Scratch(usize),
}

/// The values of a kernel's parameters, laid out as C lays out a struct of them.
///
/// Those of all but the widest kernels lie in place: they are written once for each launch.
#[derive(Debug, Clone)]
pub struct Params {
    length: usize,
    inline: [u8; INLINE],
    spilled: Vec<u8>,
}

const INLINE: usize = 192;

impl Default for Params {
    #[inline]
    fn default() -> Params {
        Params {
            length: 0,
            inline: [0; INLINE],
            spilled: Vec::new(),
        }
    }
}

impl Params {
    /// None yet.
    #[inline]
    pub fn new() -> Params {
        Params::default()
    }

    /// Appends an unsigned 32-bit field.
    #[inline]
    pub fn u32(self, value: u32) -> Params {
        self.field(value.to_le_bytes())
    }

    /// Appends a signed 64-bit field.
    #[inline]
    pub fn i64(self, value: i64) -> Params {
        self.field(value.to_le_bytes())
    }

    /// Appends a 32-bit float.
    #[inline]
    pub fn f32(self, value: f32) -> Params {
        self.field(value.to_le_bytes())
    }

    /// Appends a 64-bit float.
    #[inline]
    pub fn f64(self, value: f64) -> Params {
        self.field(value.to_le_bytes())
    }

    #[inline]
    fn field<const N: usize>(mut self, bytes: [u8; N]) -> Params {
        let start = self.length.next_multiple_of(N);
        self.length = start + N;
        match self.inline.get_mut(start..start + N) {
            Some(place) if self.spilled.is_empty() => place.copy_from_slice(&bytes),
            _ => self.spill(start, &bytes),
        }
        self
    }

    #[cold]
    fn spill(&mut self, start: usize, bytes: &[u8]) {
        if self.spilled.is_empty() {
            self.spilled.extend_from_slice(&self.inline);
        }
        self.spilled.resize(start, 0);
        self.spilled.extend_from_slice(bytes);
    }

    /// The bytes, padded to a multiple of eight as the struct is; at least eight.
    #[inline]
    pub fn to_bytes(&self) -> std::borrow::Cow<'_, [u8]> {
        use std::borrow::Cow::{Borrowed, Owned};
        let length = self.length.next_multiple_of(8).max(8);
        if self.spilled.is_empty() {
            return Borrowed(&self.inline[..length]);
        }
        let mut bytes = self.spilled.clone();
        bytes.resize(length, 0);
        Owned(bytes)
    }
}

impl PartialEq for Params {
    fn eq(&self, other: &Params) -> bool {
        self.to_bytes() == other.to_bytes()
    }
}

impl Eq for Params {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn params_are_laid_out_as_a_struct() {
        let params = Params::new().u32(1).i64(2).f32(3.0);
        let mut expected = [0u8; 24];
        expected[0] = 1;
        expected[8] = 2;
        expected[16..20].copy_from_slice(&3f32.to_le_bytes());
        assert_eq!(params.to_bytes()[..], expected);
    }

    #[test]
    fn many_params_spill() {
        let params = (0..100).fold(Params::new().u32(7), |params, value| params.i64(value));
        let bytes = params.to_bytes();
        assert_eq!(bytes.len(), 8 + 100 * 8);
        assert_eq!(bytes[..4], 7u32.to_le_bytes());
        for value in 0..100 {
            let at = 8 + value * 8;
            assert_eq!(bytes[at..at + 8], (value as i64).to_le_bytes());
        }
    }
}
