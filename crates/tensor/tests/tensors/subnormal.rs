//! Products of numbers near the least that an `f32` holds.

use crate::common::{Rng, unwatched_pool};
use streampool_tensor::Tensor;

/// What the matrix unit of a processor may leave of each element: its parts below 2^-126 count as zero.
const LOST: f64 = 1.0 / (1u128 << 125) as f64;

#[test]
fn what_a_product_loses_of_tiny_elements_is_bounded() {
    let (pool, size) = (unwatched_pool(), 128);
    let mut choices = Rng::new(7);
    for exponent in [-100, -108, -112, -117, -119, -125] {
        let mut elements = |exponent: i32| -> Vec<f32> {
            let scale = 2f64.powi(exponent - 23);
            let mut element = || choices.between(1 << 23, (1 << 24) - 1) as f64 * scale;
            (0..size * size).map(|_| element() as f32).collect()
        };
        let (tiny, large) = (elements(exponent), elements(90));
        let [a, b] =
            [&tiny, &large].map(|all| Tensor::from_slice(&pool, all, &[size, size]).unwrap());
        let product: Vec<f32> = a.matmul(&b).unwrap().to_vec().unwrap();
        for (place, got) in product.into_iter().enumerate() {
            let (row, column) = (place / size, place % size);
            let pairs = (0..size).map(|k| (tiny[row * size + k], large[k * size + column]));
            let (mut exact, mut lost) = (0.0, 0.0);
            for (a, b) in pairs {
                exact += f64::from(a) * f64::from(b);
                lost += LOST * f64::from(b);
            }
            let off = (f64::from(got) - exact).abs();
            assert!(
                off <= lost + exact * 1e-5,
                "2^{exponent}: {got} is off by {off}, of {exact}"
            );
        }
    }
}
