//! Kernels ask often enough whether anybody still wants what they compute.

use streampool_device::{
    Activation, Cell, DType, Direction, Layout, MatMul, Op, Regions, Rnn, View,
};

use super::ops::Tensor;
use crate::given_up;
use crate::kernels::{self, Prepared};
use crate::team::Solo;

/// About a tenth of a second at most, on any machine.
const MOST_BETWEEN: usize = 1 << 25;

/// Executes an op of so many multiplications on this thread.
#[track_caller]
fn asks(op: &Op, multiplications: usize) {
    op.validate().unwrap();
    let before = given_up::checks();
    // SAFETY: the operands live in the tests, and nobody else is at them.
    unsafe { kernels::execute(op, &Prepared::Plain, &Solo).unwrap() };
    let asked = given_up::checks() - before;
    assert!(
        multiplications / asked.max(1) < MOST_BETWEEN,
        "it asked {asked} times"
    );
}

/// The elements as this shape, with these distances between them.
fn repeated(tensor: &Tensor, shape: &[usize], strides: &[isize]) -> View {
    let layout = Layout::strided(shape, strides, 0).unwrap();
    View::new(tensor.view.span(), tensor.view.dtype(), layout).unwrap()
}

#[test]
fn products_of_few_rows_and_many_steps() {
    const STEPS: usize = 1 << 19;
    const ROWS: usize = 16;
    const COLUMNS: usize = 128;
    for dtype in [DType::F32, DType::F64] {
        let line = Tensor::of(dtype, &[STEPS], || 1.0);
        let out = Tensor::zeros(dtype, &[ROWS, COLUMNS]);
        // Columns that are neighbours, and steps that are.
        for strides in [[0, 1], [1, 0]] {
            let product = Op::MatMul(MatMul {
                a: repeated(&line, &[ROWS, STEPS], &[0, 1]),
                b: repeated(&line, &[STEPS, COLUMNS], &strides),
                out: out.view,
                bias: None,
                activation: Activation::None,
                alpha: 1.0,
            });
            asks(&product, ROWS * COLUMNS * STEPS);
        }
    }
}

#[test]
fn a_step_of_a_wide_recurrent_layer() {
    const HIDDEN: usize = 2048;
    const BATCH: usize = 24;
    let dtype = DType::F32;
    let gates = Cell::Lstm.gates() * HIDDEN;
    let some = Tensor::of(dtype, &[gates.max(HIDDEN)], || 0.01);
    let dst = Tensor::zeros(dtype, &[1, 1, BATCH, HIDDEN]);
    let layer = Op::Rnn(Box::new(Rnn {
        cell: Cell::Lstm,
        direction: Direction::Forward,
        src: repeated(&some, &[1, BATCH, 1], &[0, 0, 0]),
        weight: repeated(&some, &[1, gates, 1], &[0, 1, 0]),
        recurrent: repeated(&some, &[1, gates, HIDDEN], &[0, 0, 1]),
        bias: None,
        peephole: None,
        lengths: None,
        hidden: None,
        cell_state: None,
        dst: dst.view,
        last_hidden: None,
        last_cell: None,
    }));
    asks(&layer, BATCH * gates * HIDDEN);
}

#[test]
fn a_region_of_many_rows() {
    const ROWS: usize = 1 << 13;
    const SAMPLES: usize = 64;
    let dtype = DType::F32;
    let [src, corners] = [&[1, 1, 4, 4][..], &[1, 4]].map(|shape| Tensor::zeros(dtype, shape));
    let batches = Tensor::zeros(DType::I64, &[1]);
    let dst = Tensor::zeros(dtype, &[1, 1, ROWS, 1]);
    let region = Op::Regions(Regions {
        src: src.view,
        corners: corners.view,
        batches: batches.view,
        dst: dst.view,
        scale: 1.0,
        samples: SAMPLES,
        aligned: false,
        largest: false,
    });
    let before = given_up::checks();
    asks(&region, ROWS * SAMPLES * SAMPLES);
    let asked = given_up::checks() - before;
    assert!(asked >= 2 * ROWS, "for its tables, too: {asked} times");
}
