//! Buffers: memory as users hold it.

use streampool_device::{DType, Layout, View};

use super::arena::{Block, BlockBox};
use crate::clock::Marks;
use crate::{Error, Result, binding, os};

/// Device memory, freed when it is dropped, on whatever thread that is.
///
/// Dropping never waits: memory that streams still use is kept back until they are done with it. Sharing it
/// is as with any Rust value: many may read through `&Buffer` (behind an `Arc`, say) on any streams, and
/// who writes needs `&mut Buffer`. The order of the work on the device follows from that by itself.
pub struct Buffer {
    // `None` only inside `drop`.
    block: Option<BlockBox>,
    bytes: usize,
}

impl Buffer {
    pub(crate) fn new(block: BlockBox, bytes: usize) -> Self {
        Buffer {
            block: Some(block),
            bytes,
        }
    }

    /// Its size, as asked for.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The elements of type `dtype` and of this shape at its start, to be read by an op.
    #[inline(always)]
    pub fn read(&self, dtype: DType, shape: &[usize]) -> Result<Operand<'_>> {
        self.read_as(dtype, Layout::contiguous(shape)?)
    }

    /// The elements that `layout` names, to be read by an op.
    #[inline(always)]
    pub fn read_as(&self, dtype: DType, layout: Layout) -> Result<Operand<'_>> {
        Ok(Operand {
            view: self.view(dtype, layout)?,
            buffer: self,
            writable: false,
        })
    }

    /// The elements of type `dtype` and of this shape at its start, to be written by an op.
    #[inline(always)]
    pub fn write(&mut self, dtype: DType, shape: &[usize]) -> Result<Operand<'_>> {
        self.write_as(dtype, Layout::contiguous(shape)?)
    }

    /// The elements that `layout` names, to be written by an op.
    #[inline(always)]
    pub fn write_as(&mut self, dtype: DType, layout: Layout) -> Result<Operand<'_>> {
        Ok(Operand {
            view: self.view(dtype, layout)?,
            buffer: self,
            writable: true,
        })
    }

    /// Where the device finds it, for work encoded by other means: an address on the host.
    #[inline(always)]
    pub fn span(&self) -> streampool_device::Span {
        streampool_device::Span {
            bytes: self.bytes,
            ..self.block().span
        }
    }

    #[inline]
    pub(crate) fn marks(&self) -> &Marks {
        &self.block().marks
    }

    #[inline]
    pub(crate) fn belongs_to(&self, pool: u64) -> Result<()> {
        if self.block().arena.pool == pool {
            return Ok(());
        }
        Err(Error::ForeignBuffer)
    }

    #[inline(always)]
    fn view(&self, dtype: DType, layout: Layout) -> Result<View> {
        Ok(View::new(self.span(), dtype, layout)?)
    }

    #[inline(always)]
    fn block(&self) -> &Block {
        match &self.block {
            Some(block) => block,
            None => unreachable!("a buffer has its block until it is dropped"),
        }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let Some(block) = self.block.take() else {
            return;
        };
        if os::is_stale(block.arena.pool) {
            // The parent's locks are as they were at the fork: nothing may be touched.
            std::mem::forget(block);
            return;
        }
        // The header may be somebody else's the moment it is given back: the arena is held apart from it.
        let arena = block.arena.clone();
        let at_home = binding::is_current(arena.pool, arena.stream);
        arena.give_back(block, at_home);
    }
}

/// What holds a buffer and can lend it for as long as it lives, as a program's [constant](crate::Capture::constant).
///
/// A program notes where the buffer lies when it is captured, and the device may keep a copy of its values in another
/// form. Replays then read those, hold the holder for as long, and mark the buffer that it lends *then* as in use.
/// So another buffer would leave the one that is read unmarked, to be freed or written meanwhile.
///
/// # Safety
/// As long as the holder lives:
/// - [`held`](Self::held) lends the same buffer each time, on whatever thread and wherever the holder has moved to.
/// - Once it has lent the buffer, nobody writes the buffer's memory: it hands out no `&mut Buffer`, and does not let go
///   of the buffer before its own end.
pub unsafe trait HoldsBuffer {
    /// The buffer.
    fn held(&self) -> &Buffer;
}

// SAFETY: a buffer is itself.
unsafe impl HoldsBuffer for Buffer {
    fn held(&self) -> &Buffer {
        self
    }
}

impl std::fmt::Debug for Buffer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Buffer({} bytes", self.bytes)?;
        if let Some(stamp) = self.marks().last_write() {
            write!(
                f,
                ", written on stream {} at tick {}",
                stamp.stream, stamp.tick
            )?;
        }
        f.write_str(")")
    }
}

/// A buffer as an op touches it: which of its elements, and whether they may be written.
///
/// One that may be written borrows its buffer exclusively; so it cannot be copied.
#[derive(Debug)]
pub struct Operand<'a> {
    buffer: &'a Buffer,
    view: View,
    writable: bool,
}

impl Operand<'_> {
    pub(crate) fn buffer(&self) -> &Buffer {
        self.buffer
    }

    pub(crate) fn view(&self) -> &View {
        &self.view
    }

    /// Whether it has all elements of its buffer.
    pub(crate) fn is_whole(&self) -> bool {
        self.view.layout().elements() * self.view.dtype().size() >= self.buffer.bytes()
    }

    pub(crate) fn is_writable(&self) -> bool {
        self.writable
    }
}
