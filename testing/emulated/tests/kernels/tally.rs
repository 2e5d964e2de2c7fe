//! Counts, and places of what is not zero: the kernels come to what the host comes to.

use streampool_device::{Axes, DType, Histogram, Layout, NonZero, Op, ReduceKind, Sort};
use streampool_emulated::{Emulator, Tensor, Tolerance, assert_all_same_as_host};

#[test]
fn histograms() {
    let mut ops = Vec::new();
    for (number, dtype) in (0..).zip(DType::ALL[..12].iter().copied()) {
        for (shape, bins) in [
            (&[5000][..], 10),
            (&[3, 7, 9], 1),
            (&[70, 70], 300),
            (&[0, 3], 4),
            (&[], 5),
        ] {
            let src = Tensor::new(dtype, shape).random(number);
            let weighted = number % 2 == 0;
            let weight = [DType::F32, DType::F16, DType::BF16, DType::F64][number as usize / 2 % 4];
            ops.push(Op::Histogram(Histogram {
                src,
                weights: weighted.then(|| Tensor::new(weight, shape).random(9)),
                dst: Tensor::new(if weighted { weight } else { DType::I64 }, &[bins]),
                low: -1.25,
                high: if dtype.is_float() { 1.25 } else { 4.0 },
            }));
        }
    }
    let values = [
        f64::NAN,
        f64::INFINITY,
        -1.0,
        1.0,
        0.0,
        f64::NEG_INFINITY,
        0.999,
        -1.0001,
    ];
    for bins in [2, 5000] {
        for weights in [false, true] {
            let dtype = if weights { DType::F32 } else { DType::I64 };
            ops.push(Op::Histogram(Histogram {
                src: Tensor::laid_out(
                    DType::F32,
                    Layout::strided(&[30, 20], &[-3, 100], 90).expect("a layout"),
                )
                .values(&values),
                weights: weights.then(|| Tensor::new(DType::F32, &[30, 20]).random(1)),
                dst: Tensor::laid_out(dtype, Layout::strided(&[bins], &[2], 1).expect("a layout")),
                low: -1.0,
                high: 1.0,
            }));
        }
    }
    assert_all_same_as_host(Emulator::of_each_dialect(), &ops, Tolerance::Usual);
}

#[test]
fn places() {
    let mut ops = Vec::new();
    for (number, dtype) in (0..).zip(DType::ALL) {
        for shape in [
            &[][..],
            &[1],
            &[4095],
            &[4096],
            &[4097],
            &[3, 5, 7],
            &[40, 300],
            &[0, 2],
            &[2, 3, 2, 3, 2, 3, 2, 3],
        ] {
            let layouts = [
                Layout::contiguous(shape).expect("a layout"),
                Layout::contiguous(&shape.iter().copied().rev().collect::<Vec<_>>())
                    .and_then(|layout| layout.permute(&(0..shape.len()).rev().collect::<Vec<_>>()))
                    .expect("a layout"),
            ];
            let src = Tensor::laid_out(dtype, layouts[number % 2]);
            let src = match number % 3 {
                0 => src.values(&[0.0, -0.0, 1.0, f64::NAN, 0.0, 0.0, -0.0]),
                1 => src.values(&[1.0, 3.0]),
                _ => src.values(&[0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0]),
            };
            ops.push(Op::NonZero(NonZero {
                src,
                indices: Tensor::new(DType::I64, &[shape.len(), shape.iter().product()]),
                count: Tensor::new(DType::I64, &[1]),
            }));
        }
    }
    assert_all_same_as_host(Emulator::of_each_dialect(), &ops, Tolerance::Exact);
}

/// One bin that everything lies in, of weights that no power of two divides: single sums stop growing, or drift.
#[test]
fn weights_of_many_elements_add_up() {
    let elements = 1 << 17;
    let mut ops = Vec::new();
    for bins in [3, 5000] {
        ops.push(Op::Histogram(Histogram {
            src: Tensor::new(DType::F32, &[elements]).values(&[0.5]),
            weights: Some(Tensor::new(DType::F32, &[elements]).values(&[1e4, 0.1, 0.3])),
            dst: Tensor::new(DType::F32, &[bins]),
            low: 0.0,
            high: bins as f64,
        }));
        // The same element, seen often.
        let often = Layout::strided(&[1 << 10, 3], &[0, 1], 0).expect("a layout");
        ops.push(Op::Histogram(Histogram {
            src: Tensor::laid_out(DType::F32, often).values(&[0.5, 1.5, 1.7]),
            weights: None,
            dst: Tensor::new(DType::I64, &[bins]),
            low: 0.0,
            high: bins as f64,
        }));
    }
    let near = Tolerance::Within(1e-6, 1e-6);
    assert_all_same_as_host(Emulator::of_each_dialect(), &ops, near);
}

#[test]
fn what_is_broadcast_is_reduced_and_sorted_without_a_walk() {
    let often = |dtype| {
        let layout = Layout::strided(&[1 << 10, 3], &[0, 1], 0).expect("a layout");
        Tensor::laid_out(dtype, layout).values(&[1.5, 3.0, -2.0])
    };
    let mut ops = Vec::new();
    for dtype in [DType::F32, DType::I32, DType::I64] {
        for (kind, result) in [
            (ReduceKind::Sum, dtype),
            (ReduceKind::Prod, dtype),
            (ReduceKind::Max, dtype),
            (ReduceKind::ArgMin, DType::I64),
        ] {
            ops.push(Op::Reduce {
                kind,
                src: often(dtype),
                dst: Tensor::new(result, &[1, 3]),
                axes: Axes::new(&[0]).expect("an axis"),
            });
        }
        ops.push(Op::Reduce {
            kind: ReduceKind::Sum,
            src: often(dtype),
            dst: Tensor::new(dtype, &[1, 1]),
            axes: Axes::new(&[0, 1]).expect("axes"),
        });
        ops.push(Op::Sort(Sort {
            src: often(dtype),
            values: Tensor::new(dtype, &[4, 3]),
            indices: Some(Tensor::new(DType::I64, &[4, 3])),
            axis: 0,
            descending: true,
        }));
    }
    assert_all_same_as_host(Emulator::of_each_dialect(), &ops, Tolerance::Usual);
}
