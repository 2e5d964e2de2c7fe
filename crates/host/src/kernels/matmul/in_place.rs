//! Products of rows that lie in place, wherever the units of each are, with packed columns.

use std::mem::MaybeUninit;
use std::ops::Range;

use super::blocked::even_parts;
use super::gathering::Gathering;
use super::lanes::{Bounded, Bounds, Lanes, PlainF32, between};
use super::multiply::{AHEAD, MAX_COLUMNS, MAX_ROWS, Sums, Unit};
use crate::given_up;
use crate::kernels::rows::fetch;
#[cfg(target_arch = "x86_64")]
use crate::kernels::simd::Level;
use crate::kernels::simd::level;

/// Rows of equal distances, each with some of the units of a row of the product.
pub(in crate::kernels) struct Lying<'a> {
    pub(in crate::kernels) at: *const f32,
    /// From one row to the next.
    pub(in crate::kernels) row: isize,
    /// The first unit.
    pub(in crate::kernels) first: usize,
    /// Where each lies, from `at` on.
    pub(in crate::kernels) units: &'a [isize],
    /// Whether sums are added to what the product has; then they are not biased.
    pub(in crate::kernels) added: bool,
}

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
    let k = gathering.sizes[2];
    let [row_step, column_step] = gathering.strides;
    let (_, width) = f32::block();
    let mut biases = [0.0; MAX_COLUMNS];
    for column in columns.clone().step_by(width) {
        given_up::check();
        let count = width.min(columns.end - column);
        if let Some((bias, step)) = gathering.bias {
            for (index, value) in biases.iter_mut().enumerate().take(count) {
                // SAFETY: each column has a bias.
                *value = unsafe { *bias.wrapping_offset((column + index) as isize * step) };
            }
        }
        let half = 2 * count <= width;
        let made = if half { width / 2 } else { width };
        let is_direct = count == made && column_step == 1 && row_step > 0;
        for part in even_parts(rows.len(), MAX_ROWS.min(f32::block().0)) {
            let first = rows.start + part.start;
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
            debug_assert!(is_direct || !lying.added);
            let operands = Operands {
                a: lying.at.wrapping_offset(part.start as isize * lying.row),
                row: lying.row,
                units: lying.units,
                // Blocks of columns have all units, one after another.
                b: gathering
                    .weights
                    .wrapping_add(column * k + lying.first * width),
                biases: biases.as_ptr(),
                bounds: gathering.in_registers().unwrap_or_default(),
                half,
                added: lying.added,
            };
            // SAFETY: the caller's promise; sums lie in the tile, or in the block.
            unsafe {
                multiply(&operands, part.len(), sums);
                gathering.finish((first, part.len()), (column, count), sums);
            }
        }
    }
}

/// A block of rows and columns.
struct Operands<'a> {
    a: *const f32,
    row: isize,
    units: &'a [isize],
    b: *const f32,
    /// One for each column of a whole block.
    biases: *const f32,
    bounds: Bounds,
    /// Whether only the first half of the columns is wanted.
    half: bool,
    /// Whether sums are added to those that are there.
    added: bool,
}

/// Of so many rows, distances are what addresses can say.
const ROWS_OF_A_POINTER: usize = 3;

/// # Safety
/// The operands can be read, the sums be written, and the machine has the instructions.
#[allow(
    clippy::needless_range_loop,
    reason = "a zip is called, not inlined, in builds of many units"
)]
#[inline(always)]
unsafe fn block<L: Bounded, const R: usize, const V: usize>(
    operands: &Operands<'_>,
    next: usize,
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
        for &unit in operands.units {
            let a = operands.a.wrapping_offset(unit);
            let mut columns = [L::zero(); V];
            for (at, vector) in columns.iter_mut().enumerate() {
                *vector = L::units(b.add(at * L::WIDTH));
                fetch(b.wrapping_add(at * L::WIDTH + AHEAD).cast());
            }
            // As distances from one pointer, those of all rows would take more registers than there are.
            let mut some = a;
            for row in 0..R {
                if row > 0 && row % ROWS_OF_A_POINTER == 0 {
                    some = some.wrapping_offset(ROWS_OF_A_POINTER as isize * operands.row);
                }
                let distance = (row % ROWS_OF_A_POINTER) as isize * operands.row;
                let x = L::splat(some.wrapping_offset(distance));
                for at in 0..V {
                    block[row][at] = block[row][at].plus_product(x, columns[at]);
                }
            }
            b = b.wrapping_add(next);
        }
        let bounds = operands.bounds.lanes::<L>();
        for (row, vectors) in block.iter().enumerate() {
            for (at, &vector) in vectors.iter().enumerate() {
                let to = sums.at.add(row * sums.row + at * L::WIDTH);
                let vector = match operands.added {
                    true => vector.plus(L::load(to)),
                    false => vector,
                };
                between(vector, bounds).store(to);
            }
        }
    }
}

macro_rules! compiled {
    ($name:ident, $lanes:ty, [$($rows:literal)*] $(, $feature:literal)?) => {
        $(#[target_feature(enable = $feature)])?
        unsafe fn $name(operands: &Operands<'_>, rows: usize, sums: Sums<f32>) {
            const NEXT: usize = 2 * <$lanes as Lanes>::WIDTH;
            // SAFETY: the caller's promise; the function is only called where the features are.
            unsafe {
                match (rows, operands.half) {
                    $(
                        ($rows, false) => block::<$lanes, $rows, 2>(operands, NEXT, sums),
                        ($rows, true) => block::<$lanes, $rows, 1>(operands, NEXT, sums),
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
