//! Integers: they wrap, and are divided by zero to zero.

use streampool_tensor::Tensor;

use super::{Rng, check, pair, pool};
use crate::common::values::{Integer, Values, shape};

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
    match y {
        0 => 0,
        y => x.div_euclid(y) - i128::from(y < 0 && x.rem_euclid(y) != 0),
    }
}

/// The operator with its tensors, and what it makes of their elements before it wraps.
macro_rules! operators {
    ($($operator:expr, $formula:expr;)*) => {
        &[$((stringify!($operator), $operator, $formula)),*]
    };
}

// What is one operation of a device's is compared with the reference by the pool: here are those made of several, and the
// Rust operators.

fn operators<T: Integer>(seed: u64) {
    let binaries: &[Binary<T>] = operators! {
        |x, y| x + y, |x, y| x.wide() + y.wide();
        |x, y| x - y, |x, y| x.wide() - y.wide();
        |x, y| x * y, |x, y| x.wide().wrapping_mul(y.wide());
        |x, y| x / y, |x, y| x.wide().checked_div(y.wide()).unwrap_or(0);
        |x, y| x % y, |x, y| x.wide().checked_rem(y.wide()).unwrap_or(0);
        |x, y| x.floor_div(y), |x, y| floor_div(x.wide(), y.wide());
        |x, y| x.modulo(y), |x, y| match y.wide() {
            0 => 0,
            y => x.wide() - y * floor_div(x.wide(), y),
        };
        |x, y| x.minimum(y), |x, y| x.wide().min(y.wide());
        |x, y| x.maximum(y), |x, y| x.wide().max(y.wide());
        |x, y| x & y, |x, y| x.wide() & y.wide();
        |x, y| x | y, |x, y| x.wide() | y.wide();
        |x, y| x ^ y, |x, y| x.wide() ^ y.wide();
        |x, y| x << y, |x, y| x.wide() << (y.wide() & i128::from(T::BITS - 1));
        |x, y| x >> y, |x, y| x.wide() >> (y.wide() & i128::from(T::BITS - 1));
        |x, y| x.addcmul(y, x, 3), |x, y| {
            let product = y.wide().wrapping_mul(x.wide());
            product.wrapping_mul(3).wrapping_add(x.wide())
        };
    };
    let unaries: &[Unary<T>] = operators! {
        Tensor::neg, |x| -x.wide();
        Tensor::abs, |x| x.wide().abs();
        Tensor::sign, |x| x.wide().signum();
        Tensor::square, |x| x.wide().wrapping_mul(x.wide());
        Tensor::relu, |x| x.wide().max(0);
        |x| !x, |x| !x.wide();
        |x| x.clamp(2, 5), |x| x.wide().clamp(2, 5);
        |x| x << 2, |x| x.wide() << 2;
        |x| 5 - x, |x| 5 - x.wide();
    };
    let (pool, mut choices) = (pool(), Rng::new(seed));
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
