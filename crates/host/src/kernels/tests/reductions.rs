//! Reductions, softmax and norms.

use proptest::prelude::*;
use streampool_device::{Axes, DType, Norm, NormKind, Op, ReduceKind, View};

use crate::kernels::simd::{Level, forced::at_each_level};
use crate::testing::cases;

use super::tensor::{Number, Random, Tensor, Threads, near, run, run_on};

const KINDS: [ReduceKind; 9] = [
    ReduceKind::Sum,
    ReduceKind::Mean,
    ReduceKind::Prod,
    ReduceKind::Max,
    ReduceKind::Min,
    ReduceKind::ArgMax,
    ReduceKind::ArgMin,
    ReduceKind::Any,
    ReduceKind::All,
];
const FLOATS: [DType; 4] = [DType::F32, DType::F16, DType::BF16, DType::F64];

/// Sums of the values, of their magnitudes, and the rest of what a reduction may ask for.
fn reference(kind: ReduceKind, values: &[Number]) -> Number {
    let floats = matches!(values.first(), Some(Number::Float(_)));
    let best = |better: fn(f64, f64) -> bool| {
        let mut best = 0;
        for (index, value) in values.iter().enumerate() {
            let (new, old) = (value.float(), values[best].float());
            if !old.is_nan() && (new.is_nan() || better(new, old)) {
                best = index;
            }
        }
        best
    };
    let float = |f: fn(f64, f64) -> f64, start| {
        Number::Float(
            values
                .iter()
                .fold(start, |sum, value| f(sum, value.float())),
        )
    };
    let int = |f: fn(i128, i128) -> i128, start| {
        Number::Int(values.iter().fold(start, |sum, value| f(sum, value.int())))
    };
    match kind {
        ReduceKind::Sum if floats => float(|sum, x| sum + x, 0.0),
        ReduceKind::Prod if floats => float(|sum, x| sum * x, 1.0),
        ReduceKind::Sum => int(i128::wrapping_add, 0),
        ReduceKind::Prod => int(i128::wrapping_mul, 1),
        ReduceKind::Mean => Number::Float(
            values.iter().map(|value| value.float()).sum::<f64>() / values.len() as f64,
        ),
        ReduceKind::Max => values[best(|new, old| new > old)],
        ReduceKind::Min => values[best(|new, old| new < old)],
        ReduceKind::ArgMax => Number::Int(best(|new, old| new > old) as i128),
        ReduceKind::ArgMin => Number::Int(best(|new, old| new < old) as i128),
        ReduceKind::Any => Number::Int(i128::from(values.iter().any(|value| value.int() != 0))),
        ReduceKind::All => Number::Int(i128::from(values.iter().all(|value| value.int() != 0))),
    }
}

proptest! {
    #![proptest_config(cases(600))]

    #[test]
    fn reductions(seed in any::<u64>()) {
        let random = &mut Random(seed);
        let kind = random.pick(&KINDS);
        let dtype = match kind {
            ReduceKind::Any | ReduceKind::All => DType::Bool,
            ReduceKind::Mean => random.pick(&FLOATS),
            _ => random.pick(&DType::ALL[..12]),
        };
        let rank = 1 + random.below(4);
        let most = if rank < 3 { 70 } else { 7 };
        let shape = random.shape(rank, most);
        let one = matches!(kind, ReduceKind::ArgMax | ReduceKind::ArgMin);
        let axes: Vec<usize> = match one {
            true => vec![random.below(rank)],
            false => (0..rank).filter(|_| random.chance(2)).collect(),
        };
        let reduced: Vec<usize> =
            (0..rank).map(|axis| if axes.contains(&axis) { 1 } else { shape[axis] }).collect();
        let mut src = Tensor::new(random, dtype, &shape, true).small(random);
        if dtype.is_float() && random.chance(3) && src.indices().len() > 2 {
            let index = random.pick(&(0..src.indices().len()).collect::<Vec<_>>());
            let index = src.indices()[index].clone();
            src.set(&index, Number::Float(f64::NAN));
        }
        let dst = Tensor::new(random, if one { DType::I64 } else { dtype }, &reduced, false);
        let op = Op::Reduce { kind, src: src.view, dst: dst.view, axes: Axes::new(&axes).unwrap() };
        prop_assume!(op.validate().is_ok());
        run(&op);
        for index in dst.indices() {
            let values: Vec<Number> = src
                .indices()
                .iter()
                .filter(|at| (0..rank).all(|axis| axes.contains(&axis) || at[axis] == index[axis]))
                .map(|at| src.get(at))
                .collect();
            let wanted = match (values.is_empty(), kind) {
                (true, ReduceKind::Sum) => Number::Float(0.0),
                (true, ReduceKind::Prod) => Number::Float(1.0),
                (true, ReduceKind::Mean) => Number::Float(f64::NAN),
                (true, _) => Number::Int(i128::from(kind == ReduceKind::All)),
                (false, kind) => reference(kind, &values),
            };
            let got = dst.get(&index);
            let scale = match kind {
                ReduceKind::Sum | ReduceKind::Mean => values.iter().map(|value| value.float().abs()).sum(),
                _ => 0.0,
            };
            // Equal terms, added one by one, drift by half a last place each at the worst.
            let tolerance = match kind {
                ReduceKind::Prod => 80.0,
                _ => 4.0 + values.len() as f64 / 2.0,
            };
            let agree = match dst.view.dtype() {
                dtype if dtype.is_float() => {
                    // A product too large for the type is infinite, one too small may vanish.
                    let huge = kind == ReduceKind::Prod && !(1e-4..6e4).contains(&wanted.float().abs());
                    huge || near(dtype, got.float(), wanted.float(), scale, tolerance)
                }
                dtype => {
                    let bits = |number: Number| (number.int() as u64) << (64 - 8 * dtype.size());
                    bits(got) == bits(wanted)
                }
            };
            prop_assert!(agree, "{kind:?} of {dtype} {:?} over {axes:?}: {got:?} for {wanted:?}", src.view.layout());
        }
        prop_assert!(dst.gaps_untouched());
    }

    #[test]
    fn softmax(seed in any::<u64>()) {
        let random = &mut Random(seed);
        let dtype = random.pick(&FLOATS);
        let rank = 1 + random.below(4);
        let shape = random.shape(rank, if rank < 3 { 50 } else { 7 });
        let axis = random.below(rank);
        let log = random.chance(2);
        let src = Tensor::new(random, dtype, &shape, false);
        let scale = random.pick(&[1.0, 20.0]);
        let src = src.fill(|| Number::Float(random.number() * scale));
        let dst = Tensor::new(random, dtype, &shape, false);
        run(&Op::Softmax { src: src.view, dst: dst.view, axis, log });
        for index in dst.indices() {
            let along = |position| {
                let mut at = index.clone();
                at[axis] = position;
                src.get(&at).float()
            };
            let top = (0..shape[axis]).map(along).fold(f64::NEG_INFINITY, f64::max);
            let sum: f64 = (0..shape[axis]).map(|at| (along(at) - top).exp()).sum();
            let exact = along(index[axis]) - top;
            let wanted = if log { exact - sum.ln() } else { exact.exp() / sum };
            let got = dst.get(&index).float();
            prop_assert!(near(dtype, got, wanted, if log { 1.0 } else { 1e-3 }, 60.0), "{got} for {wanted}");
        }
        prop_assert!(dst.gaps_untouched());
        // Exactly in place, the same bits.
        run(&Op::Softmax { src: src.view, dst: src.view, axis, log });
        prop_assert!(src.indices().iter().all(|index| src.get(index) == dst.get(index)));
    }

    #[test]
    fn norms(seed in any::<u64>()) {
        let random = &mut Random(seed);
        let dtype = random.pick(&FLOATS);
        let kind = random.pick(&[NormKind::Layer, NormKind::Rms]);
        let rank = 1 + random.below(4);
        let shape = random.shape(rank, if rank < 3 { 50 } else { 7 });
        let axis = random.below(rank);
        let src = Tensor::new(random, dtype, &shape, false).small(random);
        let dst = Tensor::new(random, dtype, &shape, false);
        let scale = Tensor::new(random, dtype, &shape[axis..], true).small(random);
        let bias = Tensor::new(random, dtype, &shape[axis..], true).small(random);
        let (with_scale, with_bias) = (random.chance(2), random.chance(2));
        let epsilon = 1e-3;
        let op = |dst: View| Op::Norm(Norm { added: None,
            kind,
            src: src.view,
            dst,
            scale: with_scale.then_some(scale.view),
            bias: with_bias.then_some(bias.view),
            axis,
            epsilon,
        });
        run(&op(dst.view));
        for index in dst.indices() {
            let row: Vec<f64> = src
                .indices()
                .iter()
                .filter(|at| at[..axis] == index[..axis])
                .map(|at| src.get(at).float())
                .collect();
            let count = row.len() as f64;
            let mean = if kind == NormKind::Layer { row.iter().sum::<f64>() / count } else { 0.0 };
            let square = row.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / count;
            let mut wanted = (src.get(&index).float() - mean) / (square + epsilon).sqrt();
            if with_scale {
                wanted *= scale.get(&index[axis..]).float();
            }
            if with_bias {
                wanted += bias.get(&index[axis..]).float();
            }
            let got = dst.get(&index).float();
            prop_assert!(near(dtype, got, wanted, 4.0, 60.0), "{got} for {wanted}");
        }
        prop_assert!(dst.gaps_untouched());
        run(&op(src.view));
        prop_assert!(src.indices().iter().all(|index| src.get(index) == dst.get(index)));
    }
}

#[test]
fn softmax_of_what_is_not_finite() {
    let dst = Tensor::plain(DType::F32, &[4, 3]);
    let rows = [
        [f64::NEG_INFINITY, 0.0, 0.0],
        [f64::NEG_INFINITY; 3],
        [f64::NAN, 0.0, 1.0],
        [1e30, -1e30, 1e30],
    ];
    let mut values = rows.into_iter().flatten();
    let dst = dst.fill(|| Number::Float(values.next().unwrap()));
    run(&Op::Softmax {
        src: dst.view,
        dst: dst.view,
        axis: 1,
        log: false,
    });
    let row = |row| [0, 1, 2].map(|column| dst.get(&[row, column]).float());
    assert_eq!(row(0), [0.0, 0.5, 0.5]);
    assert!(row(1).iter().chain(&row(2)).all(|x| x.is_nan()));
    assert_eq!(row(3), [0.5, 0.0, 0.5]);
}

#[test]
fn a_team_gives_the_same_bits() {
    let random = &mut Random(11);
    for (shape, axes) in [
        (&[700_001][..], &[0][..]),
        (&[3, 200_003], &[1]),
        (&[200_003, 3], &[0]),
        (&[1000, 700], &[0]),
        (&[1000, 700], &[1]),
        (&[60, 50, 70], &[0, 2]),
    ] {
        let src = Tensor::plain(DType::F32, shape).small(random);
        let reduced: Vec<usize> = shape
            .iter()
            .enumerate()
            .map(|(axis, &size)| if axes.contains(&axis) { 1 } else { size })
            .collect();
        for kind in [ReduceKind::Sum, ReduceKind::Mean, ReduceKind::Max] {
            let results = [1, 2, 3, 7].map(|width| {
                let dst = Tensor::plain(DType::F32, &reduced);
                run_on(
                    &Op::Reduce {
                        kind,
                        src: src.view,
                        dst: dst.view,
                        axes: Axes::new(axes).unwrap(),
                    },
                    &Threads(width),
                );
                dst
            });
            let exact: f64 = src
                .indices()
                .iter()
                .map(|index| src.get(index).float())
                .sum();
            if kind == ReduceKind::Sum && axes.len() == shape.len() {
                assert!(
                    (results[0].get(&[0]).float() - exact).abs() < 0.05,
                    "accurate, too"
                );
            }
            assert!(
                results
                    .iter()
                    .all(|result| result.bytes() == results[0].bytes()),
                "{kind:?} of {shape:?}"
            );
        }
        let axis = axes[0];
        let results = [1, 2, 5].map(|width| {
            let (soft, norm) = (
                Tensor::plain(DType::F32, shape),
                Tensor::plain(DType::F32, shape),
            );
            let team = &Threads(width);
            run_on(
                &Op::Softmax {
                    src: src.view,
                    dst: soft.view,
                    axis,
                    log: false,
                },
                team,
            );
            let layer = Norm {
                added: None,
                kind: NormKind::Layer,
                src: src.view,
                dst: norm.view,
                scale: None,
                bias: None,
                axis,
                epsilon: 1e-5,
            };
            run_on(&Op::Norm(layer), team);
            (soft, norm)
        });
        for (soft, norm) in &results {
            assert_eq!(soft.bytes(), results[0].0.bytes());
            assert_eq!(norm.bytes(), results[0].1.bytes());
        }
    }
}

#[test]
fn every_instruction_set_gives_the_same_bits() {
    let random = &mut Random(21);
    for dtype in FLOATS {
        let src = Tensor::plain(dtype, &[37, 111]).small(random);
        let mut first: Option<[Vec<u8>; 2]> = None;
        let mut first_fused: Option<Vec<u8>> = None;
        at_each_level(|level| {
            let (soft, sum, norm) = (
                Tensor::plain(dtype, &[37, 111]),
                Tensor::plain(dtype, &[37, 1]),
                Tensor::plain(dtype, &[37, 111]),
            );
            run(&Op::Softmax {
                src: src.view,
                dst: soft.view,
                axis: 1,
                log: false,
            });
            let axes = Axes::new(&[1]).unwrap();
            run(&Op::Reduce {
                kind: ReduceKind::Sum,
                src: src.view,
                dst: sum.view,
                axes,
            });
            run(&Op::Norm(Norm {
                added: None,
                kind: NormKind::Rms,
                src: src.view,
                dst: norm.view,
                scale: None,
                bias: None,
                axis: 1,
                epsilon: 0.0,
            }));
            let results = [sum, norm].map(|tensor| tensor.bytes().to_vec());
            assert!(
                *first.get_or_insert_with(|| results.clone()) == results,
                "{dtype} with {level:?}"
            );
            // Exponentials are made of multiplications that are fused where the machine can.
            if level > Level::Baseline {
                let result = soft.bytes().to_vec();
                assert!(
                    *first_fused.get_or_insert_with(|| result.clone()) == result,
                    "softmax of {dtype} with {level:?}"
                );
            }
        });
    }
}
