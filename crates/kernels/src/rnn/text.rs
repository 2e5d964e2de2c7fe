//! The text of recurrent layers.

use std::fmt::Write;

use streampool_device::{Cell, DType};

use super::{Form, Rnn, launch_sums};
use crate::text::{
    Buffer, Dialect, Field, KernelText, SharedArray, WORDS, compute_type, constants, elements,
    factor, storage_type, tiles,
};

const CELLS: [&str; 5] = ["TANH", "RELU", "GRU_BEFORE", "GRU_AFTER", "LSTM"];

fn number_of(cell: Cell) -> usize {
    match cell {
        Cell::Tanh => 0,
        Cell::Relu => 1,
        Cell::Gru { reset_after: false } => 2,
        Cell::Gru { reset_after: true } => 3,
        Cell::Lstm => 4,
    }
}

/// Says how tiles of these elements are multiplied.
fn multiply_tiles(dtype: DType) -> &'static str {
    match dtype {
        DType::BF16 => "#define MULTIPLY_TILES multiply_bf16\n",
        _ => "#define MULTIPLY_TILES multiply_f16\n",
    }
}

impl Rnn {
    pub(crate) fn text(&self, dialect: Dialect) -> Option<KernelText> {
        let is_refused = match dialect {
            Dialect::Metal => {
                self.dtype == DType::F64 || matches!(self.form, Form::LaunchTiles { .. })
            }
            // Its matrices are others.
            Dialect::Cuda => matches!(self.form, Form::Matrices { .. }),
        };
        if is_refused {
            return None;
        }
        let number = compute_type(self.dtype);
        let mut functions = String::new();
        if matches!(self.form, Form::Matrices { .. }) {
            functions.push_str("#include <metal_simdgroup_matrix>\n");
        }
        functions.push_str(&self.ends(number));
        if number == "f32" {
            functions.push_str(tiles(dialect));
        }
        functions.push_str(include_str!("functions.h"));
        let sequences = self.form.sequences() as u32;
        let pitch = self.form.pitch() as u32;
        constants(
            &mut functions,
            &[("SEQUENCES", sequences), ("PITCH", pitch)],
        );
        if let Form::Tiles { width, tiles } | Form::Matrices { width, tiles } = self.form {
            constants(
                &mut functions,
                &[("WIDTH", width.into()), ("TILES", tiles.into())],
            );
            functions.push_str("#define THREADS threads\n");
        }
        let words = 2 * self.form.sequences() * self.form.pitch() / 8;
        let words = SharedArray::new("Words", "words", words);
        let (entry, body, shared) = match self.form {
            Form::Tiles { .. } => {
                functions.push_str(multiply_tiles(self.dtype));
                functions.push_str(WORDS);
                ("rnn_tiles", include_str!("tiles_body.h"), vec![words])
            }
            Form::Matrices { .. } => {
                functions.push_str(factor(self.dtype));
                functions.push_str(WORDS);
                functions.push_str(include_str!("matrices_functions.h"));
                let simdgroups = self.form.threads() as usize / 32;
                let strips = simdgroups * self.cell.gates() * 64;
                let shared = vec![words, SharedArray::new("f32", "strips", strips)];
                ("rnn_matrices", include_str!("matrices_body.h"), shared)
            }
            Form::Launches { run, vector } => {
                constants(
                    &mut functions,
                    &[
                        ("WARPS", self.form.threads() / 32),
                        ("RUN", run.into()),
                        ("VECTOR", vector.into()),
                        ("PART", vector.min(4).into()),
                    ],
                );
                functions.push_str("#define STATE_BEFORE(at) current[at]\n");
                functions.push_str("#define KEEP_STATE(at, after) next[at] = after;\n");
                let body = concat!(
                    include_str!("step_body.h"),
                    include_str!("step_before.h"),
                    include_str!("step_end.h")
                );
                ("rnn_step", body, Vec::new())
            }
            Form::LaunchTiles { tiles, ahead } => {
                let warps = self.form.threads() / 32;
                let is_split = self.dtype == DType::F32;
                let vector = 16 / self.dtype.size() as u32;
                constants(
                    &mut functions,
                    &[
                        ("WARPS", warps),
                        ("TILES", tiles.into()),
                        ("VECTOR", vector),
                        ("AHEAD", ahead.into()),
                        ("OF_ROUND", warps * 4 * vector),
                        ("IS_SPLIT", is_split.into()),
                    ],
                );
                functions.push_str(match is_split {
                    true => concat!(
                        include_str!("../matmul/split_numbers.h"),
                        include_str!("split_functions.h")
                    ),
                    false => multiply_tiles(self.dtype),
                });
                functions.push_str("#define STATE_BEFORE(at) own_states[at]\n");
                functions.push_str(
                    "#define KEEP_STATE(at, after) own_states[at] = after; next[at] = stored(after);\n",
                );
                let parts = SharedArray::new("f32", "parts", launch_sums(self.cell, tiles));
                let body = concat!(
                    include_str!("step_tiles_begin.h"),
                    include_str!("step_before.h"),
                    include_str!("step_tiles_body.h"),
                    include_str!("step_end.h")
                );
                ("rnn_step_tiles", body, vec![parts])
            }
            Form::Sums {
                units,
                run,
                one_unit,
                shared,
            } => {
                let bytes = if number == "f64" { 8 } else { 4 };
                let vector = u32::from(run).min(16 / bytes);
                let at_once = self.cell.gates() == 4 && bytes == 4;
                constants(
                    &mut functions,
                    &[
                        ("GATES_AT_ONCE", at_once.into()),
                        ("UNITS", units.into()),
                        ("RUN", run.into()),
                        ("VECTOR", vector),
                        ("ONE_UNIT", one_unit.into()),
                        ("STATES_SHARED", (shared > 0).into()),
                    ],
                );
                let (space, barrier) = match (shared, dialect) {
                    (1.., _) => ("SHARED", "BARRIER()"),
                    (0, Dialect::Cuda) => ("GLOBAL", "BARRIER()"),
                    (0, Dialect::Metal) => ("GLOBAL", "threadgroup_barrier(mem_flags::mem_device)"),
                };
                let _ = writeln!(functions, "#define STATE {space}");
                let _ = writeln!(functions, "#define STATE_BARRIER() {barrier}");
                functions.push_str(include_str!("sums_functions.h"));
                let length = usize::from(shared) * 1024 / (bytes * vector) as usize;
                let states = SharedArray::new("Run", "states", length);
                let shared = (shared > 0).then_some(states).into_iter().collect();
                ("rnn_sums", include_str!("sums_body.h"), shared)
            }
        };
        Some(KernelText {
            entry,
            buffers: self.buffers(number),
            params: self.fields(),
            shared,
            threads: Some(self.form.threads()),
            functions,
            body: body.to_owned(),
        })
    }

    /// Begins the functions: what elements are, and what there is.
    fn ends(&self, number: &str) -> String {
        let mut text = elements(self.dtype, number);
        let short = u32::from(number == "f32");
        let _ = writeln!(text, "#define SHORT {short}");
        for (index, name) in CELLS.iter().enumerate() {
            let _ = writeln!(text, "#define {name} {index}");
        }
        let gates = self.cell.gates();
        let first = match self.cell {
            Cell::Gru { reset_after: false } => 2,
            _ => gates,
        };
        let _ = writeln!(text, "#define CELL {}", number_of(self.cell));
        let _ = writeln!(text, "#define GATES {gates}\n#define FIRST_GATES {first}u");
        let given = self.given;
        for (name, given) in [
            ("BIAS", given.bias),
            ("PEEPHOLE", given.peephole),
            ("LENGTHS", given.lengths),
            ("HIDDEN", given.hidden),
            ("CELL", given.cell),
            ("LAST_HIDDEN", given.last_hidden),
            ("LAST_CELL", given.last_cell),
        ] {
            let _ = writeln!(text, "#define HAS_{name} {}", u32::from(given));
        }
        text
    }

    /// The operands that are walked by strides, in their order, each with the names of its axes.
    fn walked(&self) -> impl Iterator<Item = (&'static str, &'static [&'static str])> {
        const ROWS: &[&str] = &["direction", "row"];
        const STATE: &[&str] = &["direction", "sequence", "unit"];
        let given = self.given;
        let tiles = !matches!(self.form, Form::Sums { .. });
        [
            (tiles, "weights", &["direction", "row", "column"][..]),
            (given.bias, "bias", ROWS),
            (given.peephole, "peephole", ROWS),
            (given.lengths, "lengths", &["row"]),
            (given.hidden, "hidden", STATE),
            (given.cell, "cell", STATE),
            (true, "dst", &["step", "direction", "sequence", "unit"]),
            (given.last_hidden, "last_hidden", STATE),
            (given.last_cell, "last_cell", STATE),
        ]
        .into_iter()
        .filter(|(given, ..)| *given)
        .map(|(_, name, axes)| (name, axes))
    }

    fn buffers(&self, number: &'static str) -> Vec<Buffer> {
        let stored = storage_type(self.dtype);
        let mut buffers = vec![
            Buffer::read("projected", number),
            Buffer::read("weights", stored),
        ];
        let others = self.walked().filter(|(name, _)| *name != "weights");
        buffers.extend(others.map(|(name, _)| match name {
            "lengths" => Buffer::read(name, "i32"),
            "dst" | "last_hidden" | "last_cell" => Buffer::write(name, stored),
            _ => Buffer::read(name, stored),
        }));
        match self.form {
            Form::Sums { shared: 0, .. } => buffers.push(Buffer::write("states", number)),
            Form::Launches { .. } | Form::LaunchTiles { .. } => {
                let is_tiles = matches!(self.form, Form::LaunchTiles { .. });
                let multiplied = if is_tiles { stored } else { number };
                buffers.push(Buffer::read("current", multiplied));
                buffers.push(Buffer::write("next", multiplied));
                buffers.extend(is_tiles.then(|| Buffer::write("own_states", number)));
                let cells = (self.cell == Cell::Lstm).then(|| Buffer::write("own_cells", number));
                buffers.extend(cells);
            }
            _ => {}
        }
        buffers
    }

    fn fields(&self) -> Vec<Field> {
        let mut fields = Vec::new();
        for (name, axes) in self.walked() {
            let parts = ["at"].iter().chain(axes);
            fields.extend(parts.map(|part| Field::new("i64", format!("{name}_{part}"))));
        }
        let sizes = ["steps", "batch", "hidden", "parts", "reverse"];
        fields.extend(sizes.map(|name| Field::new("u32", name)));
        if matches!(self.form, Form::Launches { .. } | Form::LaunchTiles { .. }) {
            fields.push(Field::new("u32", "turn"));
        }
        fields
    }
}
