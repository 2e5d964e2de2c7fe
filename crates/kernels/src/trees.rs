//! Ensembles of decision trees: a thread takes one row down one tree, and then one adds up what a row's leaves say of a target,
//! in the order of the trees, so that the result does not depend on how many threads there are.

use smallvec::SmallVec;
use streampool_device::{DType, TreeCombine, TreeTest, Trees as Op, View};

use crate::dispatch::{Dispatch, Operand, Params, Plan, grid};
use crate::text::{Buffer, Dialect, Field, KernelText, compute_type, storage_type};

/// Threads in each group.
const THREADS: u32 = 256;

/// A kernel of an ensemble of trees.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Trees {
    dtype: DType,
    step: Step,
}

/// What it does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Step {
    /// Finds the record that each row reaches in each tree.
    Walk(TreeTest),
    /// Combines what these say.
    Combine(TreeCombine),
}

/// `dst[row, target] =` the weights of the leaves that the row reaches, combined.
pub(crate) fn trees<K: From<Trees>>(op: &Op) -> Plan<K> {
    let [rows, features] = [op.src.shape()[0], op.src.shape()[1]];
    let targets = op.dst.shape()[1];
    if rows == 0 {
        return Plan::default();
    }
    let memory = |view: &View| Operand::Memory(view.span());
    let reached = Operand::Scratch(0);
    let launch = |step, count: usize, operands: &[Operand], params: &[i64]| Dispatch {
        kernel: K::from(Trees {
            dtype: op.src.dtype(),
            step,
        }),
        groups: grid([count.div_ceil(THREADS as usize), 1, 1]),
        threads: THREADS,
        operands: SmallVec::from_slice(operands),
        params: params.iter().copied().fold(Params::new(), Params::i64),
    };
    let sizes = [rows, op.trees, op.records.shape()[0]].map(|size| size as i64);
    let place = |view: &View, columns: usize| {
        let (layout, strides) = (view.layout(), view.layout().strides());
        [
            columns as i64,
            layout.offset() as i64,
            strides[0] as i64,
            strides[1] as i64,
        ]
    };
    let records_at = op.records.layout().offset() as i64;
    let leaves = rows.saturating_mul(op.trees);
    let mut plan = Plan {
        scratch: leaves.max(1).saturating_mul(size_of::<u32>()),
        ..Plan::default()
    };
    if leaves > 0 {
        let params = [
            &sizes[..],
            &[records_at],
            &place(&op.src, features),
            &[op.depth as i64],
        ]
        .concat();
        let operands = [memory(&op.src), memory(&op.records), reached];
        plan.push(launch(Step::Walk(op.test), leaves, &operands, &params));
    }
    let params = [&sizes[..], &[records_at], &place(&op.dst, targets)].concat();
    let operands = [reached, memory(&op.records), memory(&op.dst)];
    let results = rows.saturating_mul(targets);
    plan.push(launch(
        Step::Combine(op.combine),
        results,
        &operands,
        &params,
    ));
    plan
}

impl Trees {
    pub(crate) fn text(&self, dialect: Dialect) -> Option<KernelText> {
        if dialect == Dialect::Metal && self.dtype == DType::F64 {
            return None;
        }
        let (elements, ty) = (storage_type(self.dtype), compute_type(self.dtype));
        let records = Buffer::read("records", "i32");
        let mut names = vec![
            "rows",
            "trees",
            "count",
            "records_at",
            "columns",
            "begin",
            "row_step",
            "column_step",
        ];
        let (entry, buffers, body) = match self.step {
            Step::Walk(test) => {
                names.push("depth");
                let buffers = vec![
                    Buffer::read("src", elements),
                    records,
                    Buffer::write("reached", "u32"),
                ];
                ("walk_trees", buffers, walk(test, ty))
            }
            Step::Combine(combine) => {
                let buffers = vec![
                    Buffer::read("reached", "u32"),
                    records,
                    Buffer::write("dst", elements),
                ];
                ("combine_leaves", buffers, combined(combine, ty))
            }
        };
        Some(KernelText {
            entry,
            buffers,
            params: names
                .into_iter()
                .map(|name| Field::new("i64", name))
                .collect(),
            threads: Some(THREADS),
            functions: functions(self.dtype),
            body,
            ..KernelText::default()
        })
    }
}

/// The functions `value_of` and `within`.
fn functions(dtype: DType) -> String {
    let (ty, value) = match dtype {
        DType::F64 => (
            "f64",
            "bits_f64(u64(u32(record[2])) | u64(u32(record[3])) << 32)",
        ),
        _ => ("f32", "bits_f32(u32(record[2]))"),
    };
    format!(
        "FUNCTION {ty} value_of(const GLOBAL i32* record) {{ return {value}; }}\n\
         FUNCTION u32 within(u32 number, i64 count) {{ return number < u32(count) ? number : u32(count - 1); }}\n"
    )
}

fn walk(test: TreeTest, ty: &str) -> String {
    let passed = match test {
        TreeTest::AtMost => "x <= value",
        TreeTest::Below => "x < value",
        TreeTest::Bits => {
            "(word & (x < value ? 4u : x == value ? 8u : x > value ? 16u : 32u)) != 0u"
        }
    };
    format!(
        "const i64 index = i64(group_x) * threads + lane;\n\
         if (index < p.rows * p.trees) {{\n\
         const i64 row = index / p.trees;\n\
         const u32 tree = u32(index - row * p.trees);\n\
         u32 at = tree;\n\
         for (i64 level = 0; level < p.depth; level++) {{\n\
         const GLOBAL i32* record = records + p.records_at + i64(at) * 4;\n\
         const u32 word = u32(record[0]);\n\
         if ((word & 1u) == 0u) break;\n\
         const {ty} x = src[p.begin + row * p.row_step + i64(within(word >> 8, p.columns)) * p.column_step];\n\
         const {ty} value = value_of(record);\n\
         at = within(u32(record[1]) + ({passed} ? 0u : 1u), p.count);\n\
         }}\n\
         reached[index] = at;\n}}\n"
    )
}

fn combined(combine: TreeCombine, ty: &str) -> String {
    let (start, add) = match combine {
        TreeCombine::Sum => ("true", "total += value;".to_owned()),
        TreeCombine::Min | TreeCombine::Max => {
            let better = if combine == TreeCombine::Min {
                "<"
            } else {
                ">"
            };
            (
                "false",
                format!("if (!found || value {better} total) total = value;\nfound = true;"),
            )
        }
    };
    format!(
        "const i64 index = i64(group_x) * threads + lane;\n\
         if (index < p.rows * p.columns) {{\n\
         const i64 row = index / p.columns;\n\
         const u32 target = u32(index - row * p.columns);\n\
         {ty} total = 0;\n\
         bool found = {start};\n\
         for (i64 tree = 0; tree < p.trees; tree++) {{\n\
         const u32 at = reached[row * p.trees + tree];\n\
         const GLOBAL i32* leaf = records + p.records_at + i64(at) * 4;\n\
         const u32 word = u32(leaf[0]);\n\
         if ((word & 1u) != 0u) continue;\n\
         const bool several = (word & 2u) != 0u;\n\
         const i64 first = several ? i64(u32(leaf[2])) : i64(at);\n\
         const i64 listed = first + (several ? i64(within(u32(leaf[3]), p.columns + 1)) : 1);\n\
         const i64 end = listed < p.count ? listed : p.count;\n\
         for (i64 weight = first; weight < end; weight++) {{\n\
         const GLOBAL i32* record = records + p.records_at + weight * 4;\n\
         if (within(u32(record[0]) >> 8, p.columns) != target) continue;\n\
         const {ty} value = value_of(record);\n\
         {add}\n}}\n}}\n\
         dst[p.begin + row * p.row_step + i64(target) * p.column_step] = found ? total : {ty}(0);\n}}\n"
    )
}
