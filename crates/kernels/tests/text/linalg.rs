//! Factorisations and solves of small and large matrices, alone and many at a time.

use streampool_device::{DType, Linalg, Op};

use super::Memory;

/// Ops of linear algebra.
pub fn ops() -> Vec<Op> {
    let mut ops = Vec::new();
    for (dtype, batch) in [(DType::F32, &[][..]), (DType::F32, &[3]), (DType::F64, &[])] {
        for size in [20, 60, 400] {
            ops.extend(of(dtype, batch, size).map(Op::Linalg));
        }
    }
    ops
}

fn of(dtype: DType, batch: &[usize], size: usize) -> [Linalg; 8] {
    let square = [batch, &[size, size]].concat();
    let sides = [batch, &[size, 5]].concat();
    let steps = [batch, &[size]].concat();
    let mut memory = Memory::default();
    let src = memory.turned(dtype, &square);
    let (factors, dst) = (
        memory.row_major(dtype, &square),
        memory.row_major(dtype, &square),
    );
    let pivots = memory.row_major(DType::I32, &steps);
    let (rhs, solution) = (
        memory.turned(dtype, &sides),
        memory.row_major(dtype, &sides),
    );
    let triangular = |upper, unit| Linalg::Triangular {
        src,
        rhs,
        dst: solution,
        upper,
        unit,
    };
    [
        Linalg::Lu {
            src,
            factors,
            pivots,
        },
        Linalg::LuSolve {
            factors,
            pivots,
            rhs,
            dst: solution,
        },
        triangular(false, false),
        triangular(false, true),
        triangular(true, false),
        triangular(true, true),
        Linalg::Cholesky { src, dst },
        Linalg::Inverse { src, dst },
    ]
}
