//! Scans, sorts and tallies for every way in which a kernel may be made for them.

use streampool_device::{
    DType, Histogram, NonZero, Op, Scan, ScanKind, Sort, TreeCombine, TreeTest, Trees, View,
};

use super::{FLOATS, Memory};

/// All of them.
pub fn ops() -> Vec<Op> {
    let mut ops = scans();
    ops.extend(sorts());
    ops.extend(tallies());
    ops.extend(ensembles());
    ops
}

fn scans() -> Vec<Op> {
    use ScanKind::{Max, Min, Prod, Sum};
    let mut ops = Vec::new();
    let shapes: [(&[usize], usize); 6] = [
        (&[1000, 64], 1),
        (&[1000, 63], 1),
        (&[3, 1 << 20], 1),
        (&[1 << 16, 16], 0),
        (&[1000, 10_000], 0),
        (&[5, 6, 7, 8], 1),
    ];
    for dtype in &DType::ALL[..12] {
        for (number, (shape, axis)) in shapes.into_iter().enumerate() {
            let memory = &mut Memory::default();
            let (src, dst) = (
                memory.row_major(*dtype, shape),
                memory.row_major(*dtype, shape),
            );
            let kinds = [Sum, Prod, Max, Min];
            let some = match number {
                0 => &kinds[..],
                _ => &kinds[number % 4..][..1],
            };
            for &kind in some {
                ops.push(Op::Scan(Scan {
                    kind,
                    src,
                    dst,
                    axis,
                    exclusive: kind == Prod,
                    reverse: number % 2 == 0,
                }));
            }
        }
    }
    ops
}

fn sorts() -> Vec<Op> {
    let mut ops = Vec::new();
    for dtype in DType::ALL {
        for (shape, wanted) in [
            ([100, 30], 30),
            ([100, 2000], 7),
            ([3, 100_000], 100_000),
            ([3, 1 << 20], 500),
        ] {
            for descending in [false, true] {
                let memory = &mut Memory::default();
                let kept = [shape[0], wanted];
                ops.push(Op::Sort(Sort {
                    src: memory.row_major(dtype, &shape),
                    values: memory.row_major(dtype, &kept),
                    indices: descending.then(|| memory.row_major(DType::I64, &kept)),
                    axis: 1,
                    descending,
                }));
            }
        }
    }
    ops
}

fn ensembles() -> Vec<Op> {
    let mut ops = Vec::new();
    for dtype in [DType::F32, DType::F64] {
        for test in [TreeTest::AtMost, TreeTest::Below, TreeTest::Bits] {
            for combine in [TreeCombine::Sum, TreeCombine::Min, TreeCombine::Max] {
                let memory = &mut Memory::default();
                ops.push(Op::Trees(Trees {
                    src: memory.turned(dtype, &[1000, 30]),
                    records: memory.row_major(DType::I32, &[5000, 4]),
                    dst: memory.row_major(dtype, &[1000, 3]),
                    trees: 100,
                    depth: 8,
                    test,
                    combine,
                }));
            }
        }
    }
    ops
}

fn tallies() -> Vec<Op> {
    let mut ops = Vec::new();
    let mut histogram = |src: View, weights: Option<View>, dst| {
        ops.push(Op::Histogram(Histogram {
            src,
            weights,
            dst,
            low: -1.0,
            high: 1.0,
        }));
    };
    for bins in [10, 1000, 4000, 10_000] {
        for dtype in &DType::ALL[..12] {
            let memory = &mut Memory::default();
            let src = memory.row_major(*dtype, &[1000]);
            histogram(src, None, memory.row_major(DType::I64, &[bins]));
        }
        for dtype in FLOATS {
            let memory = &mut Memory::default();
            let src = memory.row_major(DType::F32, &[10, 30]);
            let weights = memory.turned(dtype, &[10, 30]);
            histogram(src, Some(weights), memory.row_major(dtype, &[bins]));
        }
    }
    for dtype in DType::ALL {
        let memory = &mut Memory::default();
        for src in [
            memory.row_major(dtype, &[16, 32]),
            memory.turned(dtype, &[10, 30]),
        ] {
            let elements = src.layout().elements();
            ops.push(Op::NonZero(NonZero {
                src,
                indices: memory.row_major(DType::I64, &[2, elements]),
                count: memory.row_major(DType::I64, &[1]),
            }));
        }
    }
    ops
}
