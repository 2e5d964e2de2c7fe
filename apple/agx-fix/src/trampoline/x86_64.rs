//! Stubs for x86-64, by the calling convention of System V.

use std::arch::naked_asm;

use super::calls::{self, STUBS, enter, leave};

/// How far stubs lie apart.
const STUB_BYTES: usize = 16;

/// What a stub saved, in the order in which it lies on the stack. Of vectors only the lower half is: no argument of an encoder is wider.
#[repr(C)]
pub struct Saved {
    vectors: [[u64; 2]; 8],
    integers: [usize; 6],
    /// How many vectors a variadic call passes.
    vector_count: usize,
    static_chain: usize,
    in_stub: usize,
    return_address: usize,
}

const SAVED_BELOW_RETURN_ADDRESS: usize = size_of::<Saved>() - size_of::<usize>();

impl Saved {
    fn returns_in_memory(&self, selector: usize) -> bool {
        self.integers[1] != selector && self.integers[2] == selector
    }
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

    /// A method that returns a struct in memory is told first where.
    fn object(&self, selector: usize) -> usize {
        self.integers[usize::from(self.returns_in_memory(selector))]
    }

    fn argument(&self, selector: usize) -> usize {
        self.integers[2 + usize::from(self.returns_in_memory(selector))]
    }

    fn refusal(&self, selector: usize) -> usize {
        if self.returns_in_memory(selector) {
            return_given_memory as *const () as usize
        } else {
            return_zero as *const () as usize
        }
    }

    fn stack(&self) -> usize {
        &raw const self.return_address as usize
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
    integers: [usize; 2],
    vectors: [[u64; 2]; 2],
}

impl calls::Returned for Returned {
    fn value(&self) -> usize {
        self.integers[0]
    }

    /// The return has taken the return address away.
    fn stack(&self) -> usize {
        &raw const *self as usize + size_of::<Returned>() - size_of::<usize>()
    }
}

/// All stubs, from the first multiple of [`STUB_BYTES`] on. Each leaves an address of its own in `r11`.
#[unsafe(naked)]
unsafe extern "C" fn stubs() {
    naked_asm!(
        ".rept {count}",
        ".balign {bytes}",
        "lea r11, [rip]",
        "jmp {before}",
        ".endr",
        count = const STUBS,
        bytes = const STUB_BYTES,
        before = sym before,
    )
}

#[unsafe(naked)]
unsafe extern "C" fn before() {
    naked_asm!(
        "sub rsp, {size}",
        "movaps [rsp], xmm0",
        "movaps [rsp + 16], xmm1",
        "movaps [rsp + 32], xmm2",
        "movaps [rsp + 48], xmm3",
        "movaps [rsp + 64], xmm4",
        "movaps [rsp + 80], xmm5",
        "movaps [rsp + 96], xmm6",
        "movaps [rsp + 112], xmm7",
        "mov [rsp + 128], rdi",
        "mov [rsp + 136], rsi",
        "mov [rsp + 144], rdx",
        "mov [rsp + 152], rcx",
        "mov [rsp + 160], r8",
        "mov [rsp + 168], r9",
        "mov [rsp + 176], rax",
        "mov [rsp + 184], r10",
        "mov [rsp + 192], r11",
        "mov rdi, rsp",
        "call {enter}",
        "mov r11, rax",
        "movaps xmm0, [rsp]",
        "movaps xmm1, [rsp + 16]",
        "movaps xmm2, [rsp + 32]",
        "movaps xmm3, [rsp + 48]",
        "movaps xmm4, [rsp + 64]",
        "movaps xmm5, [rsp + 80]",
        "movaps xmm6, [rsp + 96]",
        "movaps xmm7, [rsp + 112]",
        "mov rdi, [rsp + 128]",
        "mov rsi, [rsp + 136]",
        "mov rdx, [rsp + 144]",
        "mov rcx, [rsp + 152]",
        "mov r8, [rsp + 160]",
        "mov r9, [rsp + 168]",
        "mov rax, [rsp + 176]",
        "mov r10, [rsp + 184]",
        "add rsp, {size}",
        "jmp r11",
        size = const SAVED_BELOW_RETURN_ADDRESS,
        enter = sym enter::<Saved>,
    )
}

/// Where watched methods return to.
#[unsafe(naked)]
unsafe extern "C" fn after() {
    naked_asm!(
        "sub rsp, {size}",
        "mov [rsp], rax",
        "mov [rsp + 8], rdx",
        "movaps [rsp + 16], xmm0",
        "movaps [rsp + 32], xmm1",
        "mov rdi, rsp",
        "call {leave}",
        "mov r11, rax",
        "mov rax, [rsp]",
        "mov rdx, [rsp + 8]",
        "movaps xmm0, [rsp + 16]",
        "movaps xmm1, [rsp + 32]",
        "add rsp, {size}",
        "jmp r11",
        size = const size_of::<Returned>(),
        leave = sym leave::<Returned>,
    )
}

#[unsafe(naked)]
unsafe extern "C" fn return_zero() {
    naked_asm!(
        "xor eax, eax",
        "xor edx, edx",
        "xorps xmm0, xmm0",
        "xorps xmm1, xmm1",
        "ret"
    )
}

#[unsafe(naked)]
unsafe extern "C" fn return_given_memory() {
    naked_asm!("mov rax, rdi", "ret")
}
