//! The names that the protocol gives to element types.

use streampool::DType;

/// Each element type and its name. The protocol also has `BYTES`, for strings.
const NAMES: [(DType, &str); 13] = [
    (DType::Bool, "BOOL"),
    (DType::U8, "UINT8"),
    (DType::U16, "UINT16"),
    (DType::U32, "UINT32"),
    (DType::U64, "UINT64"),
    (DType::I8, "INT8"),
    (DType::I16, "INT16"),
    (DType::I32, "INT32"),
    (DType::I64, "INT64"),
    (DType::F16, "FP16"),
    (DType::BF16, "BF16"),
    (DType::F32, "FP32"),
    (DType::F64, "FP64"),
];

/// The name of the type of strings.
pub const BYTES: &str = "BYTES";
/// The number of the type of strings in a model's configuration.
pub const STRING: i32 = 13;

/// The protocol's name of a type.
pub fn name(dtype: DType) -> &'static str {
    let found = NAMES.iter().find(|(known, _)| *known == dtype);
    found.map_or("", |(_, name)| name)
}

/// The number of a type in a model's configuration.
pub fn number(dtype: DType) -> i32 {
    match dtype {
        DType::Bool => 1,
        DType::U8 => 2,
        DType::U16 => 3,
        DType::U32 => 4,
        DType::U64 => 5,
        DType::I8 => 6,
        DType::I16 => 7,
        DType::I32 => 8,
        DType::I64 => 9,
        DType::F16 => 10,
        DType::F32 => 11,
        DType::F64 => 12,
        DType::BF16 => 14,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_has_a_name_of_its_own() {
        let mut names: Vec<&str> = DType::ALL.into_iter().map(name).collect();
        names.push(BYTES);
        let mut numbers: Vec<i32> = DType::ALL.into_iter().map(number).collect();
        numbers.push(STRING);
        names.sort();
        numbers.sort();
        assert!(
            names
                .windows(2)
                .all(|pair| pair[0] != pair[1] && !pair[0].is_empty())
        );
        assert!(numbers.windows(2).all(|pair| pair[0] != pair[1]));
    }
}
