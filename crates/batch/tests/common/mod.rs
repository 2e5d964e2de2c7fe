//! What the behaviour tests share: a function that can be held up and tells what it was given, requests of numbers, and a
//! watch against hanging.
#![allow(dead_code, unused_imports, reason = "each test uses some of it")]

mod tasks;

use std::ops::Deref;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use streampool_batch::{Batch, BatchQueue, BatchQueueBuilder, Error, Result, Ticket};
use streampool_tensor::Array;

pub use tasks::{Bell, Executor, Work, block_on};

/// Whether a sanitizer slows everything down.
pub const SANITIZED: bool = cfg!(any(sanitize_thread, sanitize_address));

/// Longer than anything here takes on the slowest machine, unless it hangs.
const FOREVER: Duration = Duration::from_secs(if SANITIZED { 600 } else { 120 });

/// The function panics at this value, and fails at others below zero.
pub const PANIC: i64 = i64::MIN;

/// What the function was called with.
#[derive(Debug, Clone)]
pub struct Call {
    pub values: Vec<i64>,
    pub lane: usize,
    pub thread: ThreadId,
}

/// Where batches are held up while it is shut.
#[derive(Default)]
pub struct Stage {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    shut: bool,
    /// How many calls may leave although it is shut.
    let_out: usize,
    inside: usize,
    calls: Vec<Call>,
}

impl Stage {
    /// Doubles what it gets, once the stage is open.
    pub fn call(&self, batch: &Batch) -> Result<Batch, String> {
        let array = batch.array(0).map_err(|error| error.to_string())?;
        let values = array.values::<i64>().map_err(|error| error.to_string())?;
        let mut state = self.state.lock().unwrap();
        state.inside += 1;
        state.calls.push(Call {
            values: values.to_vec(),
            lane: batch.lane(),
            thread: thread::current().id(),
        });
        self.changed.notify_all();
        let stays = |state: &mut State| state.shut && state.let_out == 0;
        let mut state = self.changed.wait_while(state, stays).unwrap();
        state.let_out = state.let_out.saturating_sub(1);
        state.inside -= 1;
        drop(state);
        double(&array).map(|outputs| Batch::new(outputs).unwrap())
    }

    /// Whatever is called from now on stays inside.
    pub fn shut(&self) {
        self.state.lock().unwrap().shut = true;
    }

    pub fn open(&self) {
        self.state.lock().unwrap().shut = false;
        self.changed.notify_all();
    }

    /// Lets one of the calls that are inside leave.
    pub fn let_one_out(&self) {
        self.state.lock().unwrap().let_out += 1;
        self.changed.notify_all();
    }

    /// Waits until so many calls are inside.
    pub fn until_inside(&self, count: usize) {
        let fewer = |state: &mut State| state.inside < count;
        drop(self.changed.wait_while(self.state.lock().unwrap(), fewer));
    }

    /// Waits until there were so many calls.
    pub fn until_called(&self, count: usize) {
        let fewer = |state: &mut State| state.calls.len() < count;
        drop(self.changed.wait_while(self.state.lock().unwrap(), fewer));
    }

    /// How many calls are inside.
    pub fn inside(&self) -> usize {
        self.state.lock().unwrap().inside
    }

    pub fn calls(&self) -> Vec<Call> {
        self.state.lock().unwrap().calls.clone()
    }

    /// The values of each call.
    pub fn batches(&self) -> Vec<Vec<i64>> {
        self.calls().into_iter().map(|call| call.values).collect()
    }

    /// Whether the function was ever called with this value.
    pub fn saw(&self, value: i64) -> bool {
        self.calls().iter().any(|call| call.values.contains(&value))
    }
}

/// Twice the values, of the same shape; an error for any below zero.
fn double(array: &Array) -> Result<Vec<Array>, String> {
    let values = array.values::<i64>().map_err(|error| error.to_string())?;
    match values.iter().find(|value| **value < 0) {
        Some(&PANIC) => panic!("this one panics"),
        Some(bad) => return Err(format!("no {bad}")),
        None => {}
    }
    let doubled: Vec<i64> = values.iter().map(|value| 2 * value).collect();
    Ok(vec![Array::new(&doubled, array.shape()).unwrap()])
}

/// A queue before a stage, which is watched. When it is dropped the stage opens, so that a test that fails does not hang.
pub struct Stand {
    pub queue: BatchQueue,
    pub stage: Arc<Stage>,
    _watch: Sender<()>,
}

impl Stand {
    pub fn new(builder: BatchQueueBuilder) -> Stand {
        let stage = Arc::new(Stage::default());
        let function = stage.clone();
        Stand {
            queue: builder.build(move |batch| function.call(&batch)).unwrap(),
            stage,
            _watch: watch(),
        }
    }

    /// Has the only lane of the queue run a request of its own, which holds it up until the stage is opened.
    pub fn occupied(&self) -> Ticket {
        self.stage.shut();
        let ticket = self.queue.submit(row(0)).unwrap();
        self.stage.until_inside(1);
        ticket
    }

    /// Waits until so many requests are queued.
    pub fn until_queued(&self, count: usize) {
        until("requests are queued", || {
            self.queue.statistics().queued_requests == count
        });
    }
}

impl Deref for Stand {
    type Target = BatchQueue;

    fn deref(&self) -> &BatchQueue {
        &self.queue
    }
}

impl Drop for Stand {
    fn drop(&mut self) {
        self.stage.open();
    }
}

/// One lane, and batches as large as they may be.
pub fn one_lane(rows: usize) -> BatchQueueBuilder {
    BatchQueue::builder()
        .max_in_flight(1)
        .adaptive(false)
        .max_batch_size(rows)
}

/// Ends the process if what is returned lives so long that something must hang.
pub fn watch() -> Sender<()> {
    let test = thread::current().name().unwrap_or("a test").to_owned();
    let (over, watch) = channel::<()>();
    thread::spawn(move || {
        if watch.recv_timeout(FOREVER) == Err(RecvTimeoutError::Timeout) {
            eprintln!("{test} hangs: not over after {FOREVER:?}");
            std::process::abort();
        }
    });
    over
}

/// Gives the core away until `condition` holds.
#[track_caller]
pub fn until(what: &str, condition: impl Fn() -> bool) {
    let begun = Instant::now();
    while !condition() {
        assert!(begun.elapsed() < FOREVER, "it never came to this: {what}");
        thread::yield_now();
    }
}

/// These values, each a row.
pub fn rows(values: &[i64]) -> Array {
    Array::new(values, &[values.len()]).unwrap()
}

pub fn row(value: i64) -> Array {
    rows(&[value])
}

/// The values that came, which did.
#[track_caller]
pub fn values(result: Result<Vec<Array>>) -> Vec<i64> {
    result.unwrap()[0].values::<i64>().unwrap().to_vec()
}

/// What went wrong, which did.
#[track_caller]
pub fn told(result: Result<Vec<Array>>) -> String {
    result.unwrap_err().to_string()
}

#[track_caller]
pub fn assert_closed(result: Result<Vec<Array>>) {
    assert!(matches!(result, Err(Error::Closed)), "{result:?}");
}

#[track_caller]
pub fn assert_expired(result: Result<Vec<Array>>) {
    assert!(matches!(result, Err(Error::Expired)), "{result:?}");
}
