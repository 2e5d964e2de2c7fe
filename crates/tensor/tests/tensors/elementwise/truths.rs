//! Comparisons, truth values, and choices by them.

use streampool_tensor::{DType, Element, Pool, Tensor};

use super::{Rng, check, pair, pool};
use crate::common::values::{Integer, Values, any_float, part, shape};

type Comparison<T> = (
    &'static str,
    fn(&Tensor, &Tensor) -> streampool_tensor::Result<Tensor>,
    fn(&T, &T) -> bool,
);

fn comparisons<T: Element + PartialOrd>(seed: u64, of: fn(&mut Rng) -> T) {
    let all: &[Comparison<T>] = &[
        ("eq", |x, y| x.eq(y), T::eq),
        ("ne", |x, y| x.ne(y), T::ne),
        ("lt", |x, y| x.lt(y), T::lt),
        ("le", |x, y| x.le(y), T::le),
        ("gt", |x, y| x.gt(y), T::gt),
        ("ge", |x, y| x.ge(y), T::ge),
    ];
    let (pool, mut choices) = (pool(), Rng::new(seed));
    for &(name, operator, reference) in all {
        for _ in 0..4 {
            let ([x, y], [a, b], shape) = pair(&mut choices, &pool, of);
            let got = operator(&x, &y).unwrap();
            check(name, &got, &shape, &[&a, &b], |v, z: bool| {
                z == reference(&v[0], &v[1])
            });
        }
    }
}

fn truth(choices: &mut Rng) -> bool {
    choices.below(2) == 0
}

#[test]
fn comparisons_of_all_types() {
    comparisons::<f32>(51, any_float);
    comparisons::<f64>(52, any_float);
    comparisons::<half::f16>(53, any_float);
    comparisons::<half::bf16>(54, any_float);
    comparisons::<i8>(55, Integer::random);
    comparisons::<u8>(56, Integer::random);
    comparisons::<i16>(57, Integer::random);
    comparisons::<u16>(58, Integer::random);
    comparisons::<i32>(59, Integer::random);
    comparisons::<u32>(60, Integer::random);
    comparisons::<i64>(61, Integer::random);
    comparisons::<u64>(62, Integer::random);
    comparisons::<bool>(63, truth);
}

#[test]
fn logic_of_truth_values_and_numbers() {
    let (pool, mut choices) = (pool(), Rng::new(71));
    let all: &[Comparison<bool>] = &[
        ("logical_and", |x, y| x.logical_and(y), |x, y| *x && *y),
        ("logical_or", |x, y| x.logical_or(y), |x, y| *x || *y),
        ("logical_xor", |x, y| x.logical_xor(y), |x, y| x != y),
    ];
    for &(name, operator, reference) in all {
        for _ in 0..6 {
            let ([x, y], [a, b], shape) = pair(&mut choices, &pool, truth);
            let got = operator(&x, &y).unwrap();
            check(name, &got, &shape, &[&a, &b], |v, z: bool| {
                z == reference(&v[0], &v[1])
            });
            let number = |tensor: &Tensor| tensor.to_dtype(DType::F32).unwrap().mul(0.5).unwrap();
            let got = operator(&number(&x), &number(&y)).unwrap();
            check(name, &got, &shape, &[&a, &b], |v, z: bool| {
                z == reference(&v[0], &v[1])
            });
        }
    }
    let x = Tensor::from_slice(&pool, &[0.0f32, -0.0, f32::NAN, 1.0], &[4]).unwrap();
    let not = x.logical_not().unwrap();
    assert_eq!(not.to_vec::<bool>().unwrap(), [true, true, false, false]);
    assert_eq!(
        (!&not).unwrap().to_vec::<bool>().unwrap(),
        [false, false, true, true]
    );
    assert_eq!(
        (&not & true).unwrap().to_vec::<bool>().unwrap(),
        [true, true, false, false]
    );
}

#[test]
fn kinds_of_floats_are_told_apart() {
    let pool = pool();
    let x = Tensor::from_slice(
        &pool,
        &[f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 3.0],
        &[4],
    );
    for dtype in [DType::F32, DType::F16, DType::BF16, DType::F64] {
        let x = x.as_ref().unwrap().to_dtype(dtype).unwrap();
        let list = |tensor: streampool_tensor::Result<Tensor>| tensor.unwrap().to_vec::<bool>();
        assert_eq!(list(x.is_nan()).unwrap(), [true, false, false, false]);
        assert_eq!(list(x.is_inf()).unwrap(), [false, true, true, false]);
        assert_eq!(list(x.is_pos_inf()).unwrap(), [false, true, false, false]);
        assert_eq!(list(x.is_neg_inf()).unwrap(), [false, false, true, false]);
        assert_eq!(list(x.is_finite()).unwrap(), [false, false, false, true]);
    }
}

fn choose<T: Element + PartialEq>(pool: &Pool, choices: &mut Rng, of: fn(&mut Rng) -> T) {
    for _ in 0..8 {
        let whole = shape(choices, 8);
        let shape = part(choices, &whole);
        let condition = Values::random(choices, &shape, truth);
        let a = Values::random(choices, &whole, of);
        let shape = part(choices, &whole);
        let b = Values::random(choices, &shape, of);
        let mask = condition.tensor(choices, pool);
        let (x, y) = (a.tensor(choices, pool), b.tensor(choices, pool));
        let expected = Values::from_fn(&whole, |index| match condition.broadcast_at(&index) {
            true => a.at(&index),
            false => b.broadcast_at(&index),
        });
        assert_eq!(Values::of(&mask.where_cond(&x, &y).unwrap()), expected);
        let filled = x.masked_fill(&mask, 1).unwrap();
        let one = Tensor::ones(pool, &[], T::DTYPE).unwrap();
        let other = mask.where_cond(&one, &x).unwrap();
        assert_eq!(Values::<T>::of(&filled), Values::of(&other));
    }
}

#[test]
fn where_picks_from_either() {
    let (pool, mut choices) = (pool(), Rng::new(81));
    choose::<f32>(&pool, &mut choices, crate::common::values::moderate);
    choose::<half::f16>(&pool, &mut choices, crate::common::values::moderate);
    choose::<i64>(&pool, &mut choices, Integer::random);
    choose::<u16>(&pool, &mut choices, Integer::random);
    choose::<bool>(&pool, &mut choices, truth);
}
