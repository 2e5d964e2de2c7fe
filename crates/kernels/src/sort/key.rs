//! Elements as keys: unsigned numbers in the wanted order.

use streampool_device::DType;

use crate::text::storage_type;

/// Bytes of a key.
pub(super) const fn bytes(dtype: DType) -> usize {
    if dtype.size() == 8 { 8 } else { 4 }
}

/// The type of keys.
pub(super) const fn ty(dtype: DType) -> &'static str {
    if dtype.size() == 8 { "u64" } else { "u32" }
}

/// What no key is larger than.
pub(super) const fn last(dtype: DType) -> &'static str {
    if dtype.size() == 8 {
        "~u64(0)"
    } else {
        "0xffffffffu"
    }
}

/// The function `key_of`: NaN comes behind everything, and zero is zero whatever its sign. Falling keys are those
/// with all bits turned over.
pub(super) fn function(dtype: DType, descending: bool) -> String {
    let (key, stored) = (ty(dtype), storage_type(dtype));
    let bits = 8 * dtype.size();
    let mask = match bits {
        64 => "~u64(0)".to_owned(),
        _ => format!("{:#x}u", u32::MAX >> (32 - bits)),
    };
    let sign = format!("({key}(1) << {})", bits - 1);
    let rising = match dtype {
        DType::Bool => "stored != 0 ? 1 : 0".to_owned(),
        DType::F32 => float("f32_bits(stored)", &sign, "0x7f800000u", &mask, key),
        DType::F64 => float("f64_bits(stored)", &sign, "0x7ff0000000000000", &mask, key),
        DType::F16 => float("u32(stored)", &sign, "0x7c00u", &mask, key),
        DType::BF16 => float("u32(stored)", &sign, "0x7f80u", &mask, key),
        _ if dtype.is_signed() => format!("({key}(stored) & {mask}) ^ {sign}"),
        _ => format!("{key}(stored)"),
    };
    let turned = if descending {
        format!(" ^ {mask}")
    } else {
        String::new()
    };
    format!(
        "FUNCTION {key} rising_key({stored} stored) {{ return {rising}; }}\n\
         FUNCTION {key} key_of({stored} stored) {{ return rising_key(stored){turned}; }}\n"
    )
}

fn float(bits: &str, sign: &str, infinity: &str, mask: &str, key: &str) -> String {
    let magnitude = format!("({bits} & ~{sign})");
    format!(
        "{magnitude} > {infinity} ? {mask}\n    \
         : {bits} == {magnitude} || {magnitude} == {key}(0) ? {magnitude} | {sign}\n    \
         : ~{bits} & {mask}"
    )
}
