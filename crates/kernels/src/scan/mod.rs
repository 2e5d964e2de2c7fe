//! Running totals.
//!
//! A line is gone along by a team of threads, or by one where neighbouring lines are neighbours in memory. Where
//! there are few lines each is cut into segments: their totals are found first, then what comes before each, and
//! then every segment is a line of its own.

mod text;

use smallvec::SmallVec;
use streampool_device::{DType, Scan as Op, ScanKind, View};

use crate::dispatch::{Dispatch, Limits, Operand, Params, Plan, grid};
use crate::rows::dims::{Dim, Dims};
use crate::rows::packs::begins_aligned;

/// The functions `exchanged` and `before_lane`, over a function `combine`.
pub(crate) const LANES: &str = include_str!("lanes.h");

/// The function `before_thread`, over [`LANES`].
pub(crate) const GROUP: &str = include_str!("group.h");

/// Threads in each group.
const THREADS: usize = 256;

/// The fewest elements of a segment where neighbouring lines lie side by side.
const SHORTEST_COLUMN: usize = 128;

/// A kernel that goes along lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Scan {
    dtype: DType,
    kind: ScanKind,
    role: Role,
    form: Form,
    exclusive: bool,
    reverse: bool,
    /// Whether a thread's elements are moved at once.
    packed: bool,
    /// The class of the dimensions of lines.
    class: u8,
}

/// What is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Role {
    /// The running totals of whole lines.
    Whole,
    /// The total of each segment.
    Totals,
    /// The running totals of segments, from what comes before each.
    Carried,
}

/// Who goes along a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Form {
    /// `p.width` neighbouring threads, at most 32.
    Lanes,
    /// A whole group.
    Group,
    /// One thread: its neighbours go along neighbouring lines.
    Columns,
}

/// Elements that a thread takes at once.
const fn take(dtype: DType) -> usize {
    let most = 16 / dtype.size();
    if most > 8 { 8 } else { most }
}

/// The type that totals are kept in between launches.
const fn total_type(dtype: DType) -> DType {
    match dtype {
        DType::F16 | DType::BF16 => DType::F32,
        DType::I8 | DType::U8 | DType::I16 | DType::U16 => DType::I32,
        other => other,
    }
}

/// Lines, and how one goes along them.
#[derive(Debug, Clone, Copy)]
struct Lines {
    length: usize,
    dims: Dims<2>,
    /// Where the first element of the first line lies in source and result, in the order of the scan.
    begins: [isize; 2],
    steps: [isize; 2],
}

/// How lines are cut.
#[derive(Debug, Clone, Copy)]
struct Cut {
    segments: usize,
    /// Elements of a segment, but for the last.
    part: usize,
}

impl Lines {
    fn new(op: &Op) -> Lines {
        let length = op.src.shape()[op.axis];
        let views = [&op.src, &op.dst];
        let strides = views.map(|view| view.layout().strides());
        let others = op.src.shape().iter().enumerate();
        let dims = Dims::collapsed(others.map(|(axis, &size)| Dim {
            size: if axis == op.axis { 1 } else { size },
            strides: strides.map(|strides| strides[axis]),
        }));
        let steps = strides.map(|strides| strides[op.axis]);
        let begins = views.map(|view| view.layout().offset() as isize);
        let last = length.saturating_sub(1) as isize;
        match op.reverse {
            false => Lines {
                length,
                dims,
                begins,
                steps,
            },
            true => Lines {
                length,
                dims,
                begins: [0, 1].map(|operand| begins[operand] + last * steps[operand]),
                steps: steps.map(|step| -step),
            },
        }
    }

    fn form(&self, dtype: DType, limits: &Limits) -> Form {
        let across = self.dims.innermost();
        let neighbours = across.size >= 8 && across.strides[0].unsigned_abs() == 1;
        if neighbours && self.steps[0].unsigned_abs() > 1 {
            return Form::Columns;
        }
        let enough = 16 * limits.compute_units.max(1) as usize;
        if self.length <= 32 * take(dtype) || self.dims.elements() >= enough {
            return Form::Lanes;
        }
        Form::Group
    }

    /// The segments with which all processors are busy.
    fn cut(&self, form: Form, dtype: DType, limits: &Limits) -> Cut {
        let (units, lines) = (limits.compute_units.max(1) as usize, self.dims.elements());
        let (wanted, whole) = match form {
            Form::Lanes => (1, 1),
            Form::Group => ((4 * units).div_ceil(lines), 4 * THREADS * take(dtype)),
            Form::Columns => ((2 * THREADS * units).div_ceil(lines), SHORTEST_COLUMN),
        };
        let part = self.length.div_ceil(wanted).next_multiple_of(whole);
        match self.length.div_ceil(part) {
            0 | 1 => Cut {
                segments: 1,
                part: self.length,
            },
            segments => Cut { segments, part },
        }
    }

    /// Whether a thread's elements can be moved at once.
    fn is_packed(&self, op: &Op) -> bool {
        let take = take(op.src.dtype());
        let step = if op.reverse { -1 } else { 1 };
        self.steps == [step; 2]
            && self.length.is_multiple_of(take)
            && [&op.src, &op.dst]
                .into_iter()
                .all(|view| begins_aligned(view, take))
            && (0..2).all(|operand| self.dims.keep_alignment(operand, take))
    }

    /// The launch of `kernel`, whose segments the operands hold.
    fn launch<K: From<Scan>>(&self, kernel: Scan, cut: Cut, operands: &[Operand]) -> Dispatch<K> {
        let rows = self.dims.elements() * cut.segments;
        let (width, rows_of_group) = match kernel.form {
            Form::Lanes => {
                let width = self
                    .length
                    .div_ceil(take(kernel.dtype))
                    .next_power_of_two()
                    .min(32);
                (width, THREADS / width)
            }
            Form::Group => (THREADS, 1),
            Form::Columns => (1, THREADS),
        };
        let params = [rows, cut.segments, cut.part, self.length]
            .into_iter()
            .fold(Params::new(), |params, value| params.i64(value as i64));
        let params = self
            .begins
            .into_iter()
            .chain(self.steps)
            .fold(params, |params, value| params.i64(value as i64));
        Dispatch {
            kernel: kernel.into(),
            groups: grid([rows.div_ceil(rows_of_group), 1, 1]),
            threads: THREADS as u32,
            operands: SmallVec::from_slice(operands),
            params: self.dims.params(params).u32(width as u32),
        }
    }
}

/// `dst[i] = kind(src[0], ..., src[i])` along an axis.
pub(crate) fn scan<K: From<Scan>>(op: &Op, limits: &Limits) -> Plan<K> {
    let lines = Lines::new(op);
    if lines.length * lines.dims.elements() == 0 {
        return Plan::default();
    }
    let dtype = op.src.dtype();
    let form = lines.form(dtype, limits);
    let cut = lines.cut(form, dtype, limits);
    let kernel = Scan {
        dtype,
        kind: op.kind,
        role: Role::Whole,
        form,
        exclusive: op.exclusive,
        reverse: op.reverse,
        packed: form != Form::Columns && lines.is_packed(op),
        class: lines.dims.class(),
    };
    let memory = |view: &View| Operand::Memory(view.span());
    let (src, dst) = (memory(&op.src), memory(&op.dst));
    if cut.segments == 1 {
        return Plan::of(lines.launch(kernel, cut, &[src, dst]));
    }
    let total = total_type(dtype);
    let totals = Operand::Scratch(0);
    let count = lines.dims.elements();
    let first = Scan {
        role: Role::Totals,
        exclusive: false,
        ..kernel
    };
    let last = Scan {
        role: Role::Carried,
        ..kernel
    };
    let dispatches = [
        lines.launch(first, cut, &[src, totals]),
        between(op.kind, total, count, cut.segments),
        lines.launch(last, cut, &[src, totals, dst]),
    ];
    Plan::with_scratch(count * cut.segments * total.size(), dispatches)
}

/// Makes of the totals of the segments of `lines` lines, at the beginning of the scratch memory, what comes before
/// each.
fn between<K: From<Scan>>(
    kind: ScanKind,
    dtype: DType,
    lines: usize,
    segments: usize,
) -> Dispatch<K> {
    let step = segments as isize;
    let of_totals = Lines {
        length: segments,
        dims: Dims::collapsed(
            [Dim {
                size: lines,
                strides: [step; 2],
            }]
            .into_iter(),
        ),
        begins: [0; 2],
        steps: [1; 2],
    };
    let kernel = Scan {
        dtype,
        kind,
        role: Role::Whole,
        form: if segments <= 32 * take(dtype) {
            Form::Lanes
        } else {
            Form::Group
        },
        exclusive: true,
        reverse: false,
        packed: false,
        class: of_totals.dims.class(),
    };
    let cut = Cut {
        segments: 1,
        part: segments,
    };
    of_totals.launch(kernel, cut, &[Operand::Scratch(0); 2])
}

/// Makes of `count` numbers at the beginning of the scratch memory, `i64` each, the sums of all before each. With
/// one more behind them, that becomes the sum of all.
pub(crate) fn sums_before<K: From<Scan>>(count: usize) -> Dispatch<K> {
    between(ScanKind::Sum, DType::I64, 1, count)
}

#[cfg(test)]
mod tests;
