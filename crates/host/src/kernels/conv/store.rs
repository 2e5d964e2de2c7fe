//! What happens to sums before they are stored, and where to.

use streampool_device::Activation;

use crate::kernels::convert::Float;
use crate::kernels::matmul::factor::convert;
use crate::kernels::simd::vectorised;
use crate::kernels::smooth::activate;

/// A block of sums on its way to the result.
#[derive(Clone, Copy)]
pub(super) struct Ending<T> {
    /// The result's line that the first column lies in.
    pub(super) to: *mut T,
    /// From one row of sums to the next: the result's next channel.
    pub(super) channel: isize,
    /// From one line to the next.
    pub(super) line: isize,
    /// From one element of a line to the next.
    pub(super) step: isize,
    /// Elements of a line; columns between them and the next line count for nothing.
    pub(super) length: usize,
    /// Columns of a line.
    pub(super) pitch: usize,
    /// The first column's place in its line.
    pub(super) place: usize,
    /// The first row's bias and the distance to the next.
    pub(super) bias: Option<(*const T, isize)>,
    pub(super) activation: Activation,
}

vectorised! {
    /// Biases and activates sums, and stores them.
    ///
    /// # Safety
    /// The sums can be written, the bias read, and the elements of the result that they are for be written.
    pub(super) unsafe fn store<M>[T: Float](
        sums: *mut T::Wide,
        row: usize,
        rows: usize,
        columns: usize,
        ending: Ending<T>,
    ) {
        for number in 0..rows {
            // SAFETY: the caller's promise.
            unsafe {
                let values = std::slice::from_raw_parts_mut(sums.add(number * row), columns);
                if let Some((bias, step)) = ending.bias {
                    let bias = (*bias.offset(number as isize * step)).widen();
                    values.iter_mut().for_each(|value| *value = *value + bias);
                }
                activate::<M, _>(ending.activation, values);
                let mut to = ending.to.wrapping_offset(number as isize * ending.channel);
                let (mut column, mut place) = (0, ending.place);
                while column < columns {
                    if place < ending.length {
                        let count = (ending.length - place).min(columns - column);
                        let from = values.as_ptr().add(column);
                        let to = to.wrapping_offset(place as isize * ending.step);
                        if ending.step == 1 {
                            convert(from, to, count, T::narrow);
                        } else {
                            for index in 0..count {
                                *to.wrapping_offset(index as isize * ending.step) =
                                    T::narrow(*from.add(index));
                            }
                        }
                    }
                    column += ending.pitch - place;
                    place = 0;
                    to = to.wrapping_offset(ending.line);
                }
            }
        }
    }
}
