//! The text of kernels that go along lines.

use streampool_device::{DType, ScanKind};

use super::{Form, GROUP, LANES, Role, Scan, THREADS, take, total_type};
use crate::rows::dims;
use crate::text::{
    Buffer, Dialect, Field, KernelText, SharedArray, compute_type, load, storage_type, store,
};

/// Elements of a line that a thread has under way where lines lie side by side.
const COLUMN_TAKE: usize = 8;

impl Scan {
    pub(crate) fn text(&self, dialect: Dialect) -> Option<KernelText> {
        if self.dtype == DType::F64 && dialect == Dialect::Metal {
            return None;
        }
        let (stored, ty) = (storage_type(self.dtype), self.ty());
        let src = Buffer::read("src", stored);
        let dst = Buffer::write("dst", stored);
        let buffers = match self.role {
            Role::Whole => vec![src, dst],
            Role::Totals => vec![src, Buffer::write("totals", ty)],
            Role::Carried => vec![src, Buffer::read("totals", ty), dst],
        };
        let shared = match self.form {
            Form::Group => vec![SharedArray::new(ty, "shared", THREADS / 32)],
            Form::Lanes | Form::Columns => Vec::new(),
        };
        Some(KernelText {
            entry: "scan",
            buffers,
            params: self.fields(),
            shared,
            threads: Some(THREADS as u32),
            functions: self.functions(),
            body: match self.form {
                Form::Columns => self.column_body(),
                Form::Lanes | Form::Group => self.team_body(),
            },
        })
    }

    /// The type that is computed in.
    fn ty(&self) -> &'static str {
        compute_type(total_type(self.dtype))
    }

    fn fields(&self) -> Vec<Field> {
        let names = [
            "rows", "segments", "part", "length", "src_at", "dst_at", "src_step", "dst_step",
        ];
        let mut fields: Vec<Field> = names.map(|name| Field::new("i64", name)).into();
        dims::fields(&mut fields, "line", self.class, &["src", "dst"]);
        fields.push(Field::new("u32", "width"));
        fields
    }

    fn functions(&self) -> String {
        let mut text = dims::FUNCTIONS.to_owned();
        text += &format!(
            "FUNCTION {ty} combine({ty} x, {ty} y) {{ return {combination}; }}\n",
            ty = self.ty(),
            combination = self.combination(),
        );
        if self.form != Form::Columns {
            text += LANES;
        }
        if self.form == Form::Group {
            text += GROUP;
        }
        text
    }

    fn combination(&self) -> &'static str {
        match (self.kind, self.dtype.is_float()) {
            (ScanKind::Sum, true) => "x + y",
            (ScanKind::Sum, false) => "int_add(x, y)",
            (ScanKind::Prod, true) => "x * y",
            (ScanKind::Prod, false) => "int_mul(x, y)",
            (ScanKind::Max, true) => "m_max(x, y)",
            (ScanKind::Max, false) => "int_max(x, y)",
            (ScanKind::Min, true) => "m_min(x, y)",
            (ScanKind::Min, false) => "int_min(x, y)",
        }
    }

    /// What changes nothing.
    fn identity(&self) -> &'static str {
        use DType::{BF16, Bool, F16, F32, F64, I8, I16, I32, I64, U8, U16, U32, U64};
        match (self.kind, self.dtype) {
            (ScanKind::Sum, _) => "0",
            (ScanKind::Prod, _) => "1",
            (ScanKind::Max, F32 | F16 | BF16) => "-infinity_f32()",
            (ScanKind::Max, F64) => "-infinity_f64()",
            (ScanKind::Max, I8) => "-128",
            (ScanKind::Max, I16) => "-32768",
            (ScanKind::Max, I32) => "-2147483647 - 1",
            (ScanKind::Max, I64) => "i64(0x8000000000000000)",
            (ScanKind::Max, U8 | U16 | U32 | U64 | Bool) => "0",
            (ScanKind::Min, F32 | F16 | BF16) => "infinity_f32()",
            (ScanKind::Min, F64) => "infinity_f64()",
            (ScanKind::Min, I8) => "127",
            (ScanKind::Min, I16) => "32767",
            (ScanKind::Min, I32) => "2147483647",
            (ScanKind::Min, I64) => "i64(0x7fffffffffffffff)",
            (ScanKind::Min, U8 | Bool) => "255",
            (ScanKind::Min, U16) => "65535",
            (ScanKind::Min, U32) => "0xffffffffu",
            (ScanKind::Min, U64) => "~u64(0)",
        }
    }

    fn loaded(&self, stored: &str) -> String {
        format!("{}({})", self.ty(), load(self.dtype, stored))
    }

    fn stored(&self, value: &str) -> String {
        let narrow = compute_type(self.dtype);
        store(self.dtype, &format!("{narrow}({value})"))
    }

    /// Statements that find the line and the segment of row `row`, which there is if it is `live`.
    fn open(&self) -> String {
        let (quotient, rest, by) = match self.form {
            // Neighbouring threads go along neighbouring lines.
            Form::Columns => ("segment", "line", "divided(p.rows, p.segments)"),
            Form::Lanes | Form::Group => ("line", "segment", "p.segments"),
        };
        format!(
            "const bool live = row < p.rows;\n\
             const i64 chosen = live ? row : 0, by = {by};\n\
             const i64 {quotient} = divided(chosen, by), {rest} = chosen - {quotient} * by;\n\
             const i64 begin = segment * p.part;\n\
             const i64 left = p.length - begin;\n\
             const i64 count = live ? (left < p.part ? left : p.part) : 0;\n\
             i64 from = p.src_at + begin * p.src_step, to = p.dst_at + begin * p.dst_step;\n\
             {locate}\
             const {ty} none = {identity};\n\
             {ty} carry = {carry};\n",
            locate = dims::locate(
                "line",
                self.class,
                "line",
                &[("from", "src"), ("to", "dst")]
            ),
            ty = self.ty(),
            identity = self.identity(),
            carry = match self.role {
                // The first begins with what changes nothing in its own type, which totals may not have.
                Role::Carried => "segment == 0 ? none : totals[line * p.segments + segment]",
                Role::Whole | Role::Totals => "none",
            },
        )
    }

    /// Statements that put the running totals of `take` values into them.
    fn run(&self, take: usize) -> String {
        let kept = if self.exclusive { "running" } else { "next" };
        format!(
            "UNROLL for (u32 k = 0; k < {take}; k++) {{\n\
             const {ty} next = combine(running, values[k]);\n\
             values[k] = {kept};\n\
             running = next;\n}}\n",
            ty = self.ty(),
        )
    }

    fn read(&self, take: usize) -> String {
        let value = self.loaded("src[from + (mine + k) * p.src_step]");
        format!(
            "UNROLL for (u32 k = 0; k < {take}; k++)\n\
             values[k] = mine + k < count ? {value} : none;\n"
        )
    }

    fn write(&self, take: usize) -> String {
        let value = self.stored("values[k]");
        format!(
            "UNROLL for (u32 k = 0; k < {take}; k++)\n\
             if (mine + k < count) dst[to + (mine + k) * p.dst_step] = {value};\n"
        )
    }

    /// The statement that writes the total of a segment.
    fn write_total(&self, unless: &str) -> String {
        match self.role {
            Role::Totals => {
                format!("if (live && {unless}) totals[line * p.segments + segment] = carry;\n")
            }
            Role::Whole | Role::Carried => String::new(),
        }
    }

    fn column_body(&self) -> String {
        let take = COLUMN_TAKE;
        let write = match self.role {
            Role::Totals => String::new(),
            Role::Whole | Role::Carried => self.write(take),
        };
        format!(
            "const i64 row = i64(group_x) * threads + lane;\n\
             {open}\
             for (i64 mine = 0; mine < count; mine += {take}) {{\n\
             {ty} values[{take}];\n\
             {read}\
             {ty} running = carry;\n\
             {run}\
             carry = running;\n\
             {write}}}\n{total}",
            open = self.open(),
            ty = self.ty(),
            read = self.read(take),
            run = self.run(take),
            total = self.write_total("true"),
        )
    }

    fn team_body(&self) -> String {
        let take = take(self.dtype);
        let (place, before) = match self.form {
            Form::Lanes | Form::Columns => (
                "const u32 team = p.width, slot = lane & (team - 1);\n\
                 const i64 row = i64(group_x) * (threads / team) + lane / team;\n",
                "before_lane(total, none, team, slot, all)",
            ),
            Form::Group => (
                "const u32 team = threads, slot = lane;\nconst i64 row = group_x;\n",
                "before_thread(total, none, shared, lane, threads, all)",
            ),
        };
        let results = match self.role {
            Role::Totals => String::new(),
            Role::Whole | Role::Carried => format!(
                "{ty} running = combine(carry, before);\n{run}{write}",
                ty = self.ty(),
                run = self.run(take),
                write = if self.packed {
                    self.write_pack(take)
                } else {
                    self.write(take)
                },
            ),
        };
        // All threads take as many turns: they meet in each.
        format!(
            "{place}{open}\
             for (i64 first = 0; first < p.part; first += team * {take}) {{\n\
             const i64 mine = first + slot * {take};\n\
             {ty} values[{take}];\n\
             {read}\
             {ty} total = values[0], all;\n\
             UNROLL for (u32 k = 1; k < {take}; k++) total = combine(total, values[k]);\n\
             const {ty} before = {before};\n\
             {results}\
             carry = combine(carry, all);\n}}\n{total}",
            open = self.open(),
            ty = self.ty(),
            read = if self.packed {
                self.read_pack(take)
            } else {
                self.read(take)
            },
            total = self.write_total("slot == 0"),
        )
    }

    /// Where the pack of a thread's elements begins behind `at`, and the number of element `k` in it.
    fn pack_place(&self, at: &str, take: usize) -> (String, String) {
        match self.reverse {
            false => (format!("{at} + mine"), "k".to_owned()),
            true => (
                format!("{at} - mine - {}", take - 1),
                format!("{} - k", take - 1),
            ),
        }
    }

    fn read_pack(&self, take: usize) -> String {
        let (place, element) = self.pack_place("from", take);
        let value = self.loaded(&format!("elements.values[{element}]"));
        format!(
            "UNROLL for (u32 k = 0; k < {take}; k++) values[k] = none;\n\
             if (mine < count) {{\n\
             const Pack<{stored}, {take}> elements = load_pack<{take}>(src + {place});\n\
             UNROLL for (u32 k = 0; k < {take}; k++) values[k] = {value};\n}}\n",
            stored = storage_type(self.dtype),
        )
    }

    fn write_pack(&self, take: usize) -> String {
        let (place, element) = self.pack_place("to", take);
        let value = self.stored("values[k]");
        format!(
            "if (mine < count) {{\n\
             Pack<{stored}, {take}> elements;\n\
             UNROLL for (u32 k = 0; k < {take}; k++) elements.values[{element}] = {value};\n\
             store_pack<{take}>(dst + {place}, elements);\n}}\n",
            stored = storage_type(self.dtype),
        )
    }
}
