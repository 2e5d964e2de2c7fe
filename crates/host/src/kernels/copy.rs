//! Strided, casting copies.

use std::ops::Range;

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
    let loops = if keeps_bits(src.dtype(), dst.dtype()) {
        // Without a conversion only the size matters.
        match src.dtype().size() {
            1 => Loops::of_bits::<u8>(),
            2 => Loops::of_bits::<half::f16>(),
            4 => Loops::of_bits::<i32>(),
            _ => Loops::of_bits::<i64>(),
        }
    } else {
        with_native!(src.dtype(), S => with_native!(dst.dtype(), D => {
            Loops::of_cast::<S, <S as Source>::Written<D>>()
        }))
    };
    // SAFETY: the element types are the views', or as good as those; the rest is passed on.
    unsafe { run(src, dst, &walk, &loops, team) }
}

/// Whether a cast changes no bits.
fn keeps_bits(from: DType, to: DType) -> bool {
    from == to || from.is_integer() && to.is_integer() && from.size() == to.size()
}

/// Copies a part: where it is read and written, the steps there in elements, and its size.
type Part<S> = unsafe fn(*const u8, *mut u8, [isize; 2], S);

/// Copies elements of a walk.
type Runs = unsafe fn(&Walk<2>, Range<usize>, *const u8, *mut u8);

/// What copies elements of one type to another.
struct Loops {
    /// A run.
    line: Part<usize>,
    /// All runs of a walk.
    runs: Option<Runs>,
    /// Rows that are neighbours in the source, and columns that are in the target.
    square: Option<Part<[usize; 2]>>,
}

impl Loops {
    fn of_bits<T: CastTo<T>>() -> Loops {
        Loops {
            line: line::<T, T>,
            runs: Some(runs::<T>),
            square: Some(square::<T>),
        }
    }

    /// Runs and squares are copied by line.
    fn of_cast<S: CastTo<D>, D>() -> Loops {
        Loops {
            line: line::<S, D>,
            runs: None,
            square: None,
        }
    }
}

/// # Safety
/// As for [`execute`]; the loops are those of the views' types.
unsafe fn run(src: &View, dst: &View, walk: &Walk<2>, loops: &Loops, team: &dyn Team) {
    let (from, to) = (Shared(address::<u8>(src)), Shared(address::<u8>(dst)));
    let sizes = [src.dtype().size() as isize, dst.dtype().size() as isize];
    let at = |offsets: [isize; 2]| {
        let (from, to) = (from.at(offsets[0] * sizes[0]), to.at(offsets[1] * sizes[1]));
        (from.cast_const(), to)
    };
    if let Some(plan) = Transposition::of(walk) {
        let grain = GRAIN.div_ceil(plan.columns.max(1) * SQUARE);
        let steps = [plan.source_step, plan.target_step];
        split(plan.bands(), grain, team, &|range| {
            range.for_each(|band| {
                plan.for_each_square(band, &mut |offsets, rows, columns| {
                    // SAFETY: the squares lie inside the views; bands are disjoint.
                    unsafe {
                        if let Some(square) = loops.square {
                            let (from, to) = at(offsets);
                            return square(from, to, steps, [rows, columns]);
                        }
                        for row in 0..rows as isize {
                            let (from, to) = at([offsets[0] + row, offsets[1] + row * steps[1]]);
                            (loops.line)(from, to, [steps[0], 1], columns);
                        }
                    }
                });
            });
        });
        return;
    }
    let steps = walk.run_strides();
    split(walk.elements(), GRAIN, team, &|range| {
        if let Some(runs) = loops.runs {
            let (from, to) = at([0, 0]);
            // SAFETY: the walk stays inside the views; ranges are disjoint.
            return unsafe { runs(walk, range, from, to) };
        }
        walk.for_each_run(range, &mut |offsets, length| {
            let (from, to) = at(offsets);
            // SAFETY: the walk stays inside the views; ranges are disjoint.
            unsafe { (loops.line)(from, to, steps, length) };
        });
    });
}

/// # Safety
/// The range of the walk can be read and written as elements `T`.
unsafe fn runs<T: CastTo<T>>(walk: &Walk<2>, range: Range<usize>, from: *const u8, to: *mut u8) {
    let (from, to) = (from.cast::<T>(), to.cast::<T>());
    let steps = walk.run_strides();
    walk.each_run(range, |offsets, length| {
        let (from, to) = (
            from.wrapping_offset(offsets[0]),
            to.wrapping_offset(offsets[1]),
        );
        // SAFETY: the caller's promise.
        unsafe { line::<T, T>(from.cast(), to.cast(), steps, length) };
    });
}

vectorised! {
    /// # Safety
    /// The run can be read as elements `S` and written as elements `D`.
    unsafe fn line[S: CastTo<D>, D: Sized](from: *const u8, to: *mut u8, steps: [isize; 2], length: usize) {
        let (from, to) = (from.cast::<S>(), to.cast::<D>());
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
    /// # Safety
    /// The square can be read and written as elements `T`.
    unsafe fn square[T: Copy](
        from: *const u8,
        to: *mut u8,
        steps: [isize; 2],
        sizes: [usize; 2],
    ) {
        let (from, to) = (from.cast::<T>(), to.cast::<T>());
        let ([source, target], [rows, columns]) = (steps, sizes);
        for row in 0..rows {
            for column in 0..columns {
                // SAFETY: the caller's promise.
                unsafe {
                    let value = *from.offset(row as isize + column as isize * source);
                    to.offset(row as isize * target + column as isize).write(value);
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

    fn for_each_square(&self, band: usize, f: &mut dyn FnMut([isize; 2], usize, usize)) {
        let bands = self.rows.div_ceil(SQUARE);
        let (other, row) = (band / bands, band % bands * SQUARE);
        self.others
            .for_each_run(other..other + 1, &mut |[source, target], _| {
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
