//! How near results are.

use std::path::Path;

use streampool_model::{Array, Session, SessionOptions};
use streampool_tensor::{DType, Pool};

use crate::data::Arrays;

/// The outputs of a session for inputs by name.
pub fn run(session: &Session, inputs: &Arrays) -> Arrays {
    let named = inputs.iter().map(|(name, array)| (name, array));
    let outputs = session.run(named).unwrap_or_else(|error| panic!("{error}"));
    let arrays = outputs
        .iter()
        .map(|(name, arrays)| (name.to_owned(), arrays[0].clone()));
    arrays.collect()
}

/// Asserts that all arrays are as expected: integers equal, and floats no further off than `near` times the largest
/// that is expected, or one.
pub fn assert_near(what: &str, got: &Arrays, expected: &Arrays, near: f32) {
    for (name, expected) in expected {
        let found = got.iter().find(|(other, _)| other == name);
        let (_, got) = found.unwrap_or_else(|| panic!("{what}: no {name}"));
        let kinds = (got.dtype(), got.shape());
        assert_eq!(
            kinds,
            (expected.dtype(), expected.shape()),
            "{what}: {name}"
        );
        if expected.dtype() != DType::F32 {
            assert!(got == expected, "{what}: {name} differs");
            continue;
        }
        let (got, expected) = (floats(got), floats(expected));
        let largest = expected
            .iter()
            .fold(1f32, |most, value| most.max(value.abs()));
        let mut worst = 0f32;
        for (place, (got, expected)) in got.iter().zip(expected).enumerate() {
            let off = match got == expected {
                true => 0.0,
                false => (got - expected).abs() / largest,
            };
            // Not a number is no less.
            assert!(
                off <= near,
                "{what}: {name}, element {place} is {got}, expected {expected} (off by {off} of {largest})"
            );
            worst = worst.max(off);
        }
        println!("{what}: {name} is off by {worst:e} of {largest}");
    }
}

/// The values of an array of floats.
pub fn floats(array: &Array) -> &[f32] {
    array.values().expect("floats")
}

/// The session of a model that computes in half precision.
pub fn in_half(pool: &Pool, path: &Path) -> Session {
    let options = SessionOptions {
        precision: Some(DType::F16),
        ..SessionOptions::default()
    };
    Session::load_with(pool, path, &options).unwrap_or_else(|error| panic!("{error}"))
}
