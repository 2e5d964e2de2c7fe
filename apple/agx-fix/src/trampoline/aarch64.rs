//! Stubs for 64-bit ARM, by its procedure call standard and by Apple's, which have the same registers.

use std::arch::naked_asm;

use super::calls::{self, STUBS, enter, leave};

/// How far stubs lie apart.
const STUB_BYTES: usize = 8;

/// What a stub saved, in the order in which it lies on the stack.
#[repr(C)]
pub struct Saved {
    vectors: [[u64; 2]; 8],
    integers: [usize; 8],
    /// Where a struct is returned to.
    result_memory: usize,
    in_stub: usize,
    frame: usize,
    return_address: usize,
}

impl calls::Saved for Saved {
    const STUB_BYTES: usize = STUB_BYTES;

    fn stubs() -> usize {
        stubs as *const () as usize
    }

    fn after() -> usize {
        after as *const () as usize
    }

    fn in_stub(&self) -> usize {
        self.in_stub
    }

    fn object(&self, _selector: usize) -> usize {
        self.integers[0]
    }

    fn argument(&self, _selector: usize) -> usize {
        self.integers[2]
    }

    fn refusal(&self, _selector: usize) -> usize {
        return_zero as *const () as usize
    }

    fn stack(&self) -> usize {
        &raw const *self as usize + size_of::<Saved>()
    }

    fn return_address(&self) -> usize {
        self.return_address
    }

    fn set_return_address(&mut self, address: usize) {
        self.return_address = address;
    }
}

/// What a method returned in registers.
#[repr(C)]
pub struct Returned {
    vectors: [[u64; 2]; 8],
    integers: [usize; 8],
}

impl calls::Returned for Returned {
    fn value(&self) -> usize {
        self.integers[0]
    }

    fn stack(&self) -> usize {
        &raw const *self as usize + size_of::<Returned>()
    }
}

/// All stubs, from the first multiple of [`STUB_BYTES`] on. Each leaves its address in `x16`.
#[unsafe(naked)]
unsafe extern "C" fn stubs() {
    naked_asm!(
        ".balign {bytes}",
        ".rept {count}",
        "adr x16, #0",
        "b {before}",
        ".endr",
        count = const STUBS,
        bytes = const STUB_BYTES,
        before = sym before,
    )
}

#[unsafe(naked)]
unsafe extern "C" fn before() {
    naked_asm!(
        "sub sp, sp, #{size}",
        "stp q0, q1, [sp]",
        "stp q2, q3, [sp, #32]",
        "stp q4, q5, [sp, #64]",
        "stp q6, q7, [sp, #96]",
        "stp x0, x1, [sp, #128]",
        "stp x2, x3, [sp, #144]",
        "stp x4, x5, [sp, #160]",
        "stp x6, x7, [sp, #176]",
        "stp x8, x16, [sp, #192]",
        "stp x29, x30, [sp, #208]",
        "add x29, sp, #208",
        "mov x0, sp",
        "bl {enter}",
        "mov x16, x0",
        "ldp q0, q1, [sp]",
        "ldp q2, q3, [sp, #32]",
        "ldp q4, q5, [sp, #64]",
        "ldp q6, q7, [sp, #96]",
        "ldp x0, x1, [sp, #128]",
        "ldp x2, x3, [sp, #144]",
        "ldp x4, x5, [sp, #160]",
        "ldp x6, x7, [sp, #176]",
        "ldr x8, [sp, #192]",
        "ldp x29, x30, [sp, #208]",
        "add sp, sp, #{size}",
        "br x16",
        size = const size_of::<Saved>(),
        enter = sym enter::<Saved>,
    )
}

/// Where watched methods return to.
#[unsafe(naked)]
unsafe extern "C" fn after() {
    naked_asm!(
        "sub sp, sp, #{size}",
        "stp q0, q1, [sp]",
        "stp q2, q3, [sp, #32]",
        "stp q4, q5, [sp, #64]",
        "stp q6, q7, [sp, #96]",
        "stp x0, x1, [sp, #128]",
        "stp x2, x3, [sp, #144]",
        "stp x4, x5, [sp, #160]",
        "stp x6, x7, [sp, #176]",
        "mov x0, sp",
        "bl {leave}",
        "mov x30, x0",
        "ldp q0, q1, [sp]",
        "ldp q2, q3, [sp, #32]",
        "ldp q4, q5, [sp, #64]",
        "ldp q6, q7, [sp, #96]",
        "ldp x0, x1, [sp, #128]",
        "ldp x2, x3, [sp, #144]",
        "ldp x4, x5, [sp, #160]",
        "ldp x6, x7, [sp, #176]",
        "add sp, sp, #{size}",
        "ret",
        size = const size_of::<Returned>(),
        leave = sym leave::<Returned>,
    )
}

#[unsafe(naked)]
unsafe extern "C" fn return_zero() {
    naked_asm!(
        "mov x0, #0",
        "mov x1, #0",
        "movi v0.2d, #0",
        "movi v1.2d, #0",
        "movi v2.2d, #0",
        "movi v3.2d, #0",
        "ret"
    )
}
