//! Pooling: a thread for each window.

use std::fmt::Write;

use smallvec::{SmallVec, smallvec};
use streampool_device::{DType, Pool, PoolKind};

use crate::dispatch::{Dispatch, Limits, Operand, Params, Plan, grid};
use crate::elementwise::form::{distance_type, number_type};
use crate::rows;
use crate::spatial::{self, Order, slides};
use crate::text::{Buffer, Dialect, Field, KernelText, compute_type, load, storage_type, store};

/// Threads in each group.
const THREADS: u32 = 256;
/// A window of at most so many elements is unrolled.
const MOST_UNROLLED: u32 = 32;

/// A kernel that pools windows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Pooling {
    dtype: DType,
    action: Action,
    /// The window's extents where it is small.
    unrolled: Option<[u8; 3]>,
    order: Order,
    wide: bool,
}

/// What becomes of a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Action {
    Largest { indexed: bool },
    Mean { padded: bool },
    AbsoluteSum,
    RootOfSquares,
    Lp,
}

/// The launch of a pooling; `None` if its places are beyond counting.
pub(crate) fn pool<K>(op: &Pool, limits: &Limits) -> Option<Plan<K>>
where
    K: From<Pooling> + From<rows::Rows>,
{
    if op.dst.layout().elements() == 0 {
        return Some(Plan::default());
    }
    if let Some((kind, axes)) = op.as_reduction() {
        return Some(rows::reduce(kind, &op.src, &op.dst, axes, limits));
    }
    if !spatial::is_countable(&op.window, [&op.src, &op.dst]) {
        return None;
    }
    let mut views: SmallVec<[_; 3]> = smallvec![&op.src, &op.dst];
    views.extend(&op.indices);
    let wide = spatial::is_wide(&views);
    let kernels = slides(&op.window).map(|slide| slide.kernel);
    let small = kernels
        .iter()
        .try_fold(1u32, |product, &kernel| product.checked_mul(kernel));
    let kernel = Pooling {
        dtype: op.src.dtype(),
        action: match op.kind {
            PoolKind::Max => Action::Largest {
                indexed: op.indices.is_some(),
            },
            PoolKind::Mean { count_padding } => Action::Mean {
                padded: count_padding,
            },
            PoolKind::Lp(1.0) => Action::AbsoluteSum,
            PoolKind::Lp(2.0) => Action::RootOfSquares,
            PoolKind::Lp(_) => Action::Lp,
        },
        unrolled: small
            .filter(|&product| product <= MOST_UNROLLED)
            .map(|_| kernels.map(|kernel| kernel as u8)),
        order: Order::of(&op.dst),
        wide,
    };
    let shape = spatial::shape(&op.dst);
    let mut params = kernel.order.count(Params::new(), wide, shape);
    for view in &views {
        params = spatial::walk(params, wide, view);
    }
    params = spatial::window(params, &op.window, spatial::shape(&op.src));
    if let (Action::Lp, PoolKind::Lp(power)) = (kernel.action, op.kind) {
        params = match kernel.dtype {
            DType::F64 => params.f64(power).f64(1.0 / power),
            _ => params.f32(power as f32).f32((1.0 / power) as f32),
        };
    }
    let groups = op.dst.layout().elements().div_ceil(THREADS as usize);
    Some(Plan::of(Dispatch {
        kernel: kernel.into(),
        groups: grid([groups, 1, 1]),
        threads: THREADS,
        operands: views
            .iter()
            .map(|view| Operand::Memory(view.span()))
            .collect(),
        params,
    }))
}

impl Pooling {
    pub(crate) fn text(&self, dialect: Dialect) -> Option<KernelText> {
        if dialect == Dialect::Metal && self.dtype == DType::F64 {
            return None;
        }
        let indexed = self.action == Action::Largest { indexed: true };
        let stored = storage_type(self.dtype);
        let mut buffers = vec![Buffer::read("src", stored), Buffer::write("dst", stored)];
        let mut operands = vec!["src", "dst"];
        if indexed {
            buffers.push(Buffer::write("indices", "i64"));
            operands.push("indices");
        }
        let mut params = spatial::count_fields(self.wide);
        for operand in operands {
            params.extend(spatial::walk_fields(self.wide, operand));
        }
        params.extend(spatial::window_fields());
        if self.action == Action::Lp {
            let ty = compute_type(self.dtype);
            params.extend(["power", "root"].map(|name| Field::new(ty, name)));
        }
        let mut body = String::new();
        let _ = writeln!(
            body,
            "    const Count index = Count(group_x) * threads + lane;\n    \
             if (index >= p.count) {{ return; }}"
        );
        body.push_str(&self.order.places(self.wide));
        body.push_str(include_str!("body.h"));
        Some(KernelText {
            entry: "pool",
            buffers,
            params,
            threads: Some(THREADS),
            functions: self.functions(),
            body,
            ..KernelText::default()
        })
    }

    fn functions(&self) -> String {
        let number = compute_type(self.dtype);
        let mut text = format!(
            "typedef {number} Number;\ntypedef {} Stored;\ntypedef {} Count;\ntypedef {} Distance;\n",
            storage_type(self.dtype),
            number_type(self.wide),
            distance_type(self.wide)
        );
        let is_float = self.dtype.is_float();
        let (start, join, finish) = match self.action {
            Action::Largest { indexed } => (
                lowest(self.dtype),
                match (indexed, is_float) {
                    (true, true) => {
                        "if (inside && (place < 0 || value > result || \
                         (m_isnan(value) && !m_isnan(result)))) { result = value; place = PLACE; }"
                    }
                    (true, false) => {
                        "if (inside && (place < 0 || value > result)) { result = value; place = PLACE; }"
                    }
                    (false, true) => "result = m_max(result, value);",
                    (false, false) => "result = int_max(result, value);",
                },
                "result",
            ),
            Action::Mean { .. } => (
                "Number(0)".to_owned(),
                "result = JOINED(result);",
                "result / Number(count > 0 ? count : 1)",
            ),
            Action::AbsoluteSum => ("Number(0)".to_owned(), "result = JOINED(result);", "result"),
            Action::RootOfSquares => (
                "Number(0)".to_owned(),
                "result = JOINED(result);",
                "m_sqrt(result)",
            ),
            Action::Lp => (
                "Number(0)".to_owned(),
                "result = JOINED(result);",
                "m_pow(result, p.root)",
            ),
        };
        // What an element is joined to a sum as.
        let joined = match self.action {
            Action::Largest { .. } => "",
            Action::Mean { .. } => "((sum) + value)",
            Action::AbsoluteSum => "((sum) + m_abs(value))",
            Action::RootOfSquares => "m_fma(value, value, sum)",
            Action::Lp => "((sum) + m_pow(m_abs(value), p.power))",
        };
        let is_sum = !matches!(self.action, Action::Largest { .. });
        let defines = [
            ("NEUTRAL", start),
            ("SUMMED", u32::from(is_sum).to_string()),
            ("UNROLLED", u32::from(self.unrolled.is_some()).to_string()),
            ("JOINED(sum)", joined.to_owned()),
            ("JOIN", join.to_owned()),
            ("FINISHED", store(self.dtype, &format!("({finish})"))),
            ("LOADED(at)", load(self.dtype, "from[at]")),
            (
                "INDEXED",
                u32::from(self.action == Action::Largest { indexed: true }).to_string(),
            ),
            (
                "PADDED",
                u32::from(self.action == Action::Mean { padded: true }).to_string(),
            ),
            ("TAPS", self.unrolled.map_or("", |_| "UNROLL").to_owned()),
        ];
        for (name, value) in defines {
            let _ = writeln!(text, "#define {name} {value}");
        }
        for axis in 0..3 {
            let _ = match self.unrolled {
                Some(kernels) => writeln!(text, "#define KERNEL_{axis} {}", kernels[axis]),
                None => writeln!(text, "#define KERNEL_{axis} p.kernel_{axis}"),
            };
        }
        text.push_str(include_str!("functions.h"));
        text
    }
}

/// The lowest value of a type, as text.
fn lowest(dtype: DType) -> String {
    match dtype {
        DType::F64 => "-infinity_f64()".to_owned(),
        _ if dtype.is_float() => "-infinity_f32()".to_owned(),
        _ if dtype.is_unsigned() => format!("{}(0)", storage_type(dtype)),
        DType::I64 => "i64(u64(1) << 63)".to_owned(),
        _ => format!(
            "{}({} - 1)",
            storage_type(dtype),
            1 - (1i64 << (8 * dtype.size() - 1))
        ),
    }
}
