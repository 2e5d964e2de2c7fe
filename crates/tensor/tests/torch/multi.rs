//! Multi-tensor apply.

use streampool_tensor::{Tensor, multi};

use crate::Reference;

const NEAR: f64 = 1e-6;

#[test]
fn lists_of_tensors() {
    let mut reference = Reference::open("foreach");
    let mut list = |name: &str| -> Vec<Tensor> {
        (0..6)
            .map(|place| reference.get(name, &place.to_string()))
            .collect()
    };
    let (x, y, z) = (list("x"), list("y"), list("z"));
    let added: Vec<Tensor> = x.iter().map(|x| x.add(1.25).unwrap()).collect();
    for (case, results) in [
        ("add", multi::add_scaled(&x, &y, 0.5).unwrap()),
        ("add_scalar", added),
        ("mul", multi::mul(&x, &y).unwrap()),
        ("lerp", multi::lerp(&x, &y, 0.3).unwrap()),
        ("addcmul", multi::addcmul(&x, &y, &z, 0.7).unwrap()),
    ] {
        assert_eq!(results.len(), 6);
        for (place, result) in results.iter().enumerate() {
            reference.assert_close(case, &place.to_string(), result, NEAR);
        }
    }
}
