//! The kernels of attention, executed on the CPU.

use streampool_device::{Attention, DType, Layout, Op};
use streampool_emulated::{Emulator, Tensor, Tolerance, assert_same_as_host, prepare};
use streampool_kernels::Limits;

/// Batch, heads, heads of keys, queries, keys, width and width of values.
type Sizes = [usize; 7];

/// What is besides the products.
#[derive(Clone, Copy, Default)]
struct Besides {
    mask: Option<DType>,
    /// Whether the mask is the same for each query.
    of_keys: bool,
    causal: Option<i64>,
    softcap: f64,
}

fn op(dtype: DType, sizes: Sizes, besides: Besides) -> Op<Tensor> {
    let [batch, heads, key_heads, queries, keys, width, value_width] = sizes;
    let of = |seed: u64, shape: [usize; 4]| Tensor::new(dtype, &shape).uniform(seed, -1.0, 1.0);
    Op::Attention(Box::new(Attention {
        query: of(1, [batch, heads, queries, width]),
        key: of(2, [batch, key_heads, keys, width]),
        value: of(3, [batch, key_heads, keys, value_width]),
        mask: besides.mask.map(|mask| {
            let shape = [heads, if besides.of_keys { 1 } else { queries }, keys];
            Tensor::new(mask, &shape).uniform(4, 0.0, 2.0)
        }),
        out: Tensor::new(dtype, &[batch, heads, queries, value_width]),
        scale: 0.3,
        causal: besides.causal,
        softcap: besides.softcap,
    }))
}

fn tolerance(dtype: DType) -> Tolerance {
    match dtype {
        DType::F16 => Tolerance::Within(2e-3, 4e-3),
        DType::BF16 => Tolerance::Within(1.6e-2, 3e-2),
        _ => Tolerance::Within(1e-5, 1e-4),
    }
}

fn compare(emulator: &Emulator, ops: &[(DType, Op<Tensor>)]) {
    let all: Vec<Op<Tensor>> = ops.iter().map(|(_, op)| op.clone()).collect();
    prepare(emulator, &all).unwrap_or_else(|why| panic!("{why}"));
    for (dtype, op) in ops {
        assert_same_as_host(emulator, op, tolerance(*dtype));
    }
}

const FLOATS: [DType; 4] = [DType::F32, DType::F16, DType::BF16, DType::F64];

#[test]
fn every_form_attends_as_the_host_does() {
    let mut ops = Vec::new();
    for dtype in FLOATS {
        for sizes in [
            [1, 1, 1, 16, 16, 16, 16],
            [2, 2, 1, 70, 65, 16, 24],
            [1, 2, 2, 33, 130, 32, 32],
            [1, 1, 1, 5, 9, 40, 7],
            [1, 1, 1, 3, 70, 70, 130],
            [1, 1, 1, 2, 40, 200, 300],
            [1, 1, 1, 4, 0, 16, 16],
            [1, 1, 1, 4, 5, 0, 16],
        ] {
            ops.push((dtype, op(dtype, sizes, Besides::default())));
        }
        for causal in [-40, 0, 7] {
            let besides = Besides {
                causal: Some(causal),
                ..Besides::default()
            };
            ops.push((dtype, op(dtype, [1, 2, 1, 67, 80, 16, 16], besides)));
        }
        for (mask, of_keys) in [
            (dtype, false),
            (DType::Bool, false),
            (dtype, true),
            (DType::Bool, true),
        ] {
            let besides = Besides {
                mask: Some(mask),
                of_keys,
                softcap: 0.7,
                ..Besides::default()
            };
            ops.push((dtype, op(dtype, [2, 2, 1, 20, 37, 16, 16], besides)));
            ops.push((dtype, op(dtype, [1, 2, 1, 70, 90, 16, 16], besides)));
        }
    }
    for emulator in Emulator::of_each_kind() {
        compare(&emulator, &ops);
    }
}

#[test]
fn few_queries_divide_the_keys() {
    let mut ops = Vec::new();
    for dtype in [DType::F32, DType::F16, DType::BF16] {
        let plain = Besides::default();
        for (queries, keys) in [
            ([1, 2, 3].as_slice(), [1, 30, 700].as_slice()),
            (&[7, 8, 9], &[30, 300]),
            (&[63, 64, 65], &[1, 130]),
        ] {
            for &queries in queries {
                let sizes = keys.iter().map(|&keys| [1, 2, 2, queries, keys, 32, 24]);
                ops.extend(sizes.map(|sizes| (dtype, op(dtype, sizes, plain))));
            }
        }
        // Heads that share keys, and go over the end of a group of queries.
        for [batch, heads, key_heads, queries] in [
            [2, 8, 2, 1],
            [2, 6, 2, 1],
            [1, 5, 1, 1],
            [1, 6, 3, 3],
            [2, 3, 1, 7],
        ] {
            for keys in [40, 600] {
                let sizes = [batch, heads, key_heads, queries, keys, 64, 64];
                ops.push((dtype, op(dtype, sizes, plain)));
            }
        }
        for (width, value_width) in [(1, 3), (80, 128), (200, 256), (256, 9)] {
            let sizes = [1, 4, 1, 1, 520, width, value_width];
            ops.push((dtype, op(dtype, sizes, plain)));
        }
        for causal in [-700, -3, 0, 5, 290, 2000] {
            let besides = Besides {
                causal: Some(causal),
                ..plain
            };
            ops.push((dtype, op(dtype, [1, 2, 1, 5, 600, 32, 32], besides)));
        }
        for (mask, of_keys) in [(dtype, false), (DType::Bool, false), (DType::Bool, true)] {
            for (queries, keys) in [(1, 33), (3, 33), (1, 600), (7, 600)] {
                let besides = Besides {
                    mask: Some(mask),
                    of_keys,
                    causal: (queries == 7).then_some(400),
                    softcap: 0.7,
                };
                ops.push((dtype, op(dtype, [1, 4, 2, queries, keys, 32, 32], besides)));
            }
        }
    }
    for emulator in Emulator::of_each_kind() {
        compare(&emulator, &ops);
    }
}

#[test]
fn a_query_that_is_no_number_spoils_no_other() {
    let mut ops = Vec::new();
    for dtype in [DType::F32, DType::F16, DType::BF16] {
        for queries in [5, 21] {
            let mut op = op(dtype, [1, 1, 1, queries, 70, 16, 24], Besides::default());
            let Op::Attention(attention) = &mut op else {
                unreachable!()
            };
            let value = |index: usize| match index / 16 {
                1 => f64::NAN,
                4 => f64::INFINITY,
                _ => (index % 7) as f64 / 8.0 - 0.3,
            };
            let values: Vec<f64> = (0..queries * 16).map(value).collect();
            attention.query = Tensor::new(dtype, &[1, 1, queries, 16]).values(&values);
            ops.push((dtype, op));
        }
    }
    for emulator in Emulator::of_each_kind() {
        compare(&emulator, &ops);
    }
}

/// Of a part nothing is left, or all is minus infinity, and others have more.
#[test]
fn parts_of_which_nothing_counts_do_not_count() {
    let keys = 1200;
    let infinite: Vec<f64> = vec![f64::NEG_INFINITY; keys];
    let last = |value: f64| {
        let mut row = infinite.clone();
        row[keys - 1] = value;
        row
    };
    let mut ops = Vec::new();
    for dtype in [DType::F32, DType::F16, DType::BF16] {
        for (query, mask) in [
            (1.0, infinite.clone()),
            (1.0, last(-0.5)),
            (f64::NEG_INFINITY, infinite.clone()),
            (f64::NEG_INFINITY, last(1.0)),
            (f64::NAN, last(1.0)),
        ] {
            let mut op = op(dtype, [1, 1, 1, 1, keys, 1, 16], Besides::default());
            let Op::Attention(attention) = &mut op else {
                unreachable!()
            };
            attention.query = Tensor::new(dtype, &[1, 1, 1, 1]).values(&[query]);
            attention.key = Tensor::new(dtype, &[1, 1, keys, 1]).values(&vec![1.0; keys]);
            attention.mask = Some(Tensor::new(dtype, &[1, keys]).values(&mask));
            ops.push((dtype, op));
        }
    }
    for emulator in Emulator::of_each_kind() {
        compare(&emulator, &ops);
    }
}

#[test]
fn a_small_gpu_takes_more_rows_to_a_warp() {
    let limits = Limits {
        compute_units: 1,
        shared_bytes: 32 << 10,
        buffers: 480,
    };
    let ops: Vec<_> = [DType::F16, DType::BF16, DType::F32]
        .into_iter()
        .flat_map(|dtype| {
            let causal = Besides {
                causal: Some(3),
                ..Besides::default()
            };
            [
                (
                    dtype,
                    op(dtype, [1, 3, 3, 140, 70, 16, 16], Besides::default()),
                ),
                (dtype, op(dtype, [1, 3, 3, 140, 70, 32, 16], causal)),
                (dtype, op(dtype, [1, 1, 1, 17, 40, 256, 256], causal)),
            ]
        })
        .collect();
    for emulator in Emulator::of_each_kind() {
        compare(&emulator.with_limits(limits), &ops);
    }
}

#[test]
fn views_need_not_be_dense() {
    let mut ops = Vec::new();
    for dtype in FLOATS {
        let shape = [1, 2, 35, 24];
        let laid_out = |strides: [isize; 4], offset: usize| {
            Tensor::laid_out(
                dtype,
                Layout::strided(&shape, &strides, offset).expect("a layout"),
            )
        };
        let packed = |part: usize| laid_out([35 * 144, 24, 144, 1], part * 48);
        for (query, out) in [
            (packed(0), laid_out([35 * 48, 24, 48, 1], 0)),
            (
                laid_out([1680, 840, 1, 35], 0),
                laid_out([1680, 840, 1, 35], 1),
            ),
            (
                laid_out([1680, 840, 24, -1], 23),
                laid_out([3360, 1680, 48, 2], 0),
            ),
        ] {
            let op = Op::Attention(Box::new(Attention {
                query: query.uniform(1, -1.0, 1.0),
                key: packed(1).uniform(2, -1.0, 1.0),
                value: packed(2).uniform(3, -1.0, 1.0),
                mask: None,
                out,
                scale: 0.25,
                causal: Some(0),
                softcap: 0.0,
            }));
            ops.push((dtype, op));
        }
    }
    for emulator in Emulator::of_each_kind() {
        compare(&emulator, &ops);
    }
}

#[test]
fn rows_masked_by_the_lowest_number_are_means_of_the_values() {
    for dtype in [DType::F32, DType::BF16, DType::F16] {
        let lowest = match dtype {
            DType::F32 => f64::from(f32::MIN),
            DType::BF16 => -3.3895313892515355e38,
            _ => -65504.0,
        };
        // The first query attends to nothing by finite numbers, the second to the later keys only.
        let keys = 20;
        let mask: Vec<f64> = (0..2 * keys)
            .map(|index| if index < keys + keys / 2 { lowest } else { 0.0 })
            .collect();
        for queries in [2, 70] {
            let mut op = op(dtype, [1, 1, 1, queries, keys, 16, 16], Besides::default());
            let Op::Attention(attention) = &mut op else {
                unreachable!()
            };
            let rows = [&mask[..keys], &mask[keys..]].into_iter().cycle();
            let all: Vec<f64> = rows.take(queries).flatten().copied().collect();
            let mask = Tensor::new(dtype, &[queries, keys]).values(&all);
            attention.mask = Some(mask);
            for emulator in Emulator::of_each_kind() {
                compare(&emulator, &[(dtype, op.clone())]);
            }
        }
    }
}

#[test]
fn scores_of_minus_infinity_are_nan_unless_all_is_masked() {
    let (queries, keys) = (7, 70);
    let mut ops = Vec::new();
    for dtype in FLOATS {
        for (mask, of_keys) in [
            (None, false),
            (Some(DType::Bool), false),
            (Some(DType::Bool), true),
            (Some(dtype), false),
            (Some(dtype), true),
        ] {
            let besides = Besides {
                causal: Some(if mask.is_none() { -2 } else { keys as i64 }),
                ..Besides::default()
            };
            let mut op = op(dtype, [1, 1, 1, queries, keys, 1, 16], besides);
            let Op::Attention(attention) = &mut op else {
                unreachable!()
            };
            let special = |row: usize| {
                if row.is_multiple_of(2) {
                    f64::NEG_INFINITY
                } else {
                    1.0
                }
            };
            let rows: Vec<f64> = (0..queries).map(special).collect();
            attention.query = Tensor::new(dtype, &[1, 1, queries, 1]).values(&rows);
            attention.key = Tensor::new(dtype, &[1, 1, keys, 1]).values(&vec![1.0; keys]);
            attention.mask = mask.map(|mask| {
                let rows = if of_keys { 1 } else { queries };
                // Of some rows nothing is left, of others the last key, and of others all.
                let values: Vec<f64> = (0..rows * keys)
                    .map(|index| {
                        let kept = match index / keys % 3 {
                            0 => false,
                            1 => index % keys == keys - 1,
                            _ => true,
                        };
                        match (mask, kept) {
                            (DType::Bool, kept) => f64::from(u8::from(kept)),
                            (_, true) => -0.5,
                            (_, false) => f64::NEG_INFINITY,
                        }
                    })
                    .collect();
                Tensor::new(mask, &[rows, keys]).values(&values)
            });
            ops.push((dtype, op));
        }
    }
    for emulator in Emulator::of_each_kind() {
        compare(&emulator, &ops);
    }
}
