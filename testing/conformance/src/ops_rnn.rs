//! Recurrent layers against the reference.

use streampool_device::{Cell, DType, Direction, Op, OpKind, Rnn};

use crate::execute::{Example, check};
use crate::fixture::Fixture;
use crate::num::Num;
use crate::operand::Operand;
use crate::random::{FLOATS, read_operand, target};
use crate::rng::Rng;

const CELLS: [Cell; 5] = [
    Cell::Tanh,
    Cell::Relu,
    Cell::Gru { reset_after: false },
    Cell::Gru { reset_after: true },
    Cell::Lstm,
];
const DIRECTIONS: [Direction; 3] = [Direction::Forward, Direction::Reverse, Direction::Both];

/// Which of the operands are there that need not be.
#[derive(Debug, Clone, Copy)]
struct Given {
    bias: bool,
    peephole: bool,
    lengths: bool,
    states: bool,
    last: bool,
}

const ALL: Given = Given {
    bias: true,
    peephole: true,
    lengths: true,
    states: true,
    last: true,
};

const NONE: Given = Given {
    bias: false,
    peephole: false,
    lengths: false,
    states: false,
    last: false,
};

/// A layer of steps, sequences, and the sizes of input and state, with random operands of any layout.
fn layer(
    rng: &mut Rng,
    dtype: DType,
    (cell, direction): (Cell, Direction),
    [steps, batch, input, hidden]: [usize; 4],
    given: Given,
) -> Example {
    let (directions, gates) = (direction.count(), cell.gates() * hidden);
    let state = [directions, batch, hidden];
    let mut operands = Vec::new();
    let mut read = |rng: &mut Rng, shape: &[usize], most: f64| {
        operands.push(read_operand(rng, dtype, shape, |rng| {
            Num::Float(rng.real(-most, most))
        }));
        operands.len() - 1
    };
    let weight = 1.0 / (input.max(1) as f64).sqrt();
    // Sums of so large weights do not let errors grow from step to step.
    let recurrent = 1.0 / hidden.max(1) as f64;
    let of_lstm = cell == Cell::Lstm;
    let mut op = Rnn {
        cell,
        direction,
        src: read(rng, &[steps, batch, input], 2.0),
        weight: read(rng, &[directions, gates, input], weight),
        recurrent: read(rng, &[directions, gates, hidden], recurrent),
        bias: given.bias.then(|| read(rng, &[directions, 2 * gates], 1.0)),
        peephole: (given.peephole && of_lstm).then(|| read(rng, &[directions, 3 * hidden], 0.5)),
        lengths: None,
        hidden: given.states.then(|| read(rng, &state, 1.0)),
        cell_state: (given.states && of_lstm).then(|| read(rng, &state, 1.0)),
        dst: 0,
        last_hidden: None,
        last_cell: None,
    };
    if given.lengths {
        op.lengths = Some(operands.len());
        operands.push(read_operand(rng, DType::I32, &[batch], |rng| {
            Num::whole(rng.between(-1, steps as i64 + 1))
        }));
    }
    let mut write = |shape: &[usize]| {
        let mut operand = target(rng, dtype, shape);
        let count = operand.layout.elements();
        operand.set_all(std::iter::repeat_n(Num::Float(f64::NAN), count));
        operands.push(operand);
        operands.len() - 1
    };
    op.dst = write(&[steps, directions, batch, hidden]);
    op.last_hidden = given.last.then(|| write(&state));
    op.last_cell = (given.last && of_lstm).then(|| write(&state));
    (Op::Rnn(Box::new(op)), operands)
}

/// Every cell and direction in every type, with all operands and with the fewest.
pub fn layers_of_every_cell(fixture: &Fixture) {
    if !fixture.supports(OpKind::Rnn) {
        return;
    }
    let mut lane = fixture.lane();
    let mut rng = Rng::new(80);
    for dtype in FLOATS {
        for cell in CELLS {
            for direction in DIRECTIONS {
                for given in [ALL, NONE] {
                    let (op, operands) =
                        layer(&mut rng, dtype, (cell, direction), [6, 3, 5, 7], given);
                    check(fixture, &mut lane, &op, &operands);
                }
            }
        }
    }
}

/// A layer of any sizes and layouts, with any of the operands that need not be there.
pub(crate) fn any_layer(rng: &mut Rng, dtype: DType) -> Example {
    let kind = (rng.pick(&CELLS), rng.pick(&DIRECTIONS));
    let sizes = [0; 4].map(|_| {
        let most = if rng.chance(6) { 20 } else { 6 };
        1 + rng.below(most)
    });
    let given = Given {
        bias: rng.chance(2),
        peephole: rng.chance(2),
        lengths: rng.chance(2),
        states: rng.chance(2),
        last: rng.chance(2),
    };
    layer(rng, dtype, kind, sizes, given)
}

/// Any sizes, any layouts and any choice of operands.
pub fn layers_of_any_layout(fixture: &Fixture) {
    if !fixture.supports(OpKind::Rnn) {
        return;
    }
    let mut lane = fixture.lane();
    let mut rng = Rng::new(81);
    for _ in 0..150 {
        let dtype = rng.pick(&FLOATS);
        let (op, operands) = any_layer(&mut rng, dtype);
        check(fixture, &mut lane, &op, &operands);
    }
}

/// Sizes of state and batch around the blocks that a device may work in.
pub fn layers_of_block_lengths(fixture: &Fixture) {
    if !fixture.supports(OpKind::Rnn) {
        return;
    }
    let mut lane = fixture.lane();
    let mut rng = Rng::new(82);
    for dtype in FLOATS {
        for cell in CELLS {
            for sizes in [
                [3, 1, 32, 31],
                [2, 7, 3, 32],
                [3, 17, 16, 33],
                [2, 2, 64, 64],
                [2, 33, 5, 65],
                [2, 5, 128, 128],
                [2, 1, 9, 130],
                [1, 25, 4, 16],
            ] {
                let kind = (cell, rng.pick(&DIRECTIONS));
                let (op, operands) = layer(&mut rng, dtype, kind, sizes, ALL);
                check(fixture, &mut lane, &op, &operands);
            }
        }
    }
    let kind = (Cell::Lstm, Direction::Forward);
    let (op, operands) = layer(&mut rng, DType::F32, kind, [3, 2, 20, 300], ALL);
    check(fixture, &mut lane, &op, &operands);
}

/// More sequences than a few, of states that are whole tiles of matrices.
pub fn layers_of_more_sequences(fixture: &Fixture) {
    if !fixture.supports(OpKind::Rnn) {
        return;
    }
    let mut lane = fixture.lane();
    let mut rng = Rng::new(85);
    for dtype in [DType::F32, DType::F16] {
        for cell in CELLS {
            for sizes in [[3, 9, 5, 136], [2, 17, 8, 144]] {
                let kind = (cell, rng.pick(&DIRECTIONS));
                let (op, mut operands) = layer(&mut rng, dtype, kind, sizes, ALL);
                // The weights of states in rows one after the other, as models have them.
                let shape = operands[2].layout.shape().to_vec();
                let most = 1.0 / sizes[3] as f64;
                let weights = (0..shape.iter().product()).map(|_| rng.real(-most, most));
                let mut weights = weights.map(Num::Float);
                operands[2] = Operand::row_major(dtype, &shape);
                operands[2].set_all(&mut weights);
                check(fixture, &mut lane, &op, &operands);
            }
        }
    }
}

/// Dimensions of zero: without steps the last state is the first, without input there is the bias.
pub fn layers_of_nothing(fixture: &Fixture) {
    if !fixture.supports(OpKind::Rnn) {
        return;
    }
    let mut lane = fixture.lane();
    let mut rng = Rng::new(83);
    for dtype in FLOATS {
        for cell in CELLS {
            for sizes in [
                [0, 2, 3, 4],
                [3, 0, 3, 4],
                [3, 2, 0, 4],
                [3, 2, 3, 0],
                [0; 4],
            ] {
                for given in [ALL, NONE] {
                    let kind = (cell, rng.pick(&DIRECTIONS));
                    let (op, operands) = layer(&mut rng, dtype, kind, sizes, given);
                    check(fixture, &mut lane, &op, &operands);
                }
            }
        }
    }
}

/// NaN reaches the steps that follow it, of its own sequence only.
pub fn nan_stays_in_its_sequence(fixture: &Fixture) {
    if !fixture.supports(OpKind::Rnn) {
        return;
    }
    let mut lane = fixture.lane();
    let mut rng = Rng::new(84);
    for dtype in FLOATS {
        for cell in CELLS {
            let kind = (cell, Direction::Forward);
            let (op, mut operands) = layer(&mut rng, dtype, kind, [4, 5, 3, 6], NONE);
            operands[0] = Operand::row_major(dtype, &[4, 5, 3]);
            let at = (2 * 5 + 3) * 3 + 1;
            let value = |index| if index == at { f64::NAN } else { 0.5 };
            operands[0].set_all((0..60).map(|index| Num::Float(value(index))));
            check(fixture, &mut lane, &op, &operands);
        }
    }
}
