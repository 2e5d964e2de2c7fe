//! Order, running totals and counts; NaN among them.

use crate::Reference;

const NEAR: f64 = 1e-5;

#[test]
fn sorting() {
    let mut reference = Reference::open("order");
    for (case, descending) in [
        ("sort_floats_rising", false),
        ("sort_floats_falling", true),
        ("sort_integers_rising", false),
        ("sort_integers_falling", true),
    ] {
        let x = reference.get(case, "x");
        let (values, indices) = x.sort(1, descending).unwrap();
        reference.assert_same(case, "values", &values);
        reference.assert_same(case, "indices", &indices);
        reference.assert_same(case, "indices", &x.argsort(-1, descending).unwrap());
    }
    for (case, largest) in [("topk_largest", true), ("topk_smallest", false)] {
        let (values, indices) = reference.get(case, "x").topk(4, 1, largest).unwrap();
        reference.assert_same(case, "values", &values);
        reference.assert_same(case, "indices", &indices);
    }
}

#[test]
fn running_totals() {
    let mut reference = Reference::open("order");
    let x = reference.get("cumulative", "x");
    reference.assert_close("cumulative", "sum", &x.cumsum(1).unwrap(), NEAR);
    reference.assert_close("cumulative", "prod", &x.cumprod(0).unwrap(), NEAR);
    reference.assert_same("cumulative", "max", &x.cummax(-1).unwrap());
    reference.assert_same("cumulative", "min", &x.cummin(1).unwrap());
    let case = "cumulative_integers";
    let x = reference.get(case, "x");
    reference.assert_same(case, "sum", &x.cumsum(0).unwrap());
    reference.assert_same(case, "prod", &x.cumprod(0).unwrap());
    reference.assert_same(case, "max", &x.cummax(1).unwrap());
}

#[test]
fn counts_and_places() {
    let mut reference = Reference::open("order");
    let x = reference.get("histogram", "x");
    reference.assert_same("histogram", "y", &x.histogram(7, -1.0, 1.5).unwrap());
    let case = "weighted_histogram";
    let [x, weights] = ["x", "weights"].map(|name| reference.get(case, name));
    let counted = x.weighted_histogram(5, -2.0, 2.0, &weights).unwrap();
    reference.assert_close(case, "y", &counted, NEAR);
    let x = reference.get("bincount", "x");
    reference.assert_same("bincount", "y", &x.bincount(10).unwrap());
    let x = reference.get("nonzero", "x");
    reference.assert_same("nonzero", "y", &x.nonzero().unwrap());
    let [x, mask] = ["x", "mask"].map(|name| reference.get("masked_select", name));
    reference.assert_same("masked_select", "y", &x.masked_select(&mask).unwrap());
}
