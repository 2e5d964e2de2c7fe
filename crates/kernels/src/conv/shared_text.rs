//! Text that all convolutions share: how elements are read and results are written.

use std::fmt::Write;

use smallvec::SmallVec;
use streampool_device::Conv;

use super::ends::Ends;
use crate::dispatch::{Operand, Params, operands_of};
use crate::spatial;
use crate::text::{Buffer, Field, activated, compute_type, load, storage_type, store};

/// The buffers, in the order of [`operands`].
pub(super) fn buffers(ends: Ends) -> Vec<Buffer> {
    let stored = storage_type(ends.dtype);
    let mut buffers = vec![Buffer::read("src", stored), Buffer::read("weight", stored)];
    if ends.bias {
        buffers.push(Buffer::read("bias", stored));
    }
    buffers.push(Buffer::write("dst", stored));
    buffers
}

/// The operands of a launch.
pub(super) fn operands(op: &Conv) -> SmallVec<[Operand; 4]> {
    operands_of([&op.src, &op.weight], op.bias.as_ref(), &op.dst)
}

/// Appends where the operands lie, and how the window slides: over the source, or transposed over the result.
pub(super) fn places(params: Params, wide: bool, op: &Conv) -> Params {
    let views = [&op.src, &op.weight, &op.dst].into_iter();
    let params = views.fold(params, |params, view| spatial::walk(params, wide, view));
    let params = spatial::window(params, &op.window, spatial::shape(&op.src));
    match &op.bias {
        Some(bias) => {
            let layout = bias.layout();
            params
                .i64(layout.offset() as i64)
                .i64(layout.strides()[0] as i64)
        }
        None => params,
    }
}

/// The fields of [`places`].
pub(super) fn place_fields(wide: bool, ends: Ends) -> Vec<Field> {
    let operands = ["src", "weight", "dst"].into_iter();
    let mut fields: Vec<Field> = operands
        .flat_map(|operand| spatial::walk_fields(wide, operand))
        .collect();
    fields.extend(spatial::window_fields());
    if ends.bias {
        fields.extend(["bias_at", "bias_step"].map(|name| Field::new("i64", name)));
    }
    fields
}

/// Types, and what is done from an element to a number and from a sum to what is stored.
pub(super) fn ends(ends: Ends) -> String {
    let activated = activated(ends.activation);
    let bias = match ends.bias {
        true => format!(
            "Number({})",
            load(ends.dtype, "bias[p.bias_at + i64(channel) * p.bias_step]")
        ),
        false => "Number(0)".to_owned(),
    };
    let mut text = String::new();
    let _ = writeln!(text, "typedef {} Stored;", storage_type(ends.dtype));
    let _ = writeln!(text, "typedef {} Number;", compute_type(ends.dtype));
    let _ = writeln!(
        text,
        "FUNCTION Number loaded(Stored stored) {{ return {}; }}",
        load(ends.dtype, "stored")
    );
    let _ = writeln!(
        text,
        "FUNCTION Stored finished(Number value) {{ return {}; }}",
        store(ends.dtype, activated)
    );
    let _ = writeln!(text, "#define BIAS(channel) {bias}");
    let _ = writeln!(text, "#define TRANSPOSED {}", u32::from(ends.transposed));
    text.push_str(include_str!("window.h"));
    text
}
