//! Gather and scatter: the kernels come to what the host comes to.

use streampool_device::{Combine, DType, Gather, Indexing, Layout, Op, Scatter};
use streampool_emulated::{Emulator, Tensor, Tolerance, assert_all_same_as_host, emulate};

/// A way of indexing, shapes of the data, the indices and the indexed elements, and how many of them there are
/// along the axes that are indexed.
type Case = (
    Indexing,
    &'static [usize],
    &'static [usize],
    &'static [usize],
    usize,
);

const CASES: [Case; 14] = [
    (Indexing::Axis(0), &[10, 64], &[33], &[33, 64], 10),
    (Indexing::Axis(0), &[10, 7], &[3, 5], &[3, 5, 7], 10),
    (Indexing::Axis(1), &[3, 6, 8], &[4], &[3, 4, 8], 6),
    (Indexing::Axis(2), &[3, 6, 8], &[300], &[3, 6, 300], 8),
    (Indexing::Axis(0), &[9], &[], &[], 9),
    (
        Indexing::Axis(0),
        &[2, 3, 2, 3, 2, 3, 2, 3],
        &[5],
        &[5, 3, 2, 3, 2, 3, 2, 3],
        2,
    ),
    (Indexing::Elements(0), &[5, 6], &[9, 4], &[9, 4], 5),
    (Indexing::Elements(1), &[257, 5], &[257, 3], &[257, 3], 5),
    (Indexing::Elements(2), &[2, 3, 4], &[1, 2, 6], &[1, 2, 6], 4),
    (Indexing::Nd(0), &[4, 4, 16], &[7, 2], &[7, 16], 4),
    (Indexing::Nd(1), &[3, 4, 5], &[3, 6, 1], &[3, 6, 5], 4),
    (Indexing::Nd(0), &[3, 3, 3], &[11, 3], &[11], 3),
    (Indexing::Nd(1), &[2, 6], &[2, 3, 0], &[2, 3, 6], 1),
    (Indexing::Axis(0), &[4, 0], &[3], &[3, 0], 4),
];

fn tensor(dtype: DType, shape: &[usize], seed: u64) -> Tensor {
    Tensor::new(dtype, shape).random(seed)
}

/// The elements of `shape` with all axes reversed in memory, and gaps.
fn turned(dtype: DType, shape: &[usize], seed: u64) -> Tensor {
    let wide: Vec<usize> = shape.iter().rev().map(|&size| 2 * size).collect();
    let order: Vec<usize> = (0..shape.len()).rev().collect();
    let mut layout = Layout::contiguous(&wide)
        .and_then(|layout| layout.permute(&order))
        .expect("a layout");
    for (axis, &size) in shape.iter().enumerate() {
        layout = layout.slice(axis, 0, 2 * size, 2).expect("within");
    }
    Tensor::laid_out(dtype, layout).random(seed)
}

fn indices(dtype: DType, shape: &[usize], size: usize, seed: u64) -> Tensor {
    let most = size as f64;
    Tensor::new(dtype, shape).uniform(seed, -most, most)
}

#[test]
fn gathers() {
    let mut ops = Vec::new();
    for (number, &(indexing, data, lists, picked, size)) in (0..).zip(&CASES) {
        for (dtype, index) in [
            (DType::F32, DType::I64),
            (DType::F16, DType::I32),
            (DType::Bool, DType::I64),
            (DType::F64, DType::I32),
        ] {
            let lists = indices(index, lists, size, number);
            let gather = |src, dst| {
                let indices = lists.clone();
                Op::Gather(Gather {
                    indexing,
                    src,
                    indices,
                    dst,
                })
            };
            ops.push(gather(
                tensor(dtype, data, number),
                Tensor::new(dtype, picked),
            ));
            ops.push(gather(
                turned(dtype, data, number),
                turned(dtype, picked, 1),
            ));
        }
    }
    assert_all_same_as_host(Emulator::of_each_dialect(), &ops, Tolerance::Exact);
}

#[test]
fn scatters() {
    use Combine::{Add, Max, Min, Mul};
    let mut ops = Vec::new();
    for (number, &(indexing, data, lists, picked, size)) in (0..).zip(&CASES) {
        for (turn, dtype) in DType::ALL[..12].iter().copied().enumerate() {
            let combine = [Add, Mul, Min, Max][(turn + number as usize) % 4];
            let indices = indices(DType::I64, lists, size, number);
            let updates = tensor(dtype, picked, number + 7);
            let (src, dst) = match turn % 3 {
                0 => {
                    let both = turned(dtype, data, number);
                    (both.clone(), both)
                }
                _ => (tensor(dtype, data, number), Tensor::new(dtype, data)),
            };
            ops.push(Op::Scatter(Scatter {
                indexing,
                combine,
                src,
                indices,
                updates,
                dst,
            }));
        }
    }
    assert_all_same_as_host(Emulator::of_each_dialect(), &ops, Tolerance::Usual);
}

#[test]
fn replacements() {
    let mut ops = Vec::new();
    for (dtype, width) in [
        (DType::F32, 64),
        (DType::BF16, 6),
        (DType::U8, 4),
        (DType::I64, 3),
        (DType::Bool, 1),
    ] {
        // Each place at most once, so that it does not matter which comes last; some counted from the end.
        let order: Vec<f64> = (0..30)
            .map(|n| (n * 7 + 3) % 40)
            .map(|place| f64::from(if place % 3 == 0 { place - 40 } else { place }))
            .collect();
        ops.push(Op::Scatter(Scatter {
            indexing: Indexing::Axis(0),
            combine: Combine::Replace,
            src: tensor(dtype, &[40, width], 1),
            indices: Tensor::new(DType::I32, &[30]).values(&order),
            updates: tensor(dtype, &[30, width], 2),
            dst: Tensor::new(dtype, &[40, width]),
        }));
    }
    assert_all_same_as_host(Emulator::of_each_dialect(), &ops, Tolerance::Exact);
}

#[test]
fn indices_out_of_range_give_zero_and_put_nothing() {
    for emulator in Emulator::of_each_dialect() {
        assert_indices_out_of_range_do_nothing(&emulator);
    }
}

fn assert_indices_out_of_range_do_nothing(emulator: &Emulator) {
    let wrong = [1.0, 4.0, -5.0, -4.0, 3e9, -3e9, 9e18, -9e18];
    for width in [1, 8] {
        let src = tensor(DType::F32, &[4, width], 3);
        let data: Vec<f64> = emulate(
            emulator,
            &Op::Copy {
                src: src.clone(),
                dst: Tensor::new(DType::F32, &[4, width]),
            },
        )
        .expect("a copy")[0]
            .values();
        let indices = Tensor::new(DType::I64, &[8]).values(&wrong);
        let picked = emulate(
            emulator,
            &Op::Gather(Gather {
                indexing: Indexing::Axis(0),
                src: src.clone(),
                indices: indices.clone(),
                dst: Tensor::new(DType::F32, &[8, width]),
            }),
        )
        .expect("it is defined");
        let mut expected = vec![0.0; 8 * width];
        expected[..width].copy_from_slice(&data[width..2 * width]);
        expected[3 * width..4 * width].copy_from_slice(&data[..width]);
        assert_eq!(picked[0].values(), expected);
        for combine in [Combine::Replace, Combine::Add, Combine::Max] {
            let updates = Tensor::new(DType::F32, &[8, width]).values(&[100.0]);
            let put = emulate(
                emulator,
                &Op::Scatter(Scatter {
                    indexing: Indexing::Axis(0),
                    combine,
                    src: src.clone(),
                    indices: indices.clone(),
                    updates,
                    dst: Tensor::new(DType::F32, &[4, width]),
                }),
            )
            .expect("it is defined");
            let mut expected = data.clone();
            for value in &mut expected[..2 * width] {
                *value = match combine {
                    Combine::Add => f64::from(*value as f32 + 100.0),
                    _ => 100.0,
                };
            }
            assert_eq!(put[0].values(), expected);
        }
    }
}
