//! The inner loops of the product, compiled for each instruction set.

use super::lanes::{Lanes, PlainF32, PlainF64, PlainPairs};
use crate::kernels::rows;
#[cfg(target_arch = "x86_64")]
use crate::kernels::simd::Level;
use crate::kernels::simd::level;

/// The most units of the inner dimension that a packed panel holds, in bytes.
const PANEL_BYTES: usize = 1024;
/// How far ahead of what is multiplied columns are fetched, in units: constants come from the last cache.
pub(in crate::kernels) const AHEAD: usize = 1024;
/// The most rows one call multiplies.
pub(in crate::kernels) const MAX_ROWS: usize = 12;
/// The most columns one call multiplies.
pub(in crate::kernels) const MAX_COLUMNS: usize = 128;
/// The most rows a skinny call multiplies.
pub(in crate::kernels) const SKINNY_ROWS: usize = 6;
/// The most rows of a block of dot products.
pub(in crate::kernels) const DOT_ROWS: usize = 4;

/// Packed operands: a panel of rows, [`Unit::PANEL_STRIDE`] apart, and a panel of columns, the columns of
/// each step next to each other.
#[derive(Clone, Copy)]
pub(in crate::kernels) struct Packed<U> {
    pub(in crate::kernels) a: *const U,
    pub(in crate::kernels) b: *const U,
    pub(in crate::kernels) steps: usize,
    pub(in crate::kernels) rows: usize,
    /// Whether only the first half of the columns is wanted: sums of the others are left as they are.
    pub(in crate::kernels) half: bool,
}

/// Operands where they lie: distances are in units, and the columns of `b` are next to each other
/// (skinny) or its steps and those of `a` are (dots).
#[derive(Clone, Copy)]
pub(in crate::kernels) struct InPlace<U> {
    pub(in crate::kernels) a: *const U,
    pub(in crate::kernels) a_row: isize,
    pub(in crate::kernels) a_step: isize,
    pub(in crate::kernels) b: *const U,
    /// From one step to the next, or from one column to the next for dots.
    pub(in crate::kernels) b_next: isize,
    pub(in crate::kernels) steps: usize,
    pub(in crate::kernels) rows: usize,
    pub(in crate::kernels) columns: usize,
}

/// Where sums are: row-major.
#[derive(Clone, Copy)]
pub(in crate::kernels) struct Sums<S> {
    pub(in crate::kernels) at: *mut S,
    pub(in crate::kernels) row: usize,
}

/// What becomes of the sums that are there already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::kernels) enum Earlier {
    /// They are overwritten.
    Lost,
    /// They are added to the new ones.
    Added,
    /// The new ones begin with them: each sum is as if all steps were taken in one call.
    Continued,
}

/// What is multiplied: `f32`, `f64`, or pairs of 16-bit integers. Its sums are of the same type.
pub(in crate::kernels) trait Unit: Copy + Send + Sync + 'static {
    /// Zero, and a pair of zeros.
    const NOTHING: Self;
    /// Units of a packed row.
    const PANEL: usize = PANEL_BYTES / size_of::<Self>();
    /// From one packed row to the next: not a power of two, so that rows fall into different cache sets.
    const PANEL_STRIDE: usize = Self::PANEL + 64 / size_of::<Self>();

    /// The rows and columns of a full packed block on this machine.
    fn block() -> (usize, usize);

    /// `sums = a b`, or with earlier ones `sums += a b`, of `rows` rows and a full block's columns.
    ///
    /// # Safety
    /// All that the operands describe can be read, and all sums written and, if they are not lost, read.
    unsafe fn multiply(operands: &Packed<Self>, sums: Sums<Self>, earlier: Earlier);
}

/// A unit that is multiplied where it lies, too.
pub(in crate::kernels) trait InPlaceUnit: Unit {
    /// `sums = a b` for at most [`SKINNY_ROWS`] rows and [`MAX_COLUMNS`] columns that lie next to each
    /// other in `b`.
    ///
    /// # Safety
    /// As for `multiply`.
    unsafe fn skinny(operands: &InPlace<Self>, sums: Sums<Self>);

    /// `sums = a b` for at most [`DOT_ROWS`] rows and [`MAX_COLUMNS`] columns; the steps lie next to each
    /// other in both operands.
    ///
    /// # Safety
    /// As for `multiply`.
    unsafe fn dots(operands: &InPlace<Self>, sums: Sums<Self>);
}

/// A block of `R` rows and `V` vectors of columns.
#[allow(
    clippy::needless_range_loop,
    reason = "a zip is called, not inlined, in builds of many units"
)]
#[inline(always)]
unsafe fn block<L: Lanes, const R: usize, const V: usize>(
    operands: &InPlace<L::Unit>,
    sums: Sums<L::Sum>,
    earlier: Earlier,
) {
    let mut block = [[L::zero(); V]; R];
    // SAFETY: the caller promises that what the operands describe can be read, that R rows of V vectors of
    // sums can be accessed, and that the machine has the instructions of `L`.
    unsafe {
        if earlier == Earlier::Continued {
            for (row, vectors) in block.iter_mut().enumerate() {
                for (at, vector) in vectors.iter_mut().enumerate() {
                    *vector = L::load(sums.at.add(row * sums.row + at * L::WIDTH));
                }
            }
        }
        let (mut a, mut b) = (operands.a, operands.b);
        for _ in 0..operands.steps {
            let mut columns = [L::zero(); V];
            for (at, vector) in columns.iter_mut().enumerate() {
                *vector = L::units(b.add(at * L::WIDTH));
                rows::fetch(b.wrapping_add(at * L::WIDTH + AHEAD).cast());
            }
            for (row, vectors) in block.iter_mut().enumerate() {
                let x = L::splat(a.offset(row as isize * operands.a_row));
                for at in 0..V {
                    vectors[at] = vectors[at].plus_product(x, columns[at]);
                }
            }
            a = a.wrapping_offset(operands.a_step);
            b = b.wrapping_offset(operands.b_next);
        }
        // Added last: nothing waits for them meanwhile.
        for (row, vectors) in block.iter().enumerate() {
            for (at, &vector) in vectors.iter().enumerate() {
                let to = sums.at.add(row * sums.row + at * L::WIDTH);
                let vector = match earlier {
                    Earlier::Added => vector.plus(L::load(to)),
                    Earlier::Lost | Earlier::Continued => vector,
                };
                vector.store(to);
            }
        }
    }
}

/// A block of `R` rows and the `count` columns, fewer than a vector.
#[inline(always)]
unsafe fn narrow_block<L: Lanes, const R: usize>(
    operands: &InPlace<L::Unit>,
    sums: Sums<L::Sum>,
    count: usize,
) {
    let mut block = [L::zero(); R];
    // SAFETY: as for `block`, with `count` columns read; sums have room for whole vectors.
    unsafe {
        let (mut a, mut b) = (operands.a, operands.b);
        for _ in 0..operands.steps {
            let columns = L::some_units(b, count);
            for (row, vector) in block.iter_mut().enumerate() {
                let x = L::splat(a.offset(row as isize * operands.a_row));
                *vector = vector.plus_product(x, columns);
            }
            a = a.wrapping_offset(operands.a_step);
            b = b.wrapping_offset(operands.b_next);
        }
        for (row, vector) in block.iter().enumerate() {
            vector.store(sums.at.add(row * sums.row));
        }
    }
}

/// Whether registers hold so many sums, a vector for each of `held`, and one of `each`.
const fn fits<L: Lanes>(each: usize, held: usize) -> bool {
    each * held + held < L::REGISTERS
}

/// All columns of `R` rows, in blocks of up to eight vectors.
#[inline(always)]
unsafe fn skinny_rows<L: Lanes, const R: usize>(operands: &InPlace<L::Unit>, sums: Sums<L::Sum>) {
    let mut column = 0;
    // SAFETY: the parts lie within what the caller promises.
    unsafe {
        while column < operands.columns {
            let part = InPlace {
                b: operands.b.add(column),
                ..*operands
            };
            let to = Sums {
                at: sums.at.add(column),
                ..sums
            };
            let left = operands.columns - column;
            if R <= 2 && fits::<L>(R, 8) && left >= 8 * L::WIDTH {
                block::<L, R, 8>(&part, to, Earlier::Lost);
                column += 8 * L::WIDTH;
            } else if fits::<L>(R, 4) && left >= 4 * L::WIDTH {
                block::<L, R, 4>(&part, to, Earlier::Lost);
                column += 4 * L::WIDTH;
            } else if !fits::<L>(R, 4) && left >= 2 * L::WIDTH {
                block::<L, R, 2>(&part, to, Earlier::Lost);
                column += 2 * L::WIDTH;
            } else if left >= L::WIDTH {
                block::<L, R, 1>(&part, to, Earlier::Lost);
                column += L::WIDTH;
            } else {
                narrow_block::<L, R>(&part, to, left);
                column = operands.columns;
            }
        }
    }
}

/// `R` times `C` dot products along contiguous steps.
#[inline(always)]
unsafe fn dot_block<L: Lanes, const R: usize, const C: usize>(
    operands: &InPlace<L::Unit>,
    sums: Sums<L::Sum>,
) {
    let mut block = [[L::zero(); C]; R];
    // SAFETY: the caller promises that R rows and C columns of all steps can be read, that their sums can be
    // written, and that the machine has the instructions of `L`.
    unsafe {
        let whole = operands.steps / L::WIDTH * L::WIDTH;
        for step in (0..whole).step_by(L::WIDTH) {
            dot_step(&mut block, operands, step, |from| L::units(from));
        }
        let left = operands.steps - whole;
        if left > 0 {
            dot_step(&mut block, operands, whole, |from| {
                L::some_units(from, left)
            });
        }
        for (row, vectors) in block.iter().enumerate() {
            let to = sums.at.add(row * sums.row);
            let (fours, rest) = vectors.as_chunks::<4>();
            for (index, &four) in fours.iter().enumerate() {
                to.add(4 * index)
                    .cast::<[L::Sum; 4]>()
                    .write_unaligned(L::totals(four));
            }
            for (index, &one) in rest.iter().enumerate() {
                *to.add(4 * fours.len() + index) = one.total();
            }
        }
    }
}

/// One vector of steps of a block of dot products.
#[allow(clippy::needless_range_loop, reason = "as for `block`")]
#[inline(always)]
unsafe fn dot_step<L: Lanes, const R: usize, const C: usize>(
    block: &mut [[L; C]; R],
    operands: &InPlace<L::Unit>,
    step: usize,
    read: impl Fn(*const L::Unit) -> L,
) {
    // SAFETY: the caller promises that the steps of R rows and C columns can be read with `read`.
    unsafe {
        let mut rows = [L::zero(); R];
        for (row, vector) in rows.iter_mut().enumerate() {
            *vector = read(operands.a.offset(row as isize * operands.a_row).add(step));
        }
        for column in 0..C {
            let y = read(
                operands
                    .b
                    .offset(column as isize * operands.b_next)
                    .add(step),
            );
            for row in 0..R {
                block[row][column] = block[row][column].plus_product(rows[row], y);
            }
        }
    }
}

/// `$call` with `$rows` as the constant `$name`.
macro_rules! by_rows {
    ($rows:expr, $name:ident => $call:expr, $($count:literal)*) => {
        match $rows {
            $($count => {
                const $name: usize = $count;
                $call
            })*
            _ => {}
        }
    };
}

/// The loop over packed operands for one kind of lanes, under one set of features.
macro_rules! compiled {
    ($module:ident, $lanes:ty, $unit:ty, $vectors:literal, [$($rows:literal)*] $(, $feature:literal)?) => {
        mod $module {
            use super::*;

            $(#[target_feature(enable = $feature)])?
            pub(super) unsafe fn multiply(operands: &Packed<$unit>, sums: Sums<$unit>, earlier: Earlier) {
                let half = operands.half;
                // With constant distances, all addresses are displacements of two pointers.
                let operands = InPlace {
                    a: operands.a,
                    a_row: <$unit as Unit>::PANEL_STRIDE as isize,
                    a_step: 1,
                    b: operands.b,
                    b_next: ($vectors * <$lanes as Lanes>::WIDTH) as isize,
                    steps: operands.steps,
                    rows: operands.rows,
                    columns: $vectors * <$lanes as Lanes>::WIDTH,
                };
                // SAFETY: the caller's promise; the function is only called where the features are.
                unsafe {
                    if half {
                        by_rows!(operands.rows, R => block::<$lanes, R, { $vectors / 2 }>(&operands, sums, earlier), $($rows)*)
                    } else {
                        by_rows!(operands.rows, R => block::<$lanes, R, $vectors>(&operands, sums, earlier), $($rows)*)
                    }
                }
            }
        }
    };
}

/// The loops over operands where they lie, likewise.
macro_rules! compiled_in_place {
    ($module:ident, $lanes:ty, $unit:ty $(, $feature:literal)?) => {
        mod $module {
            use super::*;

            $(#[target_feature(enable = $feature)])?
            pub(super) unsafe fn skinny(operands: &InPlace<$unit>, sums: Sums<$unit>) {
                // SAFETY: the caller's promise; the function is only called where the features are.
                unsafe { by_rows!(operands.rows, R => skinny_rows::<$lanes, R>(operands, sums), 1 2 3 4 5 6) }
            }

            $(#[target_feature(enable = $feature)])?
            pub(super) unsafe fn dots(operands: &InPlace<$unit>, sums: Sums<$unit>) {
                // SAFETY: the caller's promise; the function is only called where the features are.
                unsafe {
                    let mut column = 0;
                    while column < operands.columns {
                        let part = InPlace {
                            b: operands.b.offset(column as isize * operands.b_next),
                            ..*operands
                        };
                        let to = Sums { at: sums.at.add(column), ..sums };
                        // As many sums at a time as hide the latency and fit the registers.
                        let left = operands.columns - column;
                        column += if left >= 8 && operands.rows <= 2 && fits::<$lanes>(8, operands.rows) {
                            by_rows!(operands.rows, R => dot_block::<$lanes, R, 8>(&part, to), 1 2);
                            8
                        } else if left >= 4 && fits::<$lanes>(4, operands.rows) {
                            by_rows!(operands.rows, R => dot_block::<$lanes, R, 4>(&part, to), 1 2 3 4);
                            4
                        } else if left >= 2 && !fits::<$lanes>(4, operands.rows) {
                            by_rows!(operands.rows, R => dot_block::<$lanes, R, 2>(&part, to), 4);
                            2
                        } else {
                            by_rows!(operands.rows, R => dot_block::<$lanes, R, 1>(&part, to), 1 2 3 4);
                            1
                        };
                    }
                }
            }
        }
    };
}

macro_rules! units {
    ($($unit:ty, $zero:expr, $plain:ident: $plain_lanes:ident, $avx2:ident: $avx2_lanes:ident, $avx512:ident: $avx512_lanes:ident;)*) => {$(
        #[cfg(target_arch = "aarch64")]
        compiled!($plain, $plain_lanes, $unit, 2, [1 2 3 4 5 6 7 8 9 10 11 12]);
        #[cfg(not(target_arch = "aarch64"))]
        compiled!($plain, $plain_lanes, $unit, 2, [1 2 3 4]);
        #[cfg(target_arch = "x86_64")]
        compiled!($avx2, super::super::lanes::$avx2_lanes, $unit, 2, [1 2 3 4 5 6], "avx2,fma,f16c");
        #[cfg(target_arch = "x86_64")]
        compiled!($avx512, super::super::lanes::$avx512_lanes, $unit, 2, [1 2 3 4 5 6 7 8 9 10 11 12],
            "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl");

        impl Unit for $unit {
            const NOTHING: Self = $zero;

            fn block() -> (usize, usize) {
                match level() {
                    #[cfg(target_arch = "x86_64")]
                    Level::Avx512 => (12, 2 * super::lanes::$avx512_lanes::WIDTH),
                    #[cfg(target_arch = "x86_64")]
                    Level::Avx2 => (6, 2 * super::lanes::$avx2_lanes::WIDTH),
                    _ if cfg!(target_arch = "aarch64") => (12, 2 * $plain_lanes::WIDTH),
                    _ => (4, 2 * $plain_lanes::WIDTH),
                }
            }

            #[inline]
            unsafe fn multiply(operands: &Packed<Self>, sums: Sums<Self>, earlier: Earlier) {
                // SAFETY: the level says that the features are there; the rest the caller promises.
                unsafe {
                    match level() {
                        #[cfg(target_arch = "x86_64")]
                        Level::Avx512 => $avx512::multiply(operands, sums, earlier),
                        #[cfg(target_arch = "x86_64")]
                        Level::Avx2 => $avx2::multiply(operands, sums, earlier),
                        _ => $plain::multiply(operands, sums, earlier),
                    }
                }
            }
        }
    )*};
}

units! {
    f32, 0.0, plain_f32: PlainF32, avx2_f32: Avx2F32, avx512_f32: Avx512F32;
    f64, 0.0, plain_f64: PlainF64, avx2_f64: Avx2F64, avx512_f64: Avx512F64;
    i32, 0, plain_pairs: PlainPairs, avx2_pairs: Avx2Pairs, avx512_pairs: Avx512Pairs;
}

macro_rules! in_place_units {
    ($($unit:ty, $plain:ident: $plain_lanes:ident, $avx2:ident: $avx2_lanes:ident, $avx512:ident: $avx512_lanes:ident;)*) => {$(
        compiled_in_place!($plain, $plain_lanes, $unit);
        #[cfg(target_arch = "x86_64")]
        compiled_in_place!($avx2, super::super::lanes::$avx2_lanes, $unit, "avx2,fma,f16c");
        #[cfg(target_arch = "x86_64")]
        compiled_in_place!($avx512, super::super::lanes::$avx512_lanes, $unit,
            "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl");

        impl InPlaceUnit for $unit {
            #[inline]
            unsafe fn skinny(operands: &InPlace<Self>, sums: Sums<Self>) {
                // SAFETY: the level says that the features are there; the rest the caller promises.
                unsafe {
                    match level() {
                        #[cfg(target_arch = "x86_64")]
                        Level::Avx512 => $avx512::skinny(operands, sums),
                        #[cfg(target_arch = "x86_64")]
                        Level::Avx2 => $avx2::skinny(operands, sums),
                        _ => $plain::skinny(operands, sums),
                    }
                }
            }

            #[inline]
            unsafe fn dots(operands: &InPlace<Self>, sums: Sums<Self>) {
                // SAFETY: the level says that the features are there; the rest the caller promises.
                unsafe {
                    match level() {
                        #[cfg(target_arch = "x86_64")]
                        Level::Avx512 => $avx512::dots(operands, sums),
                        #[cfg(target_arch = "x86_64")]
                        Level::Avx2 => $avx2::dots(operands, sums),
                        _ => $plain::dots(operands, sums),
                    }
                }
            }
        }
    )*};
}

in_place_units! {
    f32, plain_lying_f32: PlainF32, avx2_lying_f32: Avx2F32, avx512_lying_f32: Avx512F32;
    f64, plain_lying_f64: PlainF64, avx2_lying_f64: Avx2F64, avx512_lying_f64: Avx512F64;
}
