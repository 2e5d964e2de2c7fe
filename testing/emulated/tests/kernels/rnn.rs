//! The kernels of recurrent layers, executed on the CPU.

use streampool_device::{Cell, DType, Direction, Layout, Op, Rnn};
use streampool_emulated::{Emulator, Tensor, Tolerance, assert_same_as_host, prepare};
use streampool_kernels::{Limits, rnn};

const CELLS: [Cell; 5] = [
    Cell::Tanh,
    Cell::Relu,
    Cell::Gru { reset_after: false },
    Cell::Gru { reset_after: true },
    Cell::Lstm,
];

/// A layer of steps, sequences, and the sizes of input and state.
fn layer(
    dtype: DType,
    (cell, direction): (Cell, Direction),
    [steps, batch, input, hidden]: [usize; 4],
    everything: bool,
) -> Op<Tensor> {
    let (directions, gates) = (direction.count(), cell.gates() * hidden);
    let state = [directions, batch, hidden];
    let of_lstm = everything && cell == Cell::Lstm;
    let of = |seed: u64, shape: &[usize], most: f64| {
        Tensor::new(dtype, shape).uniform(seed, -most, most)
    };
    let recurrent = 1.0 / hidden.max(1) as f64;
    Op::Rnn(Box::new(Rnn {
        cell,
        direction,
        src: of(1, &[steps, batch, input], 1.0),
        weight: of(2, &[directions, gates, input], 0.5),
        recurrent: of(3, &[directions, gates, hidden], recurrent),
        bias: everything.then(|| of(4, &[directions, 2 * gates], 1.0)),
        peephole: of_lstm.then(|| of(5, &[directions, 3 * hidden], 0.5)),
        lengths: everything
            .then(|| Tensor::new(DType::I32, &[batch]).uniform(6, -1.0, steps as f64 + 1.0)),
        hidden: everything.then(|| of(7, &state, 1.0)),
        cell_state: of_lstm.then(|| of(8, &state, 1.0)),
        dst: Tensor::new(dtype, &[steps, directions, batch, hidden]),
        last_hidden: everything.then(|| Tensor::new(dtype, &state)),
        last_cell: of_lstm.then(|| Tensor::new(dtype, &state)),
    }))
}

fn tolerance(dtype: DType) -> Tolerance {
    match dtype {
        DType::F16 => Tolerance::Within(4e-3, 4e-3),
        DType::BF16 => Tolerance::Within(3e-2, 3e-2),
        _ => Tolerance::Within(2e-5, 1e-4),
    }
}

fn compare(emulator: &Emulator, ops: &[(DType, Op<Tensor>)]) {
    let all: Vec<Op<Tensor>> = ops.iter().map(|(_, op)| op.clone()).collect();
    prepare(emulator, &all).unwrap_or_else(|why| panic!("{why}"));
    for (dtype, op) in ops {
        assert_same_as_host(emulator, op, tolerance(*dtype));
    }
}

#[test]
fn every_form_steps_as_the_host_does() {
    let mut ops = Vec::new();
    for dtype in [DType::F32, DType::F16, DType::BF16, DType::F64] {
        for cell in CELLS {
            let both = (cell, Direction::Both);
            ops.push((dtype, layer(dtype, both, [4, 19, 5, 21], true)));
            ops.push((
                dtype,
                layer(dtype, (cell, Direction::Reverse), [3, 2, 3, 9], false),
            ));
        }
        let lstm = (Cell::Lstm, Direction::Forward);
        ops.push((dtype, layer(dtype, lstm, [2, 3, 4, 150], true)));
        ops.push((dtype, layer(dtype, lstm, [0, 3, 4, 5], true)));
        ops.push((dtype, layer(dtype, lstm, [2, 3, 0, 5], true)));
        ops.push((dtype, layer(dtype, lstm, [2, 0, 3, 5], true)));
        let gru = (Cell::Gru { reset_after: false }, Direction::Forward);
        ops.push((dtype, layer(dtype, gru, [2, 3, 4, 150], true)));
    }
    for emulator in Emulator::of_each_kind() {
        compare(&emulator, &ops);
    }
}

#[test]
fn states_that_do_not_fit_lie_in_device_memory() {
    let limits = Limits {
        compute_units: 1,
        // Enough for the tiles of the product, and not for two sequences.
        shared_bytes: 18 << 10,
        buffers: 480,
    };
    let mut ops = Vec::new();
    for (cell, dtype) in CELLS
        .into_iter()
        .zip([DType::F32, DType::F16].into_iter().cycle())
    {
        let both = (cell, Direction::Both);
        ops.push((dtype, layer(dtype, both, [2, 5, 4, 260], true)));
    }
    for emulator in Emulator::of_each_kind() {
        compare(&emulator.with_limits(limits), &ops);
    }
}

/// Recurrent weights of an LSTM of 136 units whose rows are not dense.
fn transposed(dtype: DType, directions: usize) -> Tensor {
    let rows = 4 * 136;
    let strides = [136 * rows as isize, 1, rows as isize];
    let layout = Layout::strided(&[directions, rows, 136], &strides, 0);
    Tensor::laid_out(dtype, layout.expect("a small layout")).uniform(3, -0.01, 0.01)
}

#[test]
fn steps_of_wide_states_are_launches() {
    let gru = Cell::Gru { reset_after: true };
    let mut ops = Vec::new();
    for (dtype, cell) in [
        (DType::F32, Cell::Lstm),
        (DType::F16, gru),
        (DType::BF16, Cell::Relu),
    ] {
        let both = (cell, Direction::Both);
        ops.push((dtype, layer(dtype, both, [3, 1, 4, 264], true)));
        ops.push((dtype, layer(dtype, both, [3, 11, 4, 132], true)));
        let reverse = (cell, Direction::Reverse);
        ops.push((dtype, layer(dtype, reverse, [2, 2, 3, 136], false)));
    }
    for dtype in [DType::F32, DType::F16] {
        let Op::Rnn(mut turned) = layer(dtype, (Cell::Lstm, Direction::Both), [3, 2, 4, 136], true)
        else {
            unreachable!("a layer");
        };
        turned.recurrent = transposed(dtype, 2);
        ops.push((dtype, Op::Rnn(turned)));
    }
    for emulator in Emulator::of_each_kind() {
        compare(&emulator, &ops);
    }
}

#[test]
fn steps_of_wide_states_and_many_sequences_are_multiplied_on_tensor_cores() {
    let Some(emulator) = Emulator::or_skip() else {
        return;
    };
    let emulator = emulator.with_lowering(|op, limits| match op {
        Op::Rnn(layer) => rnn::tensor_core_rnn(layer, limits),
        _ => None,
    });
    let mut ops = Vec::new();
    let both = (Cell::Lstm, Direction::Both);
    // More sequences than a group has, and fewer; columns that end within what a warp reads at once, and beyond what all do.
    for dtype in [DType::F16, DType::F32] {
        ops.push((dtype, layer(dtype, both, [2, 35, 4, 136], true)));
    }
    let forward = |dtype, cell| layer(dtype, (cell, Direction::Forward), [2, 11, 4, 136], true);
    let gru = Cell::Gru { reset_after: true };
    for dtype in [DType::F16, DType::F32] {
        ops.push((dtype, forward(dtype, gru)));
    }
    // What is infinite in f32 has no parts.
    let Op::Rnn(mut infinite) = forward(DType::F32, Cell::Lstm) else {
        unreachable!("a layer");
    };
    let weights: usize = 4 * 136 * 136;
    let weights: Vec<f64> = (0..weights)
        .map(|place| match place % 1009 {
            0 => f64::INFINITY,
            other => (other as f64 - 504.0) * 1e-5,
        })
        .collect();
    infinite.recurrent = Tensor::new(DType::F32, &[1, 4 * 136, 136]).values(&weights);
    ops.push((DType::F32, Op::Rnn(infinite)));
    let reverse = (Cell::Tanh, Direction::Reverse);
    ops.push((
        DType::F16,
        layer(DType::F16, reverse, [3, 17, 3, 264], false),
    ));
    // Recurrent weights that are copied first.
    let Op::Rnn(mut turned) = forward(DType::BF16, Cell::Lstm) else {
        unreachable!("a layer");
    };
    turned.recurrent = transposed(DType::BF16, 1);
    ops.push((DType::BF16, Op::Rnn(turned)));
    compare(&emulator, &ops);
}

#[test]
fn a_small_gpu_takes_more_sequences_to_a_group() {
    let mut ops = Vec::new();
    for cell in CELLS {
        for dtype in [DType::F16, DType::BF16] {
            let both = (cell, Direction::Both);
            ops.push((dtype, layer(dtype, both, [3, 37, 17, 33], true)));
        }
    }
    let limits = Limits {
        compute_units: 1,
        shared_bytes: 32 << 10,
        buffers: 480,
    };
    for emulator in Emulator::of_each_kind() {
        compare(&emulator.with_limits(limits), &ops);
    }
}
