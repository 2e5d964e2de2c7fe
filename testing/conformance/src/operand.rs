//! An operand on the host: bytes, an element type and a layout, and how the device's result is compared.

use streampool_device::{Access, DType, Error, Layout, MAX_RANK, Op, View};

use crate::fixture::Fixture;
use crate::lane::Lane;
use crate::num::{Num, smallest, tolerance};
use crate::reference::{self, Expected};
use crate::rng::Rng;

/// The memory of one operand as the host sees it.
#[derive(Debug, Clone)]
pub(crate) struct Operand {
    pub(crate) dtype: DType,
    pub(crate) layout: Layout,
    bytes: Vec<u8>,
}

impl Operand {
    /// An operand of this layout with every byte of its memory, named by it or not, set to a pattern.
    pub(crate) fn blank(dtype: DType, layout: Layout) -> Operand {
        let last = layout.extent().map_or(-1, |(_, last)| last);
        let elements =
            usize::try_from(last + 1).expect("the last element is at or after the first") + GUARD;
        let pattern = if dtype == DType::Bool { 1 } else { 0x5a };
        Operand {
            dtype,
            layout,
            bytes: vec![pattern; elements * dtype.size()],
        }
    }

    pub(crate) fn row_major(dtype: DType, shape: &[usize]) -> Operand {
        Operand::blank(
            dtype,
            Layout::contiguous(shape).expect("the shape is small"),
        )
    }

    /// Row-major elements with these values.
    pub(crate) fn of(
        dtype: DType,
        shape: &[usize],
        values: impl IntoIterator<Item = Num>,
    ) -> Operand {
        let mut operand = Operand::row_major(dtype, shape);
        operand.set_all(values);
        operand
    }

    /// All of its memory.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(crate) fn shape(&self) -> &[usize] {
        self.layout.shape()
    }

    /// Gives every element a value, in row-major order.
    pub(crate) fn set_all(&mut self, values: impl IntoIterator<Item = Num>) {
        let mut values = values.into_iter();
        for at in positions(&self.layout) {
            let value = values.next().expect("a value for each element");
            let size = self.dtype.size();
            value.store(self.dtype, &mut self.bytes[at * size..][..size]);
        }
    }

    /// Other bytes in its memory.
    pub(crate) fn replace(&mut self, bytes: Vec<u8>) {
        assert_eq!(bytes.len(), self.bytes.len());
        self.bytes = bytes;
    }

    /// The elements, in row-major order.
    pub(crate) fn values(&self) -> Vec<Num> {
        let size = self.dtype.size();
        positions(&self.layout)
            .map(|at| Num::load(&self.bytes[at * size..][..size], self.dtype))
            .collect()
    }
}

/// An op that names its operands by their index, and these.
pub(crate) type Example = (Op<usize>, Vec<Operand>);

/// Elements behind the last one that no op may touch.
const GUARD: usize = 5;

/// Where the elements of a layout lie, in row-major order.
pub(crate) fn positions(layout: &Layout) -> impl Iterator<Item = usize> + '_ {
    (0..layout.elements()).map(|index| {
        let mut rest = index;
        let mut at = layout.offset() as isize;
        for (&size, &stride) in layout.shape().iter().zip(layout.strides()).rev() {
            at += (rest % size) as isize * stride;
            rest /= size;
        }
        at as usize
    })
}

/// A layout of `shape` with its axes in any order, gaps between them and any of them reversed.
pub(crate) fn any_layout(rng: &mut Rng, shape: &[usize]) -> Layout {
    if rng.chance(3) {
        return Layout::contiguous(shape).expect("the shape is small");
    }
    let mut order: Vec<usize> = (0..shape.len()).collect();
    for index in (1..order.len()).rev() {
        order.swap(index, rng.below(index + 1));
    }
    let mut strides = [0isize; MAX_RANK];
    let mut step = 1 + rng.below(2) as isize;
    let mut offset = rng.below(4) as isize;
    for axis in order {
        let reversed = rng.chance(3);
        strides[axis] = if reversed { -step } else { step };
        let size = shape[axis].max(1) as isize;
        if reversed {
            offset += step * (size - 1);
        }
        step = step * size + rng.below(3) as isize;
    }
    Layout::strided(shape, &strides[..shape.len()], offset as usize).expect("the shape is small")
}

/// What an op does on the device is what the reference says, and nothing else is written.
///
/// `op` names its operands by their index in `operands`.
pub(crate) fn check(fixture: &Fixture, lane: &mut Lane, op: &Op<usize>, operands: &[Operand]) {
    if fixture.tries()
        && let Some(got) = execute(fixture, lane, op, operands)
    {
        compare(op, operands, &got);
    }
}

/// The bytes of each operand after the op; `None` if the hardware lacks a type that it needs.
fn execute(
    fixture: &Fixture,
    lane: &mut Lane,
    op: &Op<usize>,
    operands: &[Operand],
) -> Option<Vec<Vec<u8>>> {
    let views = uploaded(fixture, lane, operands);
    let device_op = placed(op, &views);
    match lane.encode(&device_op) {
        Ok(_) => {}
        Err(Error::Unsupported { .. }) if fixture.may_refuse(&device_op) => return None,
        Err(error) => panic!("{device_op:?} was refused: {error}"),
    }
    let landings: Vec<_> = views
        .iter()
        .map(|view| lane.download(view.span()).expect("the download is right"))
        .collect();
    if let Err(error) = lane.try_sync() {
        panic!("{device_op:?} failed: {error}");
    }
    let bytes = landings.iter().map(|landing| landing.read::<u8>());
    Some(bytes.collect())
}

/// The operands on the device.
fn uploaded(fixture: &Fixture, lane: &mut Lane, operands: &[Operand]) -> Vec<View> {
    operands
        .iter()
        .map(|operand| {
            let span = fixture.span(operand.bytes.len());
            lane.upload(span, &operand.bytes)
                .expect("the upload is right");
            View::new(span, operand.dtype, operand.layout).expect("it is in bounds")
        })
        .collect()
}

/// The op over these views.
fn placed(op: &Op<usize>, views: &[View]) -> Op {
    op.try_map(|_, _, &index| Ok::<_, ()>(views[index]))
        .expect("the mapping cannot fail")
}

/// How an op ends that may be a fault.
pub(crate) fn outcome(
    fixture: &Fixture,
    lane: &mut Lane,
    op: &Op<usize>,
    operands: &[Operand],
) -> streampool_device::Result<()> {
    let views = uploaded(fixture, lane, operands);
    lane.run(&placed(op, &views));
    lane.try_sync()
}

/// The bytes an op writes, for tests that compare two executions bit by bit.
pub(crate) fn bits(
    fixture: &Fixture,
    lane: &mut Lane,
    op: &Op<usize>,
    operands: &[Operand],
) -> Vec<Vec<u8>> {
    execute(fixture, lane, op, operands).expect("a type that the device has")
}

/// The operands after an op that wrote nothing but the elements it is to write.
pub(crate) fn executed(
    fixture: &Fixture,
    lane: &mut Lane,
    op: &Op<usize>,
    operands: &[Operand],
) -> Vec<Operand> {
    let mut after = operands.to_vec();
    for (operand, bytes) in after.iter_mut().zip(bits(fixture, lane, op, operands)) {
        operand.replace(bytes);
    }
    let mut written = vec![false; operands.len()];
    let visited = op.try_map(|_, access, &index| {
        written[index] |= access == Access::Write;
        Ok::<_, ()>(index)
    });
    assert!(visited.is_ok(), "the visit cannot fail");
    for ((before, after), written) in operands.iter().zip(&after).zip(written) {
        let mut kept = after.bytes.clone();
        let size = before.dtype.size();
        for at in positions(&before.layout).filter(|_| written) {
            let element = at * size..(at + 1) * size;
            kept[element.clone()].copy_from_slice(&before.bytes[element]);
        }
        assert!(
            kept == before.bytes,
            "{op:?} wrote what it was not to write"
        );
    }
    after
}

fn compare(op: &Op<usize>, operands: &[Operand], got: &[Vec<u8>]) {
    let mut left_alone: Vec<Vec<u8>> = operands
        .iter()
        .map(|operand| operand.bytes.clone())
        .collect();
    for (index, expected) in reference::expected(op, operands) {
        let operand = &operands[index];
        let size = operand.dtype.size();
        assert_eq!(
            expected.len(),
            operand.layout.elements(),
            "the reference gives each element"
        );
        for (number, (at, expected)) in positions(&operand.layout).zip(expected).enumerate() {
            let range = at * size..(at + 1) * size;
            let found = Num::load(&got[index][range.clone()], operand.dtype);
            assert!(
                agrees(operand.dtype, found, expected),
                "element {number} of operand {index} is {found:?}, expected {:?} within {:e}\n{op:?}\n{}",
                expected.value.cast(operand.dtype),
                allowance(operand.dtype, expected),
                describe(operands),
            );
            left_alone[index][range.clone()].copy_from_slice(&got[index][range]);
        }
    }
    for (index, (found, expected)) in got.iter().zip(&left_alone).enumerate() {
        if let Some(byte) = (0..found.len()).find(|&byte| found[byte] != expected[byte]) {
            panic!(
                "byte {byte} of operand {index} was written, which the op does not name\n{op:?}\n{}",
                describe(operands)
            );
        }
    }
}

pub(crate) fn describe(operands: &[Operand]) -> String {
    let lines: Vec<String> = operands
        .iter()
        .enumerate()
        .map(|(index, operand)| format!("operand {index}: {} {}", operand.dtype, operand.layout))
        .collect();
    lines.join("\n")
}

fn allowance(dtype: DType, expected: Expected) -> f64 {
    match expected.scale {
        0.0 => 0.0,
        scale => tolerance(dtype) * scale + smallest(dtype),
    }
}

fn agrees(dtype: DType, found: Num, expected: Expected) -> bool {
    let exact = expected.value.cast(dtype);
    match (found, exact) {
        (Num::Int(found), Num::Int(exact)) => found == exact,
        (Num::Float(found), Num::Float(exact)) => {
            found == exact
                || found.is_nan() && exact.is_nan()
                || (found - expected.value.float()).abs() <= allowance(dtype, expected)
                || (found - exact).abs() <= allowance(dtype, expected)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_layouts_name_each_element_once() {
        let mut rng = Rng::new(1);
        for _ in 0..500 {
            let shape: Vec<usize> = (0..rng.below(6)).map(|_| rng.below(4)).collect();
            let layout = any_layout(&mut rng, &shape);
            assert!(!layout.overlaps(), "{layout}");
            let mut seen: Vec<usize> = positions(&layout).collect();
            seen.sort_unstable();
            seen.dedup();
            assert_eq!(seen.len(), layout.elements());
        }
    }

    #[test]
    fn a_wrong_element_and_a_stray_byte_are_found() {
        let operands = [Operand::row_major(DType::F32, &[3])];
        let op = Op::Fill {
            dst: 0,
            value: 2.0.into(),
        };
        let mut right = operands.to_vec();
        right[0].set_all([Num::Float(2.0); 3]);
        compare(&op, &operands, &[right[0].bytes.clone()]);
        let mut wrong = right[0].bytes.clone();
        wrong[1] ^= 1;
        assert!(std::panic::catch_unwind(|| compare(&op, &operands, &[wrong])).is_err());
        let mut stray = right[0].bytes.clone();
        stray[12] ^= 1;
        assert!(std::panic::catch_unwind(|| compare(&op, &operands, &[stray])).is_err());
    }
}
