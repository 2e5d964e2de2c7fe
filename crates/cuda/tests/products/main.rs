//! Matrix products, against sums of doubles made here: sizes, layouts, batches, what follows the sum, and
//! many threads at once.

mod case;
#[path = "../common/mod.rs"]
mod common;

use std::sync::Arc;
use std::thread;

use case::{
    Case, Real, Values, check, compare, computed, cube, dense, plain, random, strided, turned,
};
use common::{device, device_with, options};
use half::{bf16, f16};
use streampool_cuda::{CudaDevice, CudaOptions, Precision};
use streampool_device::{Activation, DType, Device, MatMul, Op};
use streampool_runtime::{Pool, Stream};

const ACTIVATIONS: [Activation; 8] = [
    Activation::None,
    Activation::Relu,
    Activation::Gelu,
    Activation::GeluTanh,
    Activation::Silu,
    Activation::Sigmoid,
    Activation::Tanh,
    Activation::HardSwish,
];

/// Runs the same check on every type.
macro_rules! each_real {
    ($check:ident($($argument:expr),*)) => {
        $check::<f32>($($argument),*);
        $check::<f64>($($argument),*);
        $check::<f16>($($argument),*);
        $check::<bf16>($($argument),*);
    };
}

fn pool(device: &Arc<CudaDevice>) -> Pool {
    Pool::new(device.clone()).unwrap()
}

/// How many algorithms the library has been asked for; `None` without the library.
fn chosen(device: &CudaDevice) -> Option<u64> {
    let has = |feature: &String| feature.starts_with("cuBLASLt ");
    device.properties().features.iter().any(has).then(|| {
        let caches = device.caches();
        let report = caches.iter().find(|cache| cache.name == "cuda products");
        report.unwrap().compiled
    })
}

#[test]
fn the_device_says_whether_it_has_the_library() {
    let Some(device) = device() else { return };
    let features = &device.properties().features;
    let found = features.iter().find(|feature| feature.contains("cuBLASLt"));
    let found = found.unwrap_or_else(|| panic!("nothing about cuBLASLt in {features:?}"));
    let version = found.strip_prefix("cuBLASLt ").map(|version| {
        let (major, minor) = version.split_once('.').unwrap();
        (major.parse::<u32>().unwrap(), minor.parse::<u32>().unwrap())
    });
    match version {
        Some(version) => assert!(version >= (12, 0), "{found}"),
        None => assert!(
            found.starts_with("no cuBLASLt: ") && found.ends_with("run on slower kernels"),
            "{found}"
        ),
    }
    // With it or without it.
    let pool = pool(&device);
    check::<f32>(pool.current().unwrap(), &cube([33, 40, 50]));
    let caches = device.caches();
    let report = caches.iter().find(|cache| cache.name == "cuda products");
    assert_eq!(report.unwrap().problem, None);
}

#[test]
fn sizes_around_blocks() {
    let Some(device) = device() else { return };
    let pool = pool(&device);
    let stream = pool.current().unwrap();
    for block in [1, 16, 32, 64, 128] {
        for size in [block - 1, block, block + 1] {
            let size = size.max(1);
            for shape in [
                [size, size, size],
                [17, size, 40],
                [40, 24, size],
                [size, 33, 64],
            ] {
                each_real!(check(stream, &cube(shape)));
            }
        }
    }
    for shape in [
        [257, 65, 255],
        [18, 4100, 20],
        [2, 3, 5000],
        [1, 1, 1],
        [70, 40, 96],
        [197, 776, 264],
        [64, 72, 1040],
        [190, 136, 64],
        [17, 64, 72],
        [24, 384, 1536],
        [56, 1536, 384],
    ] {
        each_real!(check(stream, &cube(shape)));
    }
}

#[test]
fn transposed_operands() {
    let Some(device) = device() else { return };
    let pool = pool(&device);
    let stream = pool.current().unwrap();
    for [m, k, n] in [[48, 64, 80], [33, 35, 37], [70, 72, 200]] {
        let both = |rows, columns| [dense(&[rows, columns]), turned([rows, columns])];
        for a in both(m, k) {
            for b in both(k, n) {
                for out in both(m, n) {
                    for bias in [None, Some(dense(&[n])), Some(dense(&[m, 1]))] {
                        let case = Case {
                            bias,
                            activation: Activation::Relu,
                            ..plain(a, b, out)
                        };
                        each_real!(check(stream, &case));
                    }
                }
            }
        }
    }
}

#[test]
fn rows_apart_and_odd_starts() {
    let Some(device) = device() else { return };
    let pool = pool(&device);
    let stream = pool.current().unwrap();
    for offset in [0, 1, 2, 5, 8] {
        for pad in [0, 1, 8] {
            let part = |rows: usize, columns: usize| {
                strided(&[rows, columns], &[(columns + pad) as isize, 1], offset)
            };
            let case = Case {
                bias: Some(strided(&[40], &[1], offset)),
                ..plain(part(33, 24), part(24, 40), part(33, 40))
            };
            each_real!(check(stream, &case));
        }
    }
    // Neither axis dense, reversed, and rows that overlap: not for the library.
    let (b, out) = (dense(&[24, 40]), dense(&[33, 40]));
    for a in [
        strided(&[33, 24], &[48, 2], 0),
        strided(&[33, 24], &[-24, 1], 32 * 24),
        strided(&[33, 24], &[1, 1], 0),
        strided(&[33, 24], &[0, 1], 0),
    ] {
        each_real!(check(stream, &plain(a, b, out)));
    }
}

#[test]
fn batches_and_what_repeats_in_them() {
    let Some(device) = device() else { return };
    let pool = pool(&device);
    let stream = pool.current().unwrap();
    let heads = |count: usize, rows: usize, columns: usize| {
        let order = [0, 2, 1, 3];
        dense(&[2, rows, count, columns]).permute(&order).unwrap()
    };
    for (m, k, n) in [(20, 24, 28), (70, 72, 96)] {
        let cases = [
            plain(dense(&[5, m, k]), dense(&[5, k, n]), dense(&[5, m, n])),
            plain(
                dense(&[2, 3, m, k]),
                dense(&[2, 3, k, n]),
                dense(&[2, 3, m, n]),
            ),
            plain(dense(&[5, m, k]), dense(&[k, n]), dense(&[5, m, n])),
            plain(dense(&[5, 1, k]), dense(&[k, n]), dense(&[5, 1, n])),
            plain(dense(&[m, k]), dense(&[5, k, n]), dense(&[5, m, n])),
            plain(dense(&[1, m, k]), dense(&[5, k, n]), dense(&[5, m, n])),
            plain(
                dense(&[2, 1, m, k]),
                dense(&[1, 3, k, n]),
                dense(&[2, 3, m, n]),
            ),
            plain(
                dense(&[2, 1, m, k]),
                dense(&[3, k, n]),
                dense(&[2, 3, m, n]),
            ),
            plain(heads(3, m, k), heads(3, k, n), heads(3, m, n)),
            plain(heads(3, m, k), dense(&[k, n]), dense(&[2, 3, m, n])),
            plain(
                strided(&[5, m, k], &[0, k as isize, 1], 0),
                dense(&[5, k, n]),
                dense(&[5, m, n]),
            ),
            plain(
                strided(&[5, m, k], &[(m * k + 8) as isize, k as isize, 1], 0),
                dense(&[k, n]),
                dense(&[5, m, n]),
            ),
        ];
        for case in cases {
            let rows = case.out.shape()[case.out.rank() - 2];
            for bias in [None, Some(dense(&[n])), Some(dense(&[rows, 1]))] {
                each_real!(check(stream, &Case { bias, ..case }));
            }
        }
    }
}

#[test]
fn what_follows_the_sum() {
    let Some(device) = device() else { return };
    let pool = pool(&device);
    let stream = pool.current().unwrap();
    let (batch, m, k, n) = (3, 24, 32, 40);
    let biases = [
        None,
        Some(dense(&[n])),
        Some(strided(&[n], &[1], 1)),
        Some(strided(&[n], &[2], 0)),
        Some(dense(&[1])),
        Some(dense(&[m, 1])),
        Some(dense(&[m, n])),
        Some(dense(&[batch, 1, 1])),
        Some(dense(&[batch, 1, n])),
        Some(dense(&[batch, m, n])),
    ];
    for b in [dense(&[k, n]), dense(&[batch, k, n])] {
        for activation in ACTIVATIONS {
            for bias in biases {
                for alpha in [1.0, -0.5, 0.0] {
                    let case = Case {
                        a: dense(&[batch, m, k]),
                        b,
                        out: dense(&[batch, m, n]),
                        bias,
                        activation,
                        alpha,
                    };
                    each_real!(check(stream, &case));
                }
            }
        }
    }
}

#[test]
fn an_activation_is_right_over_its_whole_range() {
    let Some(device) = device() else { return };
    let pool = pool(&device);
    let stream = pool.current().unwrap();
    let (m, k, n) = (64, 16, 64);
    for activation in ACTIVATIONS {
        // Each sum is one number from -16 to 16: what is off is the activation.
        fn ramp<T: Real>(stream: &Stream, case: &Case, [m, k, n]: [usize; 3]) {
            let one = |is: bool| T::of(f64::from(u8::from(is)));
            let values = Values {
                a: (0..m * k).map(|at| one(at % k == at / k % k)).collect(),
                b: (0..k * n)
                    .map(|at| T::of(at as f64 / (k * n) as f64 * 32.0 - 16.0))
                    .collect(),
                bias: vec![T::of(0.0); n],
            };
            compare(stream, case, &values, T::TOLERANCE);
        }
        for bias in [None, Some(dense(&[n]))] {
            let case = Case {
                activation,
                bias,
                ..cube([m, k, n])
            };
            each_real!(ramp(stream, &case, [m, k, n]));
        }
    }
}

#[test]
fn nan_and_infinity_stay_where_they_belong() {
    let Some(device) = device() else { return };
    let pool = pool(&device);
    let stream = pool.current().unwrap();
    fn spoilt<T: Real>(stream: &Stream, case: &Case, special: f64) {
        let mut values = random::<T>(case);
        values.a[5 * 24 + 3] = T::of(special);
        values.b[7 * 40 + 18] = T::of(special);
        compare(stream, case, &values, T::TOLERANCE);
    }
    for activation in [Activation::None, Activation::Relu, Activation::GeluTanh] {
        for bias in [None, Some(dense(&[40]))] {
            for alpha in [1.0, 0.0] {
                let case = Case {
                    activation,
                    bias,
                    alpha,
                    ..cube([33, 24, 40])
                };
                each_real!(spoilt(stream, &case, f64::NAN));
            }
        }
    }
    for special in [f64::INFINITY, f64::NEG_INFINITY] {
        each_real!(spoilt(stream, &cube([33, 24, 40]), special));
    }
}

#[test]
fn half_sums_beyond_their_range_come_back_into_it() {
    let Some(device) = device() else { return };
    let pool = pool(&device);
    let stream = pool.current().unwrap();
    let (m, k, n) = (32, 64, 48);
    let values = Values {
        a: vec![f16::from_f64(-40.0); m * k],
        b: vec![f16::from_f64(40.0); k * n],
        bias: vec![f16::from_f64(60_000.0); m * n],
    };
    for activation in ACTIVATIONS {
        for bias in [
            None,
            Some(dense(&[n])),
            Some(dense(&[m, 1])),
            Some(dense(&[m, n])),
        ] {
            let case = Case {
                activation,
                bias,
                ..cube([m, k, n])
            };
            compare(stream, &case, &values, f16::TOLERANCE);
        }
    }
}

#[test]
fn f32_is_exact_unless_asked_otherwise() {
    let case = cube([128, 512, 128]);
    let tolerances = [
        (Precision::Exact, 1e-6),
        (Precision::Tf32, 2e-3),
        (Precision::Bf16, 1.6e-2),
        (Precision::F16, 2e-3),
    ];
    for (precision, tolerance) in tolerances {
        let Some(device) = device_with(CudaOptions {
            precision,
            ..options()
        }) else {
            return;
        };
        let pool = pool(&device);
        compare::<f32>(pool.current().unwrap(), &case, &random(&case), tolerance);
    }
}

#[test]
fn an_algorithm_is_chosen_once() {
    let Some(device) = device() else { return };
    let Some(before) = chosen(&device) else {
        return common::skip("cuBLASLt is not there");
    };
    let pool = pool(&device);
    let stream = pool.current().unwrap();
    let case = Case {
        bias: Some(dense(&[512])),
        activation: Activation::Relu,
        ..cube([2048, 128, 512])
    };
    let values = random::<f16>(&case);
    let first = computed(stream, &case, &values);
    assert_eq!(chosen(&device), Some(before + 1), "all of it in one call");
    assert_eq!(first, computed(stream, &case, &values));
    assert_eq!(chosen(&device), Some(before + 1));
    // What differs in anything that matters is chosen anew; what it is multiplied by does not matter.
    let scaled = Case { alpha: 0.5, ..case };
    computed(stream, &scaled, &values);
    assert_eq!(chosen(&device), Some(before + 1));
    let wider = Case {
        activation: Activation::None,
        ..case
    };
    computed(stream, &wider, &values);
    assert_eq!(chosen(&device), Some(before + 2));
}

/// Of sizes that are left to the library.
#[test]
fn threads_that_multiply_the_same_get_the_same_bits() {
    let Some(device) = device() else { return };
    let pool = pool(&device);
    let before = chosen(&device);
    // One with all the library can do, and one with a kernel of ours after it, which waits in scratch memory.
    let cases = [Activation::GeluTanh, Activation::Silu].map(|activation| Case {
        bias: Some(dense(&[512])),
        activation,
        ..cube([2048, 128, 512])
    });
    let values = cases.map(|case| random::<f16>(&case));
    let bits = |results: Vec<f16>| -> Vec<u16> { results.iter().map(|x| x.to_bits()).collect() };
    let work = || -> Vec<Vec<u16>> {
        let stream = pool.current().unwrap();
        (0..20)
            .map(|round| round % 2)
            .map(|which| bits(computed(stream, &cases[which], &values[which])))
            .collect()
    };
    let all: Vec<_> = thread::scope(|scope| {
        let threads: Vec<_> = (0..16).map(|_| scope.spawn(work)).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect()
    });
    for of_thread in &all {
        for (round, result) in of_thread.iter().enumerate() {
            assert!(*result == all[0][round % 2], "round {round} differs");
        }
    }
    for (case, values) in cases.iter().zip(&values) {
        compare(pool.current().unwrap(), case, values, f16::TOLERANCE);
    }
    if let (Some(before), Some(after)) = (before, chosen(&device)) {
        assert_eq!(after - before, 2, "one for each case, however many asked");
    }
}

#[test]
fn threads_with_biases_of_their_own_get_their_own() {
    let Some(device) = device() else { return };
    let pool = pool(&device);
    let case = Case {
        bias: Some(dense(&[256])),
        ..cube([64, 64, 256])
    };
    let work = |thread: usize| {
        let stream = pool.current().unwrap();
        for round in 0..50 {
            let mut values = random::<f32>(&case);
            values.a.fill(0.0);
            values.bias.fill((thread * 100 + round) as f32);
            let found = computed(stream, &case, &values);
            assert!(found.iter().all(|&value| value == values.bias[0]));
        }
    };
    thread::scope(|scope| {
        for thread in 0..16 {
            scope.spawn(move || work(thread));
        }
    });
}

#[test]
fn bytes_are_multiplied_without_the_library() {
    let Some(device) = device() else { return };
    let pool = pool(&device);
    let stream = pool.current().unwrap();
    let before = chosen(&device);
    let (m, k, n) = (40, 48, 56);
    let a: Vec<i8> = (0..m * k).map(|at| (at * 37 % 255) as i8).collect();
    let b: Vec<i8> = (0..k * n).map(|at| (at * 91 % 253) as i8).collect();
    let mut on_device = [m * k, k * n].map(|count| stream.allocate(count).unwrap());
    stream.upload(&mut on_device[0], &a).unwrap();
    stream.upload(&mut on_device[1], &b).unwrap();
    let mut out = stream.allocate(m * n * 4).unwrap();
    let op = MatMul {
        a: on_device[0].read(DType::I8, &[m, k]).unwrap(),
        b: on_device[1].read(DType::I8, &[k, n]).unwrap(),
        out: out.write(DType::I32, &[m, n]).unwrap(),
        bias: None,
        activation: Activation::None,
        alpha: 1.0,
    };
    stream.encode(Op::MatMul(op)).unwrap();
    let found: Vec<i32> = stream.download(&out).unwrap();
    for (index, &found) in found.iter().enumerate() {
        let (row, column) = (index / n, index % n);
        let sum: i32 = (0..k)
            .map(|inner| i32::from(a[row * k + inner]) * i32::from(b[inner * n + column]))
            .sum();
        assert_eq!(found, sum, "row {row}, column {column}");
    }
    assert_eq!(chosen(&device), before);
}
