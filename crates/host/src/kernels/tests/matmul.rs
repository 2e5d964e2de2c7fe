//! Matrix products.

use proptest::prelude::*;
use streampool_device::{Activation, DType, MatMul, Op};

use crate::kernels::simd::forced::at_each_level;
use crate::testing::cases;

use super::tensor::{Number, Random, Tensor, Threads, near, run, run_on};

const TYPES: [DType; 6] = [
    DType::F32,
    DType::F64,
    DType::F16,
    DType::BF16,
    DType::I8,
    DType::U8,
];
const ACTIVATIONS: [Activation; 7] = [
    Activation::None,
    Activation::Relu,
    Activation::Gelu,
    Activation::GeluTanh,
    Activation::Silu,
    Activation::Sigmoid,
    Activation::Tanh,
];

/// The activation in `f64`, from its definition; erf by its integral.
fn activate(activation: Activation, x: f64) -> f64 {
    let erf = |x: f64| {
        let steps = 2000;
        let width = x / f64::from(steps);
        let f = |t: f64| (-t * t).exp();
        let inner: f64 = (1..steps)
            .map(|i| f(f64::from(i) * width) * if i % 2 == 1 { 4.0 } else { 2.0 })
            .sum();
        (f(0.0) + inner + f(x)) * width / 3.0 * 2.0 / std::f64::consts::PI.sqrt()
    };
    match activation {
        Activation::None => x,
        Activation::Relu => x.max(0.0),
        Activation::Gelu => 0.5 * x * (1.0 + erf((x / 2f64.sqrt()).clamp(-6.0, 6.0))),
        Activation::GeluTanh => {
            0.5 * x
                * (1.0 + ((2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x * x * x)).tanh())
        }
        Activation::Silu => x / (1.0 + (-x).exp()),
        Activation::Sigmoid => 1.0 / (1.0 + (-x).exp()),
        Activation::Tanh => x.tanh(),
    }
}

fn check(
    op: &MatMul,
    [a, b, out]: [&Tensor; 3],
    bias: Option<&Tensor>,
) -> Result<(), TestCaseError> {
    let dtype = out.view.dtype();
    let k = op.a.shape()[op.a.shape().len() - 1];
    for index in out.indices() {
        let (batch, place) = index.split_at(index.len() - 2);
        let element = |tensor: &Tensor, row, column| {
            let mut at = batch.to_vec();
            at.extend([row, column]);
            let lead = at.len() - tensor.view.shape().len();
            let own: Vec<usize> = at[lead..].to_vec();
            let shape = tensor.view.shape();
            let own: Vec<usize> = own
                .iter()
                .zip(shape)
                .map(|(&at, &size)| if size == 1 { 0 } else { at })
                .collect();
            tensor.get(&own).float()
        };
        let products: Vec<f64> = (0..k)
            .map(|step| element(a, place[0], step) * element(b, step, place[1]))
            .collect();
        let sum = products.iter().sum::<f64>() * op.alpha
            + bias.map_or(0.0, |bias| bias.broadcast(&index).float());
        let magnitude = products.iter().map(|x| x.abs()).sum::<f64>() * op.alpha.abs() + 2.0;
        let wanted = activate(op.activation, sum);
        let got = out.get(&index).float();
        let tolerance = if dtype == DType::F64 { 64.0 } else { 4.0 };
        prop_assert!(
            near(dtype, got, wanted, magnitude, tolerance),
            "{got} for {wanted} at {index:?} of {op:?}"
        );
    }
    prop_assert!(out.gaps_untouched());
    Ok(())
}

pub(super) fn random_case(seed: u64, sizes: [usize; 3]) -> Result<(), TestCaseError> {
    let random = &mut Random(seed);
    let dtype = random.pick(&TYPES);
    let out_dtype = if dtype.is_float() { dtype } else { DType::I32 };
    let [m, n, k] = sizes.map(|most| {
        if random.chance(30) {
            0
        } else {
            1 + random.below(most)
        }
    });
    let batch_rank = random.below(3);
    let batch = random.shape(batch_rank, 3);
    let operand = |random: &mut Random, rows, columns| {
        // Leading dimensions may be one, or be left out.
        let mut shape: Vec<usize> = batch
            .iter()
            .map(|&size| if random.chance(3) { 1 } else { size })
            .collect();
        shape.drain(..random.below(shape.len() + 1));
        shape.extend([rows, columns]);
        Tensor::new(random, dtype, &shape, true).small(random)
    };
    let (a, b) = (operand(random, m, k), operand(random, k, n));
    let mut out_shape = Vec::new();
    for (axis, _) in batch.iter().enumerate() {
        let from_end = batch.len() - axis;
        let size = |tensor: &Tensor| {
            let own = tensor.view.shape();
            own.len().checked_sub(2 + from_end).map(|at| own[at])
        };
        match (size(&a), size(&b)) {
            (None, None) => {}
            (Some(size), None) | (None, Some(size)) => out_shape.push(size),
            (Some(left), Some(right)) => out_shape.push(if left == 1 { right } else { left }),
        }
    }
    out_shape.extend([m, n]);
    let out = Tensor::new(random, out_dtype, &out_shape, false);
    let bias_shape: Vec<usize> = {
        let lead = random.below(out_shape.len() + 1);
        out_shape[lead..]
            .iter()
            .map(|&size| if random.chance(3) { 1 } else { size })
            .collect()
    };
    let bias = Tensor::new(random, out_dtype, &bias_shape, true).small(random);
    let with_bias = random.chance(2);
    let float = dtype.is_float();
    let op = MatMul {
        a: a.view,
        b: b.view,
        out: out.view,
        bias: with_bias.then_some(bias.view),
        activation: if float {
            random.pick(&ACTIVATIONS)
        } else {
            Activation::None
        },
        alpha: if float {
            random.pick(&[1.0, -0.5])
        } else {
            1.0
        },
    };
    run(&Op::MatMul(op));
    check(&op, [&a, &b, &out], with_bias.then_some(&bias))
}

/// A product of plain matrices.
pub(super) fn product(a: &Tensor, b: &Tensor, out: &Tensor) -> MatMul {
    MatMul {
        a: a.view,
        b: b.view,
        out: out.view,
        bias: None,
        activation: Activation::None,
        alpha: 1.0,
    }
}

proptest! {
    #![proptest_config(cases(400))]

    #[test]
    fn products_of_any_shape(seed in any::<u64>()) {
        random_case(seed, [20, 20, 20])?;
    }

    #[test]
    fn products_with_few_rows_or_columns(seed in any::<u64>()) {
        let sizes = Random(seed).pick(&[[3, 90, 40], [90, 2, 40], [8, 140, 20], [17, 33, 70]]);
        random_case(seed, sizes)?;
    }
}

proptest! {
    #![proptest_config(cases(12))]

    #[test]
    fn products_of_several_panels(seed in any::<u64>()) {
        random_case(seed, [40, 40, 1500])?;
    }
}

#[test]
fn without_an_inner_dimension_the_epilogue_remains() {
    for (m, n) in [(3, 5), (40, 60)] {
        let (a, b) = (
            Tensor::plain(DType::F32, &[m, 0]),
            Tensor::plain(DType::F32, &[0, n]),
        );
        let bias = Tensor::plain(DType::F32, &[n]).fill(|| Number::Float(-2.0));
        let out = Tensor::plain(DType::F32, &[m, n]).fill(|| Number::Float(9.0));
        let mut op = MatMul {
            a: a.view,
            b: b.view,
            out: out.view,
            bias: Some(bias.view),
            activation: Activation::None,
            alpha: 1.0,
        };
        run(&Op::MatMul(op));
        assert!(
            out.indices()
                .iter()
                .all(|index| out.get(index).float() == -2.0)
        );
        op.activation = Activation::Relu;
        run(&Op::MatMul(op));
        assert!(
            out.indices()
                .iter()
                .all(|index| out.get(index).float() == 0.0)
        );
    }
}

#[test]
fn extreme_bytes_are_summed_exactly() {
    let a = Tensor::plain(DType::I8, &[2, 301]).fill(|| Number::Int(-128));
    let b = Tensor::plain(DType::I8, &[301, 3]).fill(|| Number::Int(-128));
    let out = Tensor::plain(DType::I32, &[2, 3]);
    let corner = |a: &Tensor, b: &Tensor| {
        run(&Op::MatMul(product(a, b, &out)));
        out.get(&[1, 2]).int()
    };
    assert_eq!(corner(&a, &b), 301 * 128 * 128);
    let a = Tensor::plain(DType::U8, &[2, 301]).fill(|| Number::Int(255));
    let b = Tensor::plain(DType::U8, &[301, 3]).fill(|| Number::Int(255));
    assert_eq!(corner(&a, &b), 301 * 255 * 255);
}

#[test]
fn a_team_gives_the_same_bits() {
    let random = &mut Random(5);
    for dtype in [DType::F32, DType::F16] {
        for (batch, m, n, k) in [
            (1, 300, 310, 520),
            (1, 130, 900, 100),
            (7, 90, 100, 70),
            (1, 4, 3000, 400),
            (2, 3000, 5, 300),
        ] {
            let a = Tensor::plain(dtype, &[batch, m, k]).small(random);
            let b = Tensor::plain(dtype, &[batch, k, n]).small(random);
            let results = [1, 2, 3, 8].map(|width| {
                let out = Tensor::plain(dtype, &[batch, m, n]);
                let op = MatMul {
                    a: a.view,
                    b: b.view,
                    out: out.view,
                    bias: None,
                    activation: Activation::Gelu,
                    alpha: 0.1,
                };
                run_on(&Op::MatMul(op), &Threads(width));
                out
            });
            assert!(
                results.iter().all(|out| out.bytes() == results[0].bytes()),
                "{dtype} {m} {n} {k}"
            );
        }
    }
}

#[test]
fn each_of_many_flat_products_gets_its_own_operands() {
    // More rows than columns, so that the transposed products are computed.
    let random = &mut Random(8);
    let a = Tensor::plain(DType::F32, &[3, 40, 6]).small(random);
    let b = Tensor::plain(DType::F32, &[3, 6, 2]).small(random);
    let out = Tensor::plain(DType::F32, &[3, 40, 2]);
    let op = product(&a, &b, &out);
    run(&Op::MatMul(op));
    for index in out.indices() {
        let wanted: f64 = (0..6)
            .map(|k| {
                a.get(&[index[0], index[1], k]).float() * b.get(&[index[0], k, index[2]]).float()
            })
            .sum();
        assert!((out.get(&index).float() - wanted).abs() < 1e-4);
    }
}

#[test]
fn every_instruction_set_is_right() {
    at_each_level(|level| {
        for seed in 0..200 {
            for sizes in [[20, 40, 20], [3, 150, 40], [90, 2, 30], [30, 70, 700]] {
                if sizes[2] == 700 && seed % 20 != 0 {
                    continue;
                }
                if let Err(error) = random_case(seed, sizes) {
                    panic!("{level:?}, seed {seed}, sizes {sizes:?}: {error}");
                }
            }
        }
    });
}
