//! A block: memory with an owner and its marks. Its header lives on from one buffer to the next.

use std::sync::Arc;

use streampool_device::{Span, lock};

use super::arena::Arena;
use super::heap::Range;
use crate::clock::Marks;
use crate::free_queue::Node;

/// A block as it is handed around; the node lets it go home from any thread without allocating.
pub(crate) type BlockBox = Box<Node<Block>>;

/// Called once when adopted memory is no longer used by any stream.
pub(crate) type Release = Box<dyn FnOnce() + Send + Sync>;

/// Whose memory a block is.
pub(crate) enum Origin {
    /// Carved from a chunk of the arena, kept under the class of this number.
    Carved {
        /// Where from.
        range: Range,
        /// The class's number.
        class: usize,
    },
    /// Somebody else's, to be told when it is free.
    Adopted(Option<Release>),
}

/// A piece of memory that one buffer at a time names. Its header is written whenever the block is used: it
/// has cache lines of its own, like the arena.
#[repr(align(128))]
pub(crate) struct Block {
    pub arena: Arc<Arena>,
    pub span: Span,
    pub marks: Marks,
    pub origin: Origin,
}

impl Drop for Block {
    fn drop(&mut self) {
        if let Origin::Adopted(release) = &mut self.origin
            && let Some(release) = release.take()
            && !crate::os::is_stale(self.arena.pool)
        {
            lock::assert_none_held();
            release();
        }
    }
}
