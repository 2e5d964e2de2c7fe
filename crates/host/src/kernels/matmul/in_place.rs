//! Products of rows that lie in place, wherever the units of each are, with packed columns.

use std::mem::MaybeUninit;
use std::ops::Range;

use smallvec::SmallVec;
use streampool_device::Activation;

use super::blocked::even_parts;
use super::gathering::Gathering;
use super::lanes::{Bounded, Bounds, PlainF32};
use super::multiply::{AHEAD, MAX_COLUMNS, MAX_ROWS, Sums, Unit};
use super::product::Product;
use crate::given_up;
use crate::kernels::rows::fetch;
use crate::kernels::scratch::FLOATS_OF_A_LINE;
#[cfg(target_arch = "x86_64")]
use crate::kernels::simd::Level;
use crate::kernels::simd::level;

/// Rows of equal distances, each with some of the units of a row of the product, in runs of units that lie side by side.
pub(in crate::kernels) struct Lying<'a> {
    /// The first row of the tile.
    pub(in crate::kernels) at: *const f32,
    /// From one row to the next.
    pub(in crate::kernels) row: isize,
    /// The first unit.
    pub(in crate::kernels) first: usize,
    /// Where each run begins, from `at` on.
    pub(in crate::kernels) runs: &'a [isize],
    /// Units of a run.
    pub(in crate::kernels) run: usize,
    /// Whether sums are added to what the product has.
    pub(in crate::kernels) added: bool,
    /// Whether the bias is added to sums, instead of being what they begin with. Those that are added to others have none before.
    pub(in crate::kernels) biased_last: bool,
}

/// Bytes of weights that stay in a first-level cache: with these, a few rows are made with many of their columns before the next
/// ones, so that results are written one after another.
const HELD: usize = 16 << 10;
/// The most blocks of columns that are made so.
const MOST_TOGETHER: usize = 16;

/// Blocks of more rows, as with AVX-512, are a fifth slower so than with packed rows.
const MOST_IN_PLACE: usize = 6;
/// Floats of a page. Rows as far apart fall into the same few sets of a cache, so they are better packed.
const PAGE: usize = 1024;

static NO_BIASES: [f32; MAX_COLUMNS] = [0.0; MAX_COLUMNS];
/// What leaves a sum as it is, also one that is minus zero.
static NOTHING: [f32; MAX_COLUMNS] = [-0.0; MAX_COLUMNS];

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
    let tile = Tile {
        gathering,
        lying,
        width,
        most: MAX_ROWS.min(most),
        bounds: gathering.in_registers(),
    };
    let weights = columns.len().saturating_mul(gathering.sizes[2]);
    let together = match weights.saturating_mul(size_of::<f32>()) <= HELD {
        true => MOST_TOGETHER * width,
        false => width,
    };
    let straight = gathering.straight(&columns);
    // SAFETY: passed on from the caller.
    unsafe {
        for column in straight.clone().step_by(together) {
            tile.blocks(&rows, column..straight.end.min(column + together));
        }
        for column in (straight.end..columns.end).step_by(width) {
            for part in even_parts(rows.len(), tile.most) {
                tile.part(rows.start, part, column..columns.end.min(column + width));
            }
        }
    }
}

/// Computes these rows of `product`, and says up to which column, if its operands lie so: rows of units side by side, and columns
/// that are packed.
///
/// # Safety
/// As for `execute`; no other thread touches this tile of the product.
pub(super) unsafe fn rows_in_place(
    product: &Product<f32>,
    rows: Range<usize>,
    columns: Range<usize>,
) -> usize {
    let Product { a, out, bias, .. } = product;
    let suits = product.ready_a.is_null()
        && !product.ready_b.is_null()
        && !product.in_one
        && f32::block().0 <= MOST_IN_PLACE
        && product.alpha == 1.0
        && product.k > 0
        && a.column == 1
        && a.row.unsigned_abs() % PAGE != 0
        && bias.is_none_or(|bias| (bias.row, bias.column) == (0, 1));
    if !suits {
        return columns.start;
    }
    let panel = f32::PANEL;
    let mut end = columns.start;
    for first in (0..product.k).step_by(panel) {
        let last = first + panel >= product.k;
        let gathering = Gathering {
            sizes: [product.m, product.n, product.k],
            weights: product.ready_b,
            to: out.at,
            strides: [out.row, out.column],
            bias: bias.filter(|_| last).map(|bias| (bias.at, 1)),
            activation: match last {
                true => product.activation,
                false => Activation::None,
            },
            bounds: Bounds::default(),
        };
        let lying = Lying {
            at: a.from(rows.start, 0).at,
            row: a.row,
            first,
            runs: &[first as isize],
            run: panel.min(product.k - first),
            added: first > 0,
            biased_last: true,
        };
        end = gathering.straight(&columns).end;
        // SAFETY: passed on from the caller.
        unsafe { in_place(&gathering, rows.clone(), columns.start..end, &lying) };
    }
    end
}

/// A tile, of which parts are computed.
struct Tile<'a> {
    gathering: &'a Gathering,
    lying: &'a Lying<'a>,
    /// Columns of a block, and the most rows of one.
    width: usize,
    most: usize,
    /// Between which numbers results are kept, if nothing else is done with them.
    bounds: Option<Bounds>,
}

impl Gathering {
    /// Those of these columns whose sums can be where their results belong: as whole vectors.
    fn straight(&self, columns: &Range<usize>) -> Range<usize> {
        let [row, column] = self.strides;
        let has_vectors = self.bias.is_none_or(|(_, step)| step == 1);
        let width = f32::block().1;
        let rest = columns.len() % width;
        let end = match column == 1 && row > 0 && has_vectors {
            true if 2 * rest == width => columns.end,
            true => columns.end - rest,
            false => columns.start,
        };
        columns.start..end
    }
}

impl<'a> Tile<'a> {
    /// Computes these rows of [straight](Gathering::straight) columns, a few rows with all columns before the next.
    ///
    /// # Safety
    /// As for [`in_place`].
    unsafe fn blocks(&self, rows: &Range<usize>, columns: Range<usize>) {
        let gathering = self.gathering;
        let [row, _] = gathering.strides;
        let sums = |number: usize, column: usize| Sums {
            at: (gathering.to)
                .wrapping_offset((rows.start + number) as isize * row + column as isize),
            row: row.unsigned_abs(),
        };
        let mut blocks = SmallVec::<[Operands<'_>; MOST_TOGETHER]>::new();
        for column in columns.clone().step_by(self.width) {
            let block = column..columns.end.min(column + self.width);
            let biases = match gathering.bias {
                Some((bias, _)) => bias.wrapping_add(column).cast_const(),
                None if self.lying.biased_last => NOTHING.as_ptr(),
                None => NO_BIASES.as_ptr(),
            };
            blocks.push(self.operands(0, &block, biases, sums(0, column)));
        }
        let at_once = match self.bounds {
            Some(_) => rows.len(),
            // They are activated while they are in a first-level cache.
            None => 2 * self.most,
        };
        for first in (0..rows.len()).step_by(at_once.max(1)) {
            given_up::check();
            let some = first..rows.len().min(first + at_once);
            // SAFETY: the caller's promise.
            unsafe {
                multiply(&blocks, some.clone(), self.most);
                if self.bounds.is_none() {
                    let rows = (rows.start + first, some.len());
                    let sums = sums(first, columns.start);
                    gathering.finish(rows, (columns.start, columns.len()), sums);
                }
            }
        }
    }

    /// What makes rows from `row` on of these columns.
    fn operands(
        &self,
        row: usize,
        columns: &Range<usize>,
        biases: *const f32,
        sums: Sums<f32>,
    ) -> Operands<'a> {
        let (gathering, lying) = (self.gathering, self.lying);
        Operands {
            a: lying.at.wrapping_offset(row as isize * lying.row),
            row: lying.row,
            runs: lying.runs,
            run: lying.run,
            // Blocks of columns have all units, one after another.
            b: gathering
                .weights
                .wrapping_add(columns.start * gathering.sizes[2] + lying.first * self.width),
            biases: if lying.biased_last {
                NO_BIASES.as_ptr()
            } else {
                biases
            },
            after: if lying.biased_last {
                biases
            } else {
                NOTHING.as_ptr()
            },
            bounds: self.bounds.unwrap_or_default(),
            half: 2 * columns.len() <= self.width,
            added: lying.added,
            sums,
        }
    }

    /// Computes these of the rows behind `before`, and columns of a block.
    ///
    /// # Safety
    /// As for [`in_place`].
    unsafe fn part(&self, before: usize, rows: Range<usize>, columns: Range<usize>) {
        given_up::check();
        debug_assert!(!self.lying.added && !self.lying.biased_last);
        let mut biases = NO_BIASES;
        if let Some((bias, step)) = self.gathering.bias {
            for (index, value) in biases.iter_mut().enumerate().take(columns.len()) {
                // SAFETY: each column has a bias.
                *value = unsafe { *bias.wrapping_offset((columns.start + index) as isize * step) };
            }
        }
        let mut block = MaybeUninit::<[f32; MAX_ROWS * MAX_COLUMNS]>::uninit();
        let sums = Sums {
            at: block.as_mut_ptr().cast(),
            row: self.width,
        };
        let operands = self.operands(rows.start, &columns, biases.as_ptr(), sums);
        let first = (before + rows.start, rows.len());
        // SAFETY: the caller's promise; sums lie in the block.
        unsafe {
            multiply(&[operands], 0..rows.len(), self.most);
            (self.gathering).finish(first, (columns.start, columns.len()), sums);
        }
    }
}

/// Rows of a block of columns.
#[derive(Clone, Copy)]
struct Operands<'a> {
    a: *const f32,
    row: isize,
    runs: &'a [isize],
    run: usize,
    b: *const f32,
    /// What the sums of each column begin with.
    biases: *const f32,
    /// What is added to them last.
    after: *const f32,
    bounds: Bounds,
    /// Whether only the first half of the columns is made.
    half: bool,
    /// Whether sums are added to those that are there.
    added: bool,
    sums: Sums<f32>,
}

impl Operands<'_> {
    /// The same from this row on.
    #[inline(always)]
    fn from(&self, row: usize) -> Self {
        Operands {
            a: self.a.wrapping_offset(row as isize * self.row),
            sums: Sums {
                at: self.sums.at.wrapping_add(row * self.sums.row),
                ..self.sums
            },
            ..*self
        }
    }
}

/// Of so many rows, distances are what addresses can say: those of all rows would take more registers than there are.
const ROWS_OF_A_POINTER: usize = 3;
/// Units of a run that are taken at a time, where sums leave room: where they lie is part of the instructions.
const AT_ONCE: usize = 4;
/// Sums that leave room. With more the compiler reads for several units at once, and keeps what it read on the stack.
const MOST_AT_ONCE: usize = 20;

/// # Safety
/// The operands can be read, the sums be written, and the machine has the instructions.
#[allow(
    clippy::needless_range_loop,
    reason = "a zip is called, not inlined, in builds of many units"
)]
#[inline(always)]
unsafe fn block<L: Bounded, const R: usize, const V: usize>(operands: Operands<'_>) {
    let sums = operands.sums;
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
            while R * V <= MOST_AT_ONCE && left >= AT_ONCE {
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
        for at in 0..V {
            let after = L::load(operands.after.add(at * L::WIDTH));
            for row in 0..R {
                block[row][at] = block[row][at].plus(after);
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
        unsafe fn $name(blocks: &[Operands<'_>], rows: Range<usize>, most: usize) {
            for part in even_parts(rows.len(), most) {
                for operands in blocks {
                    let operands = operands.from(rows.start + part.start);
                    // SAFETY: the caller's promise; the function is only called where the features are.
                    unsafe {
                        match (part.len(), operands.half) {
                            $(
                                ($rows, false) => block::<$lanes, $rows, 2>(operands),
                                ($rows, true) => block::<$lanes, $rows, 1>(operands),
                            )*
                            _ => {}
                        }
                    }
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

/// Makes these rows of all blocks, at most `most` at a time.
///
/// # Safety
/// The operands can be read, and the rows of sums be written.
unsafe fn multiply(blocks: &[Operands<'_>], rows: Range<usize>, most: usize) {
    // SAFETY: the level says that the features are there; the rest the caller promises.
    unsafe {
        match level() {
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 => avx512(blocks, rows, most),
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 => avx2(blocks, rows, most),
            _ => plain(blocks, rows, most),
        }
    }
}
