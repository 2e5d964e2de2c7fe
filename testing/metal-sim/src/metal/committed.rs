//! What is committed: a queue's lane has work, work is of a command buffer, and that is of a queue. What each does is in
//! `queue.rs`, `gpu.rs` and `command_buffer.rs`.

use std::collections::VecDeque;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Condvar, Mutex, OnceLock};

use super::device::Device;
use super::event::Event;
use super::pass::Pass;
use super::resource::InFlight;
use crate::runtime::{Block, Id, Strong};

pub(super) struct Queue {
    pub device: Arc<Device>,
    pub lane: Arc<Lane>,
    pub most: usize,
    /// The code of the first command buffer that failed: from then on each fails with it.
    pub error: OnceLock<isize>,
    /// Command buffers that are neither completed nor freed.
    pub there: Mutex<usize>,
    pub left: Condvar,
    pub label: Mutex<String>,
    pub sets: Mutex<Vec<Strong>>,
}

pub(super) enum Step {
    Pass(Pass),
    Wait(Arc<Event>, u64),
    Signal(Arc<Event>, u64),
    /// Of a command buffer, whose object was retained for as long.
    End(Id),
}

/// A step of a command buffer, and its place there.
pub(super) struct Work {
    pub commands: Arc<CommandBuffer>,
    pub place: usize,
    pub step: Step,
}

/// What a queue has committed.
#[derive(Default)]
pub(super) struct Lane {
    pub state: Mutex<Ahead>,
    pub changed: Condvar,
}

#[derive(Default)]
pub(super) struct Ahead {
    pub work: VecDeque<Work>,
    pub closed: bool,
}

/// `MTLCommandBufferStatus`
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd)]
#[repr(usize)]
pub(super) enum Status {
    NotEnqueued = 0,
    Committed = 2,
    Scheduled = 3,
    Completed = 4,
    Error = 5,
}

pub(super) struct CommandBuffer {
    pub queue: Arc<Queue>,
    /// The object, which lives at least as long as anything is encoded or committed.
    pub id: OnceLock<Id>,
    pub retains: bool,
    pub is_in_use: AtomicBool,
    pub state: Mutex<State>,
    pub handled: Condvar,
}

/// A call that uses a command buffer or its encoder: there is one at a time.
pub(super) struct Turn<'a>(pub &'a CommandBuffer);

#[derive(Default)]
pub(super) struct State {
    pub status: Option<Status>,
    pub has_open_encoder: bool,
    /// Whether the driver has still to end an encoder for which it was asked to.
    pub is_ending: bool,
    pub steps: Vec<Step>,
    pub in_flight: Vec<InFlight>,
    pub handlers: Vec<Block>,
    pub failed: Option<isize>,
    /// How often the GPU had been set up anew when it was committed.
    pub resets: usize,
    /// What goes wrong, and before which step.
    pub planned: Option<(usize, isize)>,
    pub is_handled: bool,
    pub started: f64,
    pub ended: f64,
    pub label: String,
}
