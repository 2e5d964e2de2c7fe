//! The text of kernels that sort.

use streampool_device::DType;

use super::{LEAST_OF_GROUP, MERGING, Sink, Sort, Step, key};
use crate::rows::dims;
use crate::text::{Buffer, Dialect, Field, KernelText, SharedArray, storage_type};

const OPERANDS: [&str; 3] = ["src", "values", "indices"];

impl Sort {
    pub(crate) fn text(&self, dialect: Dialect) -> Option<KernelText> {
        if self.dtype == DType::F64 && dialect == Dialect::Metal {
            return None;
        }
        let key = key::ty(self.dtype);
        let mut functions = format!("{}typedef {key} Key;\n", dims::FUNCTIONS);
        let (entry, threads, shared, body) = match self.step {
            Step::Elements(size) | Step::Candidates(size) => {
                functions += include_str!("block.h");
                let size = usize::from(size);
                let count = size.max(LEAST_OF_GROUP);
                let array = |ty, name| SharedArray::new(ty, name, count);
                let shared = vec![array(key, "keys"), array("u32", "places")];
                (
                    "sort_blocks_of_lines",
                    count / 2,
                    shared,
                    self.block_body(size, count),
                )
            }
            Step::Merge => {
                functions += include_str!("merge.h");
                ("merge_runs", MERGING, Vec::new(), self.merge_body())
            }
        };
        if matches!(self.step, Step::Elements(_)) {
            functions += &key::function(self.dtype, self.descending);
        }
        Some(KernelText {
            entry,
            buffers: self.buffers(),
            params: self.fields(),
            shared,
            threads: Some(threads as u32),
            functions,
            body,
        })
    }

    fn buffers(&self) -> Vec<Buffer> {
        let (stored, key) = (storage_type(self.dtype), key::ty(self.dtype));
        let mut buffers = Vec::new();
        if self.reads_source() {
            buffers.push(Buffer::read("src", stored));
        }
        if !matches!(self.step, Step::Elements(_)) {
            buffers.push(Buffer::read("from_keys", key));
            buffers.push(Buffer::read("from_places", "u32"));
        }
        match self.sink {
            Sink::Candidates => {
                buffers.push(Buffer::write("to_keys", key));
                buffers.push(Buffer::write("to_places", "u32"));
            }
            Sink::Results { places } => {
                buffers.push(Buffer::write("values", stored));
                buffers.extend(places.then(|| Buffer::write("indices", "i64")));
            }
        }
        buffers
    }

    fn fields(&self) -> Vec<Field> {
        let cut = if self.step == Step::Merge {
            "run"
        } else {
            "blocks"
        };
        let mut names: Vec<String> = ["lines", "length", cut, "keep", "kept"]
            .map(str::to_owned)
            .into();
        names.extend(OPERANDS.map(|operand| format!("{operand}_at")));
        names.extend(OPERANDS.map(|operand| format!("{operand}_step")));
        let mut fields: Vec<Field> = names
            .into_iter()
            .map(|name| Field::new("i64", name))
            .collect();
        dims::fields(&mut fields, "line", self.class, &OPERANDS);
        fields
    }

    /// Statements that find a line in source and results.
    fn locate(&self) -> String {
        let found = [("from", "src"), ("to", "values"), ("at", "indices")];
        format!(
            "i64 from = p.src_at, to = p.values_at, at = p.indices_at;\n{}",
            dims::locate("line", self.class, "line", &found)
        )
    }

    /// Statements that leave `key` and `place` as number `number` of what is left of `line`.
    fn leave(&self) -> String {
        match self.sink {
            Sink::Candidates => "to_keys[line * p.kept + number] = key;\n\
                 to_places[line * p.kept + number] = place;\n"
                .to_owned(),
            Sink::Results { places } => {
                let indices = match places {
                    true => "indices[at + number * p.indices_step] = i64(place);\n",
                    false => "",
                };
                format!(
                    "{locate}\
                     values[to + number * p.values_step] = src[from + i64(place) * p.src_step];\n\
                     {indices}",
                    locate = self.locate(),
                )
            }
        }
    }

    fn block_body(&self, size: usize, count: usize) -> String {
        let read = match self.step {
            Step::Elements(_) => format!(
                "{locate}key = key_of(src[from + inner * p.src_step]);\nplace = u32(inner);\n",
                locate = self.locate(),
            ),
            Step::Candidates(_) | Step::Merge => "key = from_keys[line * p.length + inner];\n\
                 place = from_places[line * p.length + inner];\n"
                .to_owned(),
        };
        let each = format!(
            "UNROLL for (u32 turn = 0; turn < 2; turn++) {{\n\
             const u32 own = lane + turn * {threads};\n\
             const i64 block = i64(group_x) * {of_group} + own / {size};\n\
             const i64 line = divided(block, p.blocks), part = block - line * p.blocks;\n\
             const i64 within = own % {size}, inner = part * {size} + within;\n\
             const bool live = line < p.lines && inner < p.length;\n",
            threads = count / 2,
            of_group = count / size,
        );
        format!(
            "{each}\
             Key key = {last};\n\
             u32 place = 0xffffffffu;\n\
             if (live) {{\n{read}}}\n\
             keys[own] = key;\n\
             places[own] = place;\n}}\n\
             sort_blocks(keys, places, {size}, lane);\n\
             {each}\
             if (live && within < p.keep) {{\n\
             const Key key = keys[own];\n\
             const u32 place = places[own];\n\
             const i64 number = part * p.keep + within;\n\
             {leave}}}\n}}\n",
            last = key::last(self.dtype),
            leave = self.leave(),
        )
    }

    fn merge_body(&self) -> String {
        format!(
            "const i64 count = p.lines * p.length;\n\
             for (i64 index = i64(group_x) * threads + lane; index < count; index += i64(groups_x) * threads) {{\n\
             const i64 line = divided(index, p.length), inner = index - line * p.length;\n\
             const i64 run = divided(inner, p.run), begin = run * p.run;\n\
             const i64 other = (run ^ 1) * p.run, behind = p.length - other;\n\
             const i64 others = behind < 0 ? 0 : behind < p.run ? behind : p.run;\n\
             const Key key = from_keys[index];\n\
             const u32 place = from_places[index];\n\
             const i64 before = keys_before(from_keys + line * p.length + other, others, key, (run & 1) != 0);\n\
             const i64 number = (begin < other ? begin : other) + (inner - begin) + before;\n\
             if (number < p.keep) {{\n{leave}}}\n}}\n",
            leave = self.leave(),
        )
    }
}
