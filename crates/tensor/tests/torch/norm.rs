//! Normalisation.

use crate::Reference;

const NEAR: f64 = 2e-5;

#[test]
fn renorm() {
    let mut reference = Reference::open("norm");
    for (case, p, axis, most) in [
        ("renorm_two", 2.0, 0, 4.0),
        ("renorm_one", 1.0, 1, 12.0),
        ("renorm_half", 0.5, -1, 300.0),
        ("renorm_infinite", f64::INFINITY, 1, 1.5),
        ("renorm_strange", 2.0, 0, 3.0),
    ] {
        let y = reference.get(case, "x").renorm(p, axis, most).unwrap();
        reference.assert_close(case, "y", &y, NEAR);
    }
}

#[test]
fn normalisation_by_channels() {
    let mut reference = Reference::open("norm");
    let mut given = |case: &str, name: &str| reference.find(case, name);
    let [x, scale, bias] = ["x", "scale", "bias"].map(|name| given("batch_norm", name).unwrap());
    let [mean, variance] = ["mean", "variance"].map(|name| given("batch_norm", name).unwrap());
    let (scale, bias) = (Some(&scale), Some(&bias));
    let results = [
        ("group_norm", x.group_norm(3, scale, bias, 1e-4)),
        ("group_norm_plain", x.group_norm(2, None, None, 1e-3)),
        ("instance_norm", x.instance_norm(scale, bias, 1e-5)),
        (
            "batch_norm",
            x.batch_norm(&mean, &variance, scale, bias, 1e-5),
        ),
        (
            "local_response_norm",
            x.local_response_norm(3, 0.3, 0.6, 1.5),
        ),
        (
            "local_response_norm_wide",
            x.local_response_norm(15, 0.3, 0.6, 1.5),
        ),
    ];
    for (case, y) in results {
        reference.assert_close(case, "y", &y.unwrap(), NEAR);
    }
}

#[test]
fn normalisation_of_rows() {
    let mut reference = Reference::open("norm");
    let mut given = |case: &str| ["x", "scale"].map(|name| reference.get(case, name));
    let ([x, matrix], [_, line]) = (given("layer_norm"), given("rms_norm"));
    let results = [
        ("layer_norm", x.layer_norm(2, Some(&matrix), None, 1e-5)),
        ("rms_norm", x.rms_norm(-1, Some(&line), 1e-5)),
        ("normalize", x.normalize(3.0, 2, 1e-12)),
    ];
    for (case, y) in results {
        reference.assert_close(case, "y", &y.unwrap(), NEAR);
    }
}
