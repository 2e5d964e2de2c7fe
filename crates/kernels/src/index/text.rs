//! The text of kernels that pick and put by index.

use super::{Action, Index, THREADS, combine};
use crate::rows::{dims, packs};
use crate::text::{Buffer, Changed, Dialect, Field, KernelText, atomics, bits_type, storage_type};

impl Index {
    /// Packs that a thread has under way.
    pub(super) fn in_flight(&self) -> usize {
        match self.action {
            Action::Pick(_) | Action::Replace(_) => 4,
            Action::Combine(..) => 1,
        }
    }

    pub(crate) fn text(&self, dialect: Dialect) -> Option<KernelText> {
        let ty = match self.action {
            Action::Pick(size) | Action::Replace(size) => bits_type(usize::from(size)),
            Action::Combine(dtype, _) => storage_type(dtype),
        };
        let mut functions = dims::FUNCTIONS.to_owned();
        functions += include_str!("position.h");
        if let Action::Combine(dtype, combine) = self.action {
            functions += atomics(dialect, Changed::Device);
            functions += &combine::put(dtype, combine, dialect)?;
        }
        let indices = Buffer::read("indices", storage_type(self.index));
        let picks = matches!(self.action, Action::Pick(_));
        let buffers = match picks {
            true => vec![
                Buffer::read("data", ty),
                indices,
                Buffer::write("picked", ty),
            ],
            false => vec![
                Buffer::read("picked", ty),
                indices,
                Buffer::write("data", ty),
            ],
        };
        Some(KernelText {
            entry: if picks { "gather" } else { "scatter" },
            buffers,
            params: self.fields(),
            threads: Some(THREADS),
            functions,
            body: self.body(ty),
            ..KernelText::default()
        })
    }

    fn fields(&self) -> Vec<Field> {
        let operands = ["picked", "indices", "data"];
        let mut fields = vec![Field::new("i64", "count")];
        fields.extend(operands.map(|operand| Field::new("i64", format!("{operand}_at"))));
        dims::fields(&mut fields, "place", self.class, &operands);
        fields.push(Field::new("i64", "apart"));
        for axis in 0..self.depth {
            fields.push(Field::new("i64", format!("size{axis}")));
            fields.push(Field::new("i64", format!("step{axis}")));
        }
        fields
    }

    fn body(&self, ty: &str) -> String {
        let resolved: String = (0..self.depth)
            .map(|axis| {
                format!(
                    "{{ const i64 found = position(i64(indices[at + {axis} * p.apart]), p.size{axis});\n\
                     inside = inside && found >= 0 && found < p.size{axis};\n\
                     datum += inside ? found * p.step{axis} : 0; }}\n"
                )
            })
            .collect();
        let (read, written) = self.moves(ty);
        format!(
            "const i64 step = i64(groups_x) * threads;\n\
             for (i64 first = i64(group_x) * threads + lane; first < p.count; first += {flight} * step) {{\n\
             Pack<{ty}, {pack}> elements[{flight}];\n\
             i64 targets[{flight}];\n\
             UNROLL for (u32 u = 0; u < {flight}; u++) {{\n\
             const i64 index = first + u * step;\n\
             if (index < p.count) {{\n\
             i64 picks = p.picked_at, at = p.indices_at, datum = p.data_at;\n\
             {locate}\
             bool inside = true;\n\
             {resolved}\
             {read}}}\n}}\n\
             UNROLL for (u32 u = 0; u < {flight}; u++) {{\n\
             const i64 index = first + u * step;\n\
             if (index < p.count) {{\n{written}}}\n}}\n}}\n",
            flight = self.in_flight(),
            pack = self.pack,
            locate = dims::locate(
                "place",
                self.class,
                "index",
                &[("picks", "picked"), ("at", "indices"), ("datum", "data")]
            ),
        )
    }

    /// Statements that read pack `u` and note where it goes, and that write it.
    fn moves(&self, ty: &str) -> (String, String) {
        let pack = self.pack;
        match self.action {
            Action::Pick(_) => (
                format!(
                    "targets[u] = picks;\n\
                     UNROLL for (u32 k = 0; k < {pack}; k++) elements[u].values[k] = {ty}(0);\n\
                     if (inside) {{ {read}elements[u] = loaded; }}\n",
                    read = packs::read("loaded", pack, ty, "data + datum"),
                ),
                packs::write("elements[u]", pack, "picked + targets[u]"),
            ),
            Action::Replace(_) | Action::Combine(..) => {
                let write = match self.action {
                    Action::Combine(..) => {
                        "put(data + targets[u], elements[u].values[0]);\n".to_owned()
                    }
                    _ => packs::write("elements[u]", pack, "data + targets[u]"),
                };
                (
                    format!(
                        "targets[u] = inside ? datum : -1;\n{read}elements[u] = loaded;\n",
                        read = packs::read("loaded", pack, ty, "picked + picks"),
                    ),
                    format!("if (targets[u] >= 0) {{ {write} }}\n"),
                )
            }
        }
    }
}
