//! The watched calls of a thread that are under way, the latest last. They are in the thread's own storage and leave nothing to be done
//! when it ends, since objects are destroyed until the very end of a thread. A call takes no memory from the heap, but for a
//! thread's first on Apple's systems, which make that storage when it is first used.

use std::cell::{Cell, UnsafeCell};
use std::mem::MaybeUninit;

use super::target::Target;
use crate::logic::guard::Pass;

/// More calls under way than this are not watched. Encoders nest two or three deep.
pub const DEEPEST: usize = 64;

/// A call that is under way.
pub struct Record {
    pub target: &'static Target,
    /// The object on which the method was called.
    pub object: usize,
    pub pass: Option<Pass>,
    /// Where the stack was when the method was called.
    pub stack: usize,
    /// Where its caller goes on.
    pub back: usize,
}

struct Shadow {
    depth: Cell<usize>,
    records: UnsafeCell<[MaybeUninit<Record>; DEEPEST]>,
}

thread_local! {
    static SHADOW: Shadow = const {
        Shadow {
            depth: Cell::new(0),
            records: UnsafeCell::new([const { MaybeUninit::uninit() }; DEEPEST]),
        }
    };
}

pub fn is_full() -> bool {
    SHADOW.with(|shadow| shadow.depth.get() == DEEPEST)
}

/// The shadow is not full.
pub fn push(record: Record) {
    SHADOW.with(|shadow| {
        let depth = shadow.depth.get();
        assert!(depth < DEEPEST);
        // SAFETY: the place is in bounds, and no reference to any place outlives a function of this file.
        unsafe { (*shadow.records.get())[depth].write(record) };
        shadow.depth.set(depth + 1);
    });
}

/// The latest. There is one: whoever comes back was pushed.
pub fn pop() -> Record {
    SHADOW.with(|shadow| {
        let depth = shadow.depth.get();
        assert!(
            depth > 0,
            "a wrapped method returns to where it was not called from"
        );
        shadow.depth.set(depth - 1);
        // SAFETY: the places below the depth hold records, and this one is below it no more.
        unsafe { (*shadow.records.get())[depth - 1].assume_init_read() }
    })
}

/// Whether one of them is such.
#[cfg_attr(test, allow(dead_code))]
pub fn any(is_such: impl Fn(&Record) -> bool) -> bool {
    SHADOW.with(|shadow| {
        (0..shadow.depth.get()).any(|place| {
            // SAFETY: the places below the depth hold records, and the closure changes none.
            is_such(unsafe { (*shadow.records.get())[place].assume_init_ref() })
        })
    })
}

/// Drops the latest, and those before it, as long as nobody will come back from them.
pub fn drop_abandoned(is_abandoned: impl Fn(&Record) -> bool) {
    let top_is_abandoned = || {
        SHADOW.with(|shadow| {
            let depth = shadow.depth.get();
            // SAFETY: the places below the depth hold records, and the closure changes none.
            depth > 0
                && is_abandoned(unsafe { (*shadow.records.get())[depth - 1].assume_init_ref() })
        })
    };
    while top_is_abandoned() {
        let record = pop();
        record.target.wrapper.abandoned(record.pass);
    }
}
