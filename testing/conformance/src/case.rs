//! The oracle: an op, what lies in its operands before it, and what has to lie there after it.

use std::convert::Infallible;

use streampool_device::{Access, DType, Interpolation, Layout, Op, Span, View};

use crate::num::{Num, smallest, tolerance};
use crate::operand::{Operand, positions};
use crate::reference::{self, Expected};

/// An op, and operands with what lies in them before it.
///
/// What the op leaves in memory is compared with the reference, which computes one element at a time in `f64` and `i128`.
/// Tests of kernels and of tensors check their ops like this, instead of computing results of their own:
///
/// ```ignore
/// let case = Case::of(&op, |span| bytes_of(span).to_vec());
/// execute(&op);
/// case.check(|span| bytes_of(span).to_vec()).unwrap();
/// ```
#[derive(Debug)]
pub struct Case {
    op: Op<usize>,
    operands: Vec<Operand>,
    /// Where each operand lies: some may share memory.
    spans: Vec<Span>,
}

/// More elements or steps than this take the reference longer than a test waits.
const MOST_STEPS: u64 = 1 << 19;

impl Case {
    /// The op over operands of which each has memory of its own.
    pub(crate) fn new(op: Op<usize>, operands: Vec<Operand>) -> Case {
        let spans = operands.iter().enumerate();
        let spans = spans.map(|(index, operand)| Span {
            handle: index as u64,
            offset: 0,
            bytes: operand.bytes().len(),
        });
        Case {
            spans: spans.collect(),
            op,
            operands,
        }
    }

    /// An op that is about to be executed, with what `read` finds in the spans of its operands now.
    pub fn of(op: &Op<View>, mut read: impl FnMut(Span) -> Vec<u8>) -> Case {
        let mut views: Vec<View> = Vec::new();
        let mapped = op.try_map(|_, _, view| {
            let known = views.iter().position(|known| known == view);
            Ok::<_, Infallible>(known.unwrap_or_else(|| {
                views.push(*view);
                views.len() - 1
            }))
        });
        let Ok(op) = mapped;
        let operands = views.iter().map(|view| {
            let bytes = read(view.span());
            Operand::with_bytes(view.dtype(), *view.layout(), bytes)
        });
        Case {
            op,
            operands: operands.collect(),
            spans: views.iter().map(View::span).collect(),
        }
    }

    /// Whether the reference computes the op in a moment: what is broadcast, windows and taps are walked one by one.
    pub fn is_small(op: &Op<View>) -> bool {
        let mut elements = 0u64;
        op.for_each_operand(|_, _, view| {
            // Where there are none, the sizes of the other axes may be any.
            let sizes = view.shape().iter().map(|&size| size.max(1) as u64);
            elements = elements.saturating_add(sizes.fold(1, u64::saturating_mul));
        });
        let walked = match op {
            Op::Pool(op) => {
                let taps = op.window.iter().map(|slide| u64::from(slide.kernel));
                taps.fold(op.dst.layout().elements() as u64, u64::saturating_mul)
            }
            Op::Resize(op) => {
                let is_near = |number: f64| number.abs() <= 1e6;
                if !op
                    .along
                    .iter()
                    .all(|a| is_near(a.scale) && is_near(a.shift))
                {
                    return false;
                }
                let stretch = match (op.antialias, op.interpolation) {
                    (true, Interpolation::Linear | Interpolation::Cubic(_)) => {
                        op.along.iter().fold(1.0, |most: f64, a| most.max(a.scale))
                    }
                    _ => 1.0,
                };
                let taps = (0..op.src.layout().rank()).map(|_| 4 * stretch.ceil() as u64);
                taps.fold(op.dst.layout().elements() as u64, u64::saturating_mul)
            }
            _ => 0,
        };
        elements.max(op.work()).max(walked) <= MOST_STEPS
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

    /// Whether what `read` finds in the spans after the op is what the reference says, and nothing else is written.
    pub fn check(&self, read: impl FnMut(Span) -> Vec<u8>) -> Result<(), String> {
        let after = self.after(self.spans.iter().copied().map(read).collect())?;
        if let Op::Linalg(op) = &self.op {
            return reference::linalg(op, &self.operands, &after).map_err(|why| self.told(&why));
        }
        for (index, expected) in reference::expected(&self.op, &self.operands) {
            let dtype = after[index].dtype;
            let found = after[index].values();
            assert_eq!(
                expected.len(),
                found.len(),
                "the reference gives each element"
            );
            let pairs = found.into_iter().zip(expected).enumerate();
            for (number, (found, expected)) in pairs {
                if !agrees(dtype, found, expected) {
                    return Err(self.told(&format!(
                        "element {number} of operand {index} is {found:?}, expected {:?} within {:e}",
                        expected.value.cast(dtype),
                        allowance(dtype, expected),
                    )));
                }
            }
        }
        Ok(())
    }

    /// The operands after the op, out of all bytes of each. It fails if other bytes than those of written elements have
    /// changed.
    fn after(&self, bytes: Vec<Vec<u8>>) -> Result<Vec<Operand>, String> {
        let targets = self.targets();
        for (index, (operand, found)) in self.operands.iter().zip(&bytes).enumerate() {
            let mut left_alone = operand.bytes().to_vec();
            for &target in &targets {
                let (from, to) = (self.spans[target], self.spans[index]);
                if from.handle != to.handle {
                    continue;
                }
                let size = self.operands[target].dtype.size();
                for at in positions(&self.operands[target].layout) {
                    let bytes = from.offset + at * size..from.offset + (at + 1) * size;
                    for byte in bytes.filter_map(|byte| byte.checked_sub(to.offset)) {
                        if let Some(kept) = left_alone.get_mut(byte) {
                            *kept = found[byte];
                        }
                    }
                }
            }
            if let Some(byte) = (0..found.len()).find(|&byte| found[byte] != left_alone[byte]) {
                let why =
                    format!("byte {byte} of operand {index} is written, which is of no element");
                return Err(self.told(&why));
            }
        }
        let after = self.operands.iter().zip(bytes);
        let after =
            after.map(|(operand, bytes)| Operand::with_bytes(operand.dtype, operand.layout, bytes));
        Ok(after.collect())
    }

    /// The elements of each operand that the op writes, in its order, row-major: out of all bytes of each operand
    /// after it. It fails if other bytes than those have changed.
    pub fn written(&self, after: &[Vec<u8>]) -> Result<Vec<Vec<u8>>, String> {
        let after = self.after(after.to_vec())?;
        let targets = self.targets().into_iter();
        Ok(targets.map(|target| after[target].elements()).collect())
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
                if !is_near(one, other, allowance) {
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
                true => 8.0 * reference::epsilon(dtype) * size.unwrap_or(1) as f64 * largest,
                false => 0.0,
            };
            return vec![allowance; found.len()];
        }
        let expected = reference::expected(&self.op, &self.operands);
        let expected = expected.into_iter().find(|(target, _)| *target == index);
        let (_, expected) = expected.expect("the reference gives each operand that is written");
        let each = expected
            .iter()
            .map(|&expected| 2.0 * allowance(dtype, expected));
        each.collect()
    }

    fn told(&self, why: &str) -> String {
        let mut told = format!("{why}\n{:?}", self.op);
        for (index, operand) in self.operands.iter().enumerate() {
            told += &format!("\noperand {index}: {} {}", operand.dtype, operand.layout);
        }
        told
    }
}

/// How far an element may be from what it has to be.
fn allowance(dtype: DType, expected: Expected) -> f64 {
    match expected.scale {
        0.0 => 0.0,
        scale => tolerance(dtype) * scale + smallest(dtype),
    }
}

fn agrees(dtype: DType, found: Num, expected: Expected) -> bool {
    let allowance = allowance(dtype, expected);
    let exact = expected.value.cast(dtype);
    is_near(found, exact, allowance)
        || dtype.is_float() && (found.float() - expected.value.float()).abs() <= allowance
}

fn is_near(one: Num, other: Num, allowance: f64) -> bool {
    match (one, other) {
        // All digits were lost on the way.
        _ if allowance == f64::INFINITY => true,
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
    use super::*;

    #[test]
    fn a_wrong_element_and_a_stray_byte_are_found() {
        let fill = Op::Fill {
            dst: 0,
            value: 2.0.into(),
        };
        let case = Case::new(fill, vec![Operand::row_major(DType::F32, &[3])]);
        let mut right = case.operands[0].clone();
        right.set_all([Num::Float(2.0); 3]);
        let checked = |bytes: Vec<u8>| case.check(|_| bytes.clone());
        assert_eq!(checked(right.bytes().to_vec()), Ok(()));
        for (place, why) in [(1, "element 0"), (12, "byte 12")] {
            let mut wrong = right.bytes().to_vec();
            wrong[place] ^= 1;
            assert!(checked(wrong).unwrap_err().starts_with(why));
        }
    }

    #[test]
    fn operands_may_share_memory() {
        let at = |offset: usize, bytes| Span {
            handle: 7,
            offset,
            bytes,
        };
        let view = |span, size: usize| {
            let layout = Layout::contiguous(&[size]).expect("a small shape");
            View::new(span, DType::U8, layout).expect("it is in bounds")
        };
        let (src, dst) = (view(at(0, 4), 2), view(at(2, 4), 2));
        let mut memory = vec![1u8, 2, 0, 0, 9, 9];
        let case = Case::of(&Op::Copy { src, dst }, |span| {
            memory[span.offset..][..span.bytes].to_vec()
        });
        memory[2..4].copy_from_slice(&[1, 2]);
        let check = |memory: &[u8]| case.check(|span| memory[span.offset..][..span.bytes].to_vec());
        assert_eq!(check(&memory), Ok(()));
        memory[1] = 3;
        assert!(check(&memory).is_err());
    }
}
