//! Arrays as numbers.

use serde::Serialize;
use streampool::{Array, DType, Pool, Tensor};

use crate::Result;
use crate::text::{figure, shortened};

/// So many values are shown.
const SHOWN: usize = 4;

/// An array in a few numbers; what is not finite has no JSON, and is left out.
#[derive(Debug, Clone, Serialize)]
pub struct Seen {
    /// Its name.
    pub name: String,
    /// Its element type.
    pub dtype: String,
    /// Its shape.
    pub shape: Vec<usize>,
    /// The least value.
    pub min: Option<f64>,
    /// The mean.
    pub mean: Option<f64>,
    /// The greatest value.
    pub max: Option<f64>,
    /// The first values.
    pub first: Vec<f64>,
    /// How many are not numbers.
    pub nan: usize,
}

/// The values of an array.
pub fn numbers(array: &Array, pool: &Pool) -> Result<Vec<f64>> {
    let tensor: Tensor = array.tensor(pool)?;
    Ok(tensor.to_dtype(DType::F64)?.to_vec()?)
}

impl Seen {
    /// The array of this name, looked at.
    pub fn of(name: String, array: &Array, pool: &Pool) -> Result<Seen> {
        let values = numbers(array, pool)?;
        let is_number = |value: &&f64| !value.is_nan();
        let known = || values.iter().filter(is_number).copied();
        let count = known().count();
        let finite = |value: Option<f64>| value.filter(|value| value.is_finite());
        Ok(Seen {
            name,
            dtype: array.dtype().to_string(),
            shape: array.shape().to_vec(),
            min: finite(known().reduce(f64::min)),
            mean: finite(Some(known().sum::<f64>() / count as f64)),
            max: finite(known().reduce(f64::max)),
            first: values.iter().take(SHOWN).copied().collect(),
            nan: values.len() - count,
        })
    }

    /// It as the cells of a row.
    pub fn cells(&self) -> Vec<String> {
        let number = |value: Option<f64>| value.map_or("-".to_owned(), short);
        let more = match self.shape.iter().product::<usize>() > SHOWN {
            true => " ...",
            false => "",
        };
        let first: Vec<String> = self.first.iter().copied().map(short).collect();
        let nan = match self.nan {
            0 => String::new(),
            count => format!(" ({count} NaN)"),
        };
        vec![
            shortened(&self.name, 16),
            format!("{} {:?}", self.dtype, self.shape),
            number(self.min),
            number(self.mean),
            number(self.max),
            format!("{}{more}{nan}", first.join(" ")),
        ]
    }
}

/// A value in few characters.
fn short(value: f64) -> String {
    match value.abs() {
        size if value.fract() == 0.0 && size < 1e9 => format!("{value}"),
        size if (0.01..1e6).contains(&size) => figure(value),
        _ => format!("{value:.1e}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_array_is_told_in_a_few_numbers() {
        let pool = streampool::host_pool().unwrap();
        let array = Array::new(&[1.0f32, f32::NAN, -3.5, 0.001, 7.0], &[5]).unwrap();
        let seen = Seen::of("y".to_owned(), &array, &pool).unwrap();
        assert_eq!((seen.min, seen.max, seen.nan), (Some(-3.5), Some(7.0), 1));
        assert!((seen.mean.unwrap() - 1.12525).abs() < 1e-6);
        let cells = seen.cells();
        assert_eq!(cells[..3], ["y", "f32 [5]", "-3.50"]);
        assert_eq!(cells[5], "1 NaN -3.50 1.0e-3 ... (1 NaN)");
        let none = Array::zeros(DType::I64, &[0]).unwrap();
        let none = Seen::of("n".to_owned(), &none, &pool).unwrap();
        assert_eq!((none.min, none.mean, none.max), (None, None, None));
    }
}
