//! Element types: how each lies in memory, in what it is computed, and how one becomes another.

use streampool_device::{Activation, DType};

/// The type of a stored element.
pub const fn storage_type(dtype: DType) -> &'static str {
    match dtype {
        DType::F32 => "f32",
        DType::F64 => "f64",
        DType::F16 | DType::BF16 => "u16",
        DType::I8 => "i8",
        DType::U8 | DType::Bool => "u8",
        DType::I16 => "i16",
        DType::U16 => "u16",
        DType::I32 => "i32",
        DType::U32 => "u32",
        DType::I64 => "i64",
        DType::U64 => "u64",
    }
}

/// A type that holds the bits of elements of `size` bytes.
pub(crate) const fn bits_type(size: usize) -> &'static str {
    match size {
        1 => "u8",
        2 => "u16",
        4 => "u32",
        _ => "i64",
    }
}

/// The type an element is computed in.
pub const fn compute_type(dtype: DType) -> &'static str {
    match dtype {
        DType::F16 | DType::BF16 => "f32",
        DType::Bool => "bool",
        other => storage_type(other),
    }
}

/// The element that `stored`, an expression of the storage type, holds, as the type it is computed in.
pub fn load(dtype: DType, stored: &str) -> String {
    match dtype {
        DType::F16 => format!("load_f16({stored})"),
        DType::BF16 => format!("load_bf16({stored})"),
        DType::Bool => format!("({stored} != 0)"),
        _ => stored.to_owned(),
    }
}

/// What is stored for `value`, an expression of the type the element is computed in.
pub fn store(dtype: DType, value: &str) -> String {
    match dtype {
        DType::F16 => format!("store_f16({value})"),
        DType::BF16 => format!("store_bf16({value})"),
        DType::Bool => format!("u8(({value}) ? 1 : 0)"),
        _ => value.to_owned(),
    }
}

/// What is stored as `to` for `value`, an expression of the type that `from` is computed in. It rounds once.
pub fn store_as(from: DType, to: DType, value: &str) -> String {
    if !matches!(to, DType::F16 | DType::BF16) {
        return store(to, &cast(from, to, value));
    }
    match from {
        DType::F32 | DType::F16 | DType::BF16 | DType::F64 => store(to, value),
        DType::I32 | DType::I64 => store(to, &format!("cut_to_odd(i64({value}))")),
        DType::U32 | DType::U64 => store(to, &format!("cut_to_odd(u64({value}))")),
        DType::I8 | DType::U8 | DType::I16 | DType::U16 | DType::Bool => {
            store(to, &format!("f32({value})"))
        }
    }
}

/// `value`, an expression of the type that `from` is computed in, as `to`, in the type that is computed in.
pub fn cast(from: DType, to: DType, value: &str) -> String {
    if from == to {
        return value.to_owned();
    }
    match to {
        DType::F16 | DType::BF16 => load(to, &store_as(from, to, value)),
        DType::Bool => format!("({value} != 0)"),
        DType::F32 if compute_type(from) == "f32" => value.to_owned(),
        DType::F32 => format!("f32({value})"),
        DType::F64 => format!("f64({value})"),
        whole if from.is_float() => format!("to_{}({value})", whole.name()),
        whole => format!("{}({value})", whole.name()),
    }
}

/// Begins the functions of a kernel that computes in `number`: the types `Stored` and `Number`, and `loaded` and `stored`
/// between them.
pub(crate) fn elements(dtype: DType, number: &str) -> String {
    let (ty, loaded, stored) = (
        storage_type(dtype),
        load(dtype, "element"),
        store(dtype, "number"),
    );
    format!(
        "typedef {ty} Stored;\ntypedef {number} Number;\n\
         FUNCTION Number loaded(Stored element) {{ return {loaded}; }}\n\
         FUNCTION Stored stored(Number number) {{ return {stored}; }}\n"
    )
}

/// The activation of what a text calls `value`.
pub(crate) fn activated(activation: Activation) -> &'static str {
    match activation {
        Activation::None => "value",
        Activation::Relu => "act_relu(value)",
        Activation::Gelu => "act_gelu(value)",
        Activation::GeluTanh => "act_gelu_tanh(value)",
        Activation::Silu => "act_silu(value)",
        Activation::Sigmoid => "act_sigmoid(value)",
        Activation::Tanh => "act_tanh(value)",
        Activation::HardSwish => "act_hard_swish(value)",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn casts_round_once_and_follow_the_rules() {
        let cases = [
            (DType::F64, DType::BF16, "load_bf16(store_bf16(x))"),
            (
                DType::I32,
                DType::F16,
                "load_f16(store_f16(cut_to_odd(i64(x))))",
            ),
            (DType::F16, DType::F32, "x"),
            (DType::BF16, DType::I8, "to_i8(x)"),
            (DType::I64, DType::U8, "u8(x)"),
            (DType::I16, DType::BF16, "load_bf16(store_bf16(f32(x)))"),
            (
                DType::U64,
                DType::F16,
                "load_f16(store_f16(cut_to_odd(u64(x))))",
            ),
            (DType::F64, DType::U64, "to_u64(x)"),
            (DType::U64, DType::I16, "i16(x)"),
            (DType::Bool, DType::F16, "load_f16(store_f16(f32(x)))"),
            (DType::F32, DType::Bool, "(x != 0)"),
        ];
        for (from, to, text) in cases {
            assert_eq!(cast(from, to, "x"), text, "{from} to {to}");
        }
        assert_eq!(
            store_as(DType::F32, DType::Bool, "x"),
            "u8(((x != 0)) ? 1 : 0)"
        );
    }
}
