//! What a warm run asks of the system, watched by the realtime sanitizer: it ends the process at a lock that is waited for, a system call,
//! or memory that is asked of the heap. `ci/realtime.sh` preloads it; without it the tests only count allocations.

#[path = "support/device.rs"]
#[allow(dead_code, reason = "shared with other tests")]
mod device;
#[path = "support/onnx.rs"]
#[allow(dead_code, unused_imports, reason = "shared with other tests")]
mod onnx;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::ffi::CStr;
use std::process::Command;
use std::sync::Mutex;
use std::time::Duration;

use onnx::{Graph, Load};
use streampool_device::{DType, Op};
use streampool_host::{HostDevice, HostOptions};
use streampool_model::testing::Random;
use streampool_runtime::{Pool, Stream};

/// Counts what a thread asks of the heap, which the sanitizer does not see.
struct Counting;

thread_local! {
    static ASKED: Cell<usize> = const { Cell::new(0) };
    static IN_REAL_TIME: Cell<Option<Sanitizer>> = const { Cell::new(None) };
}

impl Counting {
    fn unseen<R>(call: impl FnOnce() -> R) -> R {
        ASKED.set(ASKED.get() + 1);
        let Some(sanitizer) = IN_REAL_TIME.get() else {
            return call();
        };
        (sanitizer.disable)();
        let result = call();
        (sanitizer.enable)();
        result
    }
}

// SAFETY: it hands everything on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise, handed on.
        Counting::unseen(|| unsafe { System.alloc(layout) })
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise, handed on.
        Counting::unseen(|| unsafe { System.alloc_zeroed(layout) })
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller's promise, handed on.
        Counting::unseen(|| unsafe { System.realloc(at, layout, size) })
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        let asked = ASKED.get();
        // SAFETY: the caller's promise, handed on.
        Counting::unseen(|| unsafe { System.dealloc(at, layout) });
        ASKED.set(asked);
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The sanitizer's functions.
#[derive(Clone, Copy)]
struct Sanitizer {
    enter: extern "C" fn(),
    exit: extern "C" fn(),
    disable: extern "C" fn(),
    enable: extern "C" fn(),
}

impl Sanitizer {
    /// If it is there.
    fn find() -> Option<Sanitizer> {
        let function = |name: &CStr| {
            // SAFETY: the name ends with zero.
            let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
            // SAFETY: those of these names take nothing and return nothing.
            let function =
                || unsafe { std::mem::transmute::<*mut libc::c_void, extern "C" fn()>(found) };
            (!found.is_null()).then(function)
        };
        function(c"__rtsan_ensure_initialized")?();
        Some(Sanitizer {
            enter: function(c"__rtsan_realtime_enter")?,
            exit: function(c"__rtsan_realtime_exit")?,
            disable: function(c"__rtsan_disable")?,
            enable: function(c"__rtsan_enable")?,
        })
    }
}

/// Calls a function that may only ask for memory of the heap: how often it does.
fn asked_in_real_time(call: impl FnOnce()) -> usize {
    let sanitizer = Sanitizer::find();
    let before = ASKED.get();
    if let Some(sanitizer) = sanitizer {
        IN_REAL_TIME.set(Some(sanitizer));
        (sanitizer.enter)();
    }
    call();
    if let Some(sanitizer) = sanitizer {
        (sanitizer.exit)();
        IN_REAL_TIME.set(None);
    }
    ASKED.get() - before
}

/// One worker: what is divided among several wakes them and waits for them, by system calls.
fn pool() -> Pool {
    Pool::new(HostDevice::new(HostOptions::default().threads(1)).unwrap()).unwrap()
}

#[test]
fn a_run_asks_for_memory_twice_and_waits_for_nothing() {
    let mut random = Random::new(5);
    let mut graph = Graph::new().input("t0", DType::F32, "n 16");
    for layer in 0..12 {
        let next = layer + 1;
        graph = graph
            .constant(&format!("w{layer}"), &random.reals(&[16, 16]))
            .node(&format!("MatMul t{layer} w{layer} = h{layer}"), &[])
            .node(&format!("Tanh h{layer} = t{next}"), &[]);
    }
    let session = graph.outputs("t12").session(&pool());
    let x = random.reals(&[4, 16]);
    let run = || drop(session.run([("t0", &x)]).unwrap());
    (0..100).for_each(|_| run());
    // For its command and for the values of its output.
    assert_eq!(asked_in_real_time(run), 2);
}

/// Fills a buffer on a stream.
fn fill(stream: &Stream) {
    let mut buffer = stream.allocate(4096).unwrap();
    let dst = buffer.write(DType::F32, &[1024]).unwrap();
    let value = 1.0.into();
    stream.encode(Op::Fill { dst, value }).unwrap();
}

#[test]
fn streams_and_memory_are_taken_and_given_back_without_asking() {
    let pool = pool();
    // Of its own stream: what is another's goes back by a queue, whose nodes are of the heap.
    let take = || {
        let _lease = pool.lease().unwrap();
        drop(pool.current().unwrap().allocate(4096).unwrap());
    };
    (0..100).for_each(|_| take());
    assert_eq!(asked_in_real_time(take), 0);
}

#[test]
fn commands_and_events_wait_for_nothing() {
    let pool = pool();
    let event = pool.event().unwrap();
    let (first, second) = (pool.lease().unwrap(), pool.lease().unwrap());
    let work = || {
        fill(&first);
        first.record(&event).unwrap();
        second.wait(&event).unwrap();
        fill(&second);
        second.synchronize().unwrap();
    };
    (0..100).for_each(|_| work());
    // On the host a command takes memory.
    assert!(asked_in_real_time(work) < 20);
}

#[test]
#[ignore = "ends the process where the sanitizer is"]
fn planted_lock() {
    let held = Mutex::new(());
    let (about_to, is_about_to) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        let guard = held.lock().unwrap();
        scope.spawn(|| {
            about_to.send(()).unwrap();
            asked_in_real_time(|| drop(held.lock()))
        });
        is_about_to.recv().unwrap();
        std::thread::sleep(Duration::from_millis(50));
        drop(guard);
    });
}

#[test]
fn a_lock_that_is_waited_for_is_found() {
    let mut test = Command::new(std::env::current_exe().unwrap());
    let done = test.args(["--exact", "--ignored", "planted_lock"]).output();
    let done = done.unwrap();
    let is_there = Sanitizer::find().is_some();
    assert!(is_there || std::env::var_os("REQUIRE_RTSAN").is_none());
    assert_eq!(done.status.success(), !is_there);
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    assert_eq!(
        said.contains("RealtimeSanitizer"),
        !done.status.success(),
        "{said}"
    );
}
