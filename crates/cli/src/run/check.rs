//! Outputs beside those that they should be.

use std::path::Path;

use serde::Serialize;
use streampool::tensor::NpzFile;
use streampool::{Array, Outputs, Pool};

use super::values::numbers;
use crate::Result;
use crate::text::{counted, list};

/// How far an output is from its reference.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Compared {
    /// Its name.
    pub name: String,
    /// Whether there is a reference for it.
    pub checked: bool,
    /// Whether each value is within the tolerance, absolute or of what it should be.
    pub ok: bool,
    /// The largest difference.
    pub worst_absolute: Option<f64>,
    /// The largest difference, as a part of the largest value of the reference.
    pub worst_relative: Option<f64>,
    /// The value that is furthest out of the tolerance.
    pub wrong: Option<Wrong>,
    /// How many values are NaN where the reference has numbers.
    pub nan: usize,
    /// How many values are numbers where the reference has NaN.
    pub nan_expected: usize,
    /// Both types, where they differ.
    pub types: Option<[String; 2]>,
    /// Why there is no comparing them.
    pub problem: Option<String>,
}

/// A value that is not what it should be; what is not finite has no JSON.
#[derive(Debug, Clone, Serialize)]
pub struct Wrong {
    /// Where it is.
    pub at: Vec<usize>,
    /// What it is.
    pub got: f64,
    /// What it should be.
    pub expected: f64,
}

/// All outputs that the `.npz` file has a reference for, and then the others.
pub fn against(
    path: &Path,
    outputs: &Outputs,
    tolerance: f64,
    pool: &Pool,
) -> Result<Vec<Compared>> {
    let mut file = NpzFile::open(path)?;
    let names: Vec<String> = file.names().map(str::to_owned).collect();
    if names.is_empty() {
        return Err(format!("{} has no arrays", path.display()).into());
    }
    let compare = |name: String| {
        let Some(got) = outputs.get(&name) else {
            let (shown, known) = (path.display(), list(outputs.iter().map(|(name, _)| name)));
            let why = format!("has an array `{name}`, but the outputs of the model are {known}");
            return Err(format!("{shown} {why}").into());
        };
        let wanted = Array::of(&file.read(pool, &name)?)?;
        compared(name, got, &wanted, tolerance, pool)
    };
    let others: Vec<Compared> = outputs
        .iter()
        .filter(|(name, _)| names.iter().all(|has| has != name))
        .map(|(name, _)| Compared {
            name: name.to_owned(),
            ok: true,
            ..Compared::default()
        })
        .collect();
    let compared = names.into_iter().map(compare);
    compared.chain(others.into_iter().map(Ok)).collect()
}

fn compared(
    name: String,
    got: &Array,
    wanted: &Array,
    tolerance: f64,
    pool: &Pool,
) -> Result<Compared> {
    let mut compared = Compared {
        name,
        checked: true,
        ..Compared::default()
    };
    if got.shape() != wanted.shape() {
        let (own, other) = (got.shape(), wanted.shape());
        compared.problem = Some(format!(
            "its shape is {own:?}, that of the reference {other:?}"
        ));
        return Ok(compared);
    }
    if got.dtype() != wanted.dtype() {
        compared.types = Some([got, wanted].map(|array| array.dtype().to_string()));
    }
    let (mut worst, mut largest, mut furthest) = (0f64, 0f64, 0f64);
    let pairs = numbers(got, pool)?.into_iter().zip(numbers(wanted, pool)?);
    for (place, (value, wanted)) in pairs.enumerate() {
        if wanted.is_finite() {
            largest = largest.max(wanted.abs());
        }
        if value == wanted || (value.is_nan() && wanted.is_nan()) {
            continue;
        }
        compared.nan += usize::from(value.is_nan());
        compared.nan_expected += usize::from(wanted.is_nan());
        let difference = (value - wanted).abs();
        // What is not finite is within no tolerance.
        let far = match difference.is_finite() {
            true => difference / (1.0 + wanted.abs()),
            false => f64::INFINITY,
        };
        worst = worst.max(if far.is_finite() { difference } else { far });
        if far > tolerance && far > furthest {
            furthest = far;
            compared.wrong = Some(Wrong {
                at: indices(place, got.shape()),
                got: value,
                expected: wanted,
            });
        }
    }
    compared.ok = compared.wrong.is_none();
    compared.worst_absolute = Some(worst).filter(|worst| worst.is_finite());
    let relative = (largest > 0.0).then_some(worst / largest);
    compared.worst_relative = relative.filter(|worst| worst.is_finite());
    Ok(compared)
}

/// Where in an array of this shape an element is.
fn indices(mut place: usize, shape: &[usize]) -> Vec<usize> {
    let mut indices: Vec<usize> = shape
        .iter()
        .rev()
        .map(|&size| {
            let index = place % size;
            place /= size;
            index
        })
        .collect();
    indices.reverse();
    indices
}

/// A value in as few digits as tell it from all others of its type.
fn exact(value: f64) -> String {
    let short = value as f32;
    match f64::from(short) == value {
        true => format!("{short:?}"),
        false => format!("{value:?}"),
    }
}

impl Compared {
    /// In a word, whether it is right.
    pub fn verdict(&self) -> &'static str {
        match (self.checked, self.ok) {
            (false, _) => "-",
            (true, true) => "ok",
            (true, false) => "WRONG",
        }
    }

    /// It in words.
    pub fn told(&self) -> String {
        if !self.checked {
            return "not checked: it has no reference".to_owned();
        }
        let mut told = Vec::new();
        told.extend(match (self.worst_absolute, self.worst_relative) {
            (Some(0.0), _) => Some("equal".to_owned()),
            (Some(absolute), Some(relative)) => Some(format!(
                "off by at most {absolute:.1e}, {relative:.1e} of the largest"
            )),
            (Some(absolute), None) => Some(format!("off by at most {absolute:.1e}")),
            (None, _) => None,
        });
        if let Some(Wrong { at, got, expected }) = &self.wrong {
            let [got, expected] = [*got, *expected].map(exact);
            told.push(format!("at {at:?} it is {got}, expected {expected}"));
        }
        if self.nan > 0 {
            let count = self.nan;
            told.push(format!("{count} NaN where the reference has numbers"));
        }
        if self.nan_expected > 0 {
            let count = counted(self.nan_expected as u64, "number");
            told.push(format!("{count} where the reference has NaN"));
        }
        if let Some([got, wanted]) = &self.types {
            told.push(format!("its type is {got}, that of the reference {wanted}"));
        }
        told.extend(self.problem.clone());
        told.join("; ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_judged_by_size() {
        let pool = streampool::host_pool().unwrap();
        let check = |got: &[f32], wanted: &[f32]| {
            let array = |values: &[f32]| Array::new(values, &[values.len()]).unwrap();
            compared("y".to_owned(), &array(got), &array(wanted), 1e-3, &pool).unwrap()
        };
        let inf = f32::INFINITY;
        assert!(check(&[1.0, f32::NAN, inf], &[1.0, f32::NAN, inf]).ok);
        assert!(check(&[1000.5, 0.0005], &[1000.0, 0.0]).ok);
        let far = check(&[1.0, 2.0], &[1.0, 4.0]);
        assert!(!far.ok && far.worst_absolute == Some(2.0) && far.worst_relative == Some(0.5));
        for broken in [f32::NAN, inf] {
            let broken = check(&[broken, 1.0], &[1.0, 1.0]);
            assert!(!broken.ok && broken.worst_absolute.is_none(), "{broken:?}");
        }
        assert!(
            check(&[1.0], &[1.0, 1.0])
                .told()
                .contains("[1], that of the reference [2]")
        );
    }

    #[test]
    fn what_differs_is_told() {
        let pool = streampool::host_pool().unwrap();
        let told = |got: Array, wanted: Array| {
            compared("y".to_owned(), &got, &wanted, 1e-3, &pool)
                .unwrap()
                .told()
        };
        let array = |values: &[f32]| Array::new(values, &[2, values.len() / 2]).unwrap();
        let of = |got: &[f32], wanted: &[f32]| told(array(got), array(wanted));
        assert_eq!(of(&[1.0, f32::NAN], &[1.0, f32::NAN]), "equal");
        assert_eq!(of(&[0.0, 1e-6], &[0.0, 0.0]), "off by at most 1.0e-6");
        // The one that is furthest out, not the one that is furthest off.
        assert_eq!(
            of(&[1001.5, 1.0, 1.0, 2.0], &[1000.0, 1.0, 1.0, 1.5]),
            "off by at most 1.5e0, 1.5e-3 of the largest; at [1, 1] it is 2.0, expected 1.5"
        );
        let nan = f32::NAN;
        assert_eq!(
            of(&[1.0, nan, nan, 2.0], &[1.0, 1.0, 2.0, nan]),
            "at [0, 1] it is NaN, expected 1.0; 2 NaN where the reference has numbers; \
             1 number where the reference has NaN"
        );
        let wide = Array::new(&[1.0f64, 2.0], &[2, 1]).unwrap();
        assert_eq!(
            told(array(&[1.0, 2.0]), wide),
            "equal; its type is f32, that of the reference f64"
        );
    }
}
