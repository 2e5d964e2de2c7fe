//! What stubs call: one function before a method, which decides where the call goes on, and one after it.

use std::sync::atomic::{AtomicPtr, Ordering};

use super::shadow::{self, Record};
use super::target::{Target, Way};
use crate::logic::guard::Pass;

/// How many stubs there are.
pub const STUBS: usize = 4096;

/// What each stands before.
pub static TARGETS: [AtomicPtr<Target>; STUBS] =
    [const { AtomicPtr::new(std::ptr::null_mut()) }; STUBS];

/// The registers of a call, as a stub saved them.
pub trait Saved {
    /// How far stubs lie apart.
    const STUB_BYTES: usize;

    /// The code of all stubs, which begin at its first multiple of their size.
    fn stubs() -> usize;

    /// Where watched methods return to.
    fn after() -> usize;

    /// An address in the stub that was called.
    fn in_stub(&self) -> usize;

    /// The object on which the method was called.
    fn object(&self, selector: usize) -> usize;

    /// The first argument after the selector, if it is an integer or an address.
    fn argument(&self, selector: usize) -> usize;

    /// Where to go on instead of the method.
    fn refusal(&self, selector: usize) -> usize;

    /// Where the stack was when the method was called.
    fn stack(&self) -> usize;

    fn return_address(&self) -> usize;

    fn set_return_address(&mut self, address: usize);

    /// The address of the first stub.
    fn first_stub() -> usize {
        Self::stubs().next_multiple_of(Self::STUB_BYTES)
    }
}

/// The registers in which a method returned something.
pub trait Returned {
    fn value(&self) -> usize;

    /// Where the stack was when the method was called.
    fn stack(&self) -> usize;
}

/// What a stub jumped here for: decides where it goes on.
pub extern "C" fn enter<S: Saved>(saved: &mut S) -> usize {
    let number = (saved.in_stub() - S::first_stub()) / S::STUB_BYTES;
    let target = TARGETS[number].load(Ordering::Acquire);
    // SAFETY: the address of a stub is known only since its target was stored, which lives for ever.
    let target = unsafe { &*target };
    let (stack, back) = (saved.stack(), saved.return_address());
    shadow::drop_abandoned(|top| top.stack < stack || (top.stack == stack && back != S::after()));
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
            saved.set_return_address(S::after());
            target.original
        }
    }
}

/// Where a watched method returned to: decides where that goes on.
pub extern "C" fn leave<R: Returned>(returned: &R) -> usize {
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
