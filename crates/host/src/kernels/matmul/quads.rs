//! Products of bytes by instructions that multiply four neighbours with four and add all to a sum.
//!
//! They take the numbers of the left operand without sign. Those of an `i8` are packed as 128 more than they are, and what that is too
//! much, 128 times the sum of each column, is counted beside the sums and taken from them.

use std::ptr::null;

use streampool_device::Activation;

use super::factor::Factor;
use super::multiply::{AHEAD, Earlier, Packed, Sums, Unit};
use crate::kernels::byte_lanes::{ByteLanes, Narrow, Rounding, Wide};
use crate::kernels::rows;
use crate::kernels::simd::{Level, Machine, level};

/// A byte with a sign, multiplied so.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(in crate::kernels) struct Dotted(u8);

/// Four neighbours, and a sum of products of such.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(in crate::kernels) struct Quad(i32);

/// 128 more than each of four `i8`, without sign, for each.
const MORE: i32 = 0x8080_8080_u32 as i32;

impl Factor for Dotted {
    type Unit = Quad;
    type Out = i32;
    const PER_UNIT: usize = 4;
    const IN_PLACE: bool = false;
    const SUMS_ARE_OUT: bool = true;
    const PLANES: usize = 0;

    #[inline(always)]
    fn unit(first: Self, rest: [Option<Self>; 3]) -> Quad {
        let [second, third, fourth] = rest.map(|value| value.map_or(0, |value| value.0));
        Quad(i32::from_le_bytes([first.0, second, third, fourth]))
    }

    #[inline(always)]
    fn left_unit(unit: Quad) -> Quad {
        Quad(unit.0 ^ MORE)
    }

    #[inline(always)]
    fn scale(sum: Quad, _: f64) -> Quad {
        sum
    }

    #[inline(always)]
    fn add(sum: Quad, bias: i32) -> Quad {
        Quad(sum.0.wrapping_add(bias))
    }

    #[inline(always)]
    unsafe fn activate<M: Machine>(_: Activation, _: *mut Quad, _: (usize, usize), _: usize) {}

    #[inline(always)]
    fn narrow(sum: Quad) -> i32 {
        sum.0
    }
}

impl Unit for Quad {
    const NOTHING: Self = Quad(0);

    fn block() -> (usize, usize) {
        match level() {
            Level::Avx512 => (12, 32),
            _ => (4, 16),
        }
    }

    #[inline]
    unsafe fn multiply(operands: &Packed<Self>, sums: Sums<Self>, earlier: Earlier) {
        let rows = Rows {
            first: operands.a.cast(),
            segments: &[0],
            step: PACKED_STEP as isize,
            count: operands.rows,
        };
        let columns = Columns {
            at: operands.b.cast(),
            first: null(),
            units: operands.steps,
            are_half: operands.half,
        };
        let to = To::Signed(sums, earlier);
        // SAFETY: this type is only multiplied where the level has the instructions; the rest the caller promises.
        unsafe { multiply(&rows, &columns, &to) }
    }
}

/// Bytes from one packed row to the next.
const PACKED_STEP: usize = size_of::<Quad>() * Quad::PANEL_STRIDE;

/// Rows of bytes without sign, so many bytes apart.
#[derive(Clone, Copy)]
pub(in crate::kernels) struct Rows<'a> {
    pub(in crate::kernels) first: *const u8,
    /// Where units of a row lie side by side, from its beginning on.
    pub(in crate::kernels) segments: &'a [isize],
    pub(in crate::kernels) step: isize,
    /// As many as [`block`](Unit::block) says, or fewer.
    pub(in crate::kernels) count: usize,
}

/// A packed block of columns.
#[derive(Clone, Copy)]
pub(in crate::kernels) struct Columns {
    pub(in crate::kernels) at: *const i32,
    /// What their sums begin with, unless rows have a sign.
    pub(in crate::kernels) first: *const i32,
    /// Those of a segment of rows.
    pub(in crate::kernels) units: usize,
    /// Whether only the first half of them is wanted.
    pub(in crate::kernels) are_half: bool,
}

/// What becomes of sums, of a block or fewer columns.
#[derive(Clone, Copy)]
pub(in crate::kernels) enum To {
    /// They are of bytes with a sign, and join others or not.
    Signed(Sums<Quad>, Earlier),
    /// A bias is added to each column.
    Biased {
        to: *mut i32,
        row: isize,
        columns: usize,
        bias: *const i32,
    },
    /// They become bytes.
    Bytes {
        to: *mut u8,
        row: isize,
        columns: usize,
        scale: *const f32,
        more: *const f32,
        zero_point: u8,
    },
}

/// Multiplies rows with a block of columns. Biases and scales are those of a whole block.
///
/// # Safety
/// The operands can be read, the results be written, and the machine has the instructions.
pub(in crate::kernels) unsafe fn multiply(rows: &Rows<'_>, columns: &Columns, to: &To) {
    // SAFETY: passed on from the caller.
    unsafe {
        match level() {
            Level::Avx512 => wide(rows, columns, to),
            _ => narrow(rows, columns, to),
        }
    }
}

/// All columns of a block, or the first half of them, for each number of rows.
macro_rules! of_rows {
    ($lanes:ident, $rows:ident, $columns:ident, $to:ident: $($count:literal)*) => {
        match ($rows.count, $columns.are_half, matches!($to, To::Signed(..))) {
            $(
                ($count, false, false) => block::<$lanes, false, $count, 2>($rows, $columns, $to),
                ($count, true, false) => block::<$lanes, false, $count, 1>($rows, $columns, $to),
                ($count, false, true) => block::<$lanes, true, $count, 2>($rows, $columns, $to),
                ($count, true, true) => block::<$lanes, true, $count, 1>($rows, $columns, $to),
            )*
            _ => {}
        }
    };
}

#[target_feature(enable = "avx2,fma,avx512f,avx512bw,avx512vl,avx512vnni")]
unsafe fn wide(rows: &Rows<'_>, columns: &Columns, to: &To) {
    // SAFETY: the caller's promise; the function is only called where the features are.
    unsafe { of_rows!(Wide, rows, columns, to: 1 2 3 4 5 6 7 8 9 10 11 12) }
}

#[target_feature(enable = "avx2,fma,avxvnni")]
unsafe fn narrow(rows: &Rows<'_>, columns: &Columns, to: &To) {
    // SAFETY: as above.
    unsafe { of_rows!(Narrow, rows, columns, to: 1 2 3 4) }
}

/// The same for each of `R` rows, at most twelve, written out: in a loop that is not, their sums would lie in memory.
macro_rules! each_row {
    (|$row:ident| $body:block) => {
        each_row!(|$row| $body: 0 1 2 3 4 5 6 7 8 9 10 11)
    };
    (|$row:ident| $body:block: $($number:literal)*) => {
        $(if $number < R {
            let $row: usize = $number;
            $body
        })*
    };
}

/// `R` rows and `V` vectors of columns.
///
/// # Safety
/// As for [`multiply`].
#[allow(
    clippy::needless_range_loop,
    reason = "a zip is called, not inlined, in builds of many units"
)]
#[inline(always)]
unsafe fn block<L: ByteLanes, const SIGNED: bool, const R: usize, const V: usize>(
    rows: &Rows<'_>,
    columns: &Columns,
    to: &To,
) {
    // SAFETY: the caller promises that the units of all rows and columns can be read, and what is written, be written.
    unsafe {
        let mut firsts = [L::all(0); V];
        if !SIGNED {
            for at in 0..V {
                firsts[at] = L::load(columns.first.add(at * L::WIDTH));
            }
        }
        let mut sums = [firsts; R];
        let mut more = [L::all(0); V];
        let mut b = columns.at;
        for &segment in rows.segments {
            let begin = rows.first.wrapping_offset(segment);
            // Two more rows are at once and twice the distance from each of these: as many addresses as registers hold.
            let third = |row: isize| begin.wrapping_offset(row * rows.step);
            let (mut first, mut fourth, mut seventh, mut tenth) =
                (third(0), third(3), third(6), third(9));
            for _ in 0..columns.units {
                let mut some = [L::all(0); V];
                for at in 0..V {
                    some[at] = L::load(b.add(at * L::WIDTH));
                    rows::fetch(b.wrapping_add(at * L::WIDTH + AHEAD).cast());
                    if SIGNED {
                        more[at] = L::dots(more[at], L::all(MORE), some[at]);
                    }
                }
                each_row!(|row| {
                    let third = match row / 3 {
                        0 => first,
                        1 => fourth,
                        2 => seventh,
                        _ => tenth,
                    };
                    let at = match SIGNED {
                        // Packed rows are always as far apart, which needs no address of its own.
                        true => first.wrapping_add(row * PACKED_STEP),
                        false => third.wrapping_offset((row % 3) as isize * rows.step),
                    };
                    let x = L::all(at.cast::<i32>().read_unaligned());
                    for at in 0..V {
                        sums[row][at] = L::dots(sums[row][at], x, some[at]);
                    }
                });
                let next = |third: *const u8| third.wrapping_add(size_of::<Quad>());
                (first, fourth) = (next(first), next(fourth));
                (seventh, tenth) = (next(seventh), next(tenth));
                b = b.wrapping_add(2 * L::WIDTH);
            }
        }
        match *to {
            To::Signed(earlier_sums, earlier) => {
                each_row!(|row| {
                    for at in 0..V {
                        let to = earlier_sums.at.add(row * earlier_sums.row + at * L::WIDTH);
                        let mut total = L::less(sums[row][at], more[at]);
                        if earlier != Earlier::Lost {
                            total = L::add(total, L::load(to.cast()));
                        }
                        L::store(total, to.cast(), L::WIDTH);
                    }
                });
            }
            To::Biased {
                to,
                row: step,
                columns,
                bias,
            } => {
                let mut biases = [L::all(0); V];
                for at in 0..V {
                    biases[at] = L::load(bias.add(at * L::WIDTH));
                }
                each_row!(|row| {
                    let to = to.offset(row as isize * step);
                    for at in 0..V {
                        let count = columns.saturating_sub(at * L::WIDTH);
                        let sums = L::add(sums[row][at], biases[at]);
                        L::store(sums, to.wrapping_add(at * L::WIDTH), count);
                    }
                });
            }
            To::Bytes {
                to,
                row: step,
                columns,
                scale,
                more,
                zero_point,
            } => {
                let rounding = Rounding::<L>::of(zero_point);
                let mut ends = [[L::all_floats(0.0); 2]; V];
                for at in 0..V {
                    let first = at * L::WIDTH;
                    ends[at] = [
                        L::load_floats(scale.add(first)),
                        L::load_floats(more.add(first)),
                    ];
                }
                each_row!(|row| {
                    let to = to.offset(row as isize * step);
                    for at in 0..V {
                        let count = columns.saturating_sub(at * L::WIDTH);
                        let [scale, more] = ends[at];
                        let bytes = rounding.bytes(L::floats(sums[row][at]), scale, more);
                        L::store_bytes(bytes, to.wrapping_add(at * L::WIDTH), count);
                    }
                });
            }
        }
    }
}
