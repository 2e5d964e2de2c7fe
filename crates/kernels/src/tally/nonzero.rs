//! The places of what is not zero: each group counts its part of the elements, and knows from the counts of those
//! before where its own begin.

use streampool_device::{DType, NonZero, Scalar, View};

use super::launch::{THREADS, dispatch};
use crate::dispatch::{Limits, Operand, Params, Plan};
use crate::elementwise::{self, Elementwise};
use crate::numbered::{self, Numbered};
use crate::rows::packs::begins_aligned;
use crate::scan::{self, Scan};
use crate::text::{Buffer, Field, KernelText, SharedArray, bits_type};

/// Neighbouring elements that a thread looks at.
const TAKE: usize = 16;

/// Elements that a group looks at.
const PART: usize = THREADS as usize * TAKE;

/// A kernel that looks for what is not zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Places {
    step: Step,
    /// Bytes of an element.
    size: u8,
    /// Whether it has a sign, which does not matter.
    is_float: bool,
    /// Neighbours in memory that are read at once; none unless elements lie one behind the other.
    pack: Option<u8>,
    /// The dimensions in which elements lie.
    rank: u8,
}

/// What it does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Step {
    /// Counts.
    Count,
    /// Writes down places of so many numbers.
    Write(u8),
}

/// The places of the elements of `src` that are not zero, in row-major order.
pub(super) fn nonzero<K>(op: &NonZero, limits: &Limits, kind: impl Fn(Places) -> K) -> Plan<K>
where
    K: From<Elementwise> + From<Scan>,
{
    let elements = op.src.layout().elements();
    if elements == 0 {
        return elementwise::fill(&op.count, Scalar::Int(0), limits);
    }
    let (dtype, shape) = (op.src.dtype(), op.src.shape());
    let dims = Numbered::new(shape, [op.src.layout().strides()]);
    let pack = 16 / dtype.size();
    let packed = dims.is_dense() && elements.is_multiple_of(pack) && begins_aligned(&op.src, pack);
    let kernel = |step| {
        kind(Places {
            step,
            size: dtype.size() as u8,
            is_float: dtype.is_float(),
            pack: packed.then_some(pack as u8),
            rank: dims.rank(),
        })
    };
    let memory = |view: &View| Operand::Memory(view.span());
    let groups = elements.div_ceil(PART);
    let (src, counts) = (memory(&op.src), Operand::Scratch(0));
    let params = || {
        let params = Params::new()
            .i64(elements as i64)
            .i64(op.src.layout().offset() as i64);
        dims.params(params)
    };
    let strides = op.indices.layout().strides();
    let places = [
        op.indices.layout().offset() as i64,
        strides[0] as i64,
        strides[1] as i64,
        op.count.layout().offset() as i64,
    ]
    .into_iter()
    .chain(shape.iter().map(|&size| size as i64))
    .fold(params(), Params::i64);
    let written = [src, counts, memory(&op.indices), memory(&op.count)];
    let write = kernel(Step::Write(shape.len() as u8));
    let dispatches = [
        dispatch(kernel(Step::Count), groups, &[src, counts], params()),
        scan::sums_before(groups + 1),
        dispatch(write, groups, &written, places),
    ];
    Plan::with_scratch((groups + 1) * DType::I64.size(), dispatches)
}

impl Places {
    pub(super) fn text(&self) -> KernelText {
        let ty = bits_type(usize::from(self.size));
        let mut params = vec![Field::new("i64", "elements"), Field::new("i64", "begin")];
        params.extend(numbered::fields(self.rank, &["src"]));
        let src = Buffer::read("src", ty);
        let buffers = match self.step {
            Step::Count => vec![src, Buffer::write("counts", "i64")],
            Step::Write(rank) => {
                let names = ["indices_at", "axis_step", "column_step", "count_at"];
                params.extend(names.map(|name| Field::new("i64", name)));
                params.extend((0..rank).map(|axis| Field::new("i64", format!("shape{axis}"))));
                vec![
                    src,
                    Buffer::read("counts", "i64"),
                    Buffer::write("indices", "i64"),
                    Buffer::write("count", "i64"),
                ]
            }
        };
        KernelText {
            entry: match self.step {
                Step::Count => "count_nonzero",
                Step::Write(_) => "nonzero",
            },
            buffers,
            params,
            shared: vec![SharedArray::new("u32", "shared", THREADS as usize / 32)],
            threads: Some(THREADS),
            functions: format!(
                "{}FUNCTION u32 combine(u32 x, u32 y) {{ return x + y; }}\n{}{}",
                numbered::FUNCTIONS,
                scan::LANES,
                scan::GROUP,
            ),
            body: self.body(ty),
        }
    }

    fn body(&self, ty: &str) -> String {
        let write = match self.step {
            Step::Count => "if (lane == 0) counts[group_x] = all;\n".to_owned(),
            Step::Write(rank) => write(rank),
        };
        format!(
            "const i64 first = (i64(group_x) * threads + lane) * {TAKE};\n\
             // A bit for each element that is not zero.\n\
             u32 found = 0, own = 0, all;\n\
             {look}\
             UNROLL for (u32 k = 0; k < {TAKE}; k++) own += found >> k & 1u;\n\
             const u32 before = before_thread(own, 0u, shared, lane, threads, all);\n\
             {write}",
            look = self.look(ty),
        )
    }

    fn look(&self, ty: &str) -> String {
        let mask = match (self.is_float, self.size) {
            (true, 2) => " & 0x7fffu",
            (true, 4) => " & 0x7fffffffu",
            (true, 8) => " & 0x7fffffffffffffff",
            _ => "",
        };
        match self.pack {
            Some(pack) => format!(
                "for (u32 part = 0; part < {TAKE} && first + part < p.elements; part += {pack}) {{\n\
                 const Pack<{ty}, {pack}> elements = load_pack<{pack}>(src + p.begin + first + part);\n\
                 u32 bits = 0;\n\
                 UNROLL for (u32 k = 0; k < {pack}; k++)\n\
                 if ((elements.values[k]{mask}) != 0) bits |= 1u << k;\n\
                 found |= bits << part;\n}}\n"
            ),
            None => format!(
                "for (u32 k = 0; k < {TAKE} && first + k < p.elements; k++) {{\n\
                 i64 src_at = p.begin;\n{locate}\
                 found |= ((src[src_at]{mask}) != 0 ? 1u : 0u) << k;\n}}\n",
                locate = numbered::locate(self.rank, "first + k", &["src"]),
            ),
        }
    }
}

/// Statements that write the places of what is found, and minus one behind all of them.
fn write(rank: u8) -> String {
    let place = |value: &str, axis: u8| {
        format!(
            "indices[p.indices_at + {axis} * p.axis_step + column * p.column_step] = {value};\n"
        )
    };
    let found: String = (0..rank)
        .rev()
        .map(|axis| {
            format!(
                "{{ const u64 next = divided(rest, u64(p.shape{axis}));\n{put}rest = next; }}\n",
                put = place(&format!("i64(rest - next * u64(p.shape{axis}))"), axis),
            )
        })
        .collect();
    let none: String = (0..rank).map(|axis| place("-1", axis)).collect();
    format!(
        "const i64 total = counts[divided(u64(p.elements + {last}), {PART})];\n\
         if (group_x == 0 && lane == 0) count[p.count_at] = total;\n\
         i64 column = counts[group_x] + before;\n\
         for (u32 k = 0; k < {TAKE}; k++) {{\n\
         if ((found >> k & 1u) != 0) {{\n\
         u64 rest = u64(first + k);\n\
         {found}\
         column++;\n}}\n}}\n\
         for (u32 k = 0; k < {TAKE}; k++) {{\n\
         const i64 column = i64(group_x) * {PART} + k * threads + lane;\n\
         if (column >= total && column < p.elements) {{\n{none}}}\n}}\n",
        last = PART - 1,
    )
}
