//! Stands before any method, whatever its signature: a stub runs something of ours, goes on to the method with registers and stack as
//! they were, and runs something of ours again when the method returns.
//!
//! Nothing need be known of the arguments. Those in registers are saved and restored; those on the stack are found by the
//! method where its caller put them, because the stub does not call it but jumps to it. So that the method comes back to us, the
//! return address is replaced, and the true one is kept on a stack of the thread's own (`shadow`).
//!
//! A method that is left by an exception or by `longjmp` does not come back. Its record is dropped when the thread next calls or leaves
//! a wrapped method from further up the stack. An exception cannot pass through a wrapped method: its unwinder finds no
//! description of our return address, and ends the process.

#![expect(unsafe_code, reason = "stands before methods whatever their signature")]

mod calls;
#[cfg_attr(target_arch = "x86_64", path = "x86_64.rs")]
#[cfg_attr(target_arch = "aarch64", path = "aarch64.rs")]
mod machine;
mod shadow;
mod target;

use std::sync::atomic::{AtomicUsize, Ordering};

use calls::{STUBS, Saved as _, TARGETS};
use machine::Saved;

#[cfg_attr(test, allow(unused_imports))]
pub use calls::is_under_way;
pub use target::{Target, Way, Wrapper};

static USED: AtomicUsize = AtomicUsize::new(0);

/// A stub that stands before nothing yet.
pub struct FreeStub(usize);

impl FreeStub {
    /// One that nobody else gets. None when they are used up.
    pub fn take() -> Option<FreeStub> {
        let next = |used| (used < STUBS).then_some(used + 1);
        USED.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next)
            .ok()
            .map(FreeStub)
    }

    /// The address of the stub, which stands before the target from now on.
    pub fn stand_before(self, target: &'static Target) -> usize {
        TARGETS[self.0].store(std::ptr::from_ref(target).cast_mut(), Ordering::Release);
        Saved::first_stub() + self.0 * Saved::STUB_BYTES
    }
}

/// Whether an address is of a stub.
pub fn is_stub(address: usize) -> bool {
    let used = USED.load(Ordering::Relaxed);
    let first = Saved::first_stub();
    (first..first + used * Saved::STUB_BYTES).contains(&address)
}

#[cfg(test)]
mod tests;
