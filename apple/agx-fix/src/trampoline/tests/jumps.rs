//! Methods that end with a jump to another, and methods that are left by a jump.

use std::arch::naked_asm;

use super::*;

type Method = extern "C" fn(usize, usize, usize) -> usize;

/// Ends with a jump to the method that is its argument.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
extern "C" fn tail_caller(_object: usize, _selector: usize, _next: usize) -> usize {
    naked_asm!("jmp rdx")
}

/// Ends with a jump to the method that is its argument.
#[cfg(target_arch = "aarch64")]
#[unsafe(naked)]
extern "C" fn tail_caller(_object: usize, _selector: usize, _next: usize) -> usize {
    naked_asm!("mov x16, x2", "br x16")
}

/// Calls the method; its argument is what `escape` needs to come back from anywhere below.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
extern "C" fn call_with_escape(_object: usize, _selector: usize, _method: usize) -> usize {
    naked_asm!(
        "push rbp",
        "push rbx",
        "push r12",
        "push r13",
        "push r14",
        "push r15",
        "sub rsp, 8",
        "mov rax, rdx",
        "mov rdx, rsp",
        "call rax",
        "add rsp, 8",
        "pop r15",
        "pop r14",
        "pop r13",
        "pop r12",
        "pop rbx",
        "pop rbp",
        "ret",
    )
}

/// Returns its object from `call_with_escape`, past all calls between.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
extern "C" fn escape(_object: usize, _selector: usize, _to: usize) -> usize {
    naked_asm!(
        "mov rax, rdi",
        "mov rsp, rdx",
        "add rsp, 8",
        "pop r15",
        "pop r14",
        "pop r13",
        "pop r12",
        "pop rbx",
        "pop rbp",
        "ret",
    )
}

/// Calls the method; its argument is what `escape` needs to come back from anywhere below.
#[cfg(target_arch = "aarch64")]
#[unsafe(naked)]
extern "C" fn call_with_escape(_object: usize, _selector: usize, _method: usize) -> usize {
    naked_asm!(
        "sub sp, sp, #96",
        "stp x19, x20, [sp]",
        "stp x21, x22, [sp, #16]",
        "stp x23, x24, [sp, #32]",
        "stp x25, x26, [sp, #48]",
        "stp x27, x28, [sp, #64]",
        "stp x29, x30, [sp, #80]",
        "mov x16, x2",
        "mov x2, sp",
        "blr x16",
        "ldp x19, x20, [sp]",
        "ldp x21, x22, [sp, #16]",
        "ldp x23, x24, [sp, #32]",
        "ldp x25, x26, [sp, #48]",
        "ldp x27, x28, [sp, #64]",
        "ldp x29, x30, [sp, #80]",
        "add sp, sp, #96",
        "ret",
    )
}

/// Returns its object from `call_with_escape`, past all calls between.
#[cfg(target_arch = "aarch64")]
#[unsafe(naked)]
extern "C" fn escape(_object: usize, _selector: usize, _to: usize) -> usize {
    naked_asm!(
        "mov sp, x2",
        "ldp x19, x20, [sp]",
        "ldp x21, x22, [sp, #16]",
        "ldp x23, x24, [sp, #32]",
        "ldp x25, x26, [sp, #48]",
        "ldp x27, x28, [sp, #64]",
        "ldp x29, x30, [sp, #80]",
        "add sp, sp, #96",
        "ret",
    )
}

extern "C" fn plus(object: usize, _: usize, more: usize) -> usize {
    object + more % 16
}

fn stub(recorder: &'static Recorder, method: Method) -> Method {
    // SAFETY: the stub stands before a function of this type.
    unsafe { transmute(recorder.stub(method as *const ())) }
}

#[test]
fn a_method_that_ends_with_a_jump_to_another_is_left_in_order() {
    let (first, second) = (Recorder::new(), Recorder::new());
    let to_plus = stub(second, plus);
    let to_tail = stub(first, tail_caller);
    for object in 0..3 {
        let next = to_plus as usize;
        assert_eq!(
            to_tail(object, SELECTOR, next),
            plus(object, SELECTOR, next)
        );
    }
    assert_eq!(first.told(), [3, 3, 0, 0]);
    assert_eq!(second.told(), [3, 3, 0, 0]);
}

#[test]
fn a_method_that_is_left_by_a_jump_is_noticed_at_the_next_call() {
    let (jumper, other) = (Recorder::new(), Recorder::new());
    let to_escape = stub(jumper, escape);
    assert_eq!(call_with_escape(41, SELECTOR, to_escape as usize), 41);
    assert_eq!(jumper.told(), [1, 0, 0, 0]);
    assert_eq!(stub(other, plus)(1, SELECTOR, 2), 3);
    assert_eq!(jumper.told(), [1, 0, 1, 0]);
    assert_eq!(other.told(), [1, 1, 0, 0]);
}

#[test]
fn a_method_that_is_left_by_a_jump_is_noticed_at_the_return_of_the_one_it_jumps_to() {
    extern "C" fn calls_with_escape(object: usize, selector: usize, method: usize) -> usize {
        call_with_escape(object, selector, method) + 1
    }
    let (inner, outer) = (Recorder::new(), Recorder::new());
    let to_escape = stub(inner, escape);
    let to_outer = stub(outer, calls_with_escape);
    assert_eq!(to_outer(5, SELECTOR, to_escape as usize), 6);
    assert_eq!(inner.told(), [1, 0, 1, 0]);
    assert_eq!(outer.told(), [1, 1, 0, 0]);
}
