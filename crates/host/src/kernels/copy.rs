//! Strided, casting copies.

use streampool_device::{DType, MAX_RANK, View};

use super::casts::{CastTo, Source};
use super::convert::with_native;
use super::scratch::list;
use super::simd::vectorised;
use super::split::{Shared, split};
use super::strided::{Walk, address};
use crate::team::Team;

/// Elements that are worth a thread.
const GRAIN: usize = 1 << 16;
/// The side of the squares in which a transposing copy runs.
const SQUARE: usize = 16;

/// `dst = cast(src)`.
///
/// # Safety
/// As for [`execute`](super::execute).
pub(super) unsafe fn execute(src: &View, dst: &View, team: &dyn Team) {
    let strides = [src.layout().strides(), dst.layout().strides()];
    let walk = Walk::in_memory_order(dst.shape(), strides, 1);
    if walk.elements() == 0 {
        return;
    }
    // SAFETY: the element types are the views'; the rest is passed on.
    unsafe {
        if keeps_bits(src.dtype(), dst.dtype()) {
            // Without a conversion only the size matters.
            match src.dtype().size() {
                1 => run::<u8, u8>(src, dst, &walk, team),
                2 => run::<half::f16, half::f16>(src, dst, &walk, team),
                4 => run::<i32, i32>(src, dst, &walk, team),
                _ => run::<i64, i64>(src, dst, &walk, team),
            }
        } else {
            with_native!(src.dtype(), S => with_native!(dst.dtype(), D => {
                run::<S, <S as Source>::Written<D>>(src, dst, &walk, team)
            }))
        }
    }
}

/// Whether a cast changes no bits.
fn keeps_bits(from: DType, to: DType) -> bool {
    from == to || from.is_integer() && to.is_integer() && from.size() == to.size()
}

/// # Safety
/// As for [`execute`]; the views' elements are of types `S` and `D`, or as good as of them.
unsafe fn run<S: CastTo<D>, D>(src: &View, dst: &View, walk: &Walk<2>, team: &dyn Team) {
    let (from, to) = (Shared(address::<S>(src)), Shared(address::<D>(dst)));
    if let Some(plan) = Transposition::of(walk) {
        let grain = GRAIN.div_ceil(plan.columns.max(1) * SQUARE);
        split(plan.bands(), grain, team, &|range| {
            range.for_each(|band| {
                plan.for_each_square(band, |offsets, rows, columns| {
                    // SAFETY: the squares lie inside the views; bands are disjoint.
                    unsafe {
                        square::<S, D>(
                            from.at(offsets[0]),
                            to.at(offsets[1]),
                            [plan.source_step, plan.target_step],
                            rows,
                            columns,
                        );
                    }
                });
            });
        });
        return;
    }
    let steps = walk.run_strides();
    split(walk.elements(), GRAIN, team, &|range| {
        walk.for_each_run(range, |offsets, length| {
            // SAFETY: the walk stays inside the views; ranges are disjoint.
            unsafe { line::<S, D>(from.at(offsets[0]), to.at(offsets[1]), steps, length) };
        });
    });
}

vectorised! {
    /// # Safety
    /// The run can be read and written.
    unsafe fn line[S: CastTo<D>, D: Sized](from: *const S, to: *mut D, steps: [isize; 2], length: usize) {
        // SAFETY: the caller's promise.
        unsafe {
            match steps {
                [1, 1] => {
                    for index in 0..length {
                        to.add(index).write((*from.add(index)).cast_to());
                    }
                }
                [source, 1] => {
                    for index in 0..length {
                        to.add(index).write((*from.offset(index as isize * source)).cast_to());
                    }
                }
                [source, target] => {
                    for index in 0..length as isize {
                        to.offset(index * target).write((*from.offset(index * source)).cast_to());
                    }
                }
            }
        }
    }
}

vectorised! {
    /// Rows are neighbours in the source, columns in the target.
    ///
    /// # Safety
    /// The square can be read and written.
    unsafe fn square[S: CastTo<D>, D: Sized](
        from: *const S,
        to: *mut D,
        steps: [isize; 2],
        rows: usize,
        columns: usize,
    ) {
        let [source, target] = steps;
        for row in 0..rows {
            for column in 0..columns {
                // SAFETY: the caller's promise.
                unsafe {
                    let value = *from.offset(row as isize + column as isize * source);
                    to.offset(row as isize * target + column as isize).write(value.cast_to());
                }
            }
        }
    }
}

/// A copy whose source and target are contiguous along different dimensions. It runs in squares, so that
/// cache lines of both are used wholly while they are there; a band is a row of squares.
struct Transposition {
    /// All dimensions but the two.
    others: Walk<2>,
    rows: usize,
    columns: usize,
    source_step: isize,
    target_step: isize,
}

impl Transposition {
    fn of(walk: &Walk<2>) -> Option<Self> {
        let dimensions: Vec<(usize, [isize; 2])> = match walk.run_strides() {
            [source, 1] if source.unsigned_abs() > 1 => list(walk.dimensions()),
            _ => return None,
        };
        let (&(columns, [source_step, _]), outer) = dimensions.split_last()?;
        let across = outer.iter().position(|&(_, [source, _])| source == 1)?;
        let (rows, [_, target_step]) = outer[across];
        let mut shape = [1; MAX_RANK];
        let mut strides = [[0; MAX_RANK]; 2];
        for (axis, &(size, steps)) in outer.iter().enumerate() {
            if axis != across {
                shape[axis] = size;
                strides[0][axis] = steps[0];
                strides[1][axis] = steps[1];
            }
        }
        let others = Walk::new(&shape, [&strides[0], &strides[1]]);
        Some(Transposition {
            others,
            rows,
            columns,
            source_step,
            target_step,
        })
    }

    fn bands(&self) -> usize {
        self.others.elements() * self.rows.div_ceil(SQUARE)
    }

    fn for_each_square(&self, band: usize, mut f: impl FnMut([isize; 2], usize, usize)) {
        let bands = self.rows.div_ceil(SQUARE);
        let (other, row) = (band / bands, band % bands * SQUARE);
        self.others
            .for_each_run(other..other + 1, |[source, target], _| {
                for column in (0..self.columns).step_by(SQUARE) {
                    let offsets = [
                        source + row as isize + column as isize * self.source_step,
                        target + row as isize * self.target_step + column as isize,
                    ];
                    f(
                        offsets,
                        SQUARE.min(self.rows - row),
                        SQUARE.min(self.columns - column),
                    );
                }
            });
    }
}
