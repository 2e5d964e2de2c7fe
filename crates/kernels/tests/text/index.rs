//! Gathers and scatters for every way in which a kernel may be made for them.

use streampool_device::{Combine, DType, Gather, Indexing, Op, Scatter};

use super::Memory;

type Shape = &'static [usize];

/// A way of indexing, and shapes of the data, the indices and the indexed elements.
const SHAPES: [(Indexing, Shape, Shape, Shape); 7] = [
    (Indexing::Axis(0), &[100, 64], &[33], &[33, 64]),
    (Indexing::Axis(0), &[100, 63], &[33], &[33, 63]),
    (Indexing::Axis(1), &[6, 100, 64], &[3, 11], &[6, 3, 11, 64]),
    (Indexing::Axis(0), &[100], &[], &[]),
    (Indexing::Elements(1), &[6, 7, 8], &[6, 9, 3], &[6, 9, 3]),
    (Indexing::Nd(0), &[6, 7, 8], &[5, 3], &[5]),
    (Indexing::Nd(1), &[6, 7, 8], &[6, 2, 0], &[6, 2, 7, 8]),
];

pub fn ops() -> Vec<Op> {
    let mut ops = Vec::new();
    for (indexing, data, lists, picked) in SHAPES {
        for dtype in [DType::U8, DType::Bool, DType::F16, DType::F32, DType::F64] {
            for index in [DType::I32, DType::I64] {
                let memory = &mut Memory::default();
                let (src, dst) = (memory.row_major(dtype, data), memory.row_major(dtype, data));
                let indices = memory.row_major(index, lists);
                let elements = memory.row_major(dtype, picked);
                ops.push(Op::Gather(Gather {
                    indexing,
                    src,
                    indices,
                    dst: elements,
                }));
                ops.push(Op::Scatter(Scatter {
                    indexing,
                    combine: Combine::Replace,
                    src,
                    indices,
                    updates: elements,
                    dst,
                }));
            }
        }
    }
    for dtype in &DType::ALL[..12] {
        for combine in [Combine::Add, Combine::Mul, Combine::Min, Combine::Max] {
            let memory = &mut Memory::default();
            let dst = memory.row_major(*dtype, &[100, 64]);
            ops.push(Op::Scatter(Scatter {
                indexing: Indexing::Axis(0),
                combine,
                src: dst,
                indices: memory.row_major(DType::I64, &[33]),
                updates: memory.row_major(*dtype, &[33, 64]),
                dst,
            }));
        }
    }
    ops
}
