//! What element types are called in files.

use streampool_device::DType;

/// An element type, its name in safetensors, and its code in `.npy`, which lacks some.
const NAMES: [(DType, &str, Option<&str>); 13] = [
    (DType::F32, "F32", Some("f4")),
    (DType::F16, "F16", Some("f2")),
    (DType::BF16, "BF16", None),
    (DType::F64, "F64", Some("f8")),
    (DType::I8, "I8", Some("i1")),
    (DType::I16, "I16", Some("i2")),
    (DType::I32, "I32", Some("i4")),
    (DType::I64, "I64", Some("i8")),
    (DType::U8, "U8", Some("u1")),
    (DType::U16, "U16", Some("u2")),
    (DType::U32, "U32", Some("u4")),
    (DType::U64, "U64", Some("u8")),
    (DType::Bool, "BOOL", Some("b1")),
];

const _: () = assert!(NAMES.len() == DType::ALL.len());

/// The type that safetensors calls `name`.
pub(super) fn of_safetensors(name: &str) -> Option<DType> {
    NAMES
        .iter()
        .find(|(_, known, _)| *known == name)
        .map(|row| row.0)
}

/// What safetensors calls `dtype`.
pub(super) fn to_safetensors(dtype: DType) -> &'static str {
    row(dtype).1
}

/// The type of a code such as `f4`, without its sign of byte order.
pub(super) fn of_npy(code: &str) -> Option<DType> {
    NAMES
        .iter()
        .find(|(_, _, known)| *known == Some(code))
        .map(|row| row.0)
}

/// The code of `dtype`, if NumPy has it.
pub(super) fn to_npy(dtype: DType) -> Option<&'static str> {
    row(dtype).2
}

fn row(dtype: DType) -> &'static (DType, &'static str, Option<&'static str>) {
    NAMES
        .iter()
        .find(|(known, ..)| *known == dtype)
        .expect("every type has a row, which a test checks")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_has_one_name_in_each_format() {
        for dtype in DType::ALL {
            assert_eq!(of_safetensors(to_safetensors(dtype)), Some(dtype));
            match to_npy(dtype) {
                Some(code) => assert_eq!(of_npy(code), Some(dtype)),
                None => assert_eq!(dtype, DType::BF16),
            }
        }
    }
}
