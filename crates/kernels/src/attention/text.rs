//! The text of attention.

use std::fmt::Write;

use streampool_device::DType;

use super::few::Few;
use super::form::{
    Attention, Form, MATRIX_ROWS, Mask, SIMDGROUPS, SINGLE_COLUMNS, TILE_GAP, block_lengths,
};
use crate::text::{
    Buffer, Dialect, Field, KernelText, SharedArray, WORDS, compute_type, constants, elements,
    factor, storage_type, tiles,
};

/// Unused numbers behind each line of scores: lines begin in different banks, and stay aligned.
const STRIP_GAP: u32 = 4;
/// Unused elements behind each line of weights, for the same reason.
const WEIGHT_GAP: u32 = 8;
impl Attention {
    pub(crate) fn text(&self, dialect: Dialect) -> Option<KernelText> {
        let number = compute_type(self.dtype);
        let is_refused = match dialect {
            Dialect::Metal => self.dtype == DType::F64,
            // Its matrices are others.
            Dialect::Cuda => matches!(self.form, Form::Matrices { .. }),
        };
        if is_refused {
            return None;
        }
        let mut functions = String::new();
        if matches!(self.form, Form::Matrices { .. }) {
            functions.push_str("#include <metal_simdgroup_matrix>\n");
        }
        functions.push_str(&self.ends(number));
        if self.form.by_two() {
            functions.push_str(tiles(dialect));
        }
        functions.push_str(include_str!("functions.h"));
        let (entry, body, shared) = match self.form {
            Form::Tiles {
                widths,
                keys,
                tiles,
                dense,
            } => {
                let [width, value_width] = widths.map(u32::from);
                let keys = u32::from(keys);
                constants(
                    &mut functions,
                    &[
                        ("WIDTH", width),
                        ("VALUE_WIDTH", value_width),
                        ("KEYS", keys),
                        ("ROW_TILES", tiles.into()),
                        ("DENSE", dense.into()),
                        ("BRAIN", (self.dtype == DType::BF16).into()),
                    ],
                );
                functions.push_str(WORDS);
                functions.push_str(include_str!("tensor_functions.h"));
                functions.push_str(include_str!("fetch_functions.h"));
                let array = |name, width| {
                    SharedArray::new("Words", name, (keys * (width + TILE_GAP) / 8) as usize)
                };
                let shared = vec![array("key_words", width), array("value_words", value_width)];
                ("attention_tiles", include_str!("tensor_body.h"), shared)
            }
            Form::Matrices { widths, dense } => {
                let [width, value_width] = widths.map(u32::from);
                constants(
                    &mut functions,
                    &[
                        ("WIDTH", width),
                        ("VALUE_WIDTH", value_width),
                        ("SIMDGROUPS", SIMDGROUPS),
                        ("KEYS", MATRIX_ROWS),
                        ("STRIP_GAP", STRIP_GAP),
                        ("WEIGHT_GAP", WEIGHT_GAP),
                        ("DENSE", dense.into()),
                    ],
                );
                functions.push_str(factor(self.dtype));
                functions.push_str(WORDS);
                functions.push_str(include_str!("matrices_functions.h"));
                functions.push_str(include_str!("fetch_functions.h"));
                let array = |ty, name, length| SharedArray::new(ty, name, length as usize);
                let line = width.max(value_width) + TILE_GAP;
                let shared = vec![
                    array("Words", "words", MATRIX_ROWS * line / 8),
                    array("f32", "strips", MATRIX_ROWS * (MATRIX_ROWS + STRIP_GAP)),
                    array(
                        "u16",
                        "all_weights",
                        MATRIX_ROWS * (MATRIX_ROWS + WEIGHT_GAP),
                    ),
                ];
                (
                    "attention_matrices",
                    include_str!("matrices_body.h"),
                    shared,
                )
            }
            Form::Blocks { width, keys, depth } => {
                let [width, keys, depth] = [width, keys.into(), depth.into()].map(u32::from);
                let run = if width < 64 { 2 } else { 4 };
                constants(
                    &mut functions,
                    &[
                        ("VALUE_WIDTH", width),
                        ("VALUE_RUN", run),
                        ("KEYS", keys),
                        ("DEPTH", depth),
                    ],
                );
                functions.push_str(include_str!("blocks_functions.h"));
                let lengths = block_lengths(width, keys, depth);
                let array = |ty, name, length| SharedArray::new(ty, name, length as usize);
                let shared = vec![
                    array("RowRun", "query_runs", lengths[0] / 4),
                    array("f32", "key_tile", lengths[1]),
                    array("RowRun", "weight_runs", lengths[2] / 4),
                    array("ValueRun", "value_runs", lengths[3] / run),
                ];
                ("attention_blocks", include_str!("blocks_body.h"), shared)
            }
            Form::Few(few) => {
                constants(&mut functions, &few.constants(self.dtype));
                functions.push_str(include_str!("few_functions.h"));
                ("attention_few", include_str!("few_body.h"), few.shared())
            }
            Form::Merge => ("attention_merge", include_str!("merge_body.h"), Vec::new()),
            Form::Single => {
                constants(&mut functions, &[("COLUMNS", SINGLE_COLUMNS as u32)]);
                let weights = SharedArray::new(number, "weights", 32);
                (
                    "attention_single",
                    include_str!("single_body.h"),
                    vec![weights],
                )
            }
        };
        Some(KernelText {
            entry,
            buffers: self.buffers(),
            params: self.fields(number),
            shared,
            threads: Some(self.form.threads()),
            functions,
            body: body.to_owned(),
        })
    }

    /// Begins the functions: what elements are, and what there is.
    fn ends(&self, number: &str) -> String {
        let mut text = elements(self.dtype, number);
        let (unit, exp, most) = match self.form.by_two() {
            true => ("1.4426950408889634f", "short_exp2", "2.3e38f"),
            false => ("Number(1)", "m_exp", "INFINITE"),
        };
        let _ = writeln!(
            text,
            "#define UNIT {unit}\n#define EXP {exp}\n#define MOST {most}"
        );
        let _ = writeln!(text, "#define INFINITE infinity_{number}()");
        let _ = writeln!(text, "#define NOT_A_NUMBER nan_{number}()");
        let _ = writeln!(text, "#define MASK {}", self.mask as u32);
        let of_keys = u32::from(self.mask_of_keys);
        let _ = writeln!(text, "#define MASK_OF_KEYS {of_keys}");
        let _ = writeln!(text, "typedef {} MaskElement;", self.mask_type());
        let _ = writeln!(text, "#define CAUSAL {}", u32::from(self.causal));
        let _ = writeln!(text, "#define SOFTCAP {}", u32::from(self.softcap));
        text
    }

    /// What elements of the mask are stored as.
    fn mask_type(&self) -> &'static str {
        match self.mask {
            Mask::Keep => "u8",
            _ => storage_type(self.dtype),
        }
    }

    /// What is read and written, in the order of the buffers.
    fn operands(&self) -> Vec<&'static str> {
        if self.form == Form::Merge {
            return vec!["part_ends", "part_sums", "out"];
        }
        let mut operands = vec!["query", "key", "value"];
        operands.extend((self.mask != Mask::None).then_some("mask"));
        match self.is_parted() {
            true => operands.extend(["part_ends", "part_sums"]),
            false => operands.push("out"),
        }
        operands
    }

    /// Whether another launch merges what this one leaves.
    fn is_parted(&self) -> bool {
        matches!(self.form, Form::Few(Few { parted: true, .. }))
    }

    fn buffers(&self) -> Vec<Buffer> {
        let stored = storage_type(self.dtype);
        let buffer = |name| match name {
            "out" => Buffer::write(name, stored),
            "part_ends" | "part_sums" if self.is_parted() => Buffer::write(name, "f32"),
            "part_ends" | "part_sums" => Buffer::read(name, "f32"),
            "mask" => Buffer::read(name, self.mask_type()),
            _ => Buffer::read(name, stored),
        };
        self.operands().into_iter().map(buffer).collect()
    }

    fn fields(&self, number: &'static str) -> Vec<Field> {
        let merges = self.form == Form::Merge;
        let walked = [
            ("query", !merges),
            ("key", !merges),
            ("value", !merges),
            ("mask", self.mask != Mask::None),
            ("out", true),
        ];
        let mut fields = Vec::new();
        for (operand, _) in walked.into_iter().filter(|(_, is_there)| *is_there) {
            let parts = ["at", "batch", "head", "row", "column"];
            fields.extend(parts.map(|part| Field::new("i64", format!("{operand}_{part}"))));
        }
        let sizes = |names: &[&str]| {
            let fields = names.iter().map(|&name| Field::new("u32", name));
            fields.collect::<Vec<_>>()
        };
        if merges {
            fields.extend(sizes(&["heads", "queries", "value_width", "parts"]));
            return fields;
        }
        fields.push(Field::new("i64", "distance"));
        fields.extend(sizes(&[
            "heads",
            "shares",
            "queries",
            "keys",
            "width",
            "value_width",
            "tiles",
        ]));
        fields.extend(["scale", "softcap"].map(|name| Field::new(number, name)));
        if matches!(self.form, Form::Few(_)) {
            fields.extend(sizes(&["rows", "parts", "part_keys"]));
        }
        fields
    }
}
