//! What does not fit is refused by name, and with what would.

use std::sync::Arc;

use streampool_runtime::{Expr, Unary};
use streampool_tensor::{DType, Result, Tensor};

use super::pool;

fn message(result: Result<Tensor>) -> String {
    result.expect_err("an error").to_string()
}

#[test]
fn errors_name_operator_argument_what_was_given_and_what_fits() {
    let pool = pool();
    let x = Tensor::ones(&pool, &[2, 3], DType::F32).unwrap();
    let n = Tensor::ones(&pool, &[3], DType::I32).unwrap();
    let b = Tensor::ones(&pool, &[3], DType::Bool).unwrap();
    let odd = Tensor::ones(&pool, &[2], DType::F32).unwrap();
    assert_eq!(
        message(x.add(&odd)),
        "add: other has shape [2], expected one that broadcasts with [2, 3]"
    );
    assert_eq!(
        message(x.mul(&n)),
        "mul: other is of type i32, expected f32, as the others: cast it with `to_dtype`"
    );
    assert_eq!(
        message(b.add(&b)),
        "add: self is of type bool, expected a number type: cast it with `to_dtype`"
    );
    assert_eq!(
        message(n.exp()),
        "exp: self is of type i32, expected a float type: cast it with `to_dtype`"
    );
    assert_eq!(
        message(x.bitwise_and(&x)),
        "bitwise_and: self is of type f32, expected bool or an integer type: cast it with `to_dtype`"
    );
    assert_eq!(
        message(n.add(0.5)),
        "add: other is 0.5, expected a whole number from -2147483648 to 2147483647, as i32 has: cast self with \
         `to_dtype`"
    );
    assert_eq!(
        message(x.lerp(&x, &n)),
        "lerp: weight is of type i32, expected f32, as the others: cast it with `to_dtype`"
    );
    assert_eq!(
        message(x.where_cond(&x, &x)),
        "where_cond: self is of type f32, expected bool"
    );
    assert_eq!(
        message(b.where_cond(&x, &n)),
        "where_cond: b is of type i32, expected f32, as the other: cast it with `to_dtype`"
    );
    assert_eq!(
        message(b.where_cond(1, 2)),
        "where_cond: b is a number, as the first is, expected at least one tensor of the two, for the type of the \
         result"
    );
    assert_eq!(
        message(x.masked_fill(&n, 0)),
        "masked_fill: mask is of type i32, expected bool"
    );
    let other = crate::common::pool();
    let elsewhere = Tensor::ones(&other, &[3], DType::F32).unwrap();
    assert!(message(x.add(&elsewhere)).starts_with("add: other is in a pool on "));
}

#[test]
fn expressions_are_checked_against_what_they_get() {
    let pool = pool();
    let x = Tensor::ones(&pool, &[2, 3], DType::F32).unwrap();
    let exp = Arc::new(Expr::unary(Unary::Exp, DType::F32).unwrap());
    let map = |inputs: &[&Tensor]| message(Tensor::map(&exp, inputs).map(|mut all| all.remove(0)));
    assert_eq!(
        map(&[]),
        "map: inputs is none, expected at least one tensor"
    );
    assert_eq!(
        map(&[&x, &x]),
        "map: inputs is 2 tensors, expected 1, as the expression has"
    );
    let n = x.to_dtype(DType::I64).unwrap();
    assert_eq!(
        map(&[&n]),
        "map: inputs is of type i64, expected f32 for input 0, as the expression has"
    );
}
