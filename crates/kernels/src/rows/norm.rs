//! Layer and RMS normalisation.

use streampool_device::{DType, MAX_RANK, Norm, NormKind, View};

use super::dims::{Dim, Dims};
use super::line::{Launch, Line, Sums};
use super::packs;
use crate::dispatch::{Limits, Plan};
use crate::text::{Buffer, Dialect, Field, KernelText, load, storage_type};

/// A kernel that normalises rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Normalisation {
    pub(super) line: Line,
    kind: NormKind,
    scaled: bool,
    biased: bool,
}

/// The launch of a normalisation.
pub(super) fn norm<K>(
    op: &Norm,
    limits: &Limits,
    kind: impl FnOnce(Normalisation) -> K,
) -> Plan<K> {
    let (from, to) = (op.src.layout().strides(), op.dst.layout().strides());
    let sizes = op.src.shape();
    let rows = Dims::collapsed((0..op.axis).map(|axis| Dim {
        size: sizes[axis],
        strides: [from[axis], to[axis]],
    }));
    // An operand that is not there is no obstacle to dimensions becoming one.
    let none = [0; MAX_RANK];
    let strides = |operand: &'_ Option<View>| -> [isize; MAX_RANK] {
        operand.map_or(none, |view| {
            let mut strides = none;
            strides[..view.layout().rank()].copy_from_slice(view.layout().strides());
            strides
        })
    };
    let (scale, bias) = (strides(&op.scale), strides(&op.bias));
    let inner = Dims::collapsed((op.axis..sizes.len()).map(|axis| Dim {
        size: sizes[axis],
        strides: [
            from[axis],
            to[axis],
            scale[axis - op.axis],
            bias[axis - op.axis],
        ],
    }));
    let length = inner.elements();
    let operands = [
        Some(&op.src),
        Some(&op.dst),
        op.scale.as_ref(),
        op.bias.as_ref(),
    ];
    let sums = Sums {
        added: op.added.as_ref(),
        sum: op.sum.as_ref(),
    };
    let Some(launch) = Launch::new(&rows, &inner, operands, sums, limits) else {
        return Plan::default();
    };
    let kernel = Normalisation {
        line: launch.line,
        kind: op.kind,
        scaled: op.scale.is_some(),
        biased: op.bias.is_some(),
    };
    launch.plan(kind(kernel), |params| {
        let params = params.i64(length as i64);
        match op.src.dtype() {
            DType::F64 => params.f64(op.epsilon),
            _ => params.f32(op.epsilon as f32),
        }
    })
}

impl Normalisation {
    pub(crate) fn text(&self, dialect: Dialect) -> Option<KernelText> {
        let (line, ty) = (&self.line, self.line.ty());
        let mut body = line.open();
        let (term, mut result) = match self.kind {
            NormKind::Layer => {
                body.push_str(&line.fold("mean", "Sum", "0", "value = x;"));
                body.push_str(&format!("    mean = mean / {ty}(p.count);\n"));
                // A held row stays centred.
                let result = if line.holds() {
                    "value = x * factor;"
                } else {
                    "value = (x - mean) * factor;"
                };
                ("x = x - mean; value = x * x;", result.to_owned())
            }
            NormKind::Rms => ("value = x * x;", "value = x * factor;".to_owned()),
        };
        body.push_str(&line.fold("square", "Sum", "0", term));
        body.push_str(&format!(
            "    const {ty} factor = {ty}(1) / m_sqrt(square / {ty}(p.count) + p.epsilon);\n"
        ));
        let stored = storage_type(line.dtype);
        let (mut buffers, mut others, mut prepare) = (Vec::new(), Vec::new(), String::new());
        for (there, name, at, operator) in [
            (self.scaled, "scale", "scale_from", "*"),
            (self.biased, "bias", "bias_from", "+"),
        ] {
            if there {
                buffers.push(Buffer::read(name, stored));
                others.push((at, name));
                let (pack, place) = (format!("{name}s"), format!("{name} + {at}"));
                prepare.push_str(&packs::read(&pack, line.pack, stored, &place));
                let loaded = load(line.dtype, &format!("{pack}.values[element]"));
                result.push_str(&format!(" value = value {operator} {loaded};"));
            }
        }
        body.push_str(&line.write(&others, &prepare, &result));
        let params = vec![Field::new("i64", "count"), Field::new(ty, "epsilon")];
        let operands = ["src", "dst", "scale", "bias"];
        line.text(dialect, "normalise", &operands, buffers, params, body)
    }
}
