//! What the tests of the imitation share: objects of the driver, made as a program makes them.
#![allow(dead_code, reason = "each test program uses its part")]

use std::mem::MaybeUninit;
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};

use cudarc::driver::sys::CUresult::{self, *};
use streampool_cuda_sim::Live;
use streampool_cuda_sim::api::*;

pub const BYTES: usize = 4096;
pub const NON_BLOCKING: u32 = 1;
pub const UNSUPPORTED: CUresult = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
pub const SPOILT: CUresult = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;

/// Modes of captures and of threads.
pub const GLOBAL: u32 = 0;
pub const THREAD_LOCAL: u32 = 1;
pub const RELAXED: u32 = 2;

/// What a call gives that has to succeed.
#[track_caller]
pub fn made<T: Default>(call: impl FnOnce(Option<&mut MaybeUninit<T>>) -> CUresult) -> T {
    got(call).unwrap_or_else(|why| panic!("{why:?}"))
}

/// What a call gives, or its error.
pub fn got<T: Default>(
    call: impl FnOnce(Option<&mut MaybeUninit<T>>) -> CUresult,
) -> Result<T, CUresult> {
    let mut place = MaybeUninit::new(T::default());
    match call(Some(&mut place)) {
        // SAFETY: it was initialised above.
        CUDA_SUCCESS => Ok(unsafe { place.assume_init() }),
        other => Err(other),
    }
}

#[track_caller]
pub fn ok(result: CUresult) {
    assert_eq!(result, CUDA_SUCCESS);
}

/// Starts the driver and makes its context this thread's.
pub fn begin() -> usize {
    ok(cuInit(0));
    let context = made(|to| cuDevicePrimaryCtxRetain(to, 0));
    ok(cuCtxSetCurrent(context));
    context
}

/// The driver for one test alone, since a capture concerns the whole process. At its end nothing may be left.
pub struct Alone {
    pub context: usize,
    _turn: MutexGuard<'static, ()>,
}

pub fn alone() -> Alone {
    static TURN: Mutex<()> = Mutex::new(());
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    Alone {
        context: begin(),
        _turn: turn,
    }
}

impl Drop for Alone {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            let left: Live = made(|to| cudaSimLive(to));
            let only_the_context = Live {
                contexts: 1,
                ..Live::default()
            };
            assert_eq!(left, only_the_context, "something is left");
        }
        ok(cuDevicePrimaryCtxRelease_v2(0));
    }
}

/// As another thread of the program does it.
pub fn elsewhere<R: Send>(context: usize, work: impl FnOnce() -> R + Send) -> R {
    let in_context = || {
        ok(cuCtxSetCurrent(context));
        work()
    };
    std::thread::scope(|scope| scope.spawn(in_context).join().expect("it does not panic"))
}

pub fn stream() -> usize {
    made(|to| cuStreamCreate(to, NON_BLOCKING))
}

pub fn event() -> usize {
    made(|to| cuEventCreate(to, 0))
}

pub fn device_memory() -> usize {
    made(|to| cuMemAlloc_v2(to, BYTES))
}

pub fn host_memory() -> usize {
    made(|to| cuMemHostAlloc(to, BYTES, 0))
}

/// Bytes of pinned memory, which nothing under way uses.
pub fn bytes_at(address: usize) -> &'static mut [u8] {
    let first = std::ptr::with_exposed_provenance_mut(address);
    // SAFETY: the test has it from `host_memory` and uses one such slice at a time.
    unsafe { std::slice::from_raw_parts_mut(first, BYTES) }
}

pub fn pointer(address: usize) -> *mut u8 {
    std::ptr::with_exposed_provenance_mut(address)
}

/// A kernel that does nothing: its module and itself.
pub fn nothing() -> (usize, usize) {
    let text =
        c".version 6.0\n.target sm_50\n.address_size 64\n.visible .entry nothing() { ret; }\n";
    let module = made(|to| cuModuleLoadData(to, text.as_ptr()));
    let function = made(|to| cuModuleGetFunction(to, module, c"nothing".as_ptr()));
    (module, function)
}

/// A launch of so many threads.
pub fn launch(function: usize, groups: [u32; 3], threads: [u32; 3], stream: usize) -> CUresult {
    let ([gx, gy, gz], [x, y, z]) = (groups, threads);
    let none = std::ptr::null();
    cuLaunchKernel(function, gx, gy, gz, x, y, z, 0, stream, none, none)
}

/// Names the test that a process of this program runs as a child.
const CHILD: &str = "CUDA_SIM_TEST_CHILD";

/// Has `breach` broken in a process of its own, the test `name` of this program, which has to be aborted with
/// `rule` and `words`.
pub fn aborts(name: &str, rule: &str, words: &str, breach: impl FnOnce()) {
    if std::env::var(CHILD).is_ok_and(|child| child == name) {
        begin();
        breach();
        println!("it was not noticed");
        std::process::exit(0);
    }
    let program = std::env::current_exe().expect("this program has a path");
    let output = Command::new(program)
        .args([name, "--exact", "--nocapture", "--test-threads=1"])
        .env(CHILD, name)
        .output()
        .expect("this program runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "{name} was not noticed");
    assert!(
        said.contains(&format!("broke a rule of CUDA, as imitated: {rule}:"))
            && said.contains(words),
        "{name}: {said}"
    );
}
