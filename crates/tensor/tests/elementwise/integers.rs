//! Integers: they wrap, and are divided by zero to zero.

use streampool_tensor::Tensor;

use crate::common::values::{Integer, Values, shape};
use crate::{Choices, check, pair, pool};

type Unary<T> = (
    &'static str,
    fn(&Tensor) -> streampool_tensor::Result<Tensor>,
    fn(T) -> i128,
);
type Binary<T> = (
    &'static str,
    fn(&Tensor, &Tensor) -> streampool_tensor::Result<Tensor>,
    fn(T, T) -> i128,
);

fn floor_div(x: i128, y: i128) -> i128 {
    if y == 0 {
        0
    } else {
        x.div_euclid(y) - i128::from(y < 0 && x.rem_euclid(y) != 0)
    }
}

fn pow<T: Integer>(x: T, y: T) -> i128 {
    let (x, y) = (x.wide(), y.wide());
    match (x, y) {
        (1, _) => 1,
        (-1, _) => {
            if y % 2 == 0 {
                1
            } else {
                -1
            }
        }
        (_, ..0) => 0,
        // From the width on all low bits of an even base are zero; an odd one's powers repeat.
        _ => {
            let (mut result, mut square, mut left) = (1i128, x, y);
            while left > 0 {
                if left % 2 == 1 {
                    result = T::wrap(result.wrapping_mul(square)).wide();
                }
                square = T::wrap(square.wrapping_mul(square)).wide();
                left /= 2;
            }
            result
        }
    }
}

fn distance<T: Integer>(by: T) -> u32 {
    (by.wide() & i128::from(T::BITS - 1)) as u32
}

fn operators<T: Integer>(seed: u64) {
    let binaries: &[Binary<T>] = &[
        ("add", |x, y| x.add(y), |x, y| x.wide() + y.wide()),
        ("sub", |x, y| x.sub(y), |x, y| x.wide() - y.wide()),
        (
            "mul",
            |x, y| x.mul(y),
            |x, y| x.wide().wrapping_mul(y.wide()),
        ),
        (
            "div",
            |x, y| x.div(y),
            |x, y| x.wide().checked_div(y.wide()).unwrap_or(0),
        ),
        (
            "rem",
            |x, y| x.rem(y),
            |x, y| x.wide().checked_rem(y.wide()).unwrap_or(0),
        ),
        (
            "floor_div",
            |x, y| x.floor_div(y),
            |x, y| floor_div(x.wide(), y.wide()),
        ),
        (
            "modulo",
            |x, y| x.modulo(y),
            |x, y| match y.wide() {
                0 => 0,
                y => x.wide() - y * floor_div(x.wide(), y),
            },
        ),
        ("pow", |x, y| x.pow(y), pow::<T>),
        (
            "minimum",
            |x, y| x.minimum(y),
            |x, y| x.wide().min(y.wide()),
        ),
        (
            "maximum",
            |x, y| x.maximum(y),
            |x, y| x.wide().max(y.wide()),
        ),
        ("and", |x, y| x & y, |x, y| x.wide() & y.wide()),
        ("or", |x, y| x | y, |x, y| x.wide() | y.wide()),
        ("xor", |x, y| x ^ y, |x, y| x.wide() ^ y.wide()),
        ("shl", |x, y| x << y, |x, y| x.wide() << distance(y)),
        ("shr", |x, y| x >> y, |x, y| x.wide() >> distance(y)),
        (
            "addcmul",
            |x, y| x.addcmul(y, x, 3),
            |x, y| {
                let product = y.wide().wrapping_mul(x.wide());
                product.wrapping_mul(3).wrapping_add(x.wide())
            },
        ),
    ];
    let unaries: &[Unary<T>] = &[
        ("neg", Tensor::neg, |x| -x.wide()),
        ("abs", Tensor::abs, |x| x.wide().abs()),
        ("sign", Tensor::sign, |x| x.wide().signum()),
        ("square", Tensor::square, |x| {
            x.wide().wrapping_mul(x.wide())
        }),
        ("relu", Tensor::relu, |x| x.wide().max(0)),
        ("not", |x| !x, |x| !x.wide()),
        ("clamp", |x| x.clamp(2, 5), |x| x.wide().clamp(2, 5)),
        ("shl by a number", |x| x << 2, |x| x.wide() << 2),
        ("number less", |x| 5 - x, |x| 5 - x.wide()),
    ];
    let (pool, mut choices) = (pool(), Choices::new(seed));
    for &(name, operator, reference) in binaries {
        for _ in 0..5 {
            let ([x, y], [a, b], shape) = pair(&mut choices, &pool, T::random);
            let got = operator(&x, &y).unwrap();
            check(name, &got, &shape, &[&a, &b], |v, z: T| {
                z.wide() == T::wrap(reference(v[0], v[1])).wide()
            });
        }
    }
    for &(name, operator, reference) in unaries {
        for _ in 0..3 {
            let shape = shape(&mut choices, 8);
            let values = Values::random(&mut choices, &shape, T::random);
            let got = operator(&values.tensor(&mut choices, &pool)).unwrap();
            check(name, &got, &shape, &[&values], |v, z: T| {
                z.wide() == T::wrap(reference(v[0])).wide()
            });
        }
    }
}

#[test]
fn signed_integers() {
    operators::<i8>(31);
    operators::<i16>(32);
    operators::<i32>(33);
    operators::<i64>(34);
}

#[test]
fn unsigned_integers() {
    operators::<u8>(41);
    operators::<u16>(42);
    operators::<u32>(43);
    operators::<u64>(44);
}
