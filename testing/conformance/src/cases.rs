//! Random ops of every kind, whose results on one device are compared with those on another.

mod draw;
mod linalg;

use std::convert::Infallible;

use streampool_device::{Access, DType, Layout, Op};

use crate::num::{Num, smallest, tolerance};
use crate::operand::{Operand, describe, positions};
use crate::ops_linalg::epsilon;
use crate::reference;
use crate::rng::Rng;

/// An op, and operands with what lies in them before it.
#[derive(Debug)]
pub struct Case {
    op: Op<usize>,
    operands: Vec<Operand>,
}

impl Case {
    /// Consecutive numbers from here on are of all kinds of ops.
    pub const KINDS: u64 = draw::KINDS.len() as u64;

    /// The case of this number: the same in every run.
    ///
    /// What a device compiles a kernel for (types, functions) is drawn by itself and comes again after some
    /// rounds, while shapes, layouts and values do not: many cases need few kernels.
    pub fn random(number: u64) -> Case {
        let draw = draw::KINDS[(number % Self::KINDS) as usize];
        let round = number / Self::KINDS;
        let mut rng = Rng::new(number);
        loop {
            let mut kinds = Rng::new(round % draw::ROUNDS);
            if let Some((op, operands)) = draw(&mut kinds, &mut rng) {
                return Case { op, operands };
            }
        }
    }

    /// The op, which names its operands by their place in [`operands`](Self::operands).
    pub fn op(&self) -> &Op<usize> {
        &self.op
    }

    /// The type and the layout of each operand, and all bytes of its memory.
    pub fn operands(&self) -> impl Iterator<Item = (DType, Layout, &[u8])> {
        let operands = self.operands.iter();
        operands.map(|operand| (operand.dtype, operand.layout, operand.bytes()))
    }

    /// The elements of each operand that the op writes, in its order, row-major: out of all bytes of each operand
    /// after it. It fails if other bytes than those have changed.
    pub fn written(&self, after: &[Vec<u8>]) -> Result<Vec<Vec<u8>>, String> {
        let mut left_alone = after.to_vec();
        let mut written = Vec::new();
        for index in self.targets() {
            let operand = &self.operands[index];
            let size = operand.dtype.size();
            let mut elements = Vec::new();
            for at in positions(&operand.layout) {
                let element = at * size..(at + 1) * size;
                elements.extend_from_slice(&after[index][element.clone()]);
                left_alone[index][element.clone()].copy_from_slice(&operand.bytes()[element]);
            }
            written.push(elements);
        }
        for (index, (operand, kept)) in self.operands.iter().zip(&left_alone).enumerate() {
            if operand.bytes() != kept {
                let why = format!("a byte of operand {index} is written that is of no element");
                return Err(self.told(&why));
            }
        }
        Ok(written)
    }

    /// Whether two devices came to the same elements, as [`written`](Self::written) gives them. Each may be as far
    /// from the true value as a device may be.
    pub fn compare(&self, one: &[Vec<u8>], other: &[Vec<u8>]) -> Result<(), String> {
        for (number, index) in self.targets().into_iter().enumerate() {
            let dtype = self.operands[index].dtype;
            let load = |bytes: &[u8]| -> Vec<Num> {
                let elements = bytes.chunks_exact(dtype.size());
                elements.map(|bytes| Num::load(bytes, dtype)).collect()
            };
            let (ones, others) = (load(&one[number]), load(&other[number]));
            let allowances = self.allowances(index, &ones);
            let pairs = ones.iter().zip(&others).zip(allowances);
            for (place, ((&one, &other), allowance)) in pairs.enumerate() {
                if !agree(one, other, allowance) {
                    return Err(self.told(&format!(
                        "element {place} of operand {index} is {one:?} on one device and {other:?} on the \
                         other, {allowance:e} apart at most"
                    )));
                }
            }
        }
        Ok(())
    }

    /// The operands that the op writes, in its order.
    pub fn targets(&self) -> Vec<usize> {
        let mut targets = Vec::new();
        let visited = self.op.try_map(|_, access, &index| {
            if access == Access::Write {
                targets.push(index);
            }
            Ok::<_, Infallible>(index)
        });
        let Ok(_) = visited;
        targets
    }

    /// How far apart the elements of an operand may be that are these on one of the devices.
    fn allowances(&self, index: usize, found: &[Num]) -> Vec<f64> {
        let dtype = self.operands[index].dtype;
        if let Op::Linalg(_) = self.op {
            // The matrices are far from singular: errors grow with their size and no further.
            let size = self.operands[index].shape().iter().max().copied();
            let largest = found
                .iter()
                .fold(0.0f64, |largest, value| largest.max(value.float().abs()));
            let allowance = match dtype.is_float() {
                true => 8.0 * epsilon(dtype) * size.unwrap_or(1) as f64 * largest,
                false => 0.0,
            };
            return vec![allowance; found.len()];
        }
        let expected = reference::expected(&self.op, &self.operands);
        let expected = expected.into_iter().find(|(target, _)| *target == index);
        let (_, expected) = expected.expect("the reference gives each operand that is written");
        let each = expected.iter().map(|expected| match expected.scale {
            0.0 => 0.0,
            scale => 2.0 * (tolerance(dtype) * scale + smallest(dtype)),
        });
        each.collect()
    }

    fn told(&self, why: &str) -> String {
        format!("{why}\n{:?}\n{}", self.op, describe(&self.operands))
    }
}

fn agree(one: Num, other: Num, allowance: f64) -> bool {
    match (one, other) {
        (Num::Int(one), Num::Int(other)) => one == other,
        _ => {
            one == other
                || one.is_nan() && other.is_nan()
                || (one.float() - other.float()).abs() <= allowance
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn cases_repeat_and_are_of_every_kind_of_op() {
        let mut kinds = BTreeSet::new();
        for number in 0..Case::KINDS {
            let (one, two) = (Case::random(number), Case::random(number));
            assert_eq!(format!("{one:?}"), format!("{two:?}"));
            kinds.insert(one.op().kind().name());
        }
        // Every kind but the empty op, copies from and to the host, and replays.
        assert_eq!(kinds.len(), 21, "{kinds:?}");
    }

    #[test]
    fn wrong_elements_and_stray_bytes_are_found() {
        for number in 0..Case::KINDS {
            let case = Case::random(number);
            let memory: Vec<Vec<u8>> = case.operands().map(|it| it.2.to_vec()).collect();
            let right = case.written(&memory).expect("nothing is written");
            assert_eq!(case.compare(&right, &right), Ok(()));
            let target = case.targets()[0];
            if case.operands[target].layout.elements() == 0 {
                continue;
            }
            let mut stray = memory.clone();
            *stray[target].last_mut().expect("a guard") ^= 1;
            assert!(case.written(&stray).is_err());
            let mut wrong = right.clone();
            let dtype = case.operands[target].dtype;
            let first = &mut wrong[0][..dtype.size()];
            match dtype.is_float() {
                false => first[0] ^= 1,
                true if Num::load(first, dtype).is_nan() => Num::Float(1.0).store(dtype, first),
                true => Num::Float(f64::NAN).store(dtype, first),
            }
            assert!(case.compare(&wrong, &right).is_err(), "{number}: {case:?}");
        }
    }
}
