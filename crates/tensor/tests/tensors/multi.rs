//! Multi-tensor apply does what the operators do one by one.

use std::sync::Arc;

use crate::common::values::{Values, disguised, moderate, part, shape};
use crate::common::{Rng, pool};
use streampool_runtime::{Binary, Expr};
use streampool_tensor::{DType, Pool, Result, Tensor, multi};

fn lists(choices: &mut Rng, pool: &Pool, count: usize, dtype: DType) -> [Vec<Tensor>; 3] {
    let mut lists = [const { Vec::new() }; 3];
    for _ in 0..count {
        let whole = shape(choices, 6);
        for (number, list) in lists.iter_mut().enumerate() {
            let shape = if number == 0 {
                whole.clone()
            } else {
                part(choices, &whole)
            };
            let values = Values::random(choices, &shape, moderate::<f32>);
            let tensor = Tensor::from_slice(pool, &values.values, &shape).unwrap();
            list.push(disguised(choices, &tensor.to_dtype(dtype).unwrap()));
        }
    }
    lists
}

fn same(name: &str, got: &Result<Vec<Tensor>>, wanted: Vec<Tensor>) {
    let got = got.as_ref().unwrap();
    assert_eq!(got.len(), wanted.len(), "{name}");
    for (got, wanted) in got.iter().zip(&wanted) {
        assert_eq!(got.shape(), wanted.shape(), "{name}");
        assert_eq!(
            got.to_bytes().unwrap(),
            wanted.to_bytes().unwrap(),
            "{name}"
        );
    }
}

#[test]
fn lists_of_tensors_of_different_shapes() {
    let (pool, mut choices) = (pool(), Rng::new(1));
    for (round, dtype) in [DType::F32, DType::F16, DType::F64, DType::BF16]
        .into_iter()
        .enumerate()
    {
        let [a, b, c] = lists(&mut choices, &pool, 1 + 9 * round, dtype);
        let each = |of: &dyn Fn(&Tensor, &Tensor, &Tensor) -> Result<Tensor>| -> Vec<Tensor> {
            (0..a.len())
                .map(|place| of(&a[place], &b[place], &c[place]).unwrap())
                .collect()
        };
        same("add", &multi::add(&a, &b), each(&|a, b, _| a.add(b)));
        same("sub", &multi::sub(&a, &b), each(&|a, b, _| a.sub(b)));
        same("mul", &multi::mul(&a, &b), each(&|a, b, _| a.mul(b)));
        same("div", &multi::div(&a, &b), each(&|a, b, _| a.div(b)));
        same(
            "maximum",
            &multi::maximum(&a, &b),
            each(&|a, b, _| a.maximum(b)),
        );
        same(
            "minimum",
            &multi::minimum(&a, &b),
            each(&|a, b, _| a.minimum(b)),
        );
        same("scale", &multi::scale(&a, 0.3), each(&|a, _, _| a.mul(0.3)));
        same(
            "lerp",
            &multi::lerp(&a, &b, 0.3),
            each(&|a, b, _| a.lerp(b, 0.3)),
        );
        same(
            "addcmul",
            &multi::addcmul(&a, &b, &c, 0.3),
            each(&|a, b, c| a.addcmul(b, c, 0.3)),
        );
        same(
            "addcdiv",
            &multi::addcdiv(&a, &b, &c, 0.3),
            each(&|a, b, c| a.addcdiv(b, c, 0.3)),
        );
        let scaled = each(&|a, b, _| a.addcmul(b, &Tensor::ones(&pool, &[], dtype)?, 0.3));
        same("add_scaled", &multi::add_scaled(&a, &b, 0.3), scaled);
    }
}

#[test]
fn an_expression_with_several_outputs() {
    let (pool, mut choices) = (pool(), Rng::new(2));
    let [a, b, _] = lists(&mut choices, &pool, 7, DType::F32);
    let mut expr = Expr::builder();
    let (x, y) = (
        expr.input(DType::F32).unwrap(),
        expr.input(DType::F32).unwrap(),
    );
    let sum = expr.binary(Binary::Add, x, y).unwrap();
    let product = expr.binary(Binary::Mul, x, y).unwrap();
    let expr = Arc::new(expr.finish(&[sum, product]).unwrap());
    let results = multi::map(&expr, &[&a, &b]).unwrap();
    assert_eq!(results.len(), 2);
    same("sums", &Ok(results[0].clone()), multi::add(&a, &b).unwrap());
    same(
        "products",
        &Ok(results[1].clone()),
        multi::mul(&a, &b).unwrap(),
    );
    // References do as well as tensors.
    let (a, b): (Vec<&Tensor>, Vec<&Tensor>) = (a.iter().collect(), b.iter().collect());
    same("of references", &multi::add(&a, &b), results[0].clone());
}

#[test]
fn empty_lists_and_empty_tensors() {
    let pool = pool();
    assert!(multi::add::<Tensor>(&[], &[]).unwrap().is_empty());
    let empty = [Tensor::ones(&pool, &[0, 2], DType::F32).unwrap()];
    assert_eq!(multi::scale(&empty, 2.0).unwrap()[0].shape(), [0, 2]);
}

#[test]
fn errors_name_list_and_index() {
    let pool = pool();
    let ones = |shape: &[usize], dtype| Tensor::ones(&pool, shape, dtype).unwrap();
    let a = [ones(&[2], DType::F32), ones(&[2, 3], DType::F32)];
    let message = |result: Result<Vec<Tensor>>| result.expect_err("an error").to_string();
    assert_eq!(
        message(multi::add(&a, &a[..1])),
        "multi::add: b is 1 tensors, expected 2, as many as in the first list"
    );
    assert_eq!(
        message(multi::add(&a, &[a[0].clone(), ones(&[2], DType::F32)])),
        "multi::add: b has shape [2], expected one that broadcasts with [2, 3], for tensor 1 of list 1"
    );
    assert_eq!(
        message(multi::add(&a, &[a[0].clone(), ones(&[3], DType::I32)])),
        "multi::add: b is of type i32, expected f32 for tensor 1 of list 1: cast it with `to_dtype`"
    );
    let exp = Arc::new(Expr::binary(Binary::Add, DType::F32).unwrap());
    assert_eq!(
        message(multi::map(&exp, &[&a[..]]).map(|mut all| all.remove(0))),
        "multi::map: lists is 1 lists, expected 2, as the expression has inputs"
    );
    let n = [ones(&[2], DType::I32)];
    assert_eq!(
        message(multi::scale(&n, 0.5)),
        "multi::scale: factor is 0.5, expected a whole number from -2147483648 to 2147483647, as i32 has: cast self \
         with `to_dtype`"
    );
}
