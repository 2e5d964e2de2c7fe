//! One matrix product, and what happens to its sums before they are stored.

use streampool_device::Activation;

use super::factor::{Factor, Lines, convert};
use super::multiply::Sums;
use crate::kernels::simd::{Machine, vectorised};

/// The operand of a product that is packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Left,
    Right,
}

/// A matrix where it lies.
#[derive(Debug)]
pub(super) struct Matrix<T> {
    pub(super) at: *mut T,
    /// From one row to the next.
    pub(super) row: isize,
    /// From one column to the next.
    pub(super) column: isize,
}

impl<T> Clone for Matrix<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Matrix<T> {}

impl<T> Matrix<T> {
    /// The matrix from another element on.
    #[inline(always)]
    pub(super) fn from(self, row: usize, column: usize) -> Self {
        let distance = row as isize * self.row + column as isize * self.column;
        Matrix {
            at: self.at.wrapping_offset(distance),
            ..self
        }
    }

    fn transposed(self) -> Self {
        Matrix {
            row: self.column,
            column: self.row,
            ..self
        }
    }
}

/// `out = activation(alpha * a @ b + bias)` for matrices.
#[derive(Clone, Copy)]
pub(super) struct Product<T: Factor> {
    pub(super) m: usize,
    pub(super) n: usize,
    pub(super) k: usize,
    pub(super) a: Matrix<T>,
    pub(super) b: Matrix<T>,
    pub(super) out: Matrix<T::Out>,
    pub(super) bias: Option<Matrix<T::Out>>,
    pub(super) alpha: f64,
    pub(super) activation: Activation,
    /// The operands as they were packed before, or null.
    pub(super) ready_a: *const T::Unit,
    pub(super) ready_b: *const T::Unit,
    /// Whether each sum is one over the whole inner dimension, in its order, instead of one for each panel.
    pub(super) in_one: bool,
    /// Whether it is multiplied by the matrix unit, and its operands are packed for that.
    pub(super) on_amx: bool,
}

// SAFETY: it is a description; whoever dereferences its addresses has the guarantees given to `execute`, and
// tasks write different parts of the product.
unsafe impl<T: Factor> Sync for Product<T> {}

impl<T: Factor> Product<T> {
    /// The product of the transposed operands in the other order, which is the transposed product.
    pub(super) fn transposed(self) -> Self {
        Product {
            m: self.n,
            n: self.m,
            a: self.b.transposed(),
            b: self.a.transposed(),
            out: self.out.transposed(),
            bias: self.bias.map(Matrix::transposed),
            ..self
        }
    }

    /// Some rows of `a`, some elements of each.
    pub(super) fn a_lines(&self, row: usize, rows: usize, from: usize, length: usize) -> Lines<T> {
        Lines {
            at: self.a.from(row, from).at,
            lines: rows,
            length,
            line: self.a.row,
            step: self.a.column,
        }
    }

    /// Some columns of `b`, some elements of each.
    pub(super) fn b_lines(
        &self,
        column: usize,
        columns: usize,
        from: usize,
        length: usize,
    ) -> Lines<T> {
        Lines {
            at: self.b.from(from, column).at,
            lines: columns,
            length,
            line: self.b.column,
            step: self.b.row,
        }
    }

    /// Where the sums of a block of whole vectors can be the elements of the product themselves.
    pub(super) fn sums_in_out(&self, row: usize, column: usize) -> Option<Sums<T::Unit>> {
        let fits = T::SUMS_ARE_OUT && self.out.column == 1 && self.out.row > 0;
        fits.then(|| Sums {
            at: self.out.from(row, column).at.cast(),
            row: self.out.row.unsigned_abs(),
        })
    }

    /// Finishes sums of the block at `row` and `column`, and stores them if they are not in the product.
    ///
    /// # Safety
    /// The sums can be read and written, and the product and bias are as promised to `execute`.
    #[inline]
    pub(super) unsafe fn finish(
        &self,
        (row, rows): (usize, usize),
        (column, columns): (usize, usize),
        sums: Sums<T::Unit>,
    ) {
        let out = self.out.from(row, column);
        let stored = out.at.cast() == sums.at;
        if stored && self.bias.is_none() && self.alpha == 1.0 && self.activation == Activation::None
        {
            return;
        }
        let epilogue = Epilogue {
            bias: self.bias.map(|bias| bias.from(row, column)),
            alpha: self.alpha,
            activation: self.activation,
        };
        // SAFETY: the block lies within the product, to which the bias is broadcast.
        unsafe { finish::<T>(rows, columns, sums, out, epilogue) }
    }
}

/// Biases sums, makes negative ones zero if it is said so, and stores them: by whole vectors, the columns of all rows after one
/// another.
///
/// # Safety
/// As for [`finish`]; the columns of bias and product lie side by side.
#[inline(always)]
unsafe fn finish_simply<T: Factor, M: Machine>(
    rows: usize,
    columns: usize,
    sums: Sums<T::Unit>,
    out: Matrix<T::Out>,
    bias: Option<Matrix<T::Out>>,
    activation: Activation,
) {
    let mut column = 0;
    // SAFETY: passed on from the caller; the parts lie within rows and columns.
    unsafe {
        while column + CHUNK <= columns {
            finish_part::<T, M, CHUNK>(rows, column, sums, out, bias, activation);
            column += CHUNK;
        }
        if column + CHUNK / 2 <= columns {
            finish_part::<T, M, { CHUNK / 2 }>(rows, column, sums, out, bias, activation);
            column += CHUNK / 2;
        }
        while column < columns {
            finish_part::<T, M, 1>(rows, column, sums, out, bias, activation);
            column += 1;
        }
    }
}

/// # Safety
/// As for [`finish_simply`]; there are `N` columns from `column` on.
#[inline(always)]
unsafe fn finish_part<T: Factor, M: Machine, const N: usize>(
    rows: usize,
    column: usize,
    sums: Sums<T::Unit>,
    out: Matrix<T::Out>,
    bias: Option<Matrix<T::Out>>,
    activation: Activation,
) {
    for row in 0..rows {
        // SAFETY: the caller's promise.
        unsafe {
            let from = sums.at.add(row * sums.row + column);
            let mut values = from.cast::<[T::Unit; N]>().read_unaligned();
            if let Some(bias) = bias {
                let bias = bias.from(row, column).at.cast::<[T::Out; N]>();
                let bias = bias.read_unaligned();
                for index in 0..N {
                    values[index] = T::add(values[index], bias[index]);
                }
            }
            let at = values.as_mut_ptr();
            // Each with a constant, so that values stay in registers.
            match activation {
                Activation::Relu => T::activate::<M>(Activation::Relu, at, (1, 0), N),
                Activation::HardSwish => T::activate::<M>(Activation::HardSwish, at, (1, 0), N),
                _ => {}
            }
            let to = out.from(row, column).at.cast::<[T::Out; N]>();
            to.write_unaligned(values.map(T::narrow));
        }
    }
}

/// Sums that are biased at a time.
const CHUNK: usize = 16;

/// What happens to sums.
#[derive(Clone, Copy)]
struct Epilogue<T> {
    bias: Option<Matrix<T>>,
    alpha: f64,
    activation: Activation,
}

vectorised! {
    /// Scales, biases and activates sums, and stores them.
    ///
    /// # Safety
    /// The sums can be read and written, the bias read and the product written.
    unsafe fn finish<M>[T: Factor](
        rows: usize,
        columns: usize,
        sums: Sums<T::Unit>,
        out: Matrix<T::Out>,
        epilogue: Epilogue<T::Out>,
    ) {
        let Epilogue { activation, .. } = epilogue;
        let simple = epilogue.alpha == 1.0
            && matches!(activation, Activation::None | Activation::Relu | Activation::HardSwish)
            && epilogue.bias.is_none_or(|bias| bias.column == 1)
            && out.column == 1;
        if simple {
            // SAFETY: passed on from the caller.
            return unsafe { finish_simply::<T, M>(rows, columns, sums, out, epilogue.bias, activation) };
        }
        for row in 0..rows {
            // SAFETY: the caller promises that there are so many rows and columns of sums and bias.
            unsafe {
                let values = std::slice::from_raw_parts_mut(sums.at.add(row * sums.row), columns);
                if epilogue.alpha != 1.0 {
                    values.iter_mut().for_each(|value| *value = T::scale(*value, epilogue.alpha));
                }
                if let Some(bias) = epilogue.bias {
                    let bias = bias.from(row, 0);
                    match bias.column {
                        0 => {
                            let bias = *bias.at;
                            values.iter_mut().for_each(|value| *value = T::add(*value, bias));
                        }
                        1 => {
                            // By whole vectors: the count is small and mostly a multiple of them. As slices, the compiler
                            // would gather from several at once.
                            let mut column = 0;
                            while column + CHUNK <= columns {
                                let at = values.as_mut_ptr().add(column).cast::<[T::Unit; CHUNK]>();
                                let bias = bias.at.add(column).cast::<[T::Out; CHUNK]>();
                                let (mut some, bias) = (at.read_unaligned(), bias.read_unaligned());
                                for index in 0..CHUNK {
                                    some[index] = T::add(some[index], bias[index]);
                                }
                                at.write_unaligned(some);
                                column += CHUNK;
                            }
                            while column < columns {
                                let value = values.as_mut_ptr().add(column);
                                *value = T::add(*value, *bias.at.add(column));
                                column += 1;
                            }
                        }
                        _ => {
                            for (column, value) in values.iter_mut().enumerate() {
                                *value = T::add(*value, *bias.from(0, column).at);
                            }
                        }
                    }
                }
            }
        }
        // SAFETY: the sums are rows of so many columns.
        unsafe { T::activate::<M>(epilogue.activation, sums.at, (rows, sums.row), columns) };
        if out.at.cast() == sums.at {
            // The sums are the product.
            return;
        }
        for row in 0..rows {
            // SAFETY: the caller promises that there are so many rows and columns of sums and product.
            unsafe {
                let (values, out) = (sums.at.add(row * sums.row), out.from(row, 0));
                if out.column == 1 {
                    convert(values, out.at, columns, T::narrow);
                } else {
                    for column in 0..columns {
                        *out.from(0, column).at = T::narrow(*values.add(column));
                    }
                }
            }
        }
    }
}
