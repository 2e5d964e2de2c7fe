//! The elements of a tensor as JSON: nested or flat lists of numbers.

use std::fmt;

use serde::de::{self, DeserializeSeed, SeqAccess, Visitor};
use serde_json::value::RawValue;
use streampool::{Array, DType};

use crate::error::{Error, Result};

/// The elements of a list, flat.
pub fn read(input: &str, dtype: DType, shape: &[usize], data: &RawValue) -> Result<Array> {
    let expected = expected(input, shape, data)?;
    match dtype {
        DType::Bool => list::<bool>(input, expected, data).and_then(|all| {
            let bytes: Vec<u8> = all.into_iter().map(u8::from).collect();
            Array::from_bytes(DType::Bool, &bytes, shape).map_err(invalid)
        }),
        DType::U8 => array::<u8>(input, expected, shape, data),
        DType::U16 => array::<u16>(input, expected, shape, data),
        DType::U32 => array::<u32>(input, expected, shape, data),
        DType::U64 => array::<u64>(input, expected, shape, data),
        DType::I8 => array::<i8>(input, expected, shape, data),
        DType::I16 => array::<i16>(input, expected, shape, data),
        DType::I32 => array::<i32>(input, expected, shape, data),
        DType::I64 => array::<i64>(input, expected, shape, data),
        DType::F32 => array::<f32>(input, expected, shape, data),
        DType::F64 => array::<f64>(input, expected, shape, data),
        DType::F16 | DType::BF16 => Err(Error::invalid(format!(
            "input '{input}': {} has no form in JSON, send it as binary data",
            crate::datatype::name(dtype)
        ))),
    }
}

/// The strings of a list, flat.
pub fn read_strings(input: &str, shape: &[usize], data: &RawValue) -> Result<Array> {
    let strings = list::<String>(input, expected(input, shape, data)?, data)?;
    Array::from_strings(&strings, shape).map_err(invalid)
}

/// How many elements a shape has.
fn expected(input: &str, shape: &[usize], data: &RawValue) -> Result<usize> {
    let elements = shape
        .iter()
        .try_fold(1usize, |all, &size| all.checked_mul(size));
    // Each element takes a character at least, so a list is never longer than the text.
    elements
        .filter(|&count| count <= data.get().len())
        .ok_or_else(|| {
            Error::invalid(format!(
                "input '{input}' has the shape {shape:?}, which is more elements than its data"
            ))
        })
}

/// Writes the elements of an array as a flat list.
pub fn write(output: &str, array: &Array, to: &mut Vec<u8>) -> Result<()> {
    let written = match array.dtype() {
        DType::Bool => {
            let values: Vec<bool> = array.bytes().iter().map(|&byte| byte != 0).collect();
            serde_json::to_writer(to, &values)
        }
        DType::U8 => serde_json::to_writer(to, array.values::<u8>().map_err(internal)?),
        DType::U16 => serde_json::to_writer(to, array.values::<u16>().map_err(internal)?),
        DType::U32 => serde_json::to_writer(to, array.values::<u32>().map_err(internal)?),
        DType::U64 => serde_json::to_writer(to, array.values::<u64>().map_err(internal)?),
        DType::I8 => serde_json::to_writer(to, array.values::<i8>().map_err(internal)?),
        DType::I16 => serde_json::to_writer(to, array.values::<i16>().map_err(internal)?),
        DType::I32 => serde_json::to_writer(to, array.values::<i32>().map_err(internal)?),
        DType::I64 => serde_json::to_writer(to, array.values::<i64>().map_err(internal)?),
        DType::F32 => serde_json::to_writer(to, array.values::<f32>().map_err(internal)?),
        DType::F64 => serde_json::to_writer(to, array.values::<f64>().map_err(internal)?),
        dtype @ (DType::F16 | DType::BF16) => {
            return Err(Error::invalid(format!(
                "output '{output}': {} has no form in JSON, ask for binary data",
                crate::datatype::name(dtype)
            )));
        }
    };
    written.map_err(internal)
}

fn invalid(error: streampool::tensor::Error) -> Error {
    Error::invalid(error.to_string())
}

fn internal(error: impl fmt::Display) -> Error {
    Error::Internal(error.to_string())
}

fn array<T: Number + streampool::Element>(
    input: &str,
    expected: usize,
    shape: &[usize],
    data: &RawValue,
) -> Result<Array> {
    let values = list::<T>(input, expected, data)?;
    Array::from_vec(values, shape).map_err(invalid)
}

fn list<T: Number>(input: &str, expected: usize, data: &RawValue) -> Result<Vec<T>> {
    let mut values = Vec::new();
    let mut reader = serde_json::Deserializer::from_str(data.get());
    let elements = Elements {
        into: &mut values,
        most: expected,
    };
    elements
        .deserialize(&mut reader)
        .map_err(|error| Error::invalid(format!("the data of input '{input}': {error}")))?;
    if values.len() != expected {
        return Err(Error::invalid(format!(
            "input '{input}' has {} elements, expected {expected} for its shape",
            values.len()
        )));
    }
    Ok(values)
}

/// A number, or a string, as JSON may write it.
trait Number: Sized {
    fn of_bool(_: bool) -> Option<Self> {
        None
    }
    fn of_unsigned(value: u64) -> Option<Self>;
    fn of_signed(value: i64) -> Option<Self>;
    fn of_float(_: f64) -> Option<Self> {
        None
    }
    fn of_text(_: &str) -> Option<Self> {
        None
    }
}

impl Number for String {
    fn of_unsigned(_: u64) -> Option<String> {
        None
    }
    fn of_signed(_: i64) -> Option<String> {
        None
    }
    fn of_text(text: &str) -> Option<String> {
        Some(text.to_owned())
    }
}

macro_rules! integers {
    ($($type:ty)*) => {$(
        impl Number for $type {
            fn of_unsigned(value: u64) -> Option<Self> {
                value.try_into().ok()
            }
            fn of_signed(value: i64) -> Option<Self> {
                value.try_into().ok()
            }
        }
    )*};
}

integers!(u8 u16 u32 u64 i8 i16 i32 i64);

macro_rules! floats {
    ($($type:ty)*) => {$(
        impl Number for $type {
            fn of_unsigned(value: u64) -> Option<Self> {
                Some(value as $type)
            }
            fn of_signed(value: i64) -> Option<Self> {
                Some(value as $type)
            }
            fn of_float(value: f64) -> Option<Self> {
                Some(value as $type)
            }
        }
    )*};
}

floats!(f32 f64);

impl Number for bool {
    fn of_bool(value: bool) -> Option<bool> {
        Some(value)
    }
    fn of_unsigned(value: u64) -> Option<bool> {
        (value <= 1).then_some(value == 1)
    }
    fn of_signed(_: i64) -> Option<bool> {
        None
    }
}

/// Puts numbers, however deep in lists, into one list of no more than so many.
struct Elements<'a, T> {
    into: &'a mut Vec<T>,
    most: usize,
}

impl<T> Elements<'_, T> {
    fn push<E: de::Error>(self, value: Option<T>) -> Result<(), E> {
        let value = value.ok_or_else(|| E::custom("a value that its datatype cannot hold"))?;
        if self.into.len() == self.most {
            return Err(E::custom("more elements than its shape has"));
        }
        self.into.push(value);
        Ok(())
    }
}

impl<'de, T: Number> DeserializeSeed<'de> for Elements<'_, T> {
    type Value = ();

    fn deserialize<D: de::Deserializer<'de>>(self, reader: D) -> Result<(), D::Error> {
        reader.deserialize_any(self)
    }
}

impl<'de, T: Number> Visitor<'de> for Elements<'_, T> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number, or a list of them")
    }

    fn visit_bool<E: de::Error>(self, value: bool) -> Result<(), E> {
        self.push(T::of_bool(value))
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<(), E> {
        self.push(T::of_unsigned(value))
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<(), E> {
        self.push(T::of_signed(value))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<(), E> {
        match T::of_text(text) {
            None => Err(E::invalid_type(de::Unexpected::Str(text), &self)),
            text => self.push(text),
        }
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<(), E> {
        self.push(T::of_float(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        let Elements { into, most } = self;
        while list
            .next_element_seed(Elements {
                into: &mut *into,
                most,
            })?
            .is_some()
        {}
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(dtype: DType, shape: &[usize], text: &str) -> Result<Array> {
        let data: Box<RawValue> = serde_json::from_str(text).unwrap();
        super::read("x", dtype, shape, &data)
    }

    #[test]
    fn nested_and_flat_lists_are_the_same() {
        let flat = read(DType::F32, &[2, 2], "[1, 2.5, -3, 4]").unwrap();
        assert_eq!(
            flat,
            read(DType::F32, &[2, 2], "[[1, 2.5], [-3, 4]]").unwrap()
        );
        assert_eq!(flat.values::<f32>().unwrap(), [1.0, 2.5, -3.0, 4.0]);
        let flags = read(DType::Bool, &[3], "[true, false, 1]").unwrap();
        assert_eq!(flags.bytes(), [1, 0, 1]);
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        for (dtype, shape, text, why) in [
            (DType::U8, &[1][..], "[256]", "cannot hold"),
            (DType::I8, &[1], "[1.5]", "cannot hold"),
            (DType::U64, &[1], "[-1]", "cannot hold"),
            (DType::Bool, &[1], "[2]", "cannot hold"),
            (DType::F32, &[2], "[1]", "1 elements, expected 2"),
            (DType::F32, &[1], "[1, 2]", "more elements"),
            (DType::F32, &[1 << 40], "[1]", "more elements than its data"),
            (
                DType::F32,
                &[usize::MAX, 3],
                "[1]",
                "more elements than its data",
            ),
            (DType::F32, &[1], "\"one\"", "expected a number"),
            (DType::F16, &[1], "[1]", "no form in JSON"),
        ] {
            let error = read(dtype, shape, text).unwrap_err();
            assert_eq!(error.status(), 400);
            assert!(error.to_string().contains(why), "{error} for {text}");
        }
        let deep = "[".repeat(200) + &"]".repeat(200);
        assert!(
            serde_json::from_str::<Box<RawValue>>(&deep).is_err()
                || read(DType::F32, &[1], &deep).is_err()
        );
    }

    #[test]
    fn what_is_written_is_read_again() {
        for (dtype, text) in [
            (DType::I64, "[-9223372036854775808,7]"),
            (DType::U64, "[18446744073709551615,0]"),
            (DType::F64, "[0.1,-2.0]"),
            (DType::Bool, "[true,false]"),
        ] {
            let mut written = Vec::new();
            write("y", &read(dtype, &[2], text).unwrap(), &mut written).unwrap();
            assert_eq!(String::from_utf8(written).unwrap(), text);
        }
    }
}
