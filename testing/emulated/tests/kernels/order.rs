//! Scans and sorts: the kernels come to what the host comes to.

use streampool_device::{DType, Layout, Op, Scan, ScanKind, Sort};
use streampool_emulated::{Emulator, Tensor, Tolerance, assert_all_same_as_host};

const KINDS: [ScanKind; 4] = [ScanKind::Sum, ScanKind::Prod, ScanKind::Max, ScanKind::Min];

/// Shapes, and axes along which they are gone.
const SHAPES: [(&[usize], usize); 16] = [
    (&[1], 0),
    (&[3, 5], 1),
    (&[7, 64], 1),
    (&[40, 31], 1),
    (&[40, 128], 1),
    (&[3, 129], 1),
    (&[200, 640], 1),
    (&[2, 9000], 1),
    (&[1, 9001], 1),
    (&[1, 33_000], 1),
    (&[5, 40], 0),
    (&[700, 12], 0),
    (&[3, 300, 9], 1),
    (&[2, 3, 2, 5, 2, 3, 2], 3),
    (&[0, 4], 1),
    (&[2000, 8], 0),
];

fn values(kind: ScanKind, dtype: DType, shape: &[usize], seed: u64) -> Tensor {
    let tensor = Tensor::new(dtype, shape);
    match kind {
        ScanKind::Prod if dtype.is_float() => tensor.uniform(seed, 0.97, 1.03),
        // Sums of few digits, which halves hold.
        ScanKind::Sum if dtype.is_float() => tensor.uniform(seed, -0.01, 0.01),
        _ => tensor.random(seed),
    }
}

#[test]
fn scans() {
    let mut ops = Vec::new();
    for (number, &(shape, axis)) in (0..).zip(&SHAPES) {
        for (turn, dtype) in DType::ALL[..12].iter().copied().enumerate() {
            if number % 3 != turn % 3 {
                continue;
            }
            let kind = KINDS[(turn + number / 3) % 4];
            let scan = |src, dst, exclusive, reverse| {
                Op::Scan(Scan {
                    kind,
                    src,
                    dst,
                    axis,
                    exclusive,
                    reverse,
                })
            };
            let (exclusive, reverse) = (number % 2 == 0, turn % 2 == 0);
            let src = values(kind, dtype, shape, number as u64);
            ops.push(scan(
                src.clone(),
                Tensor::new(dtype, shape),
                exclusive,
                reverse,
            ));
            ops.push(scan(src, Tensor::new(dtype, shape), !exclusive, !reverse));
        }
    }
    let gaps = Layout::strided(&[3, 500], &[1100, 2], 1).expect("a layout");
    let backwards = Layout::strided(&[3, 500], &[-500, -1], 1499).expect("a layout");
    for reverse in [false, true] {
        ops.push(Op::Scan(Scan {
            kind: ScanKind::Sum,
            src: Tensor::laid_out(DType::F32, gaps).random(1),
            dst: Tensor::laid_out(DType::F32, backwards),
            axis: 1,
            exclusive: false,
            reverse,
        }));
    }
    assert_all_same_as_host(Emulator::of_each_dialect(), &ops, Tolerance::Usual);
}

#[test]
fn nan_wins_in_the_largest_so_far() {
    let mut ops = Vec::new();
    let values = [
        1.0,
        f64::NEG_INFINITY,
        f64::INFINITY,
        -3.0,
        f64::NAN,
        2.0,
        0.0,
    ];
    for kind in KINDS {
        for dtype in [DType::F32, DType::F16, DType::F64] {
            ops.push(Op::Scan(Scan {
                kind,
                src: Tensor::new(dtype, &[7, 50]).values(&values),
                dst: Tensor::new(dtype, &[7, 50]),
                axis: 1,
                exclusive: true,
                reverse: false,
            }));
        }
    }
    assert_all_same_as_host(Emulator::of_each_dialect(), &ops, Tolerance::Usual);
}

/// Few different values: there are equals, NaN, infinities and both zeros.
fn repeated(dtype: DType, shape: &[usize], seed: u64) -> Tensor {
    let specials = [
        f64::NAN,
        0.0,
        -0.0,
        f64::INFINITY,
        1.5,
        -1.5,
        f64::NEG_INFINITY,
        2.0,
        -1.0,
        1.0,
        3.0,
    ];
    if seed.is_multiple_of(2) && dtype.is_float() {
        Tensor::new(dtype, shape).values(&specials)
    } else {
        Tensor::new(dtype, shape).random(seed)
    }
}

#[test]
fn sorts() {
    let cases: [(&[usize], usize, usize); 14] = [
        (&[1], 0, 1),
        (&[9, 1], 1, 1),
        (&[70, 2], 1, 2),
        (&[33, 31], 1, 31),
        (&[3, 33], 1, 5),
        (&[5, 512], 1, 512),
        (&[2, 513], 1, 513),
        (&[2047], 0, 2047),
        (&[2049], 0, 2049),
        (&[2, 4097], 1, 4000),
        (&[3, 5000], 1, 7),
        (&[9000], 0, 900),
        (&[40, 6], 0, 3),
        (&[3, 4, 5, 2], 2, 0),
    ];
    let mut ops = Vec::new();
    for (number, &(shape, axis, wanted)) in (0..).zip(&cases) {
        let mut kept = shape.to_vec();
        kept[axis] = wanted;
        for (turn, dtype) in DType::ALL.into_iter().enumerate() {
            if number as usize % 4 != turn % 4 && turn != 0 {
                continue;
            }
            for descending in [false, true] {
                ops.push(Op::Sort(Sort {
                    src: repeated(dtype, shape, number + u64::from(descending)),
                    values: Tensor::new(dtype, &kept),
                    indices: (turn != 3).then(|| Tensor::new(DType::I64, &kept)),
                    axis,
                    descending,
                }));
            }
        }
    }
    assert_all_same_as_host(Emulator::of_each_dialect(), &ops, Tolerance::Exact);
}
