//! What kernels refuse because of the values that they find, and what is left then.

use streampool_device::{Combine, DType, Gather, Indexing, Linalg, Op, Scatter};

use super::ops::{Tensor, execute};
use crate::kernels::Prepared;
use crate::team::Solo;

fn refused(op: &Op) -> String {
    execute(op, &Prepared::Plain, &Solo).unwrap_err()
}

#[test]
fn every_index_out_of_range_is_found_before_anything_is_written() {
    let [src, data] = [(); 2].map(|()| Tensor::zeros(DType::F32, &[4, 5]));
    for (wrong, at) in [
        (5, [2, 0]),
        (-6, [0, 1]),
        (1i64 << 62, [2, 1]),
        (i64::MIN, [1, 1]),
    ] {
        let mut indices = Tensor::zeros(DType::I64, &[3, 2]);
        indices.set(at[0] * 2 + at[1], wrong as f64);
        let dst = Tensor::of(DType::F32, &[4, 3, 2], || 7.0);
        let before = dst.bytes().to_vec();
        let ops = [
            Op::Gather(Gather {
                indexing: Indexing::Axis(1),
                src: src.view,
                indices: indices.view,
                dst: dst.view,
            }),
            Op::Scatter(Scatter {
                indexing: Indexing::Axis(1),
                combine: Combine::Add,
                src: src.view,
                indices: indices.view,
                updates: dst.view,
                dst: data.view,
            }),
        ];
        for op in ops {
            let wanted =
                format!("index {wrong} at {at:?} is out of range for axis 1 of 5 elements");
            assert_eq!(refused(&op), wanted);
            assert_eq!(dst.bytes(), before);
            assert!(data.bytes().iter().all(|&byte| byte == 0));
        }
    }
}

#[test]
fn a_list_of_indices_is_named_by_its_own_axis() {
    let (src, dst) = (
        Tensor::zeros(DType::U8, &[2, 3, 0]),
        Tensor::zeros(DType::U8, &[2, 0]),
    );
    let mut indices = Tensor::zeros(DType::I32, &[2, 2]);
    indices.set(3, 3.0);
    let why = refused(&Op::Gather(Gather {
        indexing: Indexing::Nd(0),
        src: src.view,
        indices: indices.view,
        dst: dst.view,
    }));
    assert_eq!(
        why,
        "index 3 at [1, 1] is out of range for axis 1 of 3 elements"
    );
}

#[test]
fn pivots_that_are_no_rows_are_refused() {
    for stray in [-1.0, 3.0, f64::from(i32::MAX)] {
        let unit = Tensor::of(DType::F64, &[3, 3], || 1.0);
        let pivots = Tensor::of(DType::I32, &[3], || stray);
        let dst = Tensor::zeros(DType::F64, &[3, 3]);
        let why = refused(&Op::Linalg(Linalg::LuSolve {
            factors: unit.view,
            pivots: pivots.view,
            rhs: unit.view,
            dst: dst.view,
        }));
        assert!(why.contains("pivot"), "{stray}");
    }
}
