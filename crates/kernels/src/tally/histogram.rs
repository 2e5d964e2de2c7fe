//! Counts per bin: each group counts a part of the source in the memory it shares, and the counts of all groups
//! are added in their order. More bins than fit there are counted in the scratch memory.

use smallvec::SmallVec;
use streampool_device::{DType, Histogram, View};

use super::launch::{THREADS, dispatch};
use crate::dispatch::{Limits, Operand, Params, Plan};
use crate::rows::dims::{self, Dim, Dims};
use crate::text::{
    Buffer, Changed, Dialect, Field, KernelText, SharedArray, atomics, compute_type, load,
    storage_type, store,
};

/// How many bins fit in what a group shares: a kernel is made for each number.
const SHARED_BINS: [usize; 3] = [256, 1024, 4096];

/// Elements that a thread counts at least.
const ELEMENTS_OF_THREAD: usize = 16;

/// Groups for each processor, at most.
const GROUPS_PER_UNIT: usize = 4;

/// No more elements are counted in one word.
const MOST_IN_ONE: usize = 1 << 31;

/// What bins are summed in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Sum {
    /// Counts.
    Count,
    /// Sums of weights.
    Single,
    /// Sums of wide weights.
    Double,
}

/// A kernel that adds elements to bins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Adding {
    src: DType,
    weights: Option<DType>,
    /// Bins that the group has room for; none if the bins are in the scratch memory.
    shared: Option<u16>,
    class: u8,
}

/// A kernel that adds up the bins of all parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Finishing {
    sum: Sum,
    dst: DType,
}

impl Sum {
    fn of(weights: Option<DType>) -> Sum {
        match weights {
            None => Sum::Count,
            Some(DType::F64) => Sum::Double,
            Some(_) => Sum::Single,
        }
    }

    const fn ty(self) -> &'static str {
        match self {
            Sum::Count => "u32",
            Sum::Single => "f32",
            Sum::Double => "f64",
        }
    }

    /// Words of a bin: a sum of floats has one for what its additions lost. Without, a bin that many elements lie in would
    /// grow no more.
    const fn words(self) -> usize {
        match self {
            Sum::Count | Sum::Double => 1,
            Sum::Single => 2,
        }
    }

    const fn size(self) -> usize {
        match self {
            Sum::Count | Sum::Single => 4,
            Sum::Double => 8,
        }
    }

    fn exists_in(self, dialect: Dialect) -> bool {
        self != Sum::Double || dialect == Dialect::Cuda
    }

    pub(super) fn clear_text(self, dialect: Dialect) -> Option<KernelText> {
        self.exists_in(dialect).then(|| KernelText {
            entry: "clear_bins",
            buffers: vec![Buffer::write("sums", self.ty())],
            params: vec![Field::new("i64", "count")],
            threads: Some(THREADS),
            body: "for (i64 bin = i64(group_x) * threads + lane; bin < p.count; bin += i64(groups_x) * threads)\n\
                   sums[bin] = 0;\n"
                .to_owned(),
            ..KernelText::default()
        })
    }
}

/// A kernel of a histogram.
pub enum Counting {
    /// Sums that nothing was added to yet.
    Clear(Sum),
    /// What elements of a part of the source add to the bins.
    Add(Adding),
    /// The bins of all parts.
    Finish(Finishing),
}

/// `dst[b] =` how many elements of `src` lie in bin `b`, or the sum of their weights.
///
/// Along axes that are broadcast in the source and the weights, all elements are one.
pub(super) fn histogram<K>(
    op: &Histogram,
    limits: &Limits,
    kind: impl Fn(Counting) -> K,
) -> Plan<K> {
    let bins = op.dst.layout().elements();
    let weights = op.weights.as_ref().unwrap_or(&op.src);
    let strides = [&op.src, weights].map(|view| view.layout().strides());
    let is_one = |axis: usize| strides.iter().all(|strides| strides[axis] == 0);
    let shape = || op.src.shape().iter().enumerate();
    let repeats: usize = shape()
        .filter(|&(axis, &size)| size > 1 && is_one(axis))
        .map(|(_, &size)| size)
        .product();
    let space = Dims::collapsed(shape().map(|(axis, &size)| Dim {
        size: if is_one(axis) { size.min(1) } else { size },
        strides: strides.map(|strides| strides[axis]),
    }));
    let count = space.elements();
    let sum = Sum::of(op.weights.as_ref().map(View::dtype));
    let shared = SHARED_BINS.into_iter().find(|&room| bins <= room);
    let most = GROUPS_PER_UNIT * limits.compute_units.max(1) as usize;
    let groups = count
        .div_ceil(THREADS as usize * ELEMENTS_OF_THREAD)
        .clamp(1, most);
    let copies = match shared {
        Some(_) => groups,
        None => count.div_ceil(MOST_IN_ONE).max(1),
    };
    let kernel = Adding {
        src: op.src.dtype(),
        weights: op.weights.as_ref().map(View::dtype),
        shared: shared.map(|room| room as u16),
        class: space.class(),
    };
    let begins = [&op.src, weights].map(|view| view.layout().offset() as i64);
    let params = [count as i64, bins as i64, copies as i64]
        .into_iter()
        .chain(begins)
        .chain([op.low, op.high].map(|end| end.to_bits() as i64))
        .fold(Params::new(), Params::i64)
        .f32(near(op.low))
        .f32(near(op.high));
    let memory = |view: &View| Operand::Memory(view.span());
    let sums = Operand::Scratch(0);
    let mut operands: SmallVec<[Operand; 4]> = SmallVec::from_iter([memory(&op.src)]);
    operands.extend(op.weights.as_ref().map(memory));
    operands.push(sums);
    // More than any device has does not fit, and is refused.
    let words = copies.saturating_mul(sum.words()).saturating_mul(bins);
    let mut plan = Plan {
        scratch: words.saturating_mul(sum.size()),
        ..Plan::default()
    };
    if shared.is_none() {
        let cleared = words.div_ceil(THREADS as usize).min(most);
        let params = Params::new().i64(words as i64);
        plan.push(dispatch(
            kind(Counting::Clear(sum)),
            cleared,
            &[sums],
            params,
        ));
    }
    plan.push(dispatch(
        kind(Counting::Add(kernel)),
        groups,
        &operands,
        space.params(params),
    ));
    let finishing = Finishing {
        sum,
        dst: op.dst.dtype(),
    };
    let layout = op.dst.layout();
    let params = [
        bins as i64,
        (copies * sum.words()) as i64,
        repeats as i64,
        layout.offset() as i64,
        layout.strides()[0] as i64,
    ]
    .into_iter()
    .fold(Params::new(), Params::i64);
    let groups = bins.div_ceil(THREADS as usize);
    plan.push(dispatch(
        kind(Counting::Finish(finishing)),
        groups,
        &[sums, memory(&op.dst)],
        params,
    ));
    plan
}

impl Adding {
    pub(super) fn text(&self, dialect: Dialect) -> Option<KernelText> {
        let sum = Sum::of(self.weights);
        let metal = dialect == Dialect::Metal;
        if !sum.exists_in(dialect) || metal && self.src == DType::F64 {
            return None;
        }
        let mut buffers = vec![Buffer::read("src", storage_type(self.src))];
        buffers.extend(
            self.weights
                .map(|dtype| Buffer::read("weights", storage_type(dtype))),
        );
        buffers.push(Buffer::write("sums", sum.ty()));
        let mut params: Vec<Field> = [
            "count",
            "bins",
            "copies",
            "src_at",
            "weights_at",
            "low",
            "high",
        ]
        .map(|name| Field::new("i64", name))
        .into();
        params.extend(["low_near", "high_near"].map(|name| Field::new("f32", name)));
        dims::fields(&mut params, "place", self.class, &["src", "weights"]);
        let changed = match self.shared {
            Some(_) => Changed::Group,
            None => Changed::Device,
        };
        let shared = self
            .shared
            .map(|room| SharedArray::new(sum.ty(), "bins", usize::from(room) * sum.words()));
        Some(KernelText {
            entry: "add_to_bins",
            buffers,
            params,
            shared: shared.into_iter().collect(),
            threads: Some(THREADS),
            functions: format!(
                "{}{}{}",
                dims::FUNCTIONS,
                atomics(dialect, changed),
                bin_of(dialect)
            ),
            body: self.body(sum, dialect),
        })
    }

    fn body(&self, sum: Sum, dialect: Dialect) -> String {
        let ty = sum.ty();
        let (open, place, close) = match self.shared {
            Some(_) => (
                "for (u32 bin = lane; bin < WORDS * p.bins; bin += threads) bins[bin] = 0;\nBARRIER();\n",
                "bins + bin",
                "BARRIER();\nfor (u32 bin = lane; bin < WORDS * p.bins; bin += threads)\n\
                 sums[i64(group_x) * WORDS * p.bins + bin] = bins[bin];\n",
            ),
            None => (
                "GLOBAL SUM* own = sums + i64(group_x) % p.copies * WORDS * p.bins;\n",
                "own + bin",
                "",
            ),
        };
        let weight = match self.weights {
            None => "1u".to_owned(),
            Some(dtype) => load(dtype, "weights[weight_at]"),
        };
        let words = sum.words().to_string();
        let (range, real) = match dialect {
            Dialect::Cuda => ("bits_f64(p.low), bits_f64(p.high)", "f64"),
            Dialect::Metal => ("p.low_near, p.high_near", "f32"),
        };
        format!(
            "{open}\
             for (i64 index = i64(group_x) * threads + lane; index < p.count; index += i64(groups_x) * threads) {{\n\
             i64 from = p.src_at, weight_at = p.weights_at;\n\
             {locate}\
             const i64 bin = bin_of({real}({value}), {range}, p.bins);\n\
             if (bin >= 0) {{ {add} }}\n}}\n\
             {close}",
            open = open.replace("SUM", ty).replace("WORDS", &words),
            close = close.replace("WORDS", &words),
            add = match sum {
                Sum::Count | Sum::Double => format!("add_at({place}, {ty}({weight}));"),
                // What is lost is exact; of infinite sums it is nothing.
                Sum::Single => format!(
                    "const f32 weight = f32({weight}), old = added_at({place}, weight), sum = old + weight;\n\
                     const f32 kept = sum - old, lost = (old - (sum - kept)) + (weight - kept);\n\
                     if (m_abs(lost) > 0.0f) add_at({place} + p.bins, lost);"
                ),
            },
            locate = dims::locate(
                "place",
                self.class,
                "index",
                &[("from", "src"), ("weight_at", "weights")]
            ),
            value = load(self.src, "src[from]"),
        )
    }
}

/// An end of the range where there are no wide floats: as finite as it was.
fn near(end: f64) -> f32 {
    (end as f32).clamp(f32::MIN, f32::MAX)
}

/// The function `bin_of`: the bin of a value, or -1. Where there are no wide floats, what is very near to the end of
/// a bin may fall into the one beside it.
fn bin_of(dialect: Dialect) -> String {
    // A range of half of all floats is infinite, but not its half; that of ends that are the same is NaN.
    let (real, part) = match dialect {
        Dialect::Cuda => ("f64", "(value - low) / (high - low)"),
        Dialect::Metal => (
            "f32",
            "(value * 0.5f - low * 0.5f) / (high * 0.5f - low * 0.5f)",
        ),
    };
    format!(
        "FUNCTION i64 bin_of({real} value, {real} low, {real} high, i64 bins) {{
    if (!(value >= low && value <= high)) return -1;
    const {real} part = {part};
    const i64 bin = part < {real}(1) ? i64(m_mul(part, {real}(bins))) : bins;
    return bin < bins ? bin : bins - 1;
}}
"
    )
}

impl Finishing {
    pub(super) fn text(&self, dialect: Dialect) -> Option<KernelText> {
        if !self.sum.exists_in(dialect) {
            return None;
        }
        let ty = match self.sum {
            Sum::Count => "i64",
            Sum::Single | Sum::Double => self.sum.ty(),
        };
        debug_assert_eq!(ty, compute_type(self.dst));
        Some(KernelText {
            entry: "add_up_bins",
            buffers: vec![
                Buffer::read("sums", self.sum.ty()),
                Buffer::write("dst", storage_type(self.dst)),
            ],
            params: ["bins", "words", "repeats", "dst_at", "dst_step"]
                .map(|name| Field::new("i64", name))
                .into(),
            threads: Some(THREADS),
            body: format!(
                "const i64 bin = i64(group_x) * threads + lane;\n\
                 if (bin < p.bins) {{\n\
                 {ty} total = 0;\n\
                 for (i64 word = 0; word < p.words; word++) total += {ty}(sums[word * p.bins + bin]);\n\
                 dst[p.dst_at + bin * p.dst_step] = {stored};\n}}\n",
                stored = store(self.dst, &format!("(total * {ty}(p.repeats))")),
            ),
            ..KernelText::default()
        })
    }
}
