//! Moving blocks between strided operands and contiguous buffers.

use streampool_device::MAX_RANK;

use super::plan::{Operand, Space};

/// Which way elements go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// From the operand to the buffer.
    Gather,
    /// From the buffer to the operand.
    Scatter,
}

/// Moves `count` elements from `position` on.
///
/// # Safety
/// The elements lie inside the operand's memory and the space; the buffer has room for them, is aligned, and
/// overlaps none of them; to scatter, the operand may be written.
pub(super) unsafe fn transfer(
    way: Way,
    space: &Space,
    operand: &Operand,
    mut position: [usize; MAX_RANK],
    mut buffer: *mut u8,
    mut count: usize,
) {
    let inner = space.rank - 1;
    while count > 0 {
        let run = count.min(space.sizes[inner] - position[inner]);
        let place = operand
            .base
            .wrapping_offset(space.offset(operand, &position));
        // SAFETY: the caller vouches for every element of the run.
        unsafe {
            transfer_run(
                way,
                place,
                operand.strides[inner],
                buffer,
                run,
                operand.size,
            )
        };
        buffer = buffer.wrapping_add(run * operand.size);
        count -= run;
        position[inner] += run;
        for axis in (1..space.rank).rev() {
            if position[axis] == space.sizes[axis] {
                position[axis] = 0;
                position[axis - 1] += 1;
            }
        }
    }
}

/// Moves one run with one stride.
///
/// # Safety
/// As for [`transfer`].
unsafe fn transfer_run(
    way: Way,
    place: *mut u8,
    stride: isize,
    buffer: *mut u8,
    run: usize,
    size: usize,
) {
    if stride == size as isize {
        let (from, to) = match way {
            Way::Gather => (place, buffer),
            Way::Scatter => (buffer, place),
        };
        // SAFETY: both are `run` elements that do not overlap, as the caller vouches.
        unsafe { std::ptr::copy_nonoverlapping(from, to, run * size) };
        return;
    }
    let steps = stride / size as isize;
    // SAFETY: operands and buffers are aligned to their elements, and the caller vouches for the run.
    unsafe {
        match size {
            1 => strided::<u8>(way, place, steps, buffer, run),
            2 => strided::<u16>(way, place.cast(), steps, buffer.cast(), run),
            4 => strided::<u32>(way, place.cast(), steps, buffer.cast(), run),
            _ => strided::<u64>(way, place.cast(), steps, buffer.cast(), run),
        }
    }
}

/// # Safety
/// As for [`transfer`].
unsafe fn strided<T: Copy>(way: Way, place: *mut T, steps: isize, buffer: *mut T, run: usize) {
    for index in 0..run {
        let (strided, packed) = (
            place.wrapping_offset(index as isize * steps),
            buffer.wrapping_add(index),
        );
        // SAFETY: element `index` of a run that the caller vouches for, on either side.
        unsafe {
            match way {
                Way::Gather => packed.write(strided.read()),
                Way::Scatter => strided.write(packed.read()),
            }
        }
    }
}

/// Writes the element of `size` bytes at `from` `count` times.
///
/// # Safety
/// `from` is one aligned element, and `buffer` has room for them all.
pub(super) unsafe fn spread(from: *const u8, buffer: *mut u8, count: usize, size: usize) {
    /// # Safety
    /// As for [`spread`].
    unsafe fn fill<T: Copy>(from: *const u8, buffer: *mut u8, count: usize) {
        // SAFETY: as the caller of `spread` vouches; the element is read before any is written.
        unsafe {
            let value = from.cast::<T>().read();
            for index in 0..count {
                buffer.cast::<T>().add(index).write(value);
            }
        }
    }
    // SAFETY: passed on.
    unsafe {
        match size {
            1 => fill::<u8>(from, buffer, count),
            2 => fill::<u16>(from, buffer, count),
            4 => fill::<u32>(from, buffer, count),
            _ => fill::<u64>(from, buffer, count),
        }
    }
}
