//! The types that are multiplied: how they become units, and how they are packed.

use std::mem::MaybeUninit;

use half::{bf16, f16};
use streampool_device::Activation;

use super::multiply::Unit;
use crate::kernels::convert::{Float, Native};
use crate::kernels::real::Real;
use crate::kernels::simd::{Machine, vectorised};
use crate::kernels::smooth::activate_rows;

/// The most elements in a unit.
pub(in crate::kernels) const MOST_PER_UNIT: usize = 4;

/// An element type of the operands of a product.
pub(in crate::kernels) trait Factor: Copy + Send + Sync + 'static {
    /// What it is multiplied as, and summed in.
    type Unit: Unit;
    /// An element of the product.
    type Out: Native;
    /// Elements in a unit.
    const PER_UNIT: usize;
    /// Whether an element is its own unit, so that operands can be multiplied where they lie.
    const IN_PLACE: bool;
    /// Whether a sum is an element of the product, so that it can be summed where it will lie.
    const SUMS_ARE_OUT: bool;
    /// How many `bf16` an element is the sum of, exactly; none if it is no such sum, or its unit no `f32`.
    const PLANES: usize;

    /// A unit of neighbouring elements, as many as are in one; those behind the first are nothing where the dimension ends.
    fn unit(first: Self, rest: [Option<Self>; MOST_PER_UNIT - 1]) -> Self::Unit;
    /// A unit as it is packed of the left operand.
    #[inline(always)]
    fn left_unit(unit: Self::Unit) -> Self::Unit {
        unit
    }
    /// A sum times `alpha`.
    fn scale(sum: Self::Unit, alpha: f64) -> Self::Unit;
    /// A sum plus an element of the bias.
    fn add(sum: Self::Unit, bias: Self::Out) -> Self::Unit;
    /// Applies the activation to the sums of these rows, which begin so far from one another.
    ///
    /// # Safety
    /// As for [`activate_rows`].
    unsafe fn activate<M: Machine>(
        activation: Activation,
        sums: *mut Self::Unit,
        rows: (usize, usize),
        columns: usize,
    );
    /// A sum as an element of the product.
    fn narrow(sum: Self::Unit) -> Self::Out;
}

macro_rules! floats {
    ($($type:ty: $in_place:literal, $planes:literal;)*) => {$(
        impl Factor for $type {
            type Unit = <$type as Float>::Wide;
            type Out = $type;
            const PER_UNIT: usize = 1;
            const IN_PLACE: bool = $in_place;
            const SUMS_ARE_OUT: bool = $in_place;
            const PLANES: usize = $planes;

            #[inline(always)]
            fn unit(first: Self, _: [Option<Self>; MOST_PER_UNIT - 1]) -> Self::Unit {
                first.widen()
            }

            #[inline(always)]
            fn scale(sum: Self::Unit, alpha: f64) -> Self::Unit {
                sum * <Self::Unit as Real>::from_f64(alpha)
            }

            #[inline(always)]
            fn add(sum: Self::Unit, bias: Self::Out) -> Self::Unit {
                sum + bias.widen()
            }

            #[inline(always)]
            unsafe fn activate<M: Machine>(
                activation: Activation,
                sums: *mut Self::Unit,
                rows: (usize, usize),
                columns: usize,
            ) {
                // SAFETY: the caller's promise.
                unsafe { activate_rows::<M, _>(activation, sums, rows, columns) }
            }

            #[inline(always)]
            fn narrow(sum: Self::Unit) -> Self::Out {
                Float::narrow(sum)
            }
        }
    )*};
}
floats! {
    f32: true, 3;
    f64: true, 0;
    f16: false, 2;
    bf16: false, 1;
}

macro_rules! integers {
    ($($type:ty),*) => {$(
        impl Factor for $type {
            type Unit = i32;
            type Out = i32;
            const PER_UNIT: usize = 2;
            const IN_PLACE: bool = false;
            const SUMS_ARE_OUT: bool = true;
            const PLANES: usize = 0;

            #[inline(always)]
            fn unit(first: Self, [second, ..]: [Option<Self>; MOST_PER_UNIT - 1]) -> i32 {
                i32::from(first) & 0xffff | i32::from(second.unwrap_or(0)) << 16
            }

            #[inline(always)]
            fn scale(sum: i32, _: f64) -> i32 {
                sum
            }

            #[inline(always)]
            fn add(sum: i32, bias: i32) -> i32 {
                sum.wrapping_add(bias)
            }

            #[inline(always)]
            unsafe fn activate<M: Machine>(
                _: Activation,
                _: *mut i32,
                _: (usize, usize),
                _: usize,
            ) {
            }

            #[inline(always)]
            fn narrow(sum: i32) -> i32 {
                sum
            }
        }
    )*};
}
integers!(i8, u8);

/// A matrix where it lies: `lines` lines (rows of `a`, columns of `b`) of `length` elements each along the
/// inner dimension.
#[derive(Clone, Copy)]
pub(in crate::kernels) struct Lines<T> {
    pub(in crate::kernels) at: *const T,
    pub(in crate::kernels) lines: usize,
    pub(in crate::kernels) length: usize,
    /// From one line to the next.
    pub(in crate::kernels) line: isize,
    /// From one element of a line to the next.
    pub(in crate::kernels) step: isize,
}

impl<T: Factor> Lines<T> {
    /// Units of a line.
    #[inline(always)]
    fn units(&self) -> usize {
        self.length.div_ceil(T::PER_UNIT)
    }

    /// The unit at `unit` of line `line`.
    ///
    /// # Safety
    /// Both exist, and the matrix can be read.
    #[inline(always)]
    unsafe fn unit(&self, line: usize, unit: usize) -> T::Unit {
        let element = unit * T::PER_UNIT;
        let at = self
            .at
            .wrapping_offset(line as isize * self.line + element as isize * self.step);
        let mut rest = [None; MOST_PER_UNIT - 1];
        // SAFETY: the element exists; those behind it are read only if they do.
        unsafe {
            for (index, other) in rest.iter_mut().enumerate().take(T::PER_UNIT - 1) {
                if element + index + 1 < self.length {
                    *other = Some(*at.wrapping_offset((index + 1) as isize * self.step));
                }
            }
            T::unit(*at, rest)
        }
    }

    /// The unit at `unit`, not the last, of a line whose elements are neighbours.
    #[inline(always)]
    unsafe fn whole_unit(&self, line: *const T, unit: usize) -> T::Unit {
        let mut rest = [None; MOST_PER_UNIT - 1];
        // SAFETY: the caller promises that all elements of the unit exist.
        unsafe {
            let at = line.add(unit * T::PER_UNIT);
            for (index, other) in rest.iter_mut().enumerate().take(T::PER_UNIT - 1) {
                *other = Some(*at.add(index + 1));
            }
            T::unit(*at, rest)
        }
    }
}

vectorised! {
    /// Packs lines of the left operand one after another, `stride` units apart.
    ///
    /// # Safety
    /// The matrix can be read and `to` written.
    pub(in crate::kernels) unsafe fn pack_lines[T: Factor](from: Lines<T>, to: *mut T::Unit, stride: usize) {
        let units = from.units();
        let whole = from.length / T::PER_UNIT;
        // SAFETY: lines and units are counted by the matrix, which the caller vouches for.
        unsafe {
            if from.step == 1 {
                for line in 0..from.lines {
                    let source = from.at.offset(line as isize * from.line);
                    let to = to.add(line * stride);
                    for unit in 0..whole {
                        *to.add(unit) = T::left_unit(from.whole_unit(source, unit));
                    }
                    if whole < units {
                        *to.add(whole) = T::left_unit(from.unit(line, whole));
                    }
                }
            } else {
                for unit in 0..units {
                    for line in 0..from.lines {
                        *to.add(line * stride + unit) = T::left_unit(from.unit(line, unit));
                    }
                }
            }
        }
    }
}

vectorised! {
    /// Packs lines side by side: unit after unit, each with those of all lines, `width` of them; lines that
    /// are missing count as nothing.
    ///
    /// # Safety
    /// The matrix can be read and `to` written; `width` is not below the number of lines.
    pub(in crate::kernels) unsafe fn pack_interleaved[T: Factor](from: Lines<T>, to: *mut T::Unit, width: usize) {
        let units = from.units();
        // SAFETY: lines and units are counted by the matrix, which the caller vouches for.
        unsafe {
            if from.lines < width {
                for unit in 0..units {
                    for line in from.lines..width {
                        *to.add(unit * width + line) = T::Unit::NOTHING;
                    }
                }
            }
            if from.line == 1 && T::PER_UNIT == 1 {
                for unit in 0..units {
                    let source = from.at.offset(unit as isize * from.step);
                    let to = to.add(unit * width);
                    convert(source, to, from.lines, |element| T::unit(element, [None; MOST_PER_UNIT - 1]));
                }
            } else if from.step == 1 {
                transpose(&from, to, width);
            } else {
                for unit in 0..units {
                    for line in 0..from.lines {
                        *to.add(unit * width + line) = from.unit(line, unit);
                    }
                }
            }
        }
    }
}

/// Converts `count` neighbours, by whole vectors: most counts here are too small for a call of `memcpy`, which
/// a plain loop would become.
///
/// # Safety
/// `count` elements can be read and written.
#[inline(always)]
pub(in crate::kernels) unsafe fn convert<A: Copy, B: Copy>(
    from: *const A,
    to: *mut B,
    count: usize,
    f: impl Fn(A) -> B,
) {
    const CHUNK: usize = 16;
    let whole = count / CHUNK * CHUNK;
    // SAFETY: chunks and what is left lie within the count.
    unsafe {
        for start in (0..whole).step_by(CHUNK) {
            let chunk = from.add(start).cast::<[A; CHUNK]>().read_unaligned();
            let mut converted = MaybeUninit::<[B; CHUNK]>::uninit();
            // Not by `map`, which is called, not inlined, in builds of many units.
            for (index, &element) in chunk.iter().enumerate() {
                converted
                    .as_mut_ptr()
                    .cast::<B>()
                    .add(index)
                    .write(f(element));
            }
            to.add(start)
                .cast::<[B; CHUNK]>()
                .write_unaligned(converted.assume_init());
        }
        for index in whole..count {
            *to.add(index) = f(*from.add(index));
        }
    }
}

/// Interleaves lines whose elements are neighbours, in squares that stay in the cache.
///
/// # Safety
/// As for [`pack_interleaved`].
#[inline(always)]
unsafe fn transpose<T: Factor>(from: &Lines<T>, to: *mut T::Unit, width: usize) {
    const SIDE: usize = 8;
    let units = from.units();
    let (square_lines, square_units) = (
        from.lines / SIDE * SIDE,
        from.length / T::PER_UNIT / SIDE * SIDE,
    );
    // SAFETY: lines and units are counted by the matrix, which the caller vouches for.
    unsafe {
        for unit in (0..square_units).step_by(SIDE) {
            for line in (0..square_lines).step_by(SIDE) {
                let mut square = [[T::Unit::NOTHING; SIDE]; SIDE];
                for (row, units) in square.iter_mut().enumerate() {
                    let source = from.at.offset((line + row) as isize * from.line);
                    for (column, value) in units.iter_mut().enumerate() {
                        *value = from.whole_unit(source, unit + column);
                    }
                }
                for column in 0..SIDE {
                    let to = to.add((unit + column) * width + line);
                    for (row, units) in square.iter().enumerate() {
                        *to.add(row) = units[column];
                    }
                }
            }
        }
        for unit in 0..units {
            let first = if unit < square_units { square_lines } else { 0 };
            for line in first..from.lines {
                *to.add(unit * width + line) = from.unit(line, unit);
            }
        }
    }
}
