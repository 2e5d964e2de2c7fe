//! What runs on the stack of a thread: its beginning and its end, and what its kernel calls.
//!
//! The address sanitizer is not told when stacks are switched, so it does not look here: what it notes of a stack would
//! stay when a thread ends in the midst of a call.

use std::ffi::{CStr, c_char, c_void};

use super::state::{Group, State, WARP};
use crate::fiber::switch;
use crate::machine::Machine;

/// The whole life of a thread.
pub extern "C" fn main(argument: *mut c_void) -> ! {
    let group = argument.cast::<Group>();
    // SAFETY: the group is alive while its fibers run, and nothing of it is borrowed while the kernel runs.
    unsafe {
        let Group {
            run,
            addresses,
            lengths,
            ..
        } = &*group;
        let (run, addresses, lengths) = (*run, addresses.as_ptr(), *lengths);
        run(group.cast(), addresses, lengths);
    }
    leave(group)
}

/// Ends the thread that runs.
fn leave(group: *mut Group) -> ! {
    // SAFETY: as in `main`.
    unsafe { suspend(group, State::Ended) };
    unreachable!("an ended thread is not resumed")
}

/// Suspends the thread that runs.
///
/// # Safety
/// `group` is that of the thread.
unsafe fn suspend(group: *mut Group, state: State) {
    // SAFETY: the borrow ends before the switch, and the scheduler is suspended while a thread runs.
    unsafe {
        let (from, to) = {
            let group = &mut *group;
            let thread = &mut group.threads[group.current];
            thread.state = state;
            (&raw mut thread.suspended, group.scheduler)
        };
        switch(from, to);
    }
}

/// Ends the thread that runs, and with it the group.
fn fail_with(group: *mut Group, why: String) -> ! {
    // SAFETY: as in `main`.
    unsafe { (*group).failure = Some(why) };
    leave(group)
}

pub extern "C" fn barrier(machine: *mut Machine, line: u32) {
    // SAFETY: a kernel passes on the machine it was given, which is the first of a group.
    unsafe { suspend(machine.cast(), State::Barrier(line)) };
}

pub extern "C" fn exchange(machine: *mut Machine, kind: u32, mask: u32, value: u64) -> *const u64 {
    let group = machine.cast::<Group>();
    // SAFETY: as in `barrier`; the borrow ends before the switch.
    let lane = unsafe {
        let group = &mut *group;
        group.given[group.current] = value;
        group.current % WARP
    };
    if mask >> lane & 1 == 0 {
        fail_with(
            group,
            format!("it is not in the mask of its own exchange, {mask:#x}"),
        );
    }
    // SAFETY: as in `barrier`.
    unsafe {
        suspend(group, State::Exchange { kind, mask });
        let group = &mut *group;
        group.exchanged.as_ptr().add(group.current / WARP * WARP)
    }
}

pub extern "C" fn shared(machine: *mut Machine, bytes: u64) -> *mut c_void {
    let group = machine.cast::<Group>();
    // SAFETY: as in `barrier`.
    match unsafe { &mut *group }.array(bytes as usize) {
        Ok(array) => array,
        Err(why) => fail_with(group, why),
    }
}

pub extern "C" fn fail(machine: *mut Machine, why: *const c_char, line: u32) {
    // SAFETY: kernels pass a string that ends with a zero.
    let why = unsafe { CStr::from_ptr(why) }.to_string_lossy();
    let place = match line {
        0 => String::new(),
        line => format!(" in line {line}"),
    };
    fail_with(machine.cast(), format!("{why}{place}"))
}

pub extern "C" fn astray(machine: *mut Machine, at: *const c_void, bytes: u64) {
    let group = machine.cast::<Group>();
    // SAFETY: as in `barrier`.
    let why = unsafe { &*group }.place(at.cast(), bytes);
    fail_with(group, why)
}
