//! The objects of the driver: what each holds. What is done with them is said in the files named for that.

use std::collections::{BTreeMap, VecDeque};
use std::ffi::CString;
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use streampool_emulated::cuda::Kernel;

use crate::handle::Handle;
use crate::memory::Place;

/// As the driver numbers the modes of captures and of threads.
pub const GLOBAL: u32 = 0;
pub const RELAXED: u32 = 2;

/// A capture under way.
pub struct Capture {
    pub mode: u32,
    pub thread: u64,
    /// The stream on which it was begun, and has to end.
    pub origin: Handle,
    pub nodes: Vec<Node>,
    pub invalid: bool,
    /// For each stream that takes part: how much of each of them comes before what it does next.
    pub clocks: BTreeMap<Handle, BTreeMap<Handle, u64>>,
}

/// A stream: commands in order.
pub struct Stream {
    pub commands: VecDeque<Command>,
    pub running: bool,
    pub appended: u64,
    pub completed: u64,
    pub priority: i32,
    /// When it had its last turn.
    pub served: u64,
    pub destroyed: bool,
    /// The capture that its commands go to.
    pub capture: Option<Handle>,
}

/// One recording of an event: when the stream came to it.
#[derive(Default)]
pub struct Recording(pub OnceLock<Instant>);

/// An event.
pub struct Event {
    pub timing: bool,
    pub latest: Latest,
}

/// What an event stands for now.
pub enum Latest {
    Never,
    Recorded(Arc<Recording>),
    /// A point of a capture: what each of its streams had appended that comes before it.
    Captured(Handle, BTreeMap<Handle, u64>),
}

/// Whose turn it is among the launches of an executable graph.
pub type Turns = Arc<AtomicU64>;

/// What a stream does next.
pub enum Command {
    Work(Work),
    Record(Arc<Recording>),
    Wait(Arc<Recording>),
    Graph(Turns, u64, Vec<Work>),
    Free(usize),
}

/// What takes a thread of the GPU.
pub enum Work {
    Copy(Copy),
    Kernel(Run),
    /// A kernel that is given memory which nobody ever allocated.
    Astray,
    /// The time of an event.
    Note(Arc<Recording>),
}

/// A copy of bytes, and what it keeps.
pub struct Copy {
    pub to: usize,
    pub from: usize,
    pub bytes: usize,
    /// What is copied instead of what is at `from`.
    pub staged: Option<Vec<u8>>,
    /// The ranges of memory, which stay as long as this.
    pub _kept: [Option<Place>; 2],
}

/// A launch of a kernel, and what it keeps.
pub struct Run {
    pub function: Arc<Function>,
    pub groups: [u32; 3],
    pub threads: [u32; 3],
    pub operands: Vec<Place>,
    pub params: Vec<u64>,
}

/// Nodes, each after all that it depends on: they are made in such an order.
#[derive(Clone)]
pub struct Graph(pub Vec<Node>);

/// A node of a graph, which its executables know by the same handle.
#[derive(Clone)]
pub struct Node {
    pub handle: Handle,
    /// What it depends on.
    pub after: Vec<Handle>,
    pub task: Task,
}

/// What a node does.
#[derive(Clone)]
pub enum Task {
    Copy {
        to: usize,
        from: usize,
        bytes: usize,
    },
    Launch(Launch),
    Child(Vec<Node>),
    /// An event to record.
    Record(Handle),
    /// Bytes to the device that were taken when the copy was asked for.
    Staged {
        to: usize,
        bytes: Vec<u8>,
    },
}

/// A kernel and what it is given.
#[derive(Clone)]
pub struct Launch {
    pub function: Handle,
    pub groups: [u32; 3],
    pub threads: [u32; 3],
    pub operands: Vec<usize>,
    pub params: Vec<u64>,
}

/// A graph that can be launched.
pub struct Exec {
    pub nodes: Vec<Node>,
    pub turns: Turns,
    pub launched: u64,
}

/// Kernels that were loaded together.
pub struct Module(pub Vec<Handle>);

/// A kernel.
pub struct Function {
    pub name: CString,
    /// Without one, it does nothing.
    pub kernel: Option<Kernel>,
    /// The most bytes of shared memory that a launch may bring, once that was asked for.
    pub most_brought: AtomicUsize,
    /// Whether it begins with a wait for what was launched before.
    pub waits: bool,
}
