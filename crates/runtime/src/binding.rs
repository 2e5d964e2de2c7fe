//! Which stream a thread is on: what [`Pool::current`](crate::Pool::current) finds.
//!
//! The answer is cached in one plain cell that lives as long as the thread. Behind it are two lists: the
//! overrides of scopes and tasks, innermost last, and what the thread has for as long as it lives: a lease,
//! which has to be given back, or its place on a stream that it shares.

use std::cell::{Cell, RefCell};
use std::sync::{Arc, Weak};

use crate::core::Core;
use crate::os;

/// A pool's number and a stream's number in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Binding {
    pub pool: u64,
    pub stream: u8,
}

/// No pool has number 0.
pub(crate) const NOTHING: Binding = Binding { pool: 0, stream: 0 };

thread_local! {
    static CACHED: Cell<Binding> = const { Cell::new(NOTHING) };
    static OVERRIDES: RefCell<Vec<Binding>> = const { RefCell::new(Vec::new()) };
    static KEPT: RefCell<Vec<Kept>> = const { RefCell::new(Vec::new()) };
}

/// What a thread has of a pool until it ends. It keeps nothing alive: a pool that is dropped is gone at
/// once, and its device with it, whatever threads were on its streams.
pub(crate) struct Kept {
    binding: Binding,
    core: Weak<Core>,
    /// Ends the lease, if the stream is leased.
    end: Option<EndLease>,
}

type EndLease = fn(Arc<Core>, u8);

impl Kept {
    /// A stream for this thread alone.
    pub fn leased(core: &Arc<Core>, stream: u8, end: EndLease) -> Self {
        Kept {
            binding: Binding {
                pool: core.id,
                stream,
            },
            core: Arc::downgrade(core),
            end: Some(end),
        }
    }

    /// A stream that others have, too. The thread stays on it, so that what it synchronises is its own work.
    pub fn shared(core: &Arc<Core>, stream: u8) -> Self {
        Kept {
            binding: Binding {
                pool: core.id,
                stream,
            },
            core: Arc::downgrade(core),
            end: None,
        }
    }

    fn is_over(&self) -> bool {
        self.core.strong_count() == 0
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        if let Some(end) = self.end
            && !os::is_stale(self.binding.pool)
            && let Some(core) = self.core.upgrade()
        {
            end(core, self.binding.stream);
        }
    }
}

/// The stream of `pool` that this thread is on, if it was there last.
#[inline(always)]
pub(crate) fn cached(pool: u64) -> Option<u8> {
    let binding = CACHED.get();
    (binding.pool == pool).then_some(binding.stream)
}

/// Whether this thread is on that stream.
#[inline(always)]
pub(crate) fn is_current(pool: u64, stream: u8) -> bool {
    CACHED.get() == Binding { pool, stream }
}

/// Remembers where this thread is.
pub(crate) fn cache(binding: Binding) {
    CACHED.set(binding);
}

/// Whether a scope or a task has put this thread on a stream of `pool`.
#[inline]
pub(crate) fn is_put(pool: u64) -> bool {
    let is_put = OVERRIDES.try_with(|overrides| {
        let overrides = overrides.borrow();
        overrides.iter().any(|binding| binding.pool == pool)
    });
    is_put.unwrap_or(false)
}

/// The stream of `pool` that this thread has leased by using it.
#[inline]
pub(crate) fn leased(pool: u64) -> Option<u8> {
    let leased = KEPT.try_with(|kept| {
        let kept = kept.borrow();
        let own = |kept: &&Kept| kept.binding.pool == pool && kept.end.is_some();
        Some(kept.iter().find(own)?.binding.stream)
    });
    leased.ok().flatten()
}

/// The stream of `pool` that this thread is put on by a scope, or else has for itself or shares.
pub(crate) fn bound(pool: u64) -> Option<u8> {
    let overridden = OVERRIDES.try_with(|overrides| {
        let overrides = overrides.borrow();
        let binding = overrides
            .iter()
            .rev()
            .find(|binding| binding.pool == pool)?;
        Some(binding.stream)
    });
    if let Ok(Some(stream)) = overridden {
        return Some(stream);
    }
    let kept = KEPT.try_with(|kept| {
        let kept = kept.borrow();
        let kept = kept.iter().find(|kept| kept.binding.pool == pool)?;
        Some(kept.binding.stream)
    });
    kept.ok().flatten()
}

/// Puts this thread on a stream until the guard is dropped, by a panic too.
pub(crate) fn enter(binding: Binding) -> Entered {
    let entered = OVERRIDES.try_with(|overrides| overrides.borrow_mut().push(binding));
    CACHED.set(binding);
    Entered {
        listed: entered.is_ok(),
        thread: std::marker::PhantomData,
    }
}

/// Puts the thread back where it was. Guards end in the reverse order of their beginning, on their thread.
pub(crate) struct Entered {
    listed: bool,
    thread: std::marker::PhantomData<*const ()>,
}

impl Drop for Entered {
    fn drop(&mut self) {
        if self.listed {
            let _ = OVERRIDES.try_with(|overrides| overrides.borrow_mut().pop());
        }
        // What was there before may have been returned meanwhile: the next look finds what holds now.
        CACHED.set(NOTHING);
    }
}

/// Keeps a stream until this thread ends. A thread that is ending already keeps nothing: it gives a lease
/// back at once and shares the stream from then on.
pub(crate) fn keep(new: Kept) {
    let _ended = KEPT.try_with(|kept| {
        let mut kept = kept.borrow_mut();
        // Pools that are gone leave nothing behind on threads that live long.
        let ended: Vec<Kept> = kept.extract_if(.., |kept| kept.is_over()).collect();
        kept.push(new);
        ended
    });
}

/// Takes what this thread has of `pool`: dropping it returns a leased stream.
pub(crate) fn take(pool: u64) -> Option<Kept> {
    CACHED.set(NOTHING);
    let kept = KEPT.try_with(|kept| {
        let mut kept = kept.borrow_mut();
        let place = kept.iter().position(|kept| kept.binding.pool == pool)?;
        Some(kept.swap_remove(place))
    });
    kept.ok().flatten()
}
