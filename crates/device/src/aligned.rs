//! Memory of the host that begins where memory of devices does.

#![expect(
    unsafe_code,
    reason = "takes memory from the allocator, and gives it back"
)]

use std::alloc::{Layout, alloc, alloc_zeroed, dealloc};
use std::ptr::NonNull;

use crate::machine;

/// Bytes of the host, of which each was written when they were made.
///
/// They begin at a multiple of [`ALIGNMENT`](Self::ALIGNMENT), and may be read up to the next: whole cache lines, also in pairs,
/// and any vector.
pub struct Aligned {
    first: NonNull<u8>,
    bytes: usize,
}

impl Aligned {
    /// What all begin at a multiple of.
    pub const ALIGNMENT: usize = 256;

    /// So many zeros; `None` where there is no memory for them. Pages that nobody wrote take none.
    pub fn zeroed(bytes: usize) -> Option<Aligned> {
        // SAFETY: the size of what is asked for is not zero.
        Aligned::of(bytes, |layout| unsafe { alloc_zeroed(layout) })
    }

    /// A copy of these bytes; `None` where there is no memory for it.
    pub fn copied(from: &[u8]) -> Option<Aligned> {
        // SAFETY: the size of what is asked for is not zero.
        let copy = Aligned::of(from.len(), |layout| unsafe { alloc(layout) })?;
        // SAFETY: there is room for as many, and up to the next multiple; nobody else knows of it.
        unsafe {
            let behind = padded(from.len()).unwrap_or(from.len()) - from.len();
            copy.first
                .copy_from_nonoverlapping(NonNull::from(from).cast(), from.len());
            copy.first.add(from.len()).write_bytes(0, behind);
        }
        Some(copy)
    }

    fn of(bytes: usize, ask: impl FnOnce(Layout) -> *mut u8) -> Option<Aligned> {
        let layout = room_for(bytes).filter(|_| machine::may_hold(bytes))?;
        let room = NonNull::new(ask(layout))?;
        let before = Self::ALIGNMENT - room.addr().get() % Self::ALIGNMENT;
        // SAFETY: it is at least a word, since the room is aligned to that, and at most what was added to the size.
        unsafe {
            let first = room.add(before);
            first.cast::<usize>().sub(1).write(before);
            Some(Aligned { first, bytes })
        }
    }

    /// Where they begin.
    pub fn first(&self) -> NonNull<u8> {
        self.first
    }

    /// How many they are.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// They themselves.
    pub fn as_slice(&self) -> &[u8] {
        // SAFETY: they are there as long as this is, and were written when they were made; who writes to them has this alone.
        unsafe { NonNull::slice_from_raw_parts(self.first, self.bytes).as_ref() }
    }

    /// They themselves, to be written.
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        // SAFETY: as above.
        unsafe { NonNull::slice_from_raw_parts(self.first, self.bytes).as_mut() }
    }

    /// Where they begin; [`from_first`](Self::from_first) takes them back.
    pub fn into_first(self) -> NonNull<u8> {
        let first = self.first;
        std::mem::forget(self);
        first
    }

    /// What [`into_first`](Self::into_first) gave away.
    ///
    /// # Safety
    /// `first` is of as many bytes, is given back once, and nobody uses it any more.
    pub unsafe fn from_first(first: NonNull<u8>, bytes: usize) -> Aligned {
        Aligned { first, bytes }
    }
}

impl Drop for Aligned {
    fn drop(&mut self) {
        if let Some(layout) = room_for(self.bytes) {
            // SAFETY: `of` wrote in front of it how far behind the room's beginning it is; the room was made for the same size.
            unsafe {
                let before = self.first.cast::<usize>().sub(1).read();
                dealloc(self.first.sub(before).as_ptr(), layout);
            }
        }
    }
}

// SAFETY: they are bytes that one value owns; who writes to them through `first` vouches for that.
unsafe impl Send for Aligned {}
// SAFETY: as above.
unsafe impl Sync for Aligned {}

fn padded(bytes: usize) -> Option<usize> {
    bytes.checked_next_multiple_of(Aligned::ALIGNMENT)
}

/// What is asked of the allocator for so many bytes. It is asked for no more than its own alignment: then pages that nobody wrote
/// are the system's zeros, and take no memory.
fn room_for(bytes: usize) -> Option<Layout> {
    let room = padded(bytes)?.checked_add(Aligned::ALIGNMENT)?;
    Layout::from_size_align(room, align_of::<usize>()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_begins_where_it_should_and_is_as_it_was_made() {
        for bytes in [0, 1, 255, 256, 70_000, 5 << 20] {
            let mut zeros = Aligned::zeroed(bytes).unwrap();
            assert_eq!(zeros.first().addr().get() % Aligned::ALIGNMENT, 0);
            assert!(zeros.as_slice().iter().all(|&byte| byte == 0));
            zeros.as_mut_slice().fill(7);
            let copy = Aligned::copied(zeros.as_slice()).unwrap();
            assert!(copy.as_slice() == vec![7; bytes]);
            // SAFETY: it goes out and in once.
            let again = unsafe { Aligned::from_first(copy.into_first(), bytes) };
            assert_eq!((again.bytes(), again.as_slice().len()), (bytes, bytes));
        }
    }

    #[test]
    fn more_than_there_is_is_refused() {
        for bytes in [usize::MAX, isize::MAX as usize, 1 << 62] {
            assert!(Aligned::zeroed(bytes).is_none());
        }
    }
}
