//! Ensembles of trees: the kernels come to the bits that the host comes to.

use streampool_device::{DType, Op, TreeCombine, TreeTest, Trees};
use streampool_emulated::{Emulator, Tensor, Tolerance, assert_all_same_as_host};

#[test]
fn ensembles() {
    // Two tests, one below the other on the side of what does not pass; then a weight, and a list of two.
    let value = |value: f32| f64::from(value.to_bits().cast_signed());
    let records = [
        [1.0 + 12.0 + 256.0, 2.0, value(0.25), 0.0],
        [1.0 + 36.0, 3.0, value(-0.5), 0.0],
        [512.0, 2.0, value(1.5), 0.0],
        [1.0 + 20.0 + 512.0, 2.0, value(0.0), 0.0],
        [2.0, 4.0, 5.0, 2.0],
        [0.0, 5.0, value(0.3), 0.0],
        [256.0, 6.0, value(-0.7), 0.0],
    ];
    let mut ops = Vec::new();
    for test in [TreeTest::AtMost, TreeTest::Below, TreeTest::Bits] {
        for combine in [TreeCombine::Sum, TreeCombine::Min, TreeCombine::Max] {
            for (rows, depth) in [(1, 3), (300, 3), (300, 1), (7, 0), (0, 2)] {
                ops.push(Op::Trees(Trees {
                    src: Tensor::new(DType::F32, &[rows, 3]).random(rows as u64),
                    records: Tensor::new(DType::I32, &[7, 4]).values(records.as_flattened()),
                    dst: Tensor::new(DType::F32, &[rows, 3]),
                    trees: 2,
                    depth,
                    test,
                    combine,
                }));
            }
        }
    }
    assert_all_same_as_host(Emulator::of_each_dialect(), &ops, Tolerance::Exact);
}
