//! The threads that call completion handlers, in no order that anybody could count on.

use std::cell::Cell;
use std::sync::{Arc, Condvar, Mutex, Once, PoisonError};
use std::thread;
use std::time::Duration;

use super::committed::CommandBuffer;
use super::gpu;
use crate::chance;
use crate::lock::lock;
use crate::runtime::{Block, Id, Pool};

const THREADS: usize = 3;

struct Job {
    commands: Arc<CommandBuffer>,
    id: Id,
    handlers: Vec<Block>,
}

struct Jobs {
    waiting: Vec<Job>,
    /// Command buffers that are committed, and whose handlers have not all returned.
    unfinished: usize,
}

static JOBS: Mutex<Jobs> = Mutex::new(Jobs {
    waiting: Vec::new(),
    unfinished: 0,
});
static CHANGED: Condvar = Condvar::new();

thread_local! {
    /// Whose handlers this thread is calling.
    static CALLING: Cell<*const CommandBuffer> = const { Cell::new(std::ptr::null()) };
}

pub(super) fn count_committed() {
    lock(&JOBS).unfinished += 1;
}

/// Has the handlers called, and the object released after that.
pub(super) fn call(commands: Arc<CommandBuffer>, id: Id, handlers: Vec<Block>) {
    static THREADS_RUN: Once = Once::new();
    THREADS_RUN.call_once(|| {
        for _ in 0..THREADS {
            let thread = thread::Builder::new().name("imitated handlers".to_owned());
            thread.spawn(run).expect("a thread that calls handlers");
        }
    });
    lock(&JOBS).waiting.push(Job {
        commands,
        id,
        handlers,
    });
    CHANGED.notify_all();
}

pub(super) fn is_called_for(commands: &Arc<CommandBuffer>) -> bool {
    std::ptr::eq(CALLING.get(), Arc::as_ptr(commands))
}

fn run() {
    loop {
        let mut jobs = lock(&JOBS);
        while jobs.waiting.is_empty() {
            jobs = CHANGED.wait(jobs).unwrap_or_else(PoisonError::into_inner);
        }
        let any = chance::below(jobs.waiting.len());
        let job = jobs.waiting.swap_remove(any);
        drop(jobs);
        gpu::idle();
        job.run();
        lock(&JOBS).unfinished -= 1;
        CHANGED.notify_all();
    }
}

impl Job {
    fn run(self) {
        let Job {
            commands,
            id,
            handlers,
        } = self;
        let pool = Pool::open();
        CALLING.set(Arc::as_ptr(&commands));
        for handler in handlers {
            handler.call(id);
        }
        CALLING.set(std::ptr::null());
        drop(pool);
        commands.set_handled();
        drop(commands);
        id.release();
    }
}

/// Waits until nothing is in flight.
///
/// # Panics
///
/// Where that does not come to pass in a minute.
pub(crate) fn wait_until_idle() {
    let jobs = lock(&JOBS);
    let waited =
        CHANGED.wait_timeout_while(jobs, Duration::from_secs(60), |jobs| jobs.unfinished > 0);
    let (jobs, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
    let unfinished = jobs.unfinished;
    drop(jobs);
    assert!(
        !timeout.timed_out(),
        "{unfinished} command buffers do not come to their end"
    );
}
