//! What the two forms for few rows share.

use streampool_device::DType;

use crate::text::Field;

/// The most rows of these forms.
pub(super) const MOST_ROWS: usize = 16;

/// The parameters of both forms.
pub(super) fn fields() -> Vec<Field> {
    let wide = [
        "a_at",
        "b_at",
        "out_at",
        "bias_at",
        "a_batch",
        "b_batch",
        "out_batch",
        "bias_batch",
        "b_line",
        "out_row",
        "out_column",
        "bias_row",
        "bias_column",
    ];
    let mut fields: Vec<Field> = wide.map(|name| Field::new("i64", name)).into();
    fields.extend(["a_row", "m", "n", "k"].map(|name| Field::new("u32", name)));
    fields.push(Field::new("f32", "alpha"));
    fields
}

/// Begins the functions of both forms: the words that `width` elements are moved as, and what they hold.
pub(super) fn words(dtype: DType, width: u32) -> String {
    let bytes = width * dtype.size() as u32;
    let word = if bytes == 2 { "u16" } else { "u32" };
    let element = match dtype {
        DType::F32 => "bits_f32(word)",
        _ => "loaded(u16(index == 0 ? word : word >> 16))",
    };
    let count = bytes.div_ceil(4);
    format!(
        "typedef {word} LineWord;\n#define WORDS {count}u\n\
         FUNCTION f32 word_element(u32 word, u32 index) {{ return {element}; }}\n"
    )
}

/// The rows that a kernel for `rows` is made for.
pub(super) fn rounded_rows(rows: usize) -> u32 {
    rows.next_power_of_two() as u32
}
