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

#[cfg_attr(target_arch = "x86_64", path = "x86_64.rs")]
#[cfg_attr(target_arch = "aarch64", path = "aarch64.rs")]
mod machine;
mod shadow;

use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use crate::logic::guard::Pass;
use machine::{Returned, Saved};
use shadow::Record;

/// What a stub stands before.
pub struct Target {
    /// The address of the method.
    pub original: usize,
    /// Its selector, which is passed to it after its object.
    pub selector: usize,
    /// What is run before and after it.
    pub wrapper: &'static dyn Wrapper,
}

/// What is run round a method.
pub trait Wrapper: Sync {
    /// Decides what becomes of a call on this object, whose first argument this is, should that be an integer or an address.
    fn before(&'static self, object: usize, argument: usize) -> Way;
    /// The call on this object has returned this, as far as it fits a register.
    fn after(&self, object: usize, pass: Option<Pass>, result: usize);
    /// Nobody will come back from the call.
    fn abandoned(&self, pass: Option<Pass>);
    /// The call is made without any of these, because the thread has too many others under way.
    fn too_deep(&self);
}

/// What becomes of a call.
pub enum Way {
    /// It is made, and what follows it is run.
    Watched(Option<Pass>),
    /// It is made.
    Straight,
    /// It is not made. Its caller gets zero.
    Refused,
}

/// How many stubs there are.
pub const STUBS: usize = 4096;

static TARGETS: [AtomicPtr<Target>; STUBS] =
    [const { AtomicPtr::new(std::ptr::null_mut()) }; STUBS];
static USED: AtomicUsize = AtomicUsize::new(0);

/// The address of the first stub.
fn first_stub() -> usize {
    (machine::stubs as *const () as usize).next_multiple_of(machine::STUB_BYTES)
}

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
        first_stub() + self.0 * machine::STUB_BYTES
    }
}

/// Whether an address is of a stub.
pub fn is_stub(address: usize) -> bool {
    let used = USED.load(Ordering::Relaxed);
    let first = first_stub();
    (first..first + used * machine::STUB_BYTES).contains(&address)
}

/// What a stub jumped here for: decides where it goes on.
extern "C" fn enter(saved: &mut Saved) -> usize {
    let number = (saved.in_stub() - first_stub()) / machine::STUB_BYTES;
    let target = TARGETS[number].load(Ordering::Acquire);
    // SAFETY: the address of a stub is known only since its target was stored, which lives for ever.
    let target = unsafe { &*target };
    let (stack, back) = (saved.stack(), saved.return_address());
    shadow::drop_abandoned(|top| {
        top.stack < stack || (top.stack == stack && back != after_address())
    });
    if shadow::is_full() {
        target.wrapper.too_deep();
        return target.original;
    }
    let object = saved.object(target.selector);
    let argument = saved.argument(target.selector);
    match target.wrapper.before(object, argument) {
        Way::Straight => target.original,
        Way::Refused => saved.refusal(target.selector),
        Way::Watched(pass) => {
            shadow::push(Record {
                target,
                object,
                pass,
                stack,
                back,
            });
            saved.set_return_address(after_address());
            target.original
        }
    }
}

/// Where a watched method returned to: decides where that goes on.
extern "C" fn leave(returned: &Returned) -> usize {
    let stack = returned.stack();
    shadow::drop_abandoned(|top| top.stack < stack);
    let Record {
        target,
        object,
        pass,
        back,
        ..
    } = shadow::pop();
    target.wrapper.after(object, pass, returned.value());
    back
}

/// Whether the thread is in a call with such a pass.
// Only `edge` asks, which the tests in `src` do without.
#[cfg_attr(test, allow(dead_code))]
pub fn is_under_way(is_such: impl Fn(&Pass) -> bool) -> bool {
    shadow::any(|record| record.pass.as_ref().is_some_and(&is_such))
}

fn after_address() -> usize {
    machine::after as *const () as usize
}

#[cfg(test)]
mod tests;
