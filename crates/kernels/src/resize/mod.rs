//! Interpolation: a thread for each element of the result.

use std::cmp::Reverse;
use std::fmt::Write;

use smallvec::{SmallVec, smallvec};
use streampool_device::{Along, DType, Interpolation, MAX_RANK, Resize, Rounding, Scalar};

use crate::dispatch::{Dispatch, Operand, Params, Plan, grid};
use crate::elementwise::constant::stored;
use crate::elementwise::form::{
    distance, distance_type, number, number_field, number_type, positions, size, size_fields,
};
use crate::text::{Buffer, Dialect, Field, KernelText, compute_type, load, storage_type, store};

/// Threads in each group.
const THREADS: u32 = 256;
/// Longer dimensions have places that are not counted in 32 bits.
const LIMIT: usize = 1 << 30;

/// A kernel that interpolates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Resizing {
    /// The type, or for the nearest any of its size.
    dtype: DType,
    filter: Filter,
    /// Whether elements beyond an edge get no weight.
    exclude: bool,
    /// Whether places beyond an edge have a value of their own.
    outside: bool,
    rank: u8,
    /// A bit for each dimension whose places are not its elements.
    moved: u8,
    wide: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Filter {
    Nearest(Rounding),
    Linear { stretched: bool },
    Cubic { stretched: bool },
}

/// One dimension, or several that are gone over as one.
#[derive(Debug, Clone, Copy)]
struct Dim {
    /// Of the source and of the result.
    sizes: [usize; 2],
    strides: [isize; 2],
    /// `None` where places are the elements.
    along: Option<Along>,
}

/// The launch of an interpolation; `None` if its places are beyond counting.
pub(crate) fn resize<K: From<Resizing>>(op: &Resize) -> Option<Plan<K>> {
    let elements = op.dst.layout().elements();
    if elements == 0 {
        return Some(Plan::default());
    }
    let dims = dims(op);
    if dims
        .iter()
        .any(|dim| dim.along.is_some() && dim.sizes.iter().any(|&size| size >= LIMIT))
    {
        return None;
    }
    let reach = |operand: usize| {
        let far = |dim: &Dim| (dim.sizes[operand] - 1) * dim.strides[operand].unsigned_abs();
        dims.iter().map(far).sum::<usize>()
    };
    let wide = [elements, reach(0), reach(1)]
        .iter()
        .any(|&most| most >= 1 << 31);
    let stretched = op.antialias;
    let kernel = Resizing {
        dtype: match op.interpolation {
            Interpolation::Nearest(_) => of_size(op.src.dtype()),
            _ => op.src.dtype(),
        },
        filter: match op.interpolation {
            Interpolation::Nearest(rounding) => Filter::Nearest(rounding),
            Interpolation::Linear => Filter::Linear { stretched },
            Interpolation::Cubic(_) => Filter::Cubic { stretched },
        },
        exclude: op.exclude_outside,
        outside: op.outside.is_some(),
        rank: dims.len() as u8,
        moved: (dims.iter().enumerate())
            .map(|(axis, dim)| u8::from(dim.along.is_some()) << axis)
            .sum(),
        wide,
    };
    let groups = elements.div_ceil(THREADS as usize);
    let memory = |view: &streampool_device::View| Operand::Memory(view.span());
    Some(Plan::of(Dispatch {
        kernel: kernel.into(),
        groups: grid([groups, 1, 1]),
        threads: THREADS,
        operands: smallvec![memory(&op.src), memory(&op.dst)],
        params: kernel.params(op, &dims, elements),
    }))
}

/// The type of unsigned numbers as long as those of `dtype`.
fn of_size(dtype: DType) -> DType {
    match dtype.size() {
        1 => DType::U8,
        2 => DType::U16,
        4 => DType::U32,
        _ => DType::U64,
    }
}

/// The op's dimensions, in the order in which the result lies. Neighbours whose places are the elements are one where they
/// lie so.
fn dims(op: &Resize) -> SmallVec<[Dim; MAX_RANK]> {
    let mut dims: SmallVec<[Dim; MAX_RANK]> = SmallVec::new();
    let mut axes: SmallVec<[usize; MAX_RANK]> = (0..op.along.len()).collect();
    axes.sort_by_key(|&axis| Reverse(op.dst.layout().strides()[axis].unsigned_abs()));
    for axis in axes {
        let along = op.along[axis];
        let sizes = [&op.src, &op.dst].map(|view| view.shape()[axis]);
        let strides = [&op.src, &op.dst].map(|view| view.layout().strides()[axis]);
        let is_still = sizes[0] == sizes[1] && along == Along::default();
        if is_still && sizes[0] == 1 {
            continue;
        }
        let dim = Dim {
            sizes,
            strides,
            along: (!is_still).then_some(along),
        };
        match dims.last_mut() {
            Some(outer) if is_still && outer.along.is_none() && outer.steps_over(&dim) => {
                outer.sizes = outer.sizes.map(|size| size * sizes[0]);
                outer.strides = strides;
            }
            _ => dims.push(dim),
        }
    }
    dims
}

impl Dim {
    /// Whether it goes on where `inner` ends.
    fn steps_over(&self, inner: &Dim) -> bool {
        let follows = |operand: usize| {
            self.strides[operand] == inner.strides[operand] * inner.sizes[0] as isize
        };
        follows(0) && follows(1)
    }
}

impl Resizing {
    fn is_moved(&self, axis: usize) -> bool {
        self.moved >> axis & 1 != 0
    }

    fn is_nearest(&self) -> bool {
        matches!(self.filter, Filter::Nearest(_))
    }

    fn axes(&self) -> std::ops::Range<usize> {
        0..usize::from(self.rank)
    }

    fn fields(&self) -> Vec<Field> {
        let distance = distance_type(self.wide);
        let mut fields = vec![number_field(self.wide, "count")];
        for axis in self.axes().skip(1) {
            fields.extend(size_fields(self.wide, axis));
        }
        for operand in ["src", "dst"] {
            fields.push(Field::new("i64", format!("{operand}_at")));
            fields.extend(
                self.axes()
                    .map(|axis| Field::new(distance, format!("{operand}_{axis}"))),
            );
        }
        for axis in self.axes().filter(|&axis| self.is_moved(axis)) {
            fields.push(Field::new("i32", format!("extent_{axis}")));
            fields.push(Field::new("i64", format!("scale_{axis}")));
            fields.push(Field::new("i64", format!("shift_{axis}")));
            fields.push(Field::new("f32", format!("scale_near_{axis}")));
        }
        if matches!(self.filter, Filter::Cubic { .. }) {
            fields.push(Field::new(compute_type(self.dtype), "a"));
        }
        if self.outside {
            let ty = match self.dtype.size() {
                8 => "i64",
                _ => "u32",
            };
            fields.push(Field::new(ty, "outside"));
        }
        fields
    }

    /// The values of [`fields`](Self::fields).
    fn params(&self, op: &Resize, dims: &[Dim], elements: usize) -> Params {
        let mut params = number(Params::new(), self.wide, elements);
        for dim in dims.iter().skip(1) {
            params = size(params, self.wide, dim.sizes[1]);
        }
        for (operand, view) in [&op.src, &op.dst].into_iter().enumerate() {
            params = params.i64(view.layout().offset() as i64);
            for dim in dims {
                params = distance(params, self.wide, dim.strides[operand]);
            }
        }
        for dim in dims {
            if let Some(along) = dim.along {
                params = params
                    .size(dim.sizes[0])
                    .i64(along.scale.to_bits() as i64)
                    .i64(along.shift.to_bits() as i64)
                    .f32(along.scale as f32);
            }
        }
        if let Interpolation::Cubic(a) = op.interpolation {
            params = match self.dtype {
                DType::F64 => params.f64(a),
                _ => params.f32(a as f32),
            };
        }
        match op.outside {
            Some(value) => {
                let bits = stored(Scalar::Float(value), op.src.dtype());
                match self.dtype.size() {
                    8 => params.i64(bits as i64),
                    _ => params.u32(bits as u32),
                }
            }
            None => params,
        }
    }

    pub(crate) fn text(&self, dialect: Dialect) -> Option<KernelText> {
        if dialect == Dialect::Metal && self.dtype == DType::F64 {
            return None;
        }
        let stored = storage_type(self.dtype);
        Some(KernelText {
            entry: "resize",
            buffers: vec![Buffer::read("src", stored), Buffer::write("dst", stored)],
            params: self.fields(),
            threads: Some(THREADS),
            functions: self.functions(),
            body: self.body(),
            ..KernelText::default()
        })
    }

    fn functions(&self) -> String {
        let number = match self.is_nearest() {
            true => "f32",
            false => compute_type(self.dtype),
        };
        let mut text = format!(
            "typedef {} Stored;\ntypedef {number} Number;\ntypedef {} Count;\ntypedef {} Distance;\n",
            storage_type(self.dtype),
            number_type(self.wide),
            distance_type(self.wide)
        );
        text.push_str(include_str!("place.h"));
        let (cubic, stretched) = match self.filter {
            Filter::Nearest(rounding) => {
                let rounded = match rounding {
                    Rounding::HalfDown => "place.part > Part(0.5f) ? 1 : 0",
                    Rounding::HalfUp => "place.part >= Part(0.5f) ? 1 : 0",
                    Rounding::Floor => "0",
                    Rounding::Ceil => "place.part > Part(0.0f) ? 1 : 0",
                };
                let _ = writeln!(
                    text,
                    "FUNCTION i32 nearest(Place place, i32 extent) {{\n    \
                     return clamped(place.whole + ({rounded}), extent);\n}}"
                );
                return text;
            }
            Filter::Linear { stretched } => (false, stretched),
            Filter::Cubic { stretched } => (true, stretched),
        };
        let defines = [
            ("CUBIC", u32::from(cubic)),
            ("STRETCHED", u32::from(stretched)),
            ("EXCLUDE", u32::from(self.exclude)),
        ];
        for (name, value) in defines {
            let _ = writeln!(text, "#define {name} {value}");
        }
        text.push_str(include_str!("filter.h"));
        text
    }

    fn body(&self) -> String {
        let mut text = String::from(
            "    const Count index = Count(group_x) * threads + lane;\n    \
             if (index >= p.count) { return; }\n",
        );
        let rank = usize::from(self.rank);
        text.push_str(&match rank {
            0 => String::new(),
            _ => positions(self.wide, rank, "index"),
        });
        let steps: Vec<String> = self
            .axes()
            .map(|axis| format!("position{axis} * p.dst_{axis}"))
            .collect();
        let sum = if steps.is_empty() {
            "0".to_owned()
        } else {
            steps.join(" + ")
        };
        let _ = writeln!(text, "    const i64 to = p.dst_at + ({sum});");
        text.push_str("    GLOBAL const Stored* from = src + p.src_at;\n");
        for axis in self.axes() {
            if !self.is_moved(axis) {
                let _ = writeln!(text, "    from += position{axis} * p.src_{axis};");
                continue;
            }
            let _ = writeln!(
                text,
                "    const Place place{axis} = place_of(u32(position{axis}), p.scale_{axis}, p.shift_{axis});"
            );
            if self.outside {
                let value = match (self.is_nearest(), self.dtype) {
                    (false, DType::F32) => "bits_f32(p.outside)",
                    (false, DType::F64) => "bits_f64(u64(p.outside))",
                    _ => "Stored(p.outside)",
                };
                let _ = writeln!(
                    text,
                    "    if (is_outside(place{axis}, p.extent_{axis})) {{ dst[to] = {value}; return; }}"
                );
            }
            if self.is_nearest() {
                let _ = writeln!(
                    text,
                    "    from += Distance(nearest(place{axis}, p.extent_{axis})) * p.src_{axis};"
                );
            }
        }
        if self.is_nearest() {
            text.push_str("    dst[to] = from[0];\n");
            return text;
        }
        text.push_str(&self.sum());
        text
    }

    /// Statements that add up what counts for the place, and store it.
    fn sum(&self) -> String {
        let moved = || self.axes().filter(|&axis| self.is_moved(axis));
        let a = match self.filter {
            Filter::Cubic { .. } => "p.a",
            _ => "Number(0)",
        };
        let mut text = String::new();
        for axis in moved() {
            let _ = writeln!(
                text,
                "    const Taps taps{axis} = taps_of(place{axis}, p.extent_{axis}, \
                 SCALE({axis}), {a});"
            );
        }
        let stretched = matches!(
            self.filter,
            Filter::Linear { stretched: true } | Filter::Cubic { stretched: true }
        );
        // A sum for each dimension, of the sums of the next.
        let (ty, nothing) = match stretched {
            true => ("Sum", "no_sum()"),
            false => ("Number", "Number(0)"),
        };
        let total = |sum: &str| match stretched {
            true => format!("total_of({sum})"),
            false => sum.to_owned(),
        };
        let join = |sum: &str, weight: &str, value: &str| match stretched {
            true => format!("{sum} = added({sum}, {weight} * {value});"),
            false => format!("{sum} = m_fma({weight}, {value}, {sum});"),
        };
        let _ = writeln!(text, "    {ty} sum = {nothing};");
        let mut offset = "Distance(0)".to_owned();
        let mut sums = vec!["sum".to_owned()];
        for axis in moved() {
            let _ = writeln!(
                text,
                "    LOOP\n    for (i32 tap{axis} = 0; tap{axis} < COUNT(taps{axis}); ++tap{axis}) {{\n    \
                 const Number weight{axis} = weight_of(taps{axis}, tap{axis}, p.extent_{axis}, {a});\n    \
                 if (weight{axis} == Number(0)) {{ continue; }}\n    \
                 const Distance offset{axis} = {offset} + \
                 Distance(clamped(taps{axis}.first + tap{axis}, p.extent_{axis})) * p.src_{axis};"
            );
            if moved().next_back() != Some(axis) {
                let _ = writeln!(text, "    {ty} sum{axis} = {nothing};");
            }
            offset = format!("offset{axis}");
            sums.push(format!("sum{axis}"));
        }
        let value = load(self.dtype, &format!("from[{offset}]"));
        // The innermost sum is one element.
        let mut inner = format!("Number({value})");
        sums.pop();
        let axes: Vec<usize> = moved().collect();
        for (sum, axis) in sums.iter().zip(&axes).rev() {
            let joined = join(sum, &format!("weight{axis}"), &inner);
            let _ = writeln!(text, "    {joined}\n    }}");
            inner = total(sum);
        }
        if axes.is_empty() {
            let _ = writeln!(text, "    dst[to] = {};", store(self.dtype, &inner));
            return text;
        }
        let _ = writeln!(text, "    dst[to] = {};", store(self.dtype, &total("sum")));
        text
    }
}
