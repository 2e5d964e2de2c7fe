//! Recurrent layers in every form.

use streampool_device::{Cell, DType, Direction, Op, Rnn};

use super::{FLOATS, Memory};

pub fn ops() -> Vec<Op> {
    let cells = [
        Cell::Tanh,
        Cell::Relu,
        Cell::Gru { reset_after: false },
        Cell::Gru { reset_after: true },
        Cell::Lstm,
    ];
    let mut ops = Vec::new();
    for dtype in FLOATS {
        for cell in cells {
            ops.push(op(dtype, cell, [3, 40, 7, 20], true));
            ops.push(op(dtype, cell, [3, 8192, 7, 128], false));
            ops.push(op(dtype, cell, [3, 40, 7, 300], true));
            ops.push(op(dtype, cell, [3, 40, 7, 304], true));
        }
        ops.push(op(dtype, Cell::Lstm, [3, 2, 7, 9000], true));
    }
    ops
}

fn op(dtype: DType, cell: Cell, [steps, batch, input, hidden]: [usize; 4], everything: bool) -> Op {
    let mut memory = Memory::default();
    let direction = if everything {
        Direction::Both
    } else {
        Direction::Forward
    };
    let (directions, gates) = (direction.count(), cell.gates() * hidden);
    let state = [directions, batch, hidden];
    let of_lstm = everything && cell == Cell::Lstm;
    let mut given =
        |there: bool, dtype: DType, shape: &[usize]| there.then(|| memory.row_major(dtype, shape));
    let bias = given(everything, dtype, &[directions, 2 * gates]);
    let peephole = given(of_lstm, dtype, &[directions, 3 * hidden]);
    let lengths = given(everything, DType::I32, &[batch]);
    let [first, last] = [0; 2].map(|_| given(everything, dtype, &state));
    let [first_cell, last_cell] = [0; 2].map(|_| given(of_lstm, dtype, &state));
    Op::Rnn(Box::new(Rnn {
        cell,
        direction,
        src: memory.row_major(dtype, &[steps, batch, input]),
        weight: memory.row_major(dtype, &[directions, gates, input]),
        recurrent: memory.row_major(dtype, &[directions, gates, hidden]),
        bias,
        peephole,
        lengths,
        hidden: first,
        cell_state: first_cell,
        dst: memory.row_major(dtype, &[steps, directions, batch, hidden]),
        last_hidden: last,
        last_cell,
    }))
}
