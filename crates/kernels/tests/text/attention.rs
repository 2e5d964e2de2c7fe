//! Attention in every form.

use streampool_device::{Attention, DType, Op};

use super::{FLOATS, Memory};

pub fn ops() -> Vec<Op> {
    let mut ops = Vec::new();
    for dtype in FLOATS {
        for width in [16, 32, 64, 80, 128, 256, 300] {
            ops.push(op(dtype, [1, 2, 40, width], None, false));
        }
        ops.push(op(dtype, [512, 12, 128, 32], None, true));
        ops.push(op(dtype, [512, 12, 128, 64], Some(dtype), true));
        for mask in [dtype, DType::Bool] {
            ops.push(op(dtype, [1, 2, 40, 20], Some(mask), false));
            ops.push(op(dtype, [1, 2, 40, 64], Some(mask), true));
            ops.push(op(dtype, [1, 2, 40, 300], Some(mask), true));
        }
    }
    ops
}

fn op(
    dtype: DType,
    [batch, heads, length, width]: [usize; 4],
    mask: Option<DType>,
    bounded: bool,
) -> Op {
    let mut memory = Memory::default();
    let shape = [batch, heads, length, width];
    Op::Attention(Box::new(Attention {
        query: memory.row_major(dtype, &shape),
        key: memory.row_major(dtype, &shape),
        value: memory.row_major(dtype, &shape),
        // One for all queries of some.
        mask: mask
            .map(|mask| memory.row_major(mask, &[if width == 64 { 1 } else { length }, length])),
        out: memory.row_major(dtype, &shape),
        scale: 0.5,
        causal: bounded.then_some(0),
        softcap: if bounded && mask.is_some() { 2.0 } else { 0.0 },
    }))
}
