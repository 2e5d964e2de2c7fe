//! The places of what is not zero: counted first, so that each chunk knows where its own begin.

use streampool_device::NonZero;

use super::each_chunk;
use crate::kernels::scratch::{Count, filled};
use crate::kernels::split::Shared;
use crate::kernels::strided::{Walk, address};
use crate::team::Team;

/// Elements of a chunk.
const CHUNK: usize = 1 << 15;

/// The places of the elements of `src` that are not zero, in row-major order.
///
/// # Safety
/// As for [`execute`](crate::kernels::execute).
pub(crate) unsafe fn nonzero(op: &NonZero, team: &dyn Team) -> Result<(), String> {
    // The sign of a zero does not make it another number.
    let sign = u64::from(op.src.dtype().is_float());
    // SAFETY: elements have the size; the rest is passed on.
    unsafe {
        match op.src.dtype().size() {
            1 => places::<u8>(op, u8::MAX, team),
            2 => places::<u16>(op, u16::MAX >> sign, team),
            4 => places::<u32>(op, u32::MAX >> sign, team),
            _ => places::<u64>(op, u64::MAX >> sign, team),
        }
    }
    Ok(())
}

/// # Safety
/// As for [`nonzero`]; elements have the size of `T`, and are zero if they have no bit of `mask`.
unsafe fn places<T>(op: &NonZero, mask: T, team: &dyn Team)
where
    T: Copy + Send + Sync + Default + PartialEq + std::ops::BitAnd<Output = T>,
{
    let shape = op.src.shape();
    let walk = Walk::new(shape, [op.src.layout().strides()]);
    let (from, [step]) = (Shared(address::<T>(&op.src)), walk.run_strides());
    let to = Shared(address::<i64>(&op.indices));
    let strides = op.indices.layout().strides();
    let chunk_of = |chunk: usize| chunk * CHUNK..(chunk + 1) * CHUNK;
    // SAFETY: the walk stays inside the source.
    let found = |offset: isize| unsafe { *from.at(offset) } & mask != T::default();

    let mut counts = filled(0usize, Count::of(walk.elements().div_ceil(CHUNK)));
    let places = Shared(counts.as_mut_ptr());
    each_chunk(&walk, CHUNK, team, &|chunk| {
        let mut count = 0;
        walk.for_each_run(chunk_of(chunk), &mut |[offset], length| {
            count += (0..length as isize)
                .filter(|element| found(offset + element * step))
                .count();
        });
        // SAFETY: there is a place for each chunk, which one task writes.
        unsafe { places.at(chunk as isize).write(count) };
    });
    let mut total = 0;
    for count in &mut counts {
        total += std::mem::replace(count, total);
    }
    let starts = &counts;
    each_chunk(&walk, CHUNK, team, &|chunk| {
        let (mut column, mut element) = (starts[chunk], chunk * CHUNK);
        walk.for_each_run(chunk_of(chunk), &mut |[offset], length| {
            for index in 0..length as isize {
                if found(offset + index * step) {
                    let mut rest = element;
                    for (axis, &size) in shape.iter().enumerate().rev() {
                        let at = axis as isize * strides[0] + column as isize * strides[1];
                        // SAFETY: there is a column for each element, which one task writes.
                        unsafe { to.at(at).write((rest % size) as i64) };
                        rest /= size;
                    }
                    column += 1;
                }
                element += 1;
            }
        });
    });
    for axis in 0..shape.len() as isize {
        for column in total..walk.elements() {
            // SAFETY: the rest of the columns are nobody's.
            unsafe {
                to.at(axis * strides[0] + column as isize * strides[1])
                    .write(-1)
            };
        }
    }
    // SAFETY: it is one element.
    unsafe { address::<i64>(&op.count).write(total as i64) };
}
