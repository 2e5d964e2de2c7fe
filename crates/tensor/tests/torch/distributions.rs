//! Random numbers beside the theory: their mean, their variance, and how many lie below a quantile.

use streampool_tensor::{DType, Generator, Tensor};

use crate::{Reference, floats};

const COUNT: usize = 40_000;

#[test]
fn moments_and_quantiles() {
    let mut reference = Reference::open("distributions");
    let pool = reference.pool.clone();
    for dtype in [DType::F32, DType::F64, DType::F16, DType::BF16] {
        let mut generator = Generator::new(11);
        let shape = &[COUNT];
        let drawn = [
            ("uniform", generator.uniform(&pool, shape, -2.0, 3.0, dtype)),
            ("normal", generator.normal(&pool, shape, 1.5, 0.5, dtype)),
            (
                "exponential",
                generator.exponential(&pool, shape, 2.5, dtype),
            ),
            (
                "gamma_small",
                generator.gamma(&pool, shape, 0.4, 1.0, dtype),
            ),
            (
                "gamma_large",
                generator.gamma(&pool, shape, 7.5, 2.0, dtype),
            ),
        ];
        for (case, drawn) in drawn {
            // Numbers of few bits lie that much beside.
            let grain = match dtype {
                DType::BF16 => 8e-3,
                DType::F16 => 1e-3,
                _ => 0.0,
            };
            assert_fits(&mut reference, case, &drawn.unwrap(), grain);
        }
    }
}

fn assert_fits(reference: &mut Reference, case: &str, drawn: &Tensor, grain: f64) {
    let told = |reference: &mut Reference, name: &str| floats(&reference.get(case, name));
    let (mean, variance) = (told(reference, "mean")[0], told(reference, "variance")[0]);
    let (values, count) = (floats(drawn), COUNT as f64);
    let found = values.iter().sum::<f64>() / count;
    let spread = values.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / count;
    // Five standard errors, and those of the type.
    let error = 5.0 * (variance / count).sqrt() + grain * mean.abs().max(1.0);
    assert!(
        (found - mean).abs() < error,
        "{case}: mean {found}, expected {mean}"
    );
    assert!(
        (spread / variance - 1.0).abs() < 0.1 + grain,
        "{case}: variance {spread}, expected {variance}"
    );
    let quantiles = told(reference, "quantiles");
    for (part, quantile) in told(reference, "at").into_iter().zip(quantiles) {
        let reach = grain * quantile.abs();
        let below = |limit: f64| values.iter().filter(|&&x| x < limit).count() as f64 / count;
        let error = 5.0 * (part * (1.0 - part) / count).sqrt();
        assert!(
            below(quantile - reach) < part + error && below(quantile + reach) > part - error,
            "{case}: {} below {quantile}, expected {part}",
            below(quantile)
        );
    }
}
