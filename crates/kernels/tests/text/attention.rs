//! Attention in every form.

use streampool_device::{Attention, DType, Op};

use super::{FLOATS, Memory};

pub fn ops() -> Vec<Op> {
    let mut ops = Vec::new();
    for dtype in FLOATS {
        for width in [16, 32, 64, 80, 128, 256, 300] {
            ops.push(op(dtype, [1, 2, 40, width], None, false));
        }
        // One query, two, and more than a group takes; few keys, and more than one group takes.
        for (width, queries) in [(16, 1), (64, 2), (80, 5), (256, 1)] {
            for keys in [40, 4000] {
                ops.push(of_queries(dtype, [1, 2, keys, width], queries, None, false));
            }
        }
        ops.push(of_queries(dtype, [1, 2, 4000, 63], 1, Some(dtype), true));
        ops.push(of_queries(
            dtype,
            [1, 2, 40, 64],
            1,
            Some(DType::Bool),
            true,
        ));
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

fn op(dtype: DType, sizes: [usize; 4], mask: Option<DType>, bounded: bool) -> Op {
    of_queries(dtype, sizes, sizes[2], mask, bounded)
}

/// Of so many queries, and as many keys as the length says.
fn of_queries(
    dtype: DType,
    [batch, heads, length, width]: [usize; 4],
    queries: usize,
    mask: Option<DType>,
    bounded: bool,
) -> Op {
    let mut memory = Memory::default();
    let (few, shape) = (
        [batch, heads, queries, width],
        [batch, heads, length, width],
    );
    // One for all queries of some.
    let mask_rows = if width == 64 { 1 } else { queries };
    Op::Attention(Box::new(Attention {
        query: memory.row_major(dtype, &few),
        key: memory.row_major(dtype, &shape),
        value: memory.row_major(dtype, &shape),
        mask: mask.map(|mask| memory.row_major(mask, &[mask_rows, length])),
        out: memory.row_major(dtype, &few),
        scale: 0.5,
        causal: bounded.then_some((length - queries) as i64),
        softcap: if bounded && mask.is_some() { 2.0 } else { 0.0 },
    }))
}
