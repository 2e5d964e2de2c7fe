//! Stacks of their own for the threads of a group, and how one CPU thread goes from one to another.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::arch::naked_asm;
use std::cell::Cell;
use std::ffi::c_void;
use std::ptr::NonNull;

use crate::machine::Range;
use crate::watched::Watched;

/// Bytes of each stack. Only what is used of it is ever backed by memory; but the thread sanitizer notes who allocated each
/// byte.
const STACK: usize = if cfg!(sanitize_thread) { 64 } else { 256 } << 10;
/// After so many fibers on a stack, the thread sanitizer is told of a new one: it keeps the few calls in whose midst each has
/// ended, and has room for some ten thousand.
const RENEWED: usize = 1000;
/// At the far end of each stack: when it changed, the stack was too short.
const CANARY: [u8; 64] = [0xc5; 64];

/// Where a suspended context goes on.
#[derive(Debug, Clone, Copy)]
pub struct Suspended {
    stack: *mut u8,
    watched: Watched,
}

impl Suspended {
    pub const NOWHERE: Suspended = Suspended {
        stack: std::ptr::null_mut(),
        watched: Watched::NONE,
    };
}

/// What a new fiber calls. It never returns.
pub type Main = extern "C" fn(*mut c_void) -> !;

/// So many stacks.
pub struct Stacks {
    memory: NonNull<u8>,
    count: usize,
    /// Of the fibers on each, and how many there were.
    watched: Vec<(Watched, usize)>,
}

thread_local! {
    /// Those of the last launch on this thread: what they take of memory, they have already.
    static IDLE: Cell<Option<Stacks>> = const { Cell::new(None) };
}

impl Stacks {
    /// At least so many, from now on this caller's.
    pub fn take(count: usize) -> Stacks {
        match IDLE.take() {
            Some(stacks) if stacks.count >= count => stacks,
            _ => Stacks::new(count.next_power_of_two()),
        }
    }

    /// For the next launch. All of them [hold](Stacks::holds).
    pub fn put_back(self) {
        IDLE.set(Some(self));
    }

    fn new(count: usize) -> Stacks {
        let layout = Self::layout(count);
        // SAFETY: the layout is not empty.
        let memory = unsafe { alloc_zeroed(layout) };
        let Some(memory) = NonNull::new(memory) else {
            handle_alloc_error(layout)
        };
        let stacks = Stacks {
            memory,
            count,
            watched: vec![(Watched::NONE, 0); count],
        };
        for number in 0..count {
            // SAFETY: the beginning of each stack is ours, and as long as the canary.
            unsafe { stacks.end(number).cast::<[u8; 64]>().write(CANARY) };
        }
        stacks
    }

    fn layout(count: usize) -> Layout {
        // One more, of no thread: what leaves the first stack ends there. Aligned to pages, zeros would be written, and all be
        // backed by memory.
        Layout::from_size_align(STACK * (count + 1), 16).expect("stacks fit an address space")
    }

    /// The far end of a stack: it grows down to it.
    fn end(&self, number: usize) -> *mut u8 {
        assert!(number < self.count);
        // SAFETY: there are that many stacks, and one before them.
        unsafe { self.memory.as_ptr().add((number + 1) * STACK) }
    }

    /// A fiber on stack `number` that is about to call `main(argument)`. What was on the stack is gone.
    pub fn fiber(&mut self, number: usize, main: Main, argument: *mut c_void) -> Suspended {
        // SAFETY: the words lie at the beginning of the stack, which nobody uses.
        unsafe {
            let words = self.end(number).add(STACK).cast::<usize>();
            let frame = words.sub(FRAME);
            frame.write_bytes(0, FRAME);
            frame.add(ARGUMENT).write(argument as usize);
            frame.add(MAIN).write(main as usize);
            let begin: unsafe extern "C" fn() = begin;
            frame.add(RETURN).write(begin as usize);
            let (watched, fibers) = &mut self.watched[number];
            if fibers.is_multiple_of(RENEWED) {
                watched.end();
                *watched = Watched::begin();
            }
            *fibers += 1;
            Suspended {
                stack: frame.cast(),
                watched: *watched,
            }
        }
    }

    /// All of them.
    pub fn range(&self) -> Range {
        Range::of(self.memory.as_ptr(), Self::layout(self.count).size())
    }

    /// Whether stack `number` was long enough.
    pub fn holds(&self, number: usize) -> bool {
        // SAFETY: as in `new`.
        unsafe { self.end(number).cast::<[u8; 64]>().read() == CANARY }
    }
}

impl Drop for Stacks {
    fn drop(&mut self) {
        // SAFETY: none of the fibers goes on.
        self.watched
            .iter()
            .for_each(|(watched, _)| unsafe { watched.end() });
        // SAFETY: allocated with this layout.
        unsafe { dealloc(self.memory.as_ptr(), Self::layout(self.count)) };
    }
}

// A suspended context's stack begins with a frame of registers: here is what a new fiber's holds, in words. The
// stack pointer is a multiple of 16 where `begin` runs.
#[cfg(target_arch = "x86_64")]
const FRAME: usize = 8;
#[cfg(target_arch = "x86_64")]
const ARGUMENT: usize = 3;
#[cfg(target_arch = "x86_64")]
const MAIN: usize = 2;
#[cfg(target_arch = "x86_64")]
const RETURN: usize = 6;

#[cfg(target_arch = "aarch64")]
const FRAME: usize = 20;
#[cfg(target_arch = "aarch64")]
const ARGUMENT: usize = 0;
#[cfg(target_arch = "aarch64")]
const MAIN: usize = 1;
#[cfg(target_arch = "aarch64")]
const RETURN: usize = 11;

/// Suspends this context, so that `from` goes on with it, and goes on with `to`.
///
/// # Safety
/// `to` is suspended, goes on once, and its stack is alive.
pub unsafe fn switch(from: *mut Suspended, to: Suspended) {
    // SAFETY: as the caller says.
    unsafe {
        (*from).watched = Watched::current();
        to.watched.go_on();
        switch_stacks(&raw mut (*from).stack, to.stack);
    }
}

/// Pushes what a call preserves, leaves in `from` where, and goes on with the stack `to`.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
unsafe extern "C" fn switch_stacks(from: *mut *mut u8, to: *mut u8) {
    naked_asm!(
        "push rbp",
        "push rbx",
        "push r12",
        "push r13",
        "push r14",
        "push r15",
        "mov [rdi], rsp",
        "mov rsp, rsi",
        "pop r15",
        "pop r14",
        "pop r13",
        "pop r12",
        "pop rbx",
        "pop rbp",
        "ret",
    )
}

/// The first steps of a fiber.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
unsafe extern "C" fn begin() {
    naked_asm!("lea rsp, [rsp - 8]", "mov rdi, r12", "call r13", "ud2")
}

/// Pushes what a call preserves, leaves in `from` where, and goes on with the stack `to`.
#[cfg(target_arch = "aarch64")]
#[unsafe(naked)]
unsafe extern "C" fn switch_stacks(from: *mut *mut u8, to: *mut u8) {
    naked_asm!(
        "sub sp, sp, #160",
        "stp x19, x20, [sp]",
        "stp x21, x22, [sp, #16]",
        "stp x23, x24, [sp, #32]",
        "stp x25, x26, [sp, #48]",
        "stp x27, x28, [sp, #64]",
        "stp x29, x30, [sp, #80]",
        "stp d8, d9, [sp, #96]",
        "stp d10, d11, [sp, #112]",
        "stp d12, d13, [sp, #128]",
        "stp d14, d15, [sp, #144]",
        "mov x9, sp",
        "str x9, [x0]",
        "mov sp, x1",
        "ldp x19, x20, [sp]",
        "ldp x21, x22, [sp, #16]",
        "ldp x23, x24, [sp, #32]",
        "ldp x25, x26, [sp, #48]",
        "ldp x27, x28, [sp, #64]",
        "ldp x29, x30, [sp, #80]",
        "ldp d8, d9, [sp, #96]",
        "ldp d10, d11, [sp, #112]",
        "ldp d12, d13, [sp, #128]",
        "ldp d14, d15, [sp, #144]",
        "add sp, sp, #160",
        "ret",
    )
}

/// The first steps of a fiber.
#[cfg(target_arch = "aarch64")]
#[unsafe(naked)]
unsafe extern "C" fn begin() {
    naked_asm!("mov x0, x19", "blr x20", "brk #1")
}
