//! One small op of each kind, right in all it is given.

use std::sync::Arc;

use streampool_device::{
    Along, Attention, Axes, Cell, Combine, Conv, DType, Dims, Direction, Distribution, Expr,
    Gather, Histogram, Indexing, Interpolation, Linalg, MatMul, NonZero, Norm, NormKind, Op, Pool,
    PoolKind, Random, ReduceKind, Regions, Resize, Rnn, Rounding, Scalar, Scan, ScanKind, Scatter,
    Slide, Sort, TreeCombine, TreeTest, Trees, Unary, View, Window,
};

use crate::build::fill;
use crate::fixture::Fixture;
use crate::lane::Lane;

/// One op of each kind, over memory that `lane` fills with zeros.
pub(crate) fn samples(fixture: &Fixture, lane: &mut Lane) -> Vec<Op> {
    let ops = unfilled(fixture);
    for op in &ops {
        op.for_each_operand(|_, _, &view| {
            lane.run(&fill(view, 0.0));
        });
    }
    ops
}

fn unfilled(fixture: &Fixture) -> Vec<Op> {
    let float = |shape: &[usize]| fixture.tensor::<f32>(shape);
    let index = |shape: &[usize]| fixture.tensor::<i64>(shape);
    let window = Window::new(&[Slide::new(2)]).expect("a window of two");
    vec![
        Op::Nop,
        Op::Copy {
            src: float(&[4]),
            dst: float(&[4]),
        },
        Op::Fill {
            dst: float(&[4]),
            value: Scalar::Float(1.0),
        },
        Op::Iota {
            dst: float(&[4]),
            start: Scalar::Int(0),
            step: Scalar::Int(1),
        },
        Op::Map {
            expr: Arc::new(Expr::unary(Unary::Exp, DType::F32).expect("floats have exponentials")),
            inputs: vec![float(&[4])],
            outputs: vec![float(&[4])],
        },
        Op::Reduce {
            kind: ReduceKind::Sum,
            src: float(&[4]),
            dst: float(&[1]),
            axes: Axes::new(&[0]).expect("an axis"),
        },
        Op::Softmax {
            src: float(&[4]),
            dst: float(&[4]),
            axis: 0,
            log: false,
        },
        Op::Norm(Norm {
            added: None,
            sum: None,
            kind: NormKind::Rms,
            src: float(&[4]),
            dst: float(&[4]),
            scale: None,
            bias: None,
            axis: 0,
            epsilon: 1.0,
        }),
        Op::MatMul(MatMul {
            a: float(&[2, 3]),
            b: float(&[3, 2]),
            out: float(&[2, 2]),
            bias: None,
            activation: Default::default(),
            alpha: 1.0,
        }),
        Op::Attention(Box::new(Attention {
            query: float(&[1, 1, 2, 4]),
            key: float(&[1, 1, 3, 4]),
            value: float(&[1, 1, 3, 4]),
            mask: None,
            out: float(&[1, 1, 2, 4]),
            scale: 0.5,
            causal: None,
            softcap: 0.0,
        })),
        Op::Conv(Box::new(Conv {
            src: float(&[1, 1, 4]),
            weight: float(&[1, 1, 2]),
            bias: None,
            dst: float(&[1, 1, 3]),
            window,
            groups: 1,
            transposed: false,
            activation: Default::default(),
            to_bytes: None,
            zero_point: 0,
        })),
        Op::Pool(Pool {
            kind: PoolKind::Max,
            src: float(&[1, 1, 4]),
            dst: float(&[1, 1, 3]),
            indices: None,
            window,
        }),
        Op::Resize(Resize {
            src: float(&[2]),
            dst: float(&[4]),
            along: Dims::new(&[Along {
                scale: 0.5,
                shift: 0.0,
            }])
            .expect("one axis"),
            interpolation: Interpolation::Nearest(Rounding::Floor),
            antialias: false,
            exclude_outside: false,
            outside: None,
        }),
        Op::Regions(Regions {
            src: float(&[1, 1, 4, 4]),
            corners: float(&[2, 4]),
            batches: index(&[2]),
            dst: float(&[2, 1, 2, 2]),
            scale: 1.0,
            samples: 2,
            aligned: false,
            largest: false,
        }),
        Op::Gather(Gather {
            indexing: Indexing::Axis(0),
            src: float(&[4]),
            indices: index(&[2]),
            dst: float(&[2]),
        }),
        Op::Scatter(Scatter {
            indexing: Indexing::Axis(0),
            combine: Combine::Add,
            src: float(&[4]),
            indices: index(&[2]),
            updates: float(&[2]),
            dst: float(&[4]),
        }),
        Op::Scan(Scan {
            kind: ScanKind::Sum,
            src: float(&[4]),
            dst: float(&[4]),
            axis: 0,
            exclusive: false,
            reverse: false,
        }),
        Op::Sort(Sort {
            src: float(&[4]),
            values: float(&[4]),
            indices: None,
            axis: 0,
            descending: false,
        }),
        Op::Random(Random {
            distribution: Distribution::Normal {
                mean: 0.0,
                deviation: 1.0,
            },
            dst: float(&[4]),
            seed: 1,
            offset: 0,
        }),
        Op::Rnn(Box::new(rnn(&float))),
        Op::Linalg(Linalg::Inverse {
            src: float(&[2, 2]),
            dst: float(&[2, 2]),
        }),
        Op::Histogram(Histogram {
            src: float(&[4]),
            weights: None,
            dst: index(&[2]),
            low: 0.0,
            high: 1.0,
        }),
        Op::NonZero(NonZero {
            src: float(&[4]),
            indices: index(&[1, 4]),
            count: index(&[1]),
        }),
        Op::Trees(Trees {
            src: float(&[2, 3]),
            records: fixture.tensor::<i32>(&[1, 4]),
            dst: float(&[2, 1]),
            trees: 1,
            depth: 0,
            test: TreeTest::AtMost,
            combine: TreeCombine::Sum,
        }),
    ]
}

fn rnn(float: &dyn Fn(&[usize]) -> View) -> Rnn {
    Rnn {
        cell: Cell::Tanh,
        direction: Direction::Forward,
        src: float(&[2, 1, 3]),
        weight: float(&[1, 4, 3]),
        recurrent: float(&[1, 4, 4]),
        bias: None,
        peephole: None,
        lengths: None,
        hidden: None,
        cell_state: None,
        dst: float(&[2, 1, 1, 4]),
        last_hidden: None,
        last_cell: None,
    }
}
