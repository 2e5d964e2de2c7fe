//! Convolutions whose taps lie so far apart that most see only padding, with the channels of each place side by side: one product
//! for each tap, of the places that it sees.

use std::ops::Range;

use streampool_device::Activation;

use super::window::{Window, copy};
use crate::given_up;
use crate::kernels::matmul::lanes::Bounds;
use crate::kernels::matmul::{self, Gathering, Lying, Sums};
use crate::kernels::scratch::{Count, odd_lines, with_scratch};
use crate::kernels::simd::vectorised;

/// Computes these columns, which begin at whole blocks, of all results.
///
/// # Safety
/// What windows see, the weights and the bias can be read, and the columns be written. The channels of each place lie side by
/// side, and lines of results follow one another.
pub(super) unsafe fn taps(window: &Window, gathering: &Gathering, columns: Range<usize>) {
    let [rows, _, _] = gathering.sizes;
    let (read, half) = (window.channels, matmul::columns_of_a_block() / 2);
    // Whole vectors, also of what no weight is for.
    let width = columns.len().next_multiple_of(half);
    let (seen_row, row) = (odd_lines(read), odd_lines(width));
    let floats = Count::of(rows) * row + Count::of(rows) * row + Count::of(rows) * seen_row;
    with_scratch(floats, |totals: *mut f32| {
        let some = totals.wrapping_add(rows * row);
        let seen = some.wrapping_add(rows * row);
        let product = Gathering {
            to: some.wrapping_sub(columns.start),
            strides: [row as isize, 1],
            bias: None,
            activation: Activation::None,
            bounds: Bounds::default(),
            ..*gathering
        };
        let [down, along] = window.slides.map(|slide| slide.kernel as usize);
        // SAFETY: there is room for the sums of all results, twice, and for what a tap of each sees; the rest the caller promises.
        unsafe {
            totals.write_bytes(0, rows * row);
            for tap in 0..down * along {
                given_up::check();
                let taps = [tap / along, tap % along];
                let lines = window.seeing(0, taps[0], 0..rows / window.line);
                let places = window.seeing(1, taps[1], 0..window.line);
                let count = lines.len() * places.len();
                if count == 0 {
                    continue;
                }
                see(window, taps, &lines, &places, seen, seen_row);
                let lying = Lying {
                    at: seen,
                    row: seen_row as isize,
                    first: tap * read,
                    runs: &[0],
                    run: read,
                    added: false,
                    biased_last: false,
                };
                let whole = columns.start..columns.start + width;
                matmul::in_place(&product, 0..count, whole, &lying);
                add(totals, some, row, width, window.line, &lines, &places);
            }
            gathering.finish_all(columns, Sums { at: totals, row });
        }
    });
}

vectorised! {
    /// Copies what results of these lines and places see by a tap.
    ///
    /// # Safety
    /// It can be read, and there is room for it.
    unsafe fn see[](
        window: &Window,
        taps: [usize; 2],
        lines: &Range<usize>,
        places: &Range<usize>,
        to: *mut f32,
        row: usize,
    ) {
        let mut to = to;
        for line in lines.clone() {
            let line = window.place(0, taps[0], line) as isize * window.strides[1];
            for place in places.clone() {
                let place = window.place(1, taps[1], place) as isize * window.strides[2];
                // SAFETY: the caller's promise.
                unsafe {
                    copy(window.at.wrapping_offset(line + place), to, window.channels);
                    to = to.add(row);
                }
            }
        }
    }
}

vectorised! {
    /// Adds the sums of results of these lines and places to the totals.
    ///
    /// # Safety
    /// They can be read and written.
    unsafe fn add[](
        totals: *mut f32,
        some: *const f32,
        row: usize,
        width: usize,
        line_length: usize,
        lines: &Range<usize>,
        places: &Range<usize>,
    ) {
        let mut some = some;
        for line in lines.clone() {
            for place in places.clone() {
                let total = totals.wrapping_add((line * line_length + place) * row);
                for column in 0..width {
                    // SAFETY: the caller's promise.
                    unsafe { *total.add(column) += *some.add(column) };
                }
                some = some.wrapping_add(row);
            }
        }
    }
}
