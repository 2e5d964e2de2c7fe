//! Products of rows that lie in place, wherever the units of each are, with packed columns.

use std::mem::MaybeUninit;
use std::ops::Range;

use super::blocked::even_parts;
use super::gathering::Gathering;
use super::lanes::{Bounded, Bounds, PlainF32};
use super::multiply::{AHEAD, MAX_COLUMNS, MAX_ROWS, Sums, Unit};
use crate::given_up;
use crate::kernels::rows::fetch;
use crate::kernels::scratch::FLOATS_OF_A_LINE;
#[cfg(target_arch = "x86_64")]
use crate::kernels::simd::Level;
use crate::kernels::simd::level;

/// Rows of equal distances, each with some of the units of a row of the product, in runs of units that lie side by side.
pub(in crate::kernels) struct Lying<'a> {
    pub(in crate::kernels) at: *const f32,
    /// From one row to the next.
    pub(in crate::kernels) row: isize,
    /// The first unit.
    pub(in crate::kernels) first: usize,
    /// Where each run begins, from `at` on.
    pub(in crate::kernels) runs: &'a [isize],
    /// Units of a run.
    pub(in crate::kernels) run: usize,
    /// Whether sums are added to what the product has; then they are not biased.
    pub(in crate::kernels) added: bool,
}

/// Bytes of weights that stay in a first-level cache: with these, a few rows are made with all of their columns before the next
/// ones, so that results are written one after another.
const HELD: usize = 16 << 10;

static NO_BIASES: [f32; MAX_COLUMNS] = [0.0; MAX_COLUMNS];

/// Computes the tile with these rows and columns, which begin at whole blocks. Other units count for nothing.
///
/// # Safety
/// As for [`gathered`](super::gathered); all units of all rows can be read.
pub(in crate::kernels) unsafe fn in_place(
    gathering: &Gathering,
    rows: Range<usize>,
    columns: Range<usize>,
    lying: &Lying<'_>,
) {
    let (most, width) = f32::block();
    let all = Tile {
        gathering,
        lying,
        width,
        bounds: gathering.in_registers(),
    };
    let parts = even_parts(rows.len(), MAX_ROWS.min(most));
    let blocks = columns.clone().step_by(width);
    let block = |column: usize| column..columns.end.min(column + width);
    let weights = columns.len().saturating_mul(gathering.sizes[2]);
    // SAFETY: passed on from the caller.
    unsafe {
        if weights.saturating_mul(size_of::<f32>()) <= HELD {
            for part in parts {
                given_up::check();
                for column in blocks.clone() {
                    all.part(rows.start, part.clone(), block(column));
                }
            }
            return;
        }
        for column in blocks {
            given_up::check();
            for part in parts.clone() {
                all.part(rows.start, part, block(column));
            }
        }
    }
}

/// A tile, of which parts are computed.
struct Tile<'a> {
    gathering: &'a Gathering,
    lying: &'a Lying<'a>,
    /// Columns of a block.
    width: usize,
    /// Between which numbers results are kept, if nothing else is done with them.
    bounds: Option<Bounds>,
}

impl Tile<'_> {
    /// Computes these of the rows behind `before`, and columns of a block.
    ///
    /// # Safety
    /// As for [`in_place`].
    #[inline]
    unsafe fn part(&self, before: usize, rows: Range<usize>, columns: Range<usize>) {
        let (gathering, lying, width) = (self.gathering, self.lying, self.width);
        let [row_step, column_step] = gathering.strides;
        let (first, column, count) = (before + rows.start, columns.start, columns.len());
        let mut some;
        let biases = match gathering.bias {
            None => NO_BIASES.as_ptr(),
            Some((bias, 1)) if count == width => bias.wrapping_add(column).cast_const(),
            Some((bias, step)) => {
                some = NO_BIASES;
                for (index, value) in some.iter_mut().enumerate().take(count) {
                    // SAFETY: each column has a bias.
                    *value = unsafe { *bias.wrapping_offset((column + index) as isize * step) };
                }
                some.as_ptr()
            }
        };
        let half = 2 * count <= width;
        let made = if half { width / 2 } else { width };
        let is_direct = count == made && column_step == 1 && row_step > 0;
        debug_assert!(is_direct || !lying.added);
        let mut block = MaybeUninit::<[f32; MAX_ROWS * MAX_COLUMNS]>::uninit();
        let to = first as isize * row_step + column as isize * column_step;
        let sums = match is_direct {
            true => Sums {
                at: gathering.to.wrapping_offset(to),
                row: row_step.unsigned_abs(),
            },
            false => Sums {
                at: block.as_mut_ptr().cast(),
                row: width,
            },
        };
        let operands = Operands {
            a: lying.at.wrapping_offset(rows.start as isize * lying.row),
            row: lying.row,
            runs: lying.runs,
            run: lying.run,
            // Blocks of columns have all units, one after another.
            b: gathering
                .weights
                .wrapping_add(column * gathering.sizes[2] + lying.first * width),
            biases,
            bounds: self.bounds.unwrap_or_default(),
            half,
            added: lying.added,
        };
        // SAFETY: the caller's promise; sums lie in the tile, or in the block.
        unsafe {
            multiply(&operands, rows.len(), sums);
            if !is_direct || self.bounds.is_none() {
                gathering.finish((first, rows.len()), (column, count), sums);
            }
        }
    }
}

/// A block of rows and columns.
struct Operands<'a> {
    a: *const f32,
    row: isize,
    runs: &'a [isize],
    run: usize,
    b: *const f32,
    /// One for each column of a whole block.
    biases: *const f32,
    bounds: Bounds,
    /// Whether only the first half of the columns is wanted.
    half: bool,
    /// Whether sums are added to those that are there.
    added: bool,
}

/// Of so many rows, distances are what addresses can say: those of all rows would take more registers than there are.
const ROWS_OF_A_POINTER: usize = 3;
/// Units of a run that are taken at a time: where they lie is part of the instructions.
const AT_ONCE: usize = 4;

/// # Safety
/// The operands can be read, the sums be written, and the machine has the instructions.
#[allow(
    clippy::needless_range_loop,
    reason = "a zip is called, not inlined, in builds of many units"
)]
#[inline(always)]
unsafe fn block<L: Bounded, const R: usize, const V: usize>(
    operands: &Operands<'_>,
    sums: Sums<f32>,
) {
    // SAFETY: the caller's promise.
    unsafe {
        let mut first = [L::zero(); V];
        for (at, vector) in first.iter_mut().enumerate() {
            *vector = L::load(operands.biases.add(at * L::WIDTH));
        }
        let mut block = [first; R];
        let mut b = operands.b;
        for &start in operands.runs {
            let mut a = [operands.a.wrapping_offset(start); MAX_ROWS / ROWS_OF_A_POINTER];
            for number in 1..a.len() {
                let before = (number * ROWS_OF_A_POINTER) as isize;
                a[number] = a[number].wrapping_offset(before * operands.row);
            }
            let mut left = operands.run;
            while left >= AT_ONCE {
                for unit in 0..AT_ONCE {
                    step::<L, R, V>(&mut block, &a, operands.row, b, unit);
                }
                for number in 0..a.len() {
                    a[number] = a[number].wrapping_add(AT_ONCE);
                }
                b = b.wrapping_add(AT_ONCE * 2 * L::WIDTH);
                left -= AT_ONCE;
            }
            while left > 0 {
                step::<L, R, V>(&mut block, &a, operands.row, b, 0);
                for number in 0..a.len() {
                    a[number] = a[number].wrapping_add(1);
                }
                b = b.wrapping_add(2 * L::WIDTH);
                left -= 1;
            }
        }
        if operands.added {
            for row in 0..R {
                for at in 0..V {
                    let earlier = L::load(sums.at.add(row * sums.row + at * L::WIDTH));
                    block[row][at] = block[row][at].plus(earlier);
                }
            }
        }
        let Bounds { least, most } = operands.bounds;
        let least = L::splat(&least.unwrap_or(f32::NEG_INFINITY));
        let most = L::splat(&most.unwrap_or(f32::INFINITY));
        for row in 0..R {
            for at in 0..V {
                let to = sums.at.add(row * sums.row + at * L::WIDTH);
                block[row][at].at_least(least).at_most(most).store(to);
            }
        }
    }
}

/// Adds the products of one unit, so many behind the first.
///
/// # Safety
/// As for [`block`].
#[allow(
    clippy::needless_range_loop,
    reason = "a zip is called, not inlined, in builds of many units"
)]
#[inline(always)]
unsafe fn step<L: Bounded, const R: usize, const V: usize>(
    block: &mut [[L; V]; R],
    a: &[*const f32; MAX_ROWS / ROWS_OF_A_POINTER],
    row_step: isize,
    b: *const f32,
    unit: usize,
) {
    // SAFETY: the caller's promise.
    unsafe {
        let b = b.wrapping_add(unit * 2 * L::WIDTH);
        let mut columns = [L::zero(); V];
        for (at, vector) in columns.iter_mut().enumerate() {
            *vector = L::units(b.add(at * L::WIDTH));
            if (at * L::WIDTH).is_multiple_of(FLOATS_OF_A_LINE) {
                fetch(b.wrapping_add(at * L::WIDTH + AHEAD).cast());
            }
        }
        for row in 0..R {
            let distance = (row % ROWS_OF_A_POINTER) as isize * row_step;
            let from = a[row / ROWS_OF_A_POINTER].wrapping_add(unit);
            let x = L::splat(from.wrapping_offset(distance));
            for at in 0..V {
                block[row][at] = block[row][at].plus_product(x, columns[at]);
            }
        }
    }
}

macro_rules! compiled {
    ($name:ident, $lanes:ty, [$($rows:literal)*] $(, $feature:literal)?) => {
        $(#[target_feature(enable = $feature)])?
        unsafe fn $name(operands: &Operands<'_>, rows: usize, sums: Sums<f32>) {
            // SAFETY: the caller's promise; the function is only called where the features are.
            unsafe {
                match (rows, operands.half) {
                    $(
                        ($rows, false) => block::<$lanes, $rows, 2>(operands, sums),
                        ($rows, true) => block::<$lanes, $rows, 1>(operands, sums),
                    )*
                    _ => {}
                }
            }
        }
    };
}

#[cfg(target_arch = "aarch64")]
compiled!(plain, PlainF32, [1 2 3 4 5 6 7 8 9 10 11 12]);
#[cfg(not(target_arch = "aarch64"))]
compiled!(plain, PlainF32, [1 2 3 4]);
#[cfg(target_arch = "x86_64")]
compiled!(avx2, super::lanes::Avx2F32, [1 2 3 4 5 6], "avx2,fma,f16c");
#[cfg(target_arch = "x86_64")]
compiled!(
    avx512,
    super::lanes::Avx512F32,
    [1 2 3 4 5 6 7 8 9 10 11 12],
    "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl"
);

/// # Safety
/// The operands can be read, and as many rows of sums be written.
unsafe fn multiply(operands: &Operands<'_>, rows: usize, sums: Sums<f32>) {
    // SAFETY: the level says that the features are there; the rest the caller promises.
    unsafe {
        match level() {
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 => avx512(operands, rows, sums),
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 => avx2(operands, rows, sums),
            _ => plain(operands, rows, sums),
        }
    }
}
