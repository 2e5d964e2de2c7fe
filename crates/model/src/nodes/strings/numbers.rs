//! Numbers as strings, and strings as numbers: what `Cast` means for strings. What is not said by ONNX is as in ONNX Runtime.

use std::borrow::Cow;

use streampool_tensor::{DType, Tensor};

use super::common::Words;
use crate::error::NodeError;
use crate::nodes::call::{Call, Outputs};

/// Strings that stand for numbers, as these.
pub fn read(call: &Call<'_>) -> Outputs {
    let words = Words::of(call)?;
    let x = call.given(0)?;
    let dtype = call.attr_dtype("to")?.unwrap_or(DType::F32);
    let numbers = words.given(x)?;
    let no_number =
        |string: &str| NodeError::malformed("a string", format!("{string:?}"), "a number");
    if dtype.is_float() {
        let read = |string: &str| float(string).ok_or_else(|| no_number(string));
        let values = words.each(&numbers, read)?;
        let values = Tensor::from_slice(words.pool, &values, x.shape())?;
        return Ok(vec![values.to_dtype(dtype)?]);
    }
    let read = |string: &str| whole(string, dtype).ok_or_else(|| no_number(string));
    let values = words.each(&numbers, read)?;
    let values = words.tensor(&values, x.shape())?;
    Ok(vec![values.to_dtype(dtype)?])
}

/// The number at the begin of a string.
fn float(string: &str) -> Option<f64> {
    let string = string.trim_start();
    let digits = string.trim_start_matches(['+', '-']);
    if digits.starts_with("0x") || digits.starts_with("0X") {
        return None;
    }
    if let Ok(value) = string.trim_end().parse() {
        return Some(value);
    }
    let is_part = |byte: &u8| byte.is_ascii_digit() || b"+-.eE".contains(byte);
    let most = string
        .bytes()
        .take_while(|byte| is_part(byte))
        .take(400)
        .count();
    (1..=most).rev().find_map(|end| string[..end].parse().ok())
}

/// The whole number at the begin of a string, in its type's 64 bits.
fn whole(string: &str, dtype: DType) -> Option<i64> {
    let string = string.trim_start();
    let sign = string.starts_with(['+', '-']) as usize;
    let digits = string[sign..].bytes().take_while(u8::is_ascii_digit);
    let value: i128 = string[..sign + digits.count()].parse().ok()?;
    match dtype {
        DType::Bool => u64::try_from(value.unsigned_abs())
            .ok()
            .map(|value| i64::from(value != 0)),
        DType::U8 | DType::U16 | DType::U32 | DType::U64 => {
            let size = u64::try_from(value.unsigned_abs()).ok()?;
            Some(if value < 0 { size.wrapping_neg() } else { size } as i64)
        }
        _ => i64::try_from(value).ok(),
    }
}

/// Numbers as strings.
pub fn write(call: &Call<'_>) -> Outputs {
    let words = Words::of(call)?;
    let x = call.given(0)?;
    let written = |string: Cow<'_, str>| words.number(&string);
    let made: Result<Vec<i64>, NodeError> = match x.dtype() {
        dtype if dtype.is_float() => {
            let values = x.to_dtype(DType::F64)?.to_vec::<f64>()?;
            values.iter().map(|&value| written(digits(value))).collect()
        }
        DType::U64 => {
            let values = x.to_vec::<u64>()?;
            values
                .iter()
                .map(|value| written(value.to_string().into()))
                .collect()
        }
        _ => {
            let values = x.to_dtype(DType::I64)?.to_vec::<i64>()?;
            values
                .iter()
                .map(|value| written(value.to_string().into()))
                .collect()
        }
    };
    Ok(vec![words.tensor(&made?, x.shape())?])
}

/// So many digits are told of a number.
const DIGITS: i32 = 8;

/// A number as C writes it with `%.8g`.
fn digits(value: f64) -> Cow<'static, str> {
    if value.is_nan() {
        return "NaN".into();
    }
    if value.is_infinite() {
        return if value > 0.0 { "INF" } else { "-INF" }.into();
    }
    if value == 0.0 {
        return if value.is_sign_negative() { "-0" } else { "0" }.into();
    }
    let scientific = format!("{value:.*e}", DIGITS as usize - 1);
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let short = |digits: &str| match digits.contains('.') {
        true => digits
            .trim_end_matches('0')
            .trim_end_matches('.')
            .to_owned(),
        false => digits.to_owned(),
    };
    if (-4..DIGITS).contains(&exponent) {
        let behind = (DIGITS - 1 - exponent) as usize;
        return short(&format!("{value:.behind$}")).into();
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{}e{sign}{:02}", short(digits), exponent.abs()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_c_writes_them() {
        for (value, written) in [
            (1.5, "1.5"),
            (1e10, "1e+10"),
            (1e-7, "1e-07"),
            (123456789.0, "1.2345679e+08"),
            (100000.0, "100000"),
            (99999999.6, "1e+08"),
            (1.0 / 3.0, "0.33333333"),
            (0.0001, "0.0001"),
            (-0.0, "-0"),
            (f64::NEG_INFINITY, "-INF"),
            (1e300, "1e+300"),
        ] {
            assert_eq!(digits(value), written);
        }
    }

    #[test]
    fn strings_are_read_as_far_as_they_are_numbers() {
        assert_eq!(float(" 7 "), Some(7.0));
        assert_eq!(float("7x"), Some(7.0));
        assert_eq!(float("1e3"), Some(1000.0));
        assert_eq!(float("-inf"), Some(f64::NEG_INFINITY));
        for none in ["", "true", "0x10", "-"] {
            assert_eq!(float(none), None, "{none}");
        }
        assert_eq!(whole("1.5", DType::I64), Some(1));
        assert_eq!(whole(" -7x", DType::I32), Some(-7));
        assert_eq!(whole("99999999999999999999", DType::I64), None);
        assert_eq!(whole("18446744073709551615", DType::U64), Some(-1));
        assert_eq!(whole("-1", DType::Bool), Some(1));
        for none in ["", "-", "x", "9".repeat(60).as_str()] {
            assert_eq!(whole(none, DType::I64), None, "{none}");
        }
    }
}
