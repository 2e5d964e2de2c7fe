//! Every operator, on eight threads at once with shared inputs, gives bit for bit what it gives on one.
//!
//! A new operator is one more line of a table.

use crate::common::values::{Values, disguised, moderate};
use crate::common::{Rng, threads_agree, unwatched_pool};
use streampool_tensor::{DType, DepthOrder, Padding, Result, Tensor, multi};

/// What the operators compute on: large enough for the host to divide the work.
struct Inputs {
    x: Tensor,
    y: Tensor,
    column: Tensor,
    half: Tensor,
    n: Tensor,
    m: Tensor,
    mask: Tensor,
}

type Case = (&'static str, fn(&Inputs) -> Result<Tensor>);

const ELEMENTWISE: &[Case] = &[
    ("add", |i| i.x.add(&i.y)),
    ("add of a column", |i| i.x.add(&i.column)),
    ("sub", |i| i.x.sub(&i.y)),
    ("rsub", |i| i.x.rsub(1.5)),
    ("mul", |i| i.half.mul(3)),
    ("div", |i| i.x.div(&i.y)),
    ("rdiv", |i| i.x.rdiv(2)),
    ("rem", |i| i.x.rem(&i.column)),
    ("modulo", |i| i.n.modulo(&i.m)),
    ("floor_div", |i| i.n.floor_div(&i.m)),
    ("pow", |i| i.x.abs()?.pow(&i.y)),
    ("minimum", |i| i.x.minimum(&i.y)),
    ("maximum", |i| i.x.maximum(&i.y)),
    ("clamp", |i| i.x.clamp(-1, &i.y)),
    ("lerp", |i| i.x.lerp(&i.y, 0.3)),
    ("addcmul", |i| i.x.addcmul(&i.y, &i.column, 0.3)),
    ("atan2", |i| i.x.atan2(&i.y)),
    ("exp", |i| i.x.exp()),
    ("log", |i| i.x.log()),
    ("sqrt", |i| i.half.sqrt()),
    ("rsqrt", |i| i.x.rsqrt()),
    ("sin", |i| i.x.sin()),
    ("tan", |i| i.x.tan()),
    ("acos", |i| i.x.acos()),
    ("sinh", |i| i.x.sinh()),
    ("asinh", |i| i.x.asinh()),
    ("erf", |i| i.x.erf()),
    ("floor", |i| i.x.floor()),
    ("round", |i| i.half.round()),
    ("relu", |i| i.x.relu()),
    ("prelu", |i| i.x.prelu(&i.column)),
    ("elu", |i| i.x.elu(0.7)),
    ("gelu", |i| i.x.gelu()),
    ("gelu_tanh", |i| i.half.gelu_tanh()),
    ("silu", |i| i.x.silu()),
    ("mish", |i| i.x.mish()),
    ("hard_swish", |i| i.x.hard_swish()),
    ("softplus", |i| i.x.softplus()),
    ("shrink", |i| i.x.shrink(0.1, 0.5)),
    ("where_cond", |i| i.mask.where_cond(&i.x, &i.y)),
    ("masked_fill", |i| i.n.masked_fill(&i.mask, 3)),
    ("eq", |i| i.n.eq(&i.m)),
    ("lt", |i| i.x.lt(&i.y)),
    ("is_nan", |i| i.x.log()?.is_nan()),
    ("logical_xor", |i| i.mask.logical_xor(&i.x.gt(0)?)),
    ("bitwise_and", |i| i.n.bitwise_and(&i.m)),
    ("bitwise_left_shift", |i| i.n.bitwise_left_shift(3)),
    ("bitwise_not", |i| i.n.bitwise_not()),
];

const REDUCTIONS: &[Case] = &[
    ("sum", |i| i.x.sum(&[], false)),
    ("sum of rows", |i| i.x.sum(&[1], false)),
    ("sum of columns", |i| i.half.sum(&[0], true)),
    ("sum of truths", |i| i.mask.sum(&[1], false)),
    ("mean", |i| i.half.mean(&[], false)),
    ("prod", |i| i.n.prod(&[1], false)),
    ("max", |i| i.x.max(&[0], false)),
    ("min", |i| i.x.min(&[1], false)),
    ("argmax", |i| i.x.argmax(1, false)),
    ("argmin", |i| i.x.argmin(0, false)),
    ("any", |i| i.mask.any(&[1], false)),
    ("all", |i| i.mask.all(&[0], false)),
    ("l1_norm", |i| i.x.l1_norm(&[1], false)),
    ("l2_norm", |i| i.half.l2_norm(&[], false)),
    ("norm", |i| i.x.norm(3.0, &[0], false)),
    ("log_sum", |i| i.x.abs()?.log_sum(&[1], false)),
    ("log_sum_exp", |i| i.x.log_sum_exp(&[1], false)),
    ("var", |i| i.x.var(&[1], 1, false)),
    ("std", |i| i.half.std(&[0], 1, false)),
];

const SHAPES: &[Case] = &[
    ("cat", |i| Tensor::cat(&[&i.x, &i.y, &i.x], 1)),
    ("stack", |i| Tensor::stack(&[&i.x, &i.y], -1)),
    ("repeat", |i| i.x.repeat(&[2, 1, 3])),
    ("repeat_interleave", |i| i.x.repeat_interleave(3, 0)),
    ("pad", |i| {
        i.x.pad(&[(1, 2), (-3, 4)], Padding::Constant(1.into()))
    }),
    ("pad by reflection", |i| {
        i.x.pad(&[(1, 2), (3, 4)], Padding::Reflect)
    }),
    ("pad by wrapping", |i| {
        i.x.pad(&[(1, 2), (3, 4)], Padding::Wrap)
    }),
    ("roll", |i| i.x.roll(&[5, -7], &[0, 1])),
    ("triu", |i| i.x.triu(3)),
    ("diag", |i| i.x.select(0, 0)?.diag(2)),
    ("one_hot", |i| i.n.one_hot(5, 0, DType::F32)),
    ("depth_to_space", |i| {
        let image = i.x.reshape(&[12usize, 10, 250])?;
        image.depth_to_space(2, DepthOrder::BlockFirst)
    }),
    ("multi::add_scaled", |i| {
        let lists = [[&i.x, &i.y, &i.column], [&i.y, &i.x, &i.column]];
        Ok(multi::add_scaled(&lists[0], &lists[1], 0.3)?.swap_remove(1))
    }),
];

fn inputs(pool: &streampool_tensor::Pool) -> Inputs {
    let mut choices = Rng::new(1);
    let mut floats = |shape: &[usize]| {
        let values = Values::random(&mut choices, shape, moderate::<f32>);
        let tensor = Tensor::from_slice(pool, &values.values, shape).unwrap();
        disguised(&mut choices, &tensor)
    };
    let (x, y, column) = (floats(&[120, 250]), floats(&[120, 250]), floats(&[120, 1]));
    let half = floats(&[120, 250]).to_dtype(DType::F16).unwrap();
    let [n, m] = [(); 2].map(|()| {
        floats(&[120, 250])
            .mul(3)
            .unwrap()
            .to_dtype(DType::I32)
            .unwrap()
    });
    let mask = floats(&[120, 250]).gt(0).unwrap();
    Inputs {
        x,
        y,
        column,
        half,
        n,
        m,
        mask,
    }
}

fn check(cases: &[Case]) {
    let pool = unwatched_pool();
    let inputs = inputs(&pool);
    threads_agree(cases, |name, case| {
        let result = case(&inputs).unwrap_or_else(|error| panic!("{name}: {error}"));
        (result.shape().to_vec(), result.to_bytes().unwrap())
    });
}

#[test]
fn elementwise_operators() {
    check(ELEMENTWISE);
}

#[test]
fn reductions() {
    check(REDUCTIONS);
}

#[test]
fn operators_that_move_elements() {
    check(SHAPES);
}
