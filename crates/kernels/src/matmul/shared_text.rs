//! Text that all products share: how factors are read and results are written.

use std::fmt::Write;

use streampool_device::DType;

use super::ends::Ends;
use crate::text::{Buffer, Field, activated, compute_type, load, storage_type, store};

/// The type products of `dtype` are summed in: integers wrap, so they are unsigned.
pub(super) fn number_type(dtype: DType) -> &'static str {
    match dtype.is_float() {
        true => compute_type(dtype),
        false => "u32",
    }
}

/// The type of `alpha`; `None` for integers, which have none.
pub(super) fn alpha_type(dtype: DType) -> Option<&'static str> {
    dtype.is_float().then(|| compute_type(dtype))
}

/// The buffers, in the order of [`Problem::operands`](super::Problem::operands).
pub(super) fn buffers(ends: Ends) -> Vec<Buffer> {
    let mut buffers = vec![
        Buffer::read("a", storage_type(ends.dtype)),
        Buffer::read("b", storage_type(ends.dtype)),
    ];
    if ends.bias {
        buffers.push(Buffer::read("bias", storage_type(ends.result)));
    }
    buffers.push(Buffer::write("out", storage_type(ends.result)));
    buffers
}

/// The parameters of how an operand is walked.
pub(super) fn walk_fields(operand: &str) -> [Field; 3] {
    ["at", "row", "column"].map(|part| Field::new("i64", format!("{operand}_{part}")))
}

/// Begins the functions of a product: its types, and from a sum to what is stored.
pub(super) fn ends(ends: Ends) -> String {
    let Ends {
        dtype,
        result,
        activation,
        bias,
    } = ends;
    let number = number_type(dtype);
    let bias_number = match bias {
        true => format!(
            "Number({})",
            load(
                result,
                "bias[bias_at + i64(r) * p.bias_row + i64(c) * p.bias_column]"
            )
        ),
        false => "Number(0)".to_owned(),
    };
    let alpha = alpha_type(dtype).map_or("Number(1)", |_| "p.alpha");
    let activated = activated(activation);
    let to_store = match dtype.is_float() {
        true => store(result, activated),
        false => format!("{}(value)", storage_type(result)),
    };
    let mut text = String::new();
    let _ = writeln!(text, "typedef {} Stored;", storage_type(dtype));
    let _ = writeln!(text, "typedef {} Result;", storage_type(result));
    let _ = writeln!(text, "typedef {number} Number;");
    let _ = writeln!(
        text,
        "FUNCTION Number loaded(Stored stored) {{ return Number({}); }}",
        load(dtype, "stored")
    );
    let _ = writeln!(
        text,
        "FUNCTION Result finished(Number value) {{ return {to_store}; }}"
    );
    let _ = writeln!(text, "#define HAS_BIAS {}", u32::from(bias));
    let _ = writeln!(text, "#define ALPHA {alpha}");
    let _ = writeln!(text, "#define BIAS(r, c) {bias_number}");
    let _ = writeln!(
        text,
        "#define OUT(r, c) out[out_at + i64(r) * p.out_row + i64(c) * p.out_column]"
    );
    text
}
