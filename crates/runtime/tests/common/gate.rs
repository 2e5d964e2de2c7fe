//! A gate that holds streams up for as long as a test wants, without a clock.
//!
//! It opens when it is dropped: made after the pool, it is dropped before it, so that a test that fails does
//! not hang.

use std::collections::HashSet;
use std::sync::{Arc, Condvar, Mutex};

use streampool_device::{Device, Interval, Trace};
use streampool_host::HostDevice;
use streampool_runtime::{Op, Stream};

/// Holds up the streams that are closed, each at the end of the op it is at. It stands where a profiler
/// would, so a device has one or the other. Each stream that is held up holds up a worker, too.
pub struct Gate(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    closed: HashSet<u32>,
    held: HashSet<u32>,
}

impl Gate {
    /// A gate for the streams of this device, open.
    pub fn new(device: &HostDevice) -> Gate {
        let shared = Arc::new(Shared {
            state: Mutex::default(),
            changed: Condvar::new(),
        });
        device.set_trace(Some(shared.clone()));
        Gate(shared)
    }

    /// Has `stream` execute nothing of what is encoded from now on; returns when it stands still.
    pub fn hold(&self, stream: &Stream) {
        let index = u32::from(stream.index());
        self.0.state.lock().unwrap().closed.insert(index);
        stream.encode(Op::Nop).unwrap();
        stream.flush().unwrap();
        let state = self.0.state.lock().unwrap();
        let moving = |state: &mut State| !state.held.contains(&index);
        drop(self.0.changed.wait_while(state, moving).unwrap());
    }

    /// Lets `stream` go on.
    pub fn open(&self, stream: &Stream) {
        let index = u32::from(stream.index());
        self.0.state.lock().unwrap().closed.remove(&index);
        self.0.changed.notify_all();
    }

    /// Lets all go on.
    pub fn open_all(&self) {
        self.0.state.lock().unwrap().closed.clear();
        self.0.changed.notify_all();
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.open_all();
    }
}

impl Trace for Shared {
    fn op(&self, interval: Interval) {
        let mut state = self.state.lock().unwrap();
        if !state.closed.contains(&interval.queue) {
            return;
        }
        state.held.insert(interval.queue);
        self.changed.notify_all();
        let closed = |state: &mut State| state.closed.contains(&interval.queue);
        let mut state = self.changed.wait_while(state, closed).unwrap();
        state.held.remove(&interval.queue);
    }
}
