//! The draws: one for each kind of op, and for each way in which a kind is much unlike itself.

use streampool_device::{Binary, Combine, DType, Expr, Interpolation, Op, PoolKind, Rounding};

use super::linalg::{lu, lu_solve, square, triangular};
use crate::execute::Example;
use crate::ops_attention::any_attention;
use crate::ops_conv::any_convolution;
use crate::ops_fused::{any_fused, broadcasting, several_groups};
use crate::ops_index::{any_gather, any_replacement, any_scatter};
use crate::ops_map::{COMPARISONS, compared};
use crate::ops_matmul::{self, ACTIVATIONS, BIASES, any_product, epilogue};
use crate::ops_move::{any_copy, counting, filling};
use crate::ops_norm::{any_norm, any_softmax};
use crate::ops_order::{self, any_scan, any_sort};
use crate::ops_random::any_random;
use crate::ops_reduce::{self, any_reduction};
use crate::ops_rnn::any_layer;
use crate::ops_spatial::{any_pool, any_resize, real};
use crate::ops_tally::{any_histogram, any_places};
use crate::ops_trees::any_ensemble;
use crate::random::{FLOATS, any_value};
use crate::rng::Rng;

/// All types but `bool`.
const NUMBERS: [DType; 12] = {
    let [numbers @ .., DType::Bool] = DType::ALL else {
        panic!("bool is the last");
    };
    numbers
};

/// After so many rounds through [`KINDS`] types and functions come again.
pub(super) const ROUNDS: u64 = 6;

/// Types and functions come from the first generator, all else from the second. `None` if what came up means nothing.
pub(super) type Draw = fn(&mut Rng, &mut Rng) -> Option<Example>;

pub(super) const KINDS: [Draw; 32] = [
    |_, rng| Some(any_copy(rng)),
    |kinds, rng| Some(filling(rng, kinds.pick(&DType::ALL), 3.into())),
    |kinds, rng| {
        let (start, step) = kinds.pick(&[(5.into(), 3.into()), (2.0.into(), 0.25.into())]);
        Some(counting(rng, kinds.pick(&NUMBERS), start, step))
    },
    |kinds, rng| Some(any_fused(rng, kinds.pick(&FLOATS))),
    pair,
    |kinds, rng| {
        Some(broadcasting(
            rng,
            compared(kinds.pick(&COMPARISONS), kinds.pick(&NUMBERS)),
        ))
    },
    |kinds, rng| {
        let groups = kinds.pick(&[2, 5, 40]);
        Some(several_groups(
            rng,
            kinds.pick(&NUMBERS),
            groups,
            kinds.chance(2),
            false,
        ))
    },
    |kinds, rng| {
        let kind = kinds.pick(&ops_reduce::KINDS);
        any_reduction(rng, kind, kinds.pick(ops_reduce::types(kind)))
    },
    |kinds, rng| any_softmax(rng, kinds.pick(&FLOATS)),
    |kinds, rng| {
        let (op, operands) = any_norm(rng, kinds.pick(&FLOATS))?;
        Some((Op::Norm(op), operands))
    },
    |kinds, rng| Some(any_product(rng, kinds.pick(&ops_matmul::TYPES))),
    |kinds, rng| {
        let activation = kinds.pick(&ACTIVATIONS);
        let bias = rng.pick(&BIASES);
        Some(epilogue(rng, kinds.pick(&FLOATS), activation, bias))
    },
    |kinds, rng| Some(any_attention(rng, kinds.pick(&FLOATS))),
    |kinds, rng| any_convolution(rng, kinds.pick(&FLOATS)),
    |kinds, rng| {
        Some(any_pool(
            rng,
            kinds.pick(&NUMBERS),
            &[PoolKind::Max],
            any_value,
        ))
    },
    |kinds, rng| {
        let kind = kinds.pick(&[
            PoolKind::Mean {
                count_padding: false,
            },
            PoolKind::Mean {
                count_padding: true,
            },
            PoolKind::Lp(3.0),
        ]);
        Some(any_pool(rng, kinds.pick(&FLOATS), &[kind], |rng, _| {
            real(rng)
        }))
    },
    |kinds, rng| {
        use Rounding::{Ceil, Floor, HalfDown, HalfUp};
        let nearest = Interpolation::Nearest(kinds.pick(&[HalfDown, HalfUp, Floor, Ceil]));
        let dtype = kinds.pick(&DType::ALL);
        Some(any_resize(rng, dtype, nearest, |rng| any_value(rng, dtype)))
    },
    |kinds, rng| {
        let smooth = kinds.pick(&[Interpolation::Linear, Interpolation::Cubic(-0.75)]);
        Some(any_resize(rng, kinds.pick(&FLOATS), smooth, real))
    },
    |kinds, rng| any_gather(rng, kinds.pick(&DType::ALL)),
    |kinds, rng| {
        let combine = kinds.pick(&[Combine::Add, Combine::Mul, Combine::Min, Combine::Max]);
        any_scatter(rng, kinds.pick(&NUMBERS), combine, false)
    },
    |kinds, rng| Some(any_replacement(rng, kinds.pick(&DType::ALL))),
    |kinds, rng| any_scan(rng, kinds.pick(&ops_order::KINDS), kinds.pick(&NUMBERS)),
    |kinds, rng| any_sort(rng, kinds.pick(&DType::ALL)),
    |kinds, rng| Some(any_random(rng, kinds.pick(&DType::ALL))),
    |kinds, rng| Some(any_layer(rng, kinds.pick(&FLOATS))),
    lu,
    lu_solve,
    triangular,
    square,
    |kinds, rng| Some(any_histogram(rng, kinds.pick(&NUMBERS))),
    |kinds, rng| Some(any_places(rng, kinds.pick(&DType::ALL))),
    |kinds, rng| Some(any_ensemble(rng, kinds.pick(&[DType::F32, DType::F64]))),
];

/// A function of two inputs that broadcast.
fn pair(kinds: &mut Rng, rng: &mut Rng) -> Option<Example> {
    use Binary::{Add, And, Div, Max, Min, Mul, Or, Rem, Shl, Shr, Sub, Xor};
    let dtype = kinds.pick(&DType::ALL);
    let function = match dtype {
        DType::Bool => kinds.pick(&[And, Or, Xor]),
        _ if dtype.is_integer() => {
            kinds.pick(&[Add, Sub, Mul, Div, Rem, Min, Max, And, Or, Xor, Shl, Shr])
        }
        _ => kinds.pick(&[Add, Sub, Mul, Min, Max]),
    };
    let expr = Expr::binary(function, dtype).expect("the function is of this type");
    Some(broadcasting(rng, expr))
}
