//! Factorisations and solves.

use crate::Reference;

const NEAR: f64 = 1e-9;

#[test]
fn factors_and_pivots() {
    let mut reference = Reference::open("linalg");
    for case in ["lu", "lu_wide", "lu_tall"] {
        let lu = reference.get(case, "x").lu().unwrap();
        reference.assert_close(case, "factors", &lu.factors, NEAR);
        reference.assert_same(case, "pivots", &lu.pivots);
    }
}

#[test]
fn systems() {
    let mut reference = Reference::open("linalg");
    let mut given = |case: &str| ["x", "rhs"].map(|name| reference.get(case, name));
    let [x, rhs] = given("lu_solve");
    let [single, single_rhs] = given("solve_single");
    let solved = x.lu().unwrap().solve(&rhs).unwrap();
    reference.assert_close("lu_solve", "y", &solved, NEAR);
    reference.assert_close("lu_solve", "y", &x.solve(&rhs).unwrap(), NEAR);
    let solved = single.solve(&single_rhs).unwrap();
    reference.assert_close("solve_single", "y", &solved, 5e-3);
    for (case, upper, unit) in [
        ("triangular_lower", false, false),
        ("triangular_lower_unit", false, true),
        ("triangular_upper", true, false),
        ("triangular_upper_unit", true, true),
    ] {
        let solved = x.triangular_solve(&rhs, upper, unit).unwrap();
        reference.assert_close(case, "y", &solved, NEAR);
    }
}

#[test]
fn cholesky_inverse_and_determinant() {
    let mut reference = Reference::open("linalg");
    let positive = reference.get("cholesky", "x");
    reference.assert_close("cholesky", "y", &positive.cholesky().unwrap(), NEAR);
    let x = reference.get("inverse", "x");
    reference.assert_close("inverse", "y", &x.inverse().unwrap(), NEAR);
    reference.assert_close("det", "y", &x.det().unwrap(), NEAR);
}
