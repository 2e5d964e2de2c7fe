//! Outputs beside those that they should be.

use std::path::Path;

use serde::Serialize;
use streampool::tensor::NpzFile;
use streampool::{Array, Outputs, Pool};

use super::values::numbers;
use crate::Result;

/// How far an output is from its reference.
#[derive(Debug, Clone, Serialize)]
pub struct Compared {
    /// Its name.
    pub name: String,
    /// Whether each value is within the tolerance, absolute or of what it should be.
    pub ok: bool,
    /// The largest difference.
    pub worst_absolute: Option<f64>,
    /// The largest difference, as a part of the largest value of the reference.
    pub worst_relative: Option<f64>,
    /// Why there is no comparing them.
    pub problem: Option<String>,
}

/// All outputs that the `.npz` file has a reference for.
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
            let known: Vec<&str> = outputs.iter().map(|(name, _)| name).collect();
            return Err(format!(
                "{} has an array `{name}`, but the outputs of the model are {}",
                path.display(),
                known.join(", ")
            )
            .into());
        };
        let wanted = Array::of(&file.read(pool, &name)?)?;
        compared(name, got, &wanted, tolerance, pool)
    };
    names.into_iter().map(compare).collect()
}

fn compared(
    name: String,
    got: &Array,
    wanted: &Array,
    tolerance: f64,
    pool: &Pool,
) -> Result<Compared> {
    if got.shape() != wanted.shape() {
        let problem = format!(
            "it is {:?}, the reference {:?}",
            got.shape(),
            wanted.shape()
        );
        return Ok(Compared {
            name,
            ok: false,
            worst_absolute: None,
            worst_relative: None,
            problem: Some(problem),
        });
    }
    let (mut worst, mut largest, mut ok) = (0f64, 0f64, true);
    for (got, wanted) in numbers(got, pool)?.into_iter().zip(numbers(wanted, pool)?) {
        if got == wanted || (got.is_nan() && wanted.is_nan()) {
            largest = if wanted.is_finite() {
                largest.max(wanted.abs())
            } else {
                largest
            };
            continue;
        }
        let difference = (got - wanted).abs();
        // What is not finite is within no tolerance.
        ok &= difference.is_finite() && difference <= tolerance * (1.0 + wanted.abs());
        worst = if difference.is_nan() {
            f64::INFINITY
        } else {
            worst.max(difference)
        };
        largest = largest.max(wanted.abs());
    }
    let relative = worst / largest.max(f64::MIN_POSITIVE);
    Ok(Compared {
        name,
        ok,
        worst_absolute: Some(worst).filter(|worst| worst.is_finite()),
        worst_relative: Some(relative).filter(|worst| worst.is_finite()),
        problem: worst
            .is_infinite()
            .then(|| "values are not finite where they should be".to_owned()),
    })
}

impl Compared {
    /// It in words.
    pub fn told(&self) -> String {
        let far = match (self.worst_absolute, self.worst_relative) {
            (Some(absolute), Some(relative)) => {
                format!("off by at most {absolute:.1e}, {relative:.1e} of the largest")
            }
            (Some(absolute), None) => format!("off by at most {absolute:.1e}"),
            _ => String::new(),
        };
        format!("{far}{}", self.problem.as_deref().unwrap_or_default())
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
            assert!(!broken.ok && broken.problem.is_some(), "{broken:?}");
        }
        assert!(
            check(&[1.0], &[1.0, 1.0])
                .told()
                .contains("[1], the reference [2]")
        );
    }
}
