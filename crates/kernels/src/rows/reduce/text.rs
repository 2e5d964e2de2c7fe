//! Reductions: the kernel text.

use streampool_device::{DType, ReduceKind};

use super::kernel::{Reduction, Stage, THREADS, finds_index, value_type};
use crate::rows::team::Team;
use crate::rows::{dims, packs};
use crate::text::{Buffer, Dialect, Field, KernelText, load, storage_type, store};

/// What changes nothing in a combination.
fn identity(kind: ReduceKind, ty: &str) -> &'static str {
    let lowest = match kind {
        ReduceKind::Sum | ReduceKind::Mean | ReduceKind::Any => return "0",
        ReduceKind::Prod | ReduceKind::All => return "1",
        ReduceKind::Max | ReduceKind::ArgMax => true,
        ReduceKind::Min | ReduceKind::ArgMin => false,
    };
    match (ty, lowest) {
        ("f32", true) => "-infinity_f32()",
        ("f32", false) => "infinity_f32()",
        ("f64", true) => "-infinity_f64()",
        ("f64", false) => "infinity_f64()",
        ("u32" | "u64", true) => "0",
        ("u32", false) => "0xffffffffu",
        ("u64", false) => "~u64(0)",
        ("i64", true) => "i64(u64(1) << 63)",
        ("i64", false) => "i64(~(u64(1) << 63))",
        (_, true) => "i32(0x80000000u)",
        (_, false) => "0x7fffffff",
    }
}

/// The combination of the values `a` and `b`.
fn combination(kind: ReduceKind, float: bool) -> &'static str {
    match (kind, float) {
        (ReduceKind::Sum | ReduceKind::Mean, _) => "a + b",
        (ReduceKind::Prod, _) => "a * b",
        (ReduceKind::Any, _) => "a | b",
        (ReduceKind::All, _) => "a & b",
        (ReduceKind::Max | ReduceKind::ArgMax, true) => "m_max(a, b)",
        (ReduceKind::Min | ReduceKind::ArgMin, true) => "m_min(a, b)",
        (ReduceKind::Max | ReduceKind::ArgMax, false) => "b > a ? b : a",
        (ReduceKind::Min | ReduceKind::ArgMin, false) => "b < a ? b : a",
    }
}

impl Reduction {
    pub(crate) fn text(&self, dialect: Dialect) -> Option<KernelText> {
        if self.dtype == DType::F64 && dialect == Dialect::Metal {
            return None;
        }
        let mut params: Vec<Field> = [
            "rows", "packs", "chunk", "count", "src_at", "dst_at", "dst_step",
        ]
        .map(|name| Field::new("i64", name))
        .into();
        dims::fields(&mut params, "kept", self.kept, &["src", "dst"]);
        dims::fields(&mut params, "inner", self.inner, &["src"]);
        params.push(Field::new("u32", "width"));
        Some(KernelText {
            entry: "reduce",
            buffers: self.buffers(),
            params,
            shared: self.team.shared("Known", THREADS),
            threads: Some(THREADS as u32),
            functions: self.functions(),
            body: self.body(),
        })
    }

    fn buffers(&self) -> Vec<Buffer> {
        let value = value_type(self.kind, self.dtype);
        let index = finds_index(self.kind);
        let mut buffers = Vec::new();
        if self.stage == Stage::Last {
            buffers.push(Buffer::read("values", value));
            buffers.extend(index.then(|| Buffer::read("indices", "i64")));
        } else {
            buffers.push(Buffer::read("src", storage_type(self.dtype)));
        }
        if self.stage == Stage::First {
            buffers.push(Buffer::write("values", value));
            buffers.extend(index.then(|| Buffer::write("indices", "i64")));
        } else {
            let result = if index { DType::I64 } else { self.dtype };
            buffers.push(Buffer::write("dst", storage_type(result)));
        }
        buffers
    }

    /// Rows that a thread combines elements of.
    fn columns(&self) -> u8 {
        match self.team {
            Team::Columns => self.pack,
            Team::Lanes | Team::Group => 1,
        }
    }

    fn functions(&self) -> String {
        let value = value_type(self.kind, self.dtype);
        let mut text = String::from(dims::FUNCTIONS);
        let combined = combination(self.kind, self.dtype.is_float());
        text.push_str(&if finds_index(self.kind) {
            let before = match self.kind {
                ReduceKind::ArgMax => "a > b",
                _ => "a < b",
            };
            let wins = if self.dtype.is_float() {
                format!("{before} || (m_isnan(a) && !m_isnan(b))")
            } else {
                before.to_owned()
            };
            // What has no place yet comes after all.
            format!(
                "\
struct One {{ {value} value; i64 index; }};
FUNCTION One nothing() {{ return One{{{nothing}, i64(~(u64(1) << 63))}}; }}
FUNCTION bool wins({value} a, {value} b) {{ return {wins}; }}
FUNCTION One combined(One a, One b) {{
    const bool second = wins(b.value, a.value) || (!wins(a.value, b.value) && b.index < a.index);
    return second ? b : a;
}}
FUNCTION One exchanged(One one, u32 distance) {{
    return One{{shuffle_xor(one.value, distance), shuffle_xor(one.index, distance)}};
}}
",
                nothing = identity(self.kind, value),
            )
        } else {
            format!(
                "\
struct One {{ {value} value; }};
FUNCTION One nothing() {{ return One{{{nothing}}}; }}
FUNCTION One combined(One first, One second) {{
    const {value} a = first.value, b = second.value;
    return One{{{combined}}};
}}
FUNCTION One exchanged(One one, u32 distance) {{ return One{{shuffle_xor(one.value, distance)}}; }}
",
                nothing = identity(self.kind, value),
            )
        });
        if self.repeated {
            text.push_str(&format!(
                "\
FUNCTION {value} power({value} base, i64 count) {{
    {value} product = {value}(1);
    for (; count > 0; count /= 2) {{
        if (count % 2 != 0) product = product * base;
        base = base * base;
    }}
    return product;
}}
"
            ));
        }
        text.push_str(&format!(
            "#define COLUMNS {}\n#define PACK {}\n",
            self.columns(),
            self.pack
        ));
        text.push_str(include_str!("known.h"));
        text.push_str(self.team.functions());
        text
    }

    fn body(&self) -> String {
        let range = match self.stage {
            Stage::First => {
                "\
    const i64 begin = i64(group_y) * p.chunk;
    const i64 end = live ? (begin + p.chunk < p.packs ? begin + p.chunk : p.packs) : begin;
"
            }
            _ => "    const i64 begin = 0, end = live ? p.packs : 0;\n",
        };
        // Sums of sums, so that no sum is long; the loads of a step do not wait for each other.
        let steps = if self.pack > 1 { 4 } else { 8 };
        format!(
            "{place}\
    const bool live = row < p.rows;
    i64 from = p.src_at, to = p.dst_at;
    {kept}\
{range}\
    Known known = nothing_known();
    i64 pack = begin + slot;
    const i64 stride = i64(team) * {steps}, margin = i64(team) * ({steps} - 1);
    while (pack + margin < end) {{
        Known sums[{steps}];
        UNROLL
        for (u32 step = 0; step < {steps}; ++step) sums[step] = nothing_known();
        for (u32 turn = 0; turn < 32 && pack + margin < end; ++turn, pack += stride) {{
            UNROLL
            for (u32 step = 0; step < {steps}; ++step) {{
                const i64 index = pack + i64(team) * step;
                {take_sum}\
            }}
        }}
        UNROLL
        for (u32 half_way = {steps} / 2; half_way > 0; half_way /= 2)
            UNROLL
            for (u32 step = 0; step < half_way; ++step)
                sums[step] = Merge::combine(sums[step], sums[step + half_way]);
        known = Merge::combine(known, sums[0]);
    }}
    for (; pack < end; pack += team) {{
        const i64 index = pack;
        {take}\
    }}
    known = {combined};
    if (live && slot == 0) {{
        UNROLL
        for (u32 column = 0; column < COLUMNS; ++column) {{
            const One one = known.at[column];
            {put}\
        }}
    }}
",
            place = self.team.place(),
            kept = dims::locate(
                "kept",
                self.kept,
                "(live ? row : 0)",
                &[("from", "src"), ("to", "dst")]
            ),
            take_sum = self.take("sums[step]"),
            take = self.take("known"),
            combined = self.team.combined("Merge", "known"),
            put = self.put(),
        )
    }

    /// Statements that combine the elements of pack `index` with what `known` holds.
    fn take(&self, known: &str) -> String {
        let at = dims::locate("inner", self.inner, "index", &[("at", "src")]);
        let index = finds_index(self.kind);
        if self.stage == Stage::Last {
            let one = if index {
                "One{values[at], indices[at]}"
            } else {
                "One{values[at]}"
            };
            return format!(
                "i64 at = from;\n{at}    {known}.at[0] = combined({known}.at[0], {one});\n"
            );
        }
        let value = value_type(self.kind, self.dtype);
        let loaded = load(self.dtype, "elements.values[element]");
        let (column, place) = match self.team {
            Team::Columns => ("element", "index"),
            Team::Lanes | Team::Group => ("0", "index * PACK + element"),
        };
        let place = if index {
            format!(", {place}")
        } else {
            String::new()
        };
        format!(
            "i64 at = from;
    {at}{read}    UNROLL
    for (u32 element = 0; element < PACK; ++element)
        {known}.at[{column}] = combined({known}.at[{column}], One{{{value}({loaded}){place}}});
",
            read = packs::read("elements", self.pack, storage_type(self.dtype), "src + at"),
        )
    }

    /// What `one` comes to, as often as it counts.
    fn result(&self) -> String {
        let value = value_type(self.kind, self.dtype);
        match (self.repeated, self.kind) {
            (false, _) => "one.value".to_owned(),
            (true, ReduceKind::Prod) => "power(one.value, p.count)".to_owned(),
            (true, _) => format!("(one.value * {value}(p.count))"),
        }
    }

    /// Statements that write what is known, `one`, of a column.
    fn put(&self) -> String {
        let at = "to + column * p.dst_step";
        let ty = storage_type(self.dtype);
        let result = match (self.stage, self.kind) {
            (Stage::First, _) => {
                let index = if finds_index(self.kind) {
                    "indices[at] = one.index;\n"
                } else {
                    ""
                };
                return format!(
                    "const i64 at = {at} + group_y;\n    values[at] = one.value;\n    {index}"
                );
            }
            (_, ReduceKind::ArgMax | ReduceKind::ArgMin) => "one.index".to_owned(),
            (_, ReduceKind::Mean) => store(
                self.dtype,
                &format!(
                    "(one.value / {}(p.count))",
                    value_type(self.kind, self.dtype)
                ),
            ),
            _ if self.dtype.is_integer() => format!("{ty}({})", self.result()),
            _ => store(self.dtype, &self.result()),
        };
        format!("dst[{at}] = {result};\n")
    }
}
