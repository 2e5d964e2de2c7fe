//! Which outputs a client gets, and in what form.

use std::cmp::Ordering;

use streampool::{Array, DType};

use crate::datatype;
use crate::error::{Error, Result};
use crate::model::Model;
use crate::shared_memory::Window;

/// An output that a client asks for.
#[derive(Debug, Clone, Default)]
pub struct Wanted {
    /// Its name.
    pub name: String,
    /// Whether it is to come as bytes.
    pub binary: bool,
    /// How many of the highest values are to come instead of all; 0 for all.
    pub classes: usize,
    /// Where in shared memory its bytes are to go, if they are not to come at all.
    pub window: Option<Window>,
}

/// An output as a client gets it.
pub struct Output {
    /// Its name.
    pub name: String,
    /// The type that the client is told.
    pub datatype: &'static str,
    /// The shape that the client is told.
    pub shape: Vec<usize>,
    /// The values.
    pub values: Values,
    /// Whether it comes as bytes.
    pub binary: bool,
    /// Where in shared memory its bytes go instead.
    pub window: Option<Window>,
}

/// Values of an output.
pub enum Values {
    /// Numbers.
    Array(Array),
    /// Strings.
    Strings(Vec<String>),
}

impl Values {
    /// Appends their bytes; of a string its length comes first.
    pub fn append_to(&self, bytes: &mut Vec<u8>) {
        match self {
            Values::Array(array) => bytes.extend_from_slice(array.bytes()),
            Values::Strings(strings) => {
                for string in strings {
                    let length = u32::try_from(string.len()).unwrap_or(u32::MAX);
                    bytes.extend_from_slice(&length.to_le_bytes());
                    bytes.extend_from_slice(string.as_bytes());
                }
            }
        }
    }

    /// How many bytes these are.
    pub fn byte_count(&self) -> usize {
        match self {
            Values::Array(array) => array.bytes().len(),
            Values::Strings(strings) => strings.iter().map(|string| 4 + string.len()).sum(),
        }
    }
}

impl Output {
    /// Writes its bytes to shared memory. Returns the name of the region, where they begin, and how many there are, if they go there.
    pub fn leave(&self) -> Result<Option<(&str, u64, usize)>> {
        let Some(window) = &self.window else {
            return Ok(None);
        };
        let (region, offset) = window.place();
        match &self.values {
            Values::Array(array) => window.write(&self.name, array.bytes())?,
            strings => {
                let mut bytes = Vec::new();
                strings.append_to(&mut bytes);
                window.write(&self.name, &bytes)?;
            }
        }
        Ok(Some((region, offset, self.values.byte_count())))
    }
}

/// Refuses outputs that the model has not, before it is run.
pub fn check(model: &Model, wanted: &[Wanted]) -> Result<()> {
    for output in wanted {
        let port = model.outputs().iter().find(|port| port.name == output.name);
        let port = port.ok_or_else(|| {
            Error::invalid(format!(
                "unexpected inference output '{}' for model '{}'",
                output.name,
                model.name()
            ))
        })?;
        let in_json = !output.binary && output.classes == 0 && output.window.is_none();
        if in_json && matches!(port.dtype, DType::F16 | DType::BF16) {
            return Err(Error::invalid(format!(
                "output '{}': {} has no form in JSON, ask for binary data",
                output.name,
                datatype::name(port.dtype)
            )));
        }
    }
    Ok(())
}

/// All outputs of a model, in one form.
pub fn all(model: &Model, binary: bool) -> Vec<Wanted> {
    let wanted = model.outputs().iter().map(|port| Wanted {
        name: port.name.clone(),
        binary,
        ..Wanted::default()
    });
    wanted.collect()
}

/// The outputs that were asked for, of all that the model gave.
pub fn choose(model: &Model, arrays: Vec<Array>, wanted: Vec<Wanted>) -> Result<Vec<Output>> {
    let mut arrays: Vec<Option<Array>> = arrays.into_iter().map(Some).collect();
    let mut chosen = Vec::new();
    for (at, output) in wanted.iter().enumerate() {
        let port = model
            .outputs()
            .iter()
            .position(|port| port.name == output.name);
        // One that is asked for again is copied.
        let again = wanted
            .iter()
            .skip(at + 1)
            .any(|other| other.name == output.name);
        let array = port.and_then(|port| arrays.get_mut(port));
        let array = array.and_then(|array| if again { array.clone() } else { array.take() });
        let array = array.ok_or_else(|| {
            Error::Internal(format!(
                "model '{}' gave no '{}'",
                model.name(),
                output.name
            ))
        })?;
        let strings = array.as_strings();
        let strings = strings.map(|all| all.into_iter().map(str::to_owned).collect());
        chosen.push(match output.classes {
            0 => Output {
                name: output.name.clone(),
                datatype: match strings {
                    Some(_) => datatype::BYTES,
                    None => datatype::name(array.dtype()),
                },
                shape: model.shape_of(&array).to_vec(),
                values: strings.map_or_else(|| Values::Array(array), Values::Strings),
                binary: output.binary,
                window: output.window.clone(),
            },
            classes => classified(model, output, &array, classes)?,
        });
    }
    Ok(chosen)
}

/// The places of values, the highest first; of those that are equal the first.
pub fn best_first<T>(values: &[T], compare: impl Fn(&T, &T) -> Ordering) -> Vec<usize> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&a, &b| compare(&values[b], &values[a]).then(a.cmp(&b)));
    order
}

/// The highest values of each row, as `value:index`.
fn classified(model: &Model, wanted: &Wanted, array: &Array, classes: usize) -> Result<Output> {
    let values = numbers(array).ok_or_else(|| {
        let datatype = match array.is_strings() {
            true => datatype::BYTES,
            false => datatype::name(array.dtype()),
        };
        Error::invalid(format!(
            "classification of {datatype} outputs is not supported"
        ))
    })?;
    let rows = array.row_count().max(1);
    let size = values.len() / rows;
    let classes = classes.min(size);
    let mut strings = Vec::new();
    for row in values.chunks(size.max(1)) {
        let best = best_first(row, f64::total_cmp).into_iter().take(classes);
        strings.extend(best.map(|index| format!("{:.6}:{index}", row[index])));
    }
    let shape = match model.max_batch_size() {
        0 => vec![classes],
        _ => vec![array.row_count(), classes],
    };
    Ok(Output {
        name: wanted.name.clone(),
        datatype: datatype::BYTES,
        shape,
        values: Values::Strings(strings),
        binary: wanted.binary,
        window: wanted.window.clone(),
    })
}

fn numbers(array: &Array) -> Option<Vec<f64>> {
    if array.is_strings() {
        return None;
    }
    macro_rules! cast {
        ($type:ty) => {
            array
                .values::<$type>()
                .ok()
                .map(|values| values.iter().map(|&value| value as f64).collect())
        };
    }
    match array.dtype() {
        DType::F32 => cast!(f32),
        DType::F64 => cast!(f64),
        DType::I8 => cast!(i8),
        DType::I16 => cast!(i16),
        DType::I32 => cast!(i32),
        DType::I64 => cast!(i64),
        DType::U8 => cast!(u8),
        DType::U16 => cast!(u16),
        DType::U32 => cast!(u32),
        DType::U64 => cast!(u64),
        DType::F16 | DType::BF16 | DType::Bool => None,
    }
}
