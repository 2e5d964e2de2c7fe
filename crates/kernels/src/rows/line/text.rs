//! The kernel text that is common to kernels that work on whole rows.

use streampool_device::DType;

use super::Line;
use crate::rows::{dims, packs};
use crate::text::{Buffer, Dialect, Field, KernelText, compute_type, load, storage_type, store};

impl Line {
    /// The type that elements are computed in.
    pub fn ty(&self) -> &'static str {
        compute_type(self.dtype)
    }

    /// Whether elements stay as a pass leaves them.
    pub fn holds(&self) -> bool {
        self.held > 0
    }

    /// What is less than every number.
    pub fn lowest(&self) -> &'static str {
        match self.dtype {
            DType::F64 => "-infinity_f64()",
            _ => "-infinity_f32()",
        }
    }

    /// A kernel with these buffers besides source and result, and these parameters besides the shape's.
    /// `operands` names those that the parameters of the shape are for.
    pub fn text(
        &self,
        dialect: Dialect,
        entry: &'static str,
        operands: &[&str],
        buffers: Vec<Buffer>,
        params: Vec<Field>,
        body: String,
    ) -> Option<KernelText> {
        if self.dtype == DType::F64 && dialect == Dialect::Metal {
            return None;
        }
        let stored = storage_type(self.dtype);
        let mut all_buffers = vec![Buffer::read("src", stored)];
        all_buffers.extend(self.added.then(|| Buffer::read("added", stored)));
        all_buffers.extend(buffers);
        all_buffers.extend(self.summed.then(|| Buffer::write("sum", stored)));
        all_buffers.push(Buffer::write("dst", stored));
        let mut all_params: Vec<Field> =
            ["rows", "packs"].map(|name| Field::new("i64", name)).into();
        for operand in operands {
            all_params.push(Field::new("i64", format!("{operand}_at")));
        }
        all_params.extend(self.added.then(|| Field::new("i64", "added_shift")));
        all_params.extend(self.summed.then(|| Field::new("i64", "sum_shift")));
        dims::fields(&mut all_params, "kept", self.kept, &["src", "dst"]);
        dims::fields(&mut all_params, "inner", self.inner, operands);
        all_params.push(Field::new("u32", "width"));
        all_params.extend(params);
        Some(KernelText {
            entry,
            buffers: all_buffers,
            params: all_params,
            shared: self.team.shared(self.ty(), usize::from(self.threads)),
            threads: Some(u32::from(self.threads)),
            functions: self.functions(),
            body,
        })
    }

    fn functions(&self) -> String {
        format!(
            "{quotient}\
#define PACK {pack}
#define HELD {held}
template <typename T> FUNCTION T exchanged(T value, u32 distance) {{
    return shuffle_xor(value, distance);
}}
struct Sum {{
    template <typename T> FUNCTION T combine(T a, T b) {{ return a + b; }}
}};
// NaN wins.
struct Largest {{
    template <typename T> FUNCTION T combine(T a, T b) {{ return m_max(a, b); }}
}};
{team}",
            quotient = dims::FUNCTIONS,
            pack = self.pack,
            held = self.held,
            team = self.team.functions(),
        )
    }

    /// Statements that find the thread's row and, if it is held, read it.
    pub fn open(&self) -> String {
        let mut text = format!(
            "{place}\
    const bool live = row < p.rows;
    const i64 packs = live ? p.packs : 0;
    i64 from = p.src_at, to = p.dst_at;
    {kept}",
            place = self.team.place(),
            kept = dims::locate(
                "kept",
                self.kept,
                "(live ? row : 0)",
                &[("from", "src"), ("to", "dst")]
            ),
        );
        if self.holds() {
            text.push_str(&format!(
                "\
    // How many packs of the row are this thread's.
    const u32 mine = packs > slot ? (u32(packs) - slot + team - 1) / team : 0;
    {ty} held[HELD];
    UNROLL
    for (u32 turn = 0; turn < HELD / PACK; ++turn) {{
        if (turn < mine) {{
            const i64 index = slot + turn * team;
            {read}\
            UNROLL
            for (u32 element = 0; element < PACK; ++element)
                held[turn * PACK + element] = {loaded};
            {sum}        }}
    }}
",
                ty = self.ty(),
                read = self.read(),
                loaded = self.loaded(),
                sum = self.write_sum("held[turn * PACK + element]"),
            ));
        }
        text
    }

    /// Statements that read pack `index` of the source, and of what is added.
    fn read(&self) -> String {
        let pack = |name, at| packs::read(name, self.pack, storage_type(self.dtype), at);
        let others = match self.added {
            true => pack("others", "added + at + p.added_shift"),
            false => String::new(),
        };
        format!(
            "i64 at = from;\n{at}{elements}{others}",
            elements = pack("elements", "src + at"),
            at = dims::locate("inner", self.inner, "index", &[("at", "src")]),
        )
    }

    /// Statements that write the sum of the pack that was read, of which this is element `element`.
    fn write_sum(&self, element: &str) -> String {
        if !self.summed {
            return String::new();
        }
        format!(
            "\
Pack<{storage}, PACK> sums;
UNROLL
for (u32 element = 0; element < PACK; ++element)
    sums.values[element] = {stored};
{write}",
            storage = storage_type(self.dtype),
            stored = store(self.dtype, element),
            write = packs::write("sums", self.pack, "sum + at + p.sum_shift"),
        )
    }

    /// Element `element` of the pack that was read.
    fn loaded(&self) -> String {
        let of = |name| load(self.dtype, &format!("{name}.values[element]"));
        match self.added {
            true => format!("({} + {})", of("elements"), of("others")),
            false => of("elements"),
        }
    }

    /// Declares `name`: what the struct `operation` makes, from `start` on, of what `statement` leaves for
    /// each element `x` in `value`. If the row is held, assigning to `x` lasts.
    pub fn fold(&self, name: &str, operation: &str, start: &str, statement: &str) -> String {
        let ty = self.ty();
        let text = if self.holds() {
            format!(
                "\
    {ty} {name} = {start};
    UNROLL
    for (u32 turn = 0; turn < HELD / PACK; ++turn) {{
        if (turn < mine) {{
            UNROLL
            for (u32 element = 0; element < PACK; ++element) {{
                {ty} x = held[turn * PACK + element], value;
                {statement}
                held[turn * PACK + element] = x;
                {name} = {operation}::combine({name}, value);
            }}
        }}
    }}
"
            )
        } else {
            // Folds of folds, so that no sum is long.
            format!(
                "\
    {ty} {name} = {start};
    for (i64 index = slot; index < packs;) {{
        {ty} part = {start};
        for (u32 turn = 0; turn < 32 && index < packs; ++turn, index += team) {{
            {read}\
            UNROLL
            for (u32 element = 0; element < PACK; ++element) {{
                {ty} x = {loaded}, value;
                {statement}
                part = {operation}::combine(part, value);
            }}
        }}
        {name} = {operation}::combine({name}, part);
    }}
",
                read = self.read(),
                loaded = self.loaded(),
            )
        };
        let combined = self.team.combined(operation, name);
        format!("{text}    {name} = {combined};\n")
    }

    /// Statements that write, for each element `x`, what `statement` leaves in `value`. `operands` are
    /// variables, and the operands whose offset they get; `prepare` uses them, once for each pack.
    pub fn write(&self, operands: &[(&str, &str)], prepare: &str, statement: &str) -> String {
        let ty = self.ty();
        let mut located = vec![("target", "dst")];
        located.extend_from_slice(operands);
        let declared: String = operands
            .iter()
            .map(|(variable, operand)| format!("i64 {variable} = p.{operand}_at;\n"))
            .collect();
        let put = format!(
            "\
            i64 target = to;
            {declared}{at}{prepare}\
            Pack<{storage}, PACK> results;
            UNROLL
            for (u32 element = 0; element < PACK; ++element) {{
                const {ty} x = {source};
                {ty} value;
                {statement}
                results.values[element] = {stored};
            }}
            {results}",
            at = dims::locate("inner", self.inner, "index", &located),
            source = if self.holds() {
                "held[turn * PACK + element]".to_owned()
            } else {
                self.loaded()
            },
            stored = store(self.dtype, "value"),
            storage = storage_type(self.dtype),
            results = packs::write("results", self.pack, "dst + target"),
        );
        if self.holds() {
            format!(
                "\
    UNROLL
    for (u32 turn = 0; turn < HELD / PACK; ++turn) {{
        if (turn < mine) {{
            const i64 index = slot + turn * team;
{put}        }}
    }}
"
            )
        } else {
            format!(
                "\
    for (i64 index = slot; index < packs; index += team) {{
        {read}{sum}{put}    }}
",
                read = self.read(),
                sum = self.write_sum(&self.loaded()),
            )
        }
    }
}
