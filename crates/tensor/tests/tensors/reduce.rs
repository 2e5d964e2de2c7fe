//! Reductions over any axes, of tensors that lie in memory as they like.

use crate::common::values::{Float, Integer, Values, any_float, moderate, shape};
use crate::common::{Rng, pool};
use half::{bf16, f16};
use streampool_tensor::{DType, Element, Pool, Result, Tensor};

/// Some axes, negative ones among them, and the same sorted; none for all.
fn some_axes(choices: &mut Rng, rank: usize) -> (Vec<isize>, Vec<usize>) {
    let chosen: Vec<usize> = (0..rank).filter(|_| choices.below(2) == 0).collect();
    if chosen.is_empty() {
        return (Vec::new(), (0..rank).collect());
    }
    let mut given: Vec<isize> = chosen
        .iter()
        .map(|&axis| {
            axis as isize
                - if choices.below(2) == 0 {
                    rank as isize
                } else {
                    0
                }
        })
        .collect();
    let turn = choices.below(given.len());
    given.rotate_left(turn);
    (given, chosen)
}

/// The elements that are reduced to each element of the result, and its shape with and without the axes.
fn gathered<T: Element>(values: &Values<T>, axes: &[usize]) -> (Vec<Vec<T>>, [Vec<usize>; 2]) {
    let reduced = |axis: usize| axes.contains(&axis);
    let kept: Vec<usize> = (0..values.shape.len())
        .map(|axis| if reduced(axis) { 1 } else { values.shape[axis] })
        .collect();
    let dropped = (0..values.shape.len())
        .filter(|&axis| !reduced(axis))
        .map(|axis| values.shape[axis])
        .collect();
    let mut groups = vec![Vec::new(); kept.iter().product()];
    for (index, &value) in crate::common::values::indices(&values.shape)
        .iter()
        .zip(&values.values)
    {
        let place = (0..kept.len()).fold(0, |place, axis| {
            place * kept[axis] + if reduced(axis) { 0 } else { index[axis] }
        });
        groups[place].push(value);
    }
    (groups, [kept, dropped])
}

/// A reduction, and what is right for its elements; `needs_one` if it refuses to reduce nothing.
struct Case<T, U> {
    name: &'static str,
    operator: fn(&Tensor, &[isize], bool) -> Result<Tensor>,
    fits: fn(&[T], U) -> bool,
    needs_one: bool,
}

/// `name(before the axes; behind them)`, and what is right for the elements; `of some` if it refuses to reduce nothing.
macro_rules! cases {
    ($($name:ident($($before:expr)? $(; $behind:expr)?) $(of $some:ident)?: $fits:expr;)*) => {
        &[$(Case {
            name: stringify!($name),
            operator: |x, axes, keep| x.$name($($before,)? axes $(, $behind)?, keep),
            fits: $fits,
            needs_one: [$(stringify!($some))?].contains(&"some"),
        }),*]
    };
}

fn check<T: Element, U: Element>(
    pool: &Pool,
    choices: &mut Rng,
    of: fn(&mut Rng) -> T,
    cases: &[Case<T, U>],
) {
    for case in cases {
        for _ in 0..12 {
            let shape = shape(choices, 8);
            let values = Values::random(choices, &shape, of);
            let (given, axes) = some_axes(choices, shape.len());
            let tensor = values.tensor(choices, pool);
            let (groups, shapes) = gathered(&values, &axes);
            let results = [true, false].map(|keep| (case.operator)(&tensor, &given, keep));
            let name = case.name;
            if case.needs_one && groups.iter().any(Vec::is_empty) {
                for result in results {
                    let message = result.expect_err("nothing to reduce").to_string();
                    let wanted = format!(
                        "{name}: self has shape {shape:?}, expected at least one element along the axes"
                    );
                    assert_eq!(message, wanted);
                }
                continue;
            }
            for (result, wanted) in results.into_iter().zip(&shapes) {
                let got = Values::<U>::of(&result.unwrap());
                assert_eq!(&got.shape, wanted, "{name}");
                for (elements, &value) in groups.iter().zip(&got.values) {
                    assert!(
                        (case.fits)(elements, value),
                        "{name} of {elements:?} is {value:?}"
                    );
                }
            }
        }
    }
}

fn wide<T: Float>(elements: &[T]) -> impl Iterator<Item = f64> {
    elements.iter().map(|x| x.wide())
}

fn variance<T: Float>(elements: &[T], correction: usize) -> f64 {
    let count = elements.len();
    let mean = wide(elements).sum::<f64>() / count as f64;
    let squares: f64 = wide(elements).map(|x| (x - mean).powi(2)).sum();
    squares / count.saturating_sub(correction) as f64
}

fn largest<T: Float>(elements: &[T]) -> f64 {
    let larger = |x: f64, y: f64| if x.is_nan() || x > y { x } else { y };
    wide(elements).map(f64::abs).reduce(larger).unwrap_or(0.0)
}

// What is a reduction of a device's is compared with the reference by the pool; one of each kind is enough here.

fn floats<T: Float>(seed: u64) {
    let (pool, mut choices) = (pool(), Rng::new(seed));
    let sums: &[Case<T, T>] = cases! {
        l1_norm(): |x, y| y.is_near(wide(x).map(f64::abs).sum());
        l2_norm(): |x, y| y.is_near(wide(x).map(|x| x * x).sum::<f64>().sqrt());
        norm(3.0): |x, y| y.is_near(wide(x).map(|x| x.abs().powi(3)).sum::<f64>().cbrt());
        norm(0.0): |x, y| y.is_near(wide(x).filter(|&x| x != 0.0).count() as f64);
        sum_square(): |x, y| y.is_near(wide(x).map(|x| x * x).sum());
        log_sum_exp(): |x, y| y.is_near(wide(x).map(f64::exp).sum::<f64>().ln());
        var(; 1): |x, y| y.is_near(variance(x, 1));
        std(; 0): |x, y| y.is_near(variance(x, 0).sqrt());
    };
    check(&pool, &mut choices, moderate, sums);
    let positive = |choices: &mut Rng| T::narrow(choices.real(0.1, 6.0));
    let logs: &[Case<T, T>] = cases! {
        log_sum(): |x, y| y.is_near(wide(x).sum::<f64>().ln());
    };
    check(&pool, &mut choices, positive, logs);
    let picks: &[Case<T, T>] = cases! {
        norm(f64::INFINITY) of some: |x, y| y.is_near(largest(x));
    };
    check(&pool, &mut choices, any_float, picks);
}

#[test]
fn norms_and_moments_of_floats() {
    floats::<f32>(1);
    floats::<f64>(2);
    floats::<f16>(3);
    floats::<bf16>(4);
}

#[test]
fn integers_wrap() {
    let (pool, mut choices) = (pool(), Rng::new(11));
    let cases: &[Case<i8, i8>] = cases! {
        sum(): |x, y| x.iter().copied().fold(0, i8::wrapping_add) == y;
        prod(): |x, y| x.iter().copied().fold(1, i8::wrapping_mul) == y;
        sum_square(): |x, y| x.iter().fold(0i8, |sum, x| sum.wrapping_add(x.wrapping_mul(*x))) == y;
        max() of some: |x, y| x.iter().max() == Some(&y);
        min() of some: |x, y| x.iter().min() == Some(&y);
    };
    check(&pool, &mut choices, Integer::random, cases);
}

#[test]
fn truth_values_are_counted_and_joined() {
    let (pool, mut choices) = (pool(), Rng::new(21));
    let of = |choices: &mut Rng| choices.below(3) != 0;
    let counts: &[Case<bool, i64>] = cases! {
        sum(): |x, y| x.iter().filter(|&&x| x).count() as i64 == y;
        prod(): |x, y| i64::from(x.iter().all(|&x| x)) == y;
    };
    check(&pool, &mut choices, of, counts);
    let joined: &[Case<bool, bool>] = cases! {
        any(): |x, y| x.contains(&true) == y;
        all(): |x, y| x.contains(&false) != y;
        max() of some: |x, y| x.contains(&true) == y;
        min() of some: |x, y| x.contains(&false) != y;
    };
    check(&pool, &mut choices, of, joined);
    let numbers = Tensor::from_slice(&pool, &[0.5f32, -1.0], &[2]).unwrap();
    assert!(numbers.all(&[], false).unwrap().item::<bool>().unwrap());
}

#[test]
fn the_first_of_the_extremes_is_named() {
    let (pool, mut choices) = (pool(), Rng::new(31));
    for _ in 0..40 {
        let shape = shape(&mut choices, 6);
        if shape.is_empty() || shape.contains(&0) {
            continue;
        }
        let values = Values::random(&mut choices, &shape, |choices| {
            choices.between(-3, 3) as i32
        });
        let axis = choices.below(shape.len());
        let tensor = values.tensor(&mut choices, &pool);
        let (groups, shapes) = gathered(&values, &[axis]);
        for (keep, wanted) in [true, false].into_iter().zip(&shapes) {
            let largest = tensor.argmax(axis as isize, keep).unwrap();
            let smallest = tensor
                .argmin(axis as isize - shape.len() as isize, keep)
                .unwrap();
            assert_eq!(largest.shape(), wanted);
            let first = |elements: &Vec<i32>, best: Option<&i32>| {
                elements.iter().position(|x| Some(x) == best).unwrap() as i64
            };
            let most: Vec<i64> = groups.iter().map(|x| first(x, x.iter().max())).collect();
            let least: Vec<i64> = groups.iter().map(|x| first(x, x.iter().min())).collect();
            assert_eq!(largest.to_vec::<i64>().unwrap(), most);
            assert_eq!(smallest.to_vec::<i64>().unwrap(), least);
        }
    }
}

#[test]
fn halves_are_added_in_single_precision() {
    let pool = pool();
    for dtype in [DType::F16, DType::BF16] {
        // Added one by one in halves, these would stop at 512 or sooner.
        let x = Tensor::full(&pool, &[20_000], 0.25, dtype).unwrap();
        let value = |tensor: Result<Tensor>| {
            tensor
                .unwrap()
                .to_dtype(DType::F64)
                .unwrap()
                .item::<f64>()
                .unwrap()
        };
        assert!((value(x.sum(&[], false)) / 5000.0 - 1.0).abs() < 4e-3);
        assert_eq!(value(x.mean(&[], false)), 0.25);
        // Squares of which each overflows a half, though the result does not.
        let large = Tensor::full(&pool, &[16], 4096, dtype).unwrap();
        assert_eq!(value(large.l2_norm(&[], false)), 16384.0);
        let columns = Tensor::full(&pool, &[20_000, 8], 0.25, dtype).unwrap();
        let sums = columns
            .sum(&[0], false)
            .unwrap()
            .to_dtype(DType::F64)
            .unwrap();
        for sum in sums.to_vec::<f64>().unwrap() {
            assert!((sum / 5000.0 - 1.0).abs() < 4e-3, "{sum}");
        }
    }
}

#[test]
fn hard_numbers_are_kept_safe() {
    let pool = pool();
    // A variance of one far from zero: the difference of two sums of squares has nothing left of it.
    let far: Vec<f32> = (0..1000)
        .map(|x| 1e6 + if x % 2 == 0 { 1.0 } else { -1.0 })
        .collect();
    let far = Tensor::from_vec(&pool, far).unwrap();
    assert_eq!(far.var(&[], 0, false).unwrap().item::<f32>().unwrap(), 1.0);
    let one = Tensor::ones(&pool, &[1], DType::F32).unwrap();
    assert!(
        one.var(&[], 1, false)
            .unwrap()
            .item::<f32>()
            .unwrap()
            .is_nan()
    );
    let nothing = Tensor::ones(&pool, &[0], DType::F32).unwrap();
    assert!(
        nothing
            .mean(&[], false)
            .unwrap()
            .item::<f32>()
            .unwrap()
            .is_nan()
    );
    let exp = |values: &[f32]| {
        let x = Tensor::from_slice(&pool, values, &[values.len()]).unwrap();
        x.log_sum_exp(&[], false).unwrap().item::<f32>().unwrap()
    };
    assert!((exp(&[1000.0, 1000.0]) - (1000.0 + 2f32.ln())).abs() < 1e-3);
    assert!((exp(&[-1000.0, -1000.0]) - (-1000.0 + 2f32.ln())).abs() < 1e-3);
    assert_eq!(exp(&[f32::NEG_INFINITY; 2]), f32::NEG_INFINITY);
    assert_eq!(exp(&[f32::INFINITY, 1.0]), f32::INFINITY);
    assert_eq!(exp(&[]), f32::NEG_INFINITY);
    assert!(exp(&[f32::NAN, 1.0]).is_nan());
}

#[test]
fn errors_name_what_is_wrong() {
    let pool = pool();
    let x = Tensor::ones(&pool, &[2, 3], DType::F32).unwrap();
    let n = Tensor::ones(&pool, &[2, 3], DType::I32).unwrap();
    let b = Tensor::ones(&pool, &[2, 3], DType::Bool).unwrap();
    let message = |result: Result<Tensor>| result.expect_err("an error").to_string();
    assert_eq!(
        message(n.mean(&[], false)),
        "mean: self is of type i32, expected a float type: cast it with `to_dtype`"
    );
    assert_eq!(
        message(x.sum(&[2], false)),
        "sum: axes is 2, expected -2 to 1"
    );
    assert_eq!(
        message(x.sum(&[0, -2], false)),
        "sum: axes is [0, -2], expected each axis once"
    );
    assert_eq!(
        message(x.argmax(-3, false)),
        "argmax: axis is -3, expected -2 to 1"
    );
    assert_eq!(
        message(b.argmax(0, false)),
        "argmax: self is of type bool, expected a number type: cast it with `to_dtype`"
    );
    assert_eq!(
        message(x.norm(-1.0, &[], false)),
        "norm: p is -1, expected not negative"
    );
    assert_eq!(
        message(x.norm(2.0, &[5], false)),
        "norm: axes is 5, expected -2 to 1"
    );
    assert_eq!(
        message(n.std(&[], 1, false)),
        "std: self is of type i32, expected a float type: cast it with `to_dtype`"
    );
    for result in [
        n.l2_norm(&[], false),
        n.log_sum(&[], false),
        n.log_sum_exp(&[], false),
    ] {
        assert!(
            message(result)
                .ends_with("self is of type i32, expected a float type: cast it with `to_dtype`")
        );
    }
}

#[test]
fn what_is_broadcast_is_seen_once() -> Result<()> {
    let pool = pool();
    let count = (1usize << 40) + 3;
    let whole = Tensor::from_slice(&pool, &[3i32, -2], &[2, 1])?.broadcast_to(&[2, count])?;
    // Integers wrap: what is left of the count is three.
    assert_eq!(whole.sum(&[1], false)?.to_vec::<i32>()?, [9, -6]);
    assert_eq!(whole.max(&[1], false)?.to_vec::<i32>()?, [3, -2]);
    assert_eq!(whole.min(&[], false)?.item::<i32>()?, -2);
    assert_eq!(whole.argmax(1, false)?.to_vec::<i64>()?, [0, 0]);
    assert!(whole.all(&[], false)?.item::<bool>()?);
    let floats = Tensor::scalar(&pool, 0.5f32)?.broadcast_to(&[1 << 24, 1 << 23])?;
    assert_eq!(floats.mean(&[], false)?.item::<f32>()?, 0.5);
    assert_eq!(floats.sum(&[], false)?.item::<f32>()?, (1u64 << 46) as f32);
    assert_eq!(floats.prod(&[], false)?.item::<f32>()?, 0.0);
    let truths = Tensor::scalar(&pool, true)?.broadcast_to(&[count])?;
    assert_eq!(truths.sum(&[0], false)?.item::<i64>()?, count as i64);
    assert!(truths.any(&[], false)?.item::<bool>()?);
    Ok(())
}

#[test]
fn elements_are_repeated_in_tensors_of_all_axes() -> Result<()> {
    let pool = pool();
    let x = Tensor::from_slice(&pool, &[1i32, 2, 3, 4], &[1, 2, 1, 1, 1, 1, 1, 2])?;
    let each = x.repeat_interleave(2, 1)?;
    assert_eq!(each.shape(), [1, 4, 1, 1, 1, 1, 1, 2]);
    assert_eq!(each.to_vec::<i32>()?, [1, 2, 1, 2, 3, 4, 3, 4]);
    let tiled = x.tile(&[1, 2, 1, 1, 1, 1, 1, 1])?;
    assert_eq!(tiled.to_vec::<i32>()?, [1, 2, 3, 4, 1, 2, 3, 4]);
    // As many copies as a command for each would be too many of.
    let one = Tensor::from_slice(&pool, &[7u8], &[1])?;
    let many = one.repeat_interleave(1 << 24, 0)?;
    assert_eq!(many.max(&[], false)?.item::<u8>()?, 7);
    Ok(())
}
