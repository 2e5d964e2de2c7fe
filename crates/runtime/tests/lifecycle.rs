//! The end of pools, threads and processes, with work in flight.
#![cfg(not(loom))]

mod common;

use std::cell::RefCell;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Barrier, Mutex, OnceLock};
use std::thread;

use common::*;
use streampool_runtime::{Error, EventStatus, Op, Pool};

#[test]
fn what_outlives_its_pool_says_so_and_gives_its_memory_back() {
    let device = device();
    let pool = pool(&device, 4);
    let stream = pool.stream(1).unwrap().clone();
    let lease = pool.lease().unwrap();
    let (event, unrecorded) = (pool.timed_event().unwrap(), pool.event().unwrap());
    let (one, mut two) = (filled(&stream, 1.0), buffer(&stream));
    stream.record(&event).unwrap();
    let cloned = pool.clone();
    drop(pool);
    assert_eq!(value_of(&stream, &one), Ok(1.0), "a clone keeps it going");
    drop(cloned);

    let shut = Err(Error::ShutDown);
    assert_eq!(stream.encode(Op::Nop).map(drop), shut);
    assert_eq!(lease.encode(Op::Nop).map(drop), shut);
    assert_eq!(copy(&stream, &one, &mut two), shut);
    assert_eq!(stream.upload(&mut two, &[1f32; N]).map(drop), shut);
    assert_eq!(stream.download::<f32>(&one).map(drop), shut);
    assert_eq!(stream.allocate(16).map(drop), shut);
    assert_eq!(stream.synchronize(), shut);
    assert_eq!(stream.flush(), shut);
    assert_eq!(stream.record(&unrecorded).map(drop), shut);
    assert_eq!(stream.wait(&event), shut);
    assert_eq!(stream.wait_for_stream(&lease), shut);
    assert_eq!(stream.on_complete(|_| ()), shut);
    assert_eq!(stream.recover(), shut);
    assert_eq!(one.record_stream(&stream), shut);
    assert!(stream.is_idle());
    assert_eq!(stream.fault(), None);
    assert_eq!(event.query(), Ok(EventStatus::Complete));
    assert_eq!(event.wait(), Ok(()));
    assert!(event.elapsed_since(&event).is_ok());

    assert!(in_use(&device) > 0, "the buffers are still out");
    drop((one, two));
    assert_eq!(in_use(&device), 0);
    drop((stream, lease, event, unrecorded));
    let weak = Arc::downgrade(&device);
    drop(device);
    until("the device is gone", || weak.strong_count() == 0);
}

#[test]
fn buffers_freed_by_others_while_the_pool_shuts_down_are_all_given_back() {
    within(FOREVER, || {
        for _ in 0..rounds(100) {
            let device = device_of(2, 1 << 30);
            let pool = pool(&device, 8);
            let last = Mutex::new(vec![pool; 4]);
            let all_here = Barrier::new(4);
            on_threads(4, |_| {
                let pool = last.lock().unwrap().pop().unwrap();
                let stream = pool.current().unwrap();
                // What this thread frees goes to its own stream's arena, whoever shuts that down.
                let buffers: Vec<_> = (0..20).map(|_| filled(stream, 1.0)).collect();
                all_here.wait();
                drop(pool);
                drop(buffers);
            });
            assert_eq!(in_use(&device), 0);
        }
    });
}

#[test]
fn a_pool_and_its_device_end_while_threads_that_used_them_live_on() {
    within(FOREVER, || {
        let device = device();
        let pool = pool(&device, 4);
        let weak = Arc::downgrade(&device);
        let (go, gone) = channel::<()>();
        thread::scope(|scope| {
            let (used, user) = channel();
            let pool_of_thread = pool.clone();
            scope.spawn(move || {
                drop(filled(pool_of_thread.current().unwrap(), 1.0));
                drop(pool_of_thread);
                used.send(()).unwrap();
                gone.recv().unwrap();
                // The thread ends after the pool: its lease has nowhere to go back to.
            });
            user.recv().unwrap();
            drop(pool);
            assert_eq!(in_use(&device), 0);
            drop(device);
            until("the device is gone", || weak.strong_count() == 0);
            go.send(()).unwrap();
        });
    });
}

/// Uses the pool when its thread ends.
struct UsedLast(Option<(Arc<Pool>, std::sync::mpsc::Sender<f32>)>);

impl Drop for UsedLast {
    fn drop(&mut self) {
        if let Some((pool, send)) = self.0.take() {
            let stream = pool.current().unwrap();
            let one = filled(stream, 6.0);
            let mut two = buffer(stream);
            add(stream, &one, &mut two, 1.0).unwrap();
            let scoped = pool.with_stream(pool.stream(2).unwrap(), || {
                value_of(pool.current().unwrap(), &two).unwrap()
            });
            pool.release_current_stream();
            send.send(scoped.unwrap()).unwrap();
        }
    }
}

thread_local! {
    static BEFORE: RefCell<UsedLast> = const { RefCell::new(UsedLast(None)) };
    static AFTER: RefCell<UsedLast> = const { RefCell::new(UsedLast(None)) };
}

#[test]
fn destructors_of_thread_locals_use_the_pool() {
    within(FOREVER, || {
        let pool = Arc::new(pool(&device(), 8));
        let (send, receive) = channel();
        for _ in 0..rounds(50) {
            on_thread(|| {
                // One is destroyed before the runtime's own, one after: both orders have to do.
                let user = || UsedLast(Some((pool.clone(), send.clone())));
                BEFORE.set(user());
                drop(filled(pool.current().unwrap(), 1.0));
                AFTER.set(user());
            });
            assert_eq!(receive.recv_timeout(FOREVER), Ok(7.0));
            assert_eq!(receive.recv_timeout(FOREVER), Ok(7.0));
        }
        assert_all_returned(&pool);
    });
}

/// Names the test that a process of this very program is to run as a child.
const CHILD: &str = "BEHAVIOUR_TEST_CHILD";

/// Runs `test` of this program in a process of its own; gives what it printed.
fn run_as_child(test: &str) -> String {
    let output = Command::new(std::env::current_exe().unwrap())
        .args([test, "--exact", "--nocapture", "--test-threads=2"])
        .env(CHILD, test)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {text}{errors}", output.status);
    text
}

static AT_EXIT: OnceLock<(Pool, Mutex<Option<streampool_runtime::Buffer>>)> = OnceLock::new();

extern "C" fn use_the_pool_at_exit() {
    let worked = std::panic::catch_unwind(|| {
        let (pool, left) = AT_EXIT.get().unwrap();
        let stream = pool.current().unwrap();
        let left = left.lock().unwrap().take().unwrap();
        let mut sum = buffer(stream);
        add(stream, &left, &mut sum, 1.0).unwrap();
        assert_eq!(value_of(stream, &sum), Ok(5.0));
        drop(left);
        pool.synchronize().unwrap();
        pool.trim().unwrap();
    });
    if worked.is_err() {
        // SAFETY: it ends the process, and nothing after it runs.
        unsafe { libc::_exit(3) };
    }
    println!("used at exit");
}

#[test]
fn the_pool_is_usable_at_exit() {
    const NAME: &str = "the_pool_is_usable_at_exit";
    if std::env::var_os(CHILD).is_none_or(|child| child != NAME) {
        return assert!(run_as_child(NAME).contains("used at exit"));
    }
    let pool = pool(&device(), 4);
    let stream = pool.stream(1).unwrap();
    let left = filled(stream, 4.0);
    stream.flush().unwrap();
    assert!(AT_EXIT.set((pool, Mutex::new(Some(left)))).is_ok());
    // SAFETY: the handler is a function without captures, which may be called at any time.
    assert_eq!(unsafe { libc::atexit(use_the_pool_at_exit) }, 0);
}

/// Forks; the child says with its exit status whether `child` held.
fn in_a_fork(child: impl FnOnce()) -> i32 {
    // SAFETY: the child only calls `child` and ends without running anything of its parent's.
    match unsafe { libc::fork() } {
        -1 => panic!("fork failed: {}", std::io::Error::last_os_error()),
        0 => {
            let held = std::panic::catch_unwind(std::panic::AssertUnwindSafe(child)).is_ok();
            // SAFETY: it ends the process, and nothing after it runs.
            unsafe { libc::_exit(if held { 0 } else { 1 }) }
        }
        process => {
            let mut status = 0;
            // SAFETY: `process` is our child, and `status` outlives the call.
            let ended = unsafe { libc::waitpid(process, &mut status, 0) };
            assert_eq!(ended, process);
            status
        }
    }
}

#[test]
fn after_a_fork_the_child_is_refused_and_the_parent_goes_on() {
    within(FOREVER, || {
        let device = device();
        let pool = pool(&device, 8);
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    let stream = pool.current().unwrap();
                    let mut value = 0.0;
                    while !stop.load(Ordering::Relaxed) {
                        let one = filled(stream, value);
                        let mut two = buffer(stream);
                        add(stream, &one, &mut two, 1.0).unwrap();
                        assert_eq!(value_of(stream, &two), Ok(value + 1.0));
                        value += 1.0;
                    }
                });
            }
            for _ in 0..rounds(20) {
                let stream = pool.current().unwrap().clone();
                let own_pool = common::pool(&device, 4);
                let handle = own_pool.stream(1).unwrap().clone();
                let (left, event) = (filled(&stream, 1.0), pool.event().unwrap());
                stream.record(&event).unwrap();
                let mut held = Some((own_pool, handle, left, event));
                let status = in_a_fork(|| {
                    let forked = Err(Error::Forked);
                    assert_eq!(pool.current().map(drop), forked);
                    assert_eq!(pool.lease().map(drop), forked);
                    assert_eq!(pool.event().map(drop), forked);
                    assert_eq!(pool.synchronize(), forked);
                    assert_eq!(pool.trim().map(drop), forked);
                    assert_eq!(pool.snapshot().map(drop), forked);
                    assert_eq!(pool.with_stream(&stream, || ()), forked);
                    assert_eq!(stream.encode(Op::Nop).map(drop), forked);
                    assert_eq!(stream.allocate(16).map(drop), forked);
                    assert_eq!(stream.synchronize(), forked);
                    assert!(Error::Forked.to_string().contains("fork"));
                    pool.release_current_stream();
                    // The locks behind these are as they were at the fork: none may be waited for.
                    drop(held.take());
                });
                assert_eq!(status, 0, "the child said no, or hung and was ended");
                let (own_pool, handle, left, event) = held.take().unwrap();
                assert_eq!(value_of(&stream, &left), Ok(1.0));
                event.wait().unwrap();
                handle.encode(Op::Nop).unwrap();
                drop((handle, own_pool));
            }
            stop.store(true, Ordering::Relaxed);
        });
        pool.synchronize().unwrap();
    });
}

#[test]
#[cfg_attr(
    sanitize_thread,
    ignore = "the thread sanitizer forbids threads after a fork with threads"
)]
fn a_forked_child_opens_what_it_needs_itself() {
    within(FOREVER, || {
        let device = device();
        let pool = pool(&device, 4);
        pool.current().unwrap().synchronize().unwrap();
        let status = in_a_fork(|| {
            let own_device = common::device();
            let own_pool = common::pool(&own_device, 4);
            let stream = own_pool.current().unwrap();
            assert_eq!(value_of(stream, &filled(stream, 3.0)), Ok(3.0));
            // The parent's device has no workers here.
            let borrowed = common::pool(&device, 4);
            let error = borrowed.current().map(drop).unwrap_err();
            assert!(error.to_string().contains("fork"), "{error}");
        });
        assert_eq!(status, 0, "the child failed");
        let stream = pool.current().unwrap();
        assert_eq!(value_of(stream, &filled(stream, 4.0)), Ok(4.0));
    });
}
