//! Ops that are large enough to be divided over a team: the same bits on any number of threads.

use streampool_conformance::rng::Rng;
use streampool_device::{
    Activation, Attention, Axes, Cell, Combine, Conv, DType, Direction, Distribution, Histogram,
    Indexing, Linalg, MatMul, NonZero, Norm, NormKind, Op, Random, ReduceKind, Rnn, Scan, ScanKind,
    Scatter, Slide, Sort, View, Window,
};

use super::levels::sound;
use super::matmul::product;
use super::ops::{Tensor, run};
use crate::kernels::simd::forced::{at_each_level, on_matrix_unit};

#[test]
fn copies() {
    let src = Tensor::small(DType::F32, &[3, 400, 500], &mut Rng::new(3));
    for (to, order) in [
        (DType::F32, [0, 1, 2]),
        (DType::F32, [0, 2, 1]),
        (DType::F16, [0, 1, 2]),
        (DType::F16, [2, 1, 0]),
        (DType::I64, [0, 2, 1]),
    ] {
        let layout = src.view.layout().permute(&order).unwrap();
        let dst = Tensor::zeros(to, layout.shape());
        run(&Op::Copy {
            src: View::new(src.view.span(), DType::F32, layout).unwrap(),
            dst: dst.view,
        });
    }
}

#[test]
fn reductions_and_rows() {
    let mut rng = Rng::new(11);
    for (shape, axes) in [
        (&[700_001][..], &[0][..]),
        (&[3, 200_003], &[1]),
        (&[200_003, 3], &[0]),
        (&[1000, 700], &[0]),
        (&[1000, 700], &[1]),
        (&[60, 50, 70], &[0, 2]),
    ] {
        let src = Tensor::small(DType::F32, shape, &mut rng);
        let [softmax, norm] = [(); 2].map(|()| Tensor::zeros(DType::F32, shape));
        let mut reduced = shape.to_vec();
        axes.iter().for_each(|&axis| reduced[axis] = 1);
        for kind in [ReduceKind::Sum, ReduceKind::Mean, ReduceKind::Max] {
            let dst = Tensor::zeros(DType::F32, &reduced);
            run(&Op::Reduce {
                kind,
                src: src.view,
                dst: dst.view,
                axes: Axes::new(axes).unwrap(),
            });
        }
        run(&Op::Softmax {
            src: src.view,
            dst: softmax.view,
            axis: axes[0],
            log: false,
        });
        run(&Op::Norm(Norm {
            added: None,
            sum: None,
            kind: NormKind::Layer,
            src: src.view,
            dst: norm.view,
            scale: None,
            bias: None,
            axis: axes[0],
            epsilon: 1e-5,
        }));
    }
}

#[test]
fn scans_and_sorts_of_long_lines() {
    let mut rng = Rng::new(4);
    for length in [1 << 14, (1 << 14) + 1, 100_000, 300_001] {
        let shape = [1, length];
        for reverse in [false, true] {
            let src = Tensor::small(DType::F32, &shape, &mut rng);
            let dst = Tensor::zeros(DType::F32, &shape);
            run(&Op::Scan(Scan {
                kind: ScanKind::Sum,
                src: src.view,
                dst: dst.view,
                axis: 1,
                exclusive: reverse,
                reverse,
            }));
        }
        for dtype in [DType::F32, DType::I64] {
            let src = Tensor::small(dtype, &shape, &mut rng);
            let (values, indices) = (
                Tensor::zeros(dtype, &shape),
                Tensor::zeros(DType::I64, &shape),
            );
            run(&Op::Sort(Sort {
                src: src.view,
                values: values.view,
                indices: Some(indices.view),
                axis: 1,
                descending: false,
            }));
        }
    }
}

#[test]
fn scatters_and_tallies() {
    let mut rng = Rng::new(7);
    let (rows, width) = (3000, 70);
    let indices = Tensor::of(DType::I64, &[rows], || rng.below(40) as f64);
    let updates = Tensor::small(DType::F32, &[rows, width], &mut rng);
    let [src, dst] = [(); 2].map(|()| Tensor::zeros(DType::F32, &[40, width]));
    run(&Op::Scatter(Scatter {
        indexing: Indexing::Axis(0),
        combine: Combine::Add,
        src: src.view,
        indices: indices.view,
        updates: updates.view,
        dst: dst.view,
    }));
    let shape = [7, 60_001];
    let [src, weights] = [(); 2].map(|()| Tensor::small(DType::F32, &shape, &mut rng));
    let sums = Tensor::zeros(DType::F32, &[100]);
    run(&Op::Histogram(Histogram {
        src: src.view,
        weights: Some(weights.view),
        dst: sums.view,
        low: -1.5,
        high: 2.0,
    }));
    let truth = Tensor::small(DType::Bool, &shape, &mut rng);
    let indices = Tensor::zeros(DType::I64, &[2, 7 * 60_001]);
    let count = Tensor::zeros(DType::I64, &[1]);
    run(&Op::NonZero(NonZero {
        src: truth.view,
        indices: indices.view,
        count: count.view,
    }));
}

fn products() {
    let mut rng = Rng::new(5);
    for dtype in [DType::F32, DType::F16] {
        for (batch, m, n, k) in [
            (1, 300, 1050, 520),
            (7, 90, 100, 70),
            (1, 4, 3000, 400),
            (2, 3000, 5, 300),
            (1, 33, 3000, 40),
        ] {
            let a = Tensor::small(dtype, &[batch, m, k], &mut rng);
            let b = Tensor::small(dtype, &[batch, k, n], &mut rng);
            let out = Tensor::zeros(dtype, &[batch, m, n]);
            run(&Op::MatMul(MatMul {
                activation: Activation::Gelu,
                alpha: 0.1,
                ..product(&a, &b, &out)
            }));
        }
    }
}

#[test]
fn matrix_products() {
    products();
    on_matrix_unit(products);
}

#[test]
fn convolutions() {
    let mut rng = Rng::new(8);
    let window = Slide {
        before: 1,
        after: 1,
        ..Slide::new(3)
    };
    for ([groups, read, made], [height, width]) in [
        ([1, 40, 70], [30, 33]),
        ([1, 300, 64], [7, 7]),
        ([64, 1, 1], [40, 41]),
        ([1, 3, 16], [150, 151]),
    ] {
        for transposed in [false, true] {
            let channels = match transposed {
                false => [groups * made, read],
                true => [groups * read, made],
            };
            let mut of = |shape: &[usize]| Tensor::small(DType::F32, shape, &mut rng);
            let src = of(&[2, groups * read, height, width]);
            let weight = of(&[channels[0], channels[1], 3, 3]);
            let dst = of(&[2, groups * made, height, width]);
            run(&Op::Conv(Box::new(Conv {
                src: src.view,
                weight: weight.view,
                bias: None,
                dst: dst.view,
                window: Window::new(&[window; 2]).unwrap(),
                groups,
                transposed,
                activation: Activation::Relu,
                to_bytes: None,
                zero_point: 0,
            })));
        }
    }
}

#[test]
fn attention_and_recurrent_layers() {
    let mut rng = Rng::new(3);
    for shape in [[1, 12, 128, 32], [1, 1, 600, 64], [3, 2, 257, 16]] {
        let [query, key, value, out] =
            [(); 4].map(|()| Tensor::small(DType::F32, &shape, &mut rng));
        run(&Op::Attention(Box::new(Attention {
            query: query.view,
            key: key.view,
            value: value.view,
            mask: None,
            out: out.view,
            scale: 0.2,
            causal: None,
            softcap: 0.0,
        })));
    }
    let (steps, batch, input, hidden) = (40, 2, 64, 128);
    let mut of = |shape: &[usize]| Tensor::of(DType::F32, shape, || rng.real(-0.1, 0.1));
    let src = of(&[steps, batch, input]);
    let weight = of(&[2, 4 * hidden, input]);
    let recurrent = of(&[2, 4 * hidden, hidden]);
    let dst = of(&[steps, 2, batch, hidden]);
    run(&Op::Rnn(Box::new(Rnn {
        cell: Cell::Lstm,
        direction: Direction::Both,
        src: src.view,
        weight: weight.view,
        recurrent: recurrent.view,
        bias: None,
        peephole: None,
        lengths: None,
        hidden: None,
        cell_state: None,
        dst: dst.view,
        last_hidden: None,
        last_cell: None,
    })));
}

#[test]
fn factors_solutions_and_inverses() {
    let mut rng = Rng::new(6);
    for shape in [&[400, 400][..], &[2, 200, 200], &[9, 40, 40]] {
        let src = sound(DType::F32, shape, &mut rng);
        let [factors, dst] = [(); 2].map(|()| Tensor::zeros(DType::F32, shape));
        let pivots = Tensor::zeros(DType::I32, &shape[..shape.len() - 1]);
        run(&Op::Linalg(Linalg::Lu {
            src: src.view,
            factors: factors.view,
            pivots: pivots.view,
        }));
        run(&Op::Linalg(Linalg::LuSolve {
            factors: factors.view,
            pivots: pivots.view,
            rhs: src.view,
            dst: dst.view,
        }));
        run(&Op::Linalg(Linalg::Inverse {
            src: src.view,
            dst: dst.view,
        }));
    }
}

#[test]
fn random_numbers_at_every_level() {
    let mut rng = Rng::new(1);
    let whole = [
        Distribution::Bernoulli { probability: 0.4 },
        Distribution::Integers {
            low: -9,
            high: 1000,
        },
        Distribution::Bits,
    ];
    let real = [
        Distribution::Uniform {
            low: -1.0,
            high: 2.0,
        },
        Distribution::Normal {
            mean: 1.0,
            deviation: 0.5,
        },
        Distribution::Exponential { rate: 3.0 },
        Distribution::Gamma { concentration: 0.3 },
        Distribution::Gamma { concentration: 7.0 },
    ];
    for dtype in DType::ALL {
        for distribution in whole.into_iter().chain(real) {
            let dst = Tensor::zeros(dtype, &[70_001]);
            let op = Op::Random(Random {
                distribution,
                dst: dst.view,
                seed: rng.bits(),
                offset: rng.bits(),
            });
            if op.validate().is_err() {
                continue;
            }
            let mut first = None;
            at_each_level(|level| {
                run(&op);
                let first = first.get_or_insert_with(|| dst.bytes().to_vec());
                assert!(
                    dst.bytes() == first,
                    "{distribution:?} of {dtype} at {level:?}"
                );
            });
        }
    }
}
