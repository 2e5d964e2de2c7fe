//! How an update and what it meets become one, though others change it at the same time.

use streampool_device::{Combine, DType};

use crate::text::{Dialect, compute_type, load, storage_type, store};

/// The function `put`, which combines a stored element with what is in its place; `None` if the dialect has no
/// way to do so.
pub(super) fn put(dtype: DType, combine: Combine, dialect: Dialect) -> Option<String> {
    let stored = storage_type(dtype);
    let wide = dtype.size() == 8;
    if wide && dialect == Dialect::Metal {
        return None;
    }
    let at_once = combine == Combine::Add && dtype.size() >= 4;
    if at_once {
        return Some(format!(
            "FUNCTION void put(GLOBAL {stored}* at, {stored} value) {{ add_at(at, value); }}\n"
        ));
    }
    // What does not change the smallest or the largest need not be put: it can only get smaller, or larger.
    let stays = match combine {
        Combine::Min | Combine::Max => "\n        if (wanted == old) return;",
        Combine::Replace | Combine::Add | Combine::Mul => "",
    };
    let combined = format!(
        "FUNCTION {stored} combined({stored} stored, {stored} value) {{\n    \
         const {ty} x = {x}, y = {y};\n    return {result};\n}}\n",
        ty = compute_type(dtype),
        x = load(dtype, "stored"),
        y = load(dtype, "value"),
        result = store(dtype, &combination(dtype, combine)),
    );
    let put = match dtype.size() {
        size @ (4 | 8) => {
            let bits = if size == 4 { "u32" } else { "u64" };
            let (to, from) = bits_of(dtype);
            format!(
                "FUNCTION void put(GLOBAL {stored}* at, {stored} value) {{
    GLOBAL {bits}* place = reinterpret_cast<GLOBAL {bits}*>(at);
    for ({bits} old = *place;;) {{
        const {bits} wanted = {to}(combined({from}(old), value));{stays}
        const {bits} found = swap_if(place, old, wanted);
        if (found == old) return;
        old = found;
    }}
}}
"
            )
        }
        // A part of a word: the rest of it is put back as it is, or, if it is not any more, all is done again.
        size => {
            let (bits, mask) = if size == 1 {
                ("u8", "0xffu")
            } else {
                ("u16", "0xffffu")
            };
            format!(
                "FUNCTION void put(GLOBAL {stored}* at, {stored} value) {{
    const u64 address = reinterpret_cast<u64>(at);
    const u32 shift = u32(address & 3) * 8;
    GLOBAL u32* place = reinterpret_cast<GLOBAL u32*>(address & ~u64(3));
    for (u32 old = *place;;) {{
        const u32 part = {bits}(combined({stored}(old >> shift), value));
        const u32 wanted = (old & ~({mask} << shift)) | part << shift;{stays}
        const u32 found = swap_if(place, old, wanted);
        if (found == old) return;
        old = found;
    }}
}}
"
            )
        }
    };
    Some(combined + &put)
}

/// The functions from a type to its bits and back.
fn bits_of(dtype: DType) -> (&'static str, &'static str) {
    match dtype {
        DType::F32 => ("f32_bits", "bits_f32"),
        DType::F64 => ("f64_bits", "bits_f64"),
        _ if dtype.size() == 4 => ("u32", storage_type(dtype)),
        _ => ("u64", storage_type(dtype)),
    }
}

/// What `x` and `y` become.
fn combination(dtype: DType, combine: Combine) -> String {
    let kind = if dtype.is_float() { "m" } else { "int" };
    match combine {
        Combine::Replace => "y".to_owned(),
        Combine::Add if dtype.is_float() => "x + y".to_owned(),
        Combine::Mul if dtype.is_float() => "x * y".to_owned(),
        Combine::Add => "int_add(x, y)".to_owned(),
        Combine::Mul => "int_mul(x, y)".to_owned(),
        Combine::Min => format!("{kind}_min(x, y)"),
        Combine::Max => format!("{kind}_max(x, y)"),
    }
}
