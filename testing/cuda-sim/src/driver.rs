//! The state of the driver, and what every call goes through before it does its own.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cudarc::driver::sys::CUresult;

use crate::handle::{Handle, Outcome};
use crate::lock::Lock;
use crate::memory::Memory;
use crate::objects::{Capture, Event, Exec, Function, GLOBAL, Graph, Module, Stream};
use crate::settings::{settings, spend};

/// All there is.
pub struct State {
    pub started: bool,
    pub context: Handle,
    pub retained: usize,
    /// After this nothing works any more.
    pub lost: Option<CUresult>,
    pub memory: Memory,
    pub streams: BTreeMap<Handle, Stream>,
    pub events: BTreeMap<Handle, Event>,
    pub graphs: BTreeMap<Handle, Graph>,
    pub execs: BTreeMap<Handle, Exec>,
    pub modules: BTreeMap<Handle, Module>,
    pub functions: BTreeMap<Handle, Arc<Function>>,
    pub captures: BTreeMap<Handle, Capture>,
    last: Handle,
}

static STATE: Mutex<State> = Mutex::new(State {
    started: false,
    context: 0,
    retained: 0,
    lost: None,
    memory: Memory::new(),
    streams: BTreeMap::new(),
    events: BTreeMap::new(),
    graphs: BTreeMap::new(),
    execs: BTreeMap::new(),
    modules: BTreeMap::new(),
    functions: BTreeMap::new(),
    captures: BTreeMap::new(),
    last: 0xc0da_0000_0000,
});

/// The lock of the context.
static LOCK: Lock = Lock::new();

// None of these has a destructor: a thread's last calls come from the destructors of its others.
thread_local! {
    /// The contexts that this thread has pushed, and how many.
    static CONTEXTS: Cell<([Handle; DEPTH], usize)> = const { Cell::new(([0; DEPTH], 0)) };
    /// Which captures forbid this thread what.
    pub static MODE: Cell<u32> = const { Cell::new(GLOBAL) };
    static NUMBER: Cell<u64> = const { Cell::new(0) };
}

/// The most contexts that a thread has pushed.
const DEPTH: usize = 16;

/// The number of this thread.
pub fn thread() -> u64 {
    static LAST: AtomicU64 = AtomicU64::new(0);
    if NUMBER.get() == 0 {
        NUMBER.set(LAST.fetch_add(1, Ordering::Relaxed) + 1);
    }
    NUMBER.get()
}

/// The context that this thread has pushed last.
pub fn current_context() -> Option<Handle> {
    let (contexts, count) = CONTEXTS.get();
    contexts[..count].last().copied()
}

pub fn push_context(context: Handle) -> Outcome {
    let (mut contexts, count) = CONTEXTS.get();
    let place = contexts.get_mut(count);
    *place.ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)? = context;
    CONTEXTS.set((contexts, count + 1));
    Ok(())
}

pub fn pop_context() -> Option<Handle> {
    let popped = current_context()?;
    let (contexts, count) = CONTEXTS.get();
    CONTEXTS.set((contexts, count - 1));
    Some(popped)
}

/// How many objects of each kind live.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Live {
    /// Streams.
    pub streams: usize,
    /// Events.
    pub events: usize,
    /// Graphs.
    pub graphs: usize,
    /// Executable graphs.
    pub execs: usize,
    /// Modules.
    pub modules: usize,
    /// Ranges of memory, of the device and of the host.
    pub allocations: usize,
    /// How often the context is retained.
    pub contexts: usize,
}

/// How a call holds the lock of the context.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// Not at all.
    Free,
    /// Together with others.
    Shared,
    /// Alone.
    Alone,
}

/// The state, for a moment.
pub fn state() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

thread_local! {
    /// How many calls this thread was told the outcome of.
    pub static CALLS: Cell<u64> = const { Cell::new(0) };
}

/// What the outcome is to a caller in C.
pub fn told(outcome: Outcome) -> CUresult {
    CALLS.set(CALLS.get() + 1);
    outcome.err().unwrap_or(CUresult::CUDA_SUCCESS)
}

/// A call that needs a context: checks that there is one which works, takes its lock, and does `work`.
pub fn call(how: How, work: impl FnOnce(&mut State) -> Outcome) -> CUresult {
    let checked = state().check();
    if checked.is_err() {
        return told(checked);
    }
    let held = match how {
        How::Free => None,
        How::Shared => Some((LOCK.share(), settings().launch)),
        How::Alone => Some((LOCK.alone(), settings().alone)),
    };
    if let Some((_, time)) = &held {
        spend(*time);
    }
    let mut state = state();
    told(state.check().and_then(|()| work(&mut state)))
}

impl State {
    /// A handle that nothing had before.
    pub fn handle(&mut self) -> Handle {
        self.last += 0x100;
        self.last
    }

    /// Fails without a context of this thread that works.
    pub fn check(&self) -> Outcome {
        if !self.started {
            return Err(CUresult::CUDA_ERROR_NOT_INITIALIZED);
        }
        match current_context() {
            None | Some(0) => return Err(CUresult::CUDA_ERROR_INVALID_CONTEXT),
            Some(context) if context != self.context || self.retained == 0 => {
                return Err(CUresult::CUDA_ERROR_CONTEXT_IS_DESTROYED);
            }
            Some(_) => {}
        }
        self.lost.map_or(Ok(()), Err)
    }

    /// How much there is.
    pub fn live(&self) -> Live {
        Live {
            streams: self.streams.values().filter(|one| !one.destroyed).count(),
            events: self.events.len(),
            graphs: self.graphs.len(),
            execs: self.execs.len(),
            modules: self.modules.len(),
            allocations: self.memory.count(),
            contexts: self.retained,
        }
    }

    /// Ends the context, with all that was made in it. Nothing runs any more.
    pub fn end_context(&mut self) {
        self.context = 0;
        self.streams.clear();
        self.events.clear();
        self.graphs.clear();
        self.execs.clear();
        self.modules.clear();
        self.functions.clear();
        self.captures.clear();
        self.memory.clear();
    }
}
