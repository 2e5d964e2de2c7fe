//! What a test stands on: memory and queues that are waited for before anything is freed.

#![expect(unsafe_code, reason = "gives memory back to the device")]

use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use streampool_device::{
    DType, Device, Element, Event, Layout, Memory, MemoryUse, Op, OpKind, QueueOptions, Space,
    Span, View,
};

use crate::lane::{Appended, Lane};
use crate::patience::{locked, patience};
use crate::subject::{Subject, skip};

/// The device of one test, with everything that was allocated and appended for it.
pub struct Fixture {
    subject: Subject,
    before: MemoryUse,
    memories: Mutex<Vec<Memory>>,
    lanes: Mutex<Vec<Arc<Appended>>>,
    next_index: AtomicU32,
    drawn: AtomicUsize,
}

impl Fixture {
    pub(crate) fn new(subject: Subject) -> Fixture {
        Fixture {
            before: subject.device.memory_use(),
            subject,
            memories: Mutex::default(),
            lanes: Mutex::default(),
            next_index: AtomicU32::new(0),
            drawn: AtomicUsize::new(0),
        }
    }

    pub(crate) fn device(&self) -> &Arc<dyn Device> {
        &self.subject.device
    }

    /// The second device; without one, says why the test is skipped.
    pub(crate) fn other(&self) -> Option<&Arc<dyn Device>> {
        if self.subject.other.is_none() {
            skip("no second device was given");
        }
        self.subject.other.as_ref()
    }

    /// Whether the device computes in `dtype`.
    pub(crate) fn has(&self, dtype: DType) -> bool {
        !self.subject.lacks.contains(&dtype)
    }

    /// Those of `types` that the device computes in.
    pub(crate) fn of<const N: usize>(&self, types: [DType; N]) -> impl Iterator<Item = DType> {
        types.into_iter().filter(|&dtype| self.has(dtype))
    }

    /// Whether the device may refuse `op` for a type that it computes in.
    pub(crate) fn may_refuse(&self, op: &Op) -> bool {
        let mut lacking = match op {
            Op::Map { expr, .. } => expr.nodes().iter().any(|(_, dtype)| !self.has(*dtype)),
            _ => false,
        };
        op.for_each_operand(|_, _, view| lacking |= !self.has(view.dtype()));
        lacking || (self.subject.refuses)(op)
    }

    /// Whether the op that was drawn now is one of those that are tried.
    pub(crate) fn tries(&self) -> bool {
        let before = self.drawn.fetch_add(1, Ordering::Relaxed);
        before.is_multiple_of(self.subject.each)
    }

    /// Whether faults can be made; without a way, says why the test is skipped.
    pub(crate) fn can_fault(&self) -> bool {
        if self.subject.arm_fault.is_none() {
            skip("no way to make this device fail was given");
        }
        self.subject.arm_fault.is_some()
    }

    /// Makes the next command of `lane`, which must be idle, fail.
    pub(crate) fn arm_fault(&self, lane: &Lane) {
        let arm = self
            .subject
            .arm_fault
            .as_ref()
            .expect("can_fault was asked");
        arm(self.device(), lane.index());
    }

    /// Whether the device executes `op`; if not, says why the test is skipped.
    pub(crate) fn supports(&self, op: OpKind) -> bool {
        let supported = self.device().supports(op);
        if !supported {
            skip(&format!(
                "{} does not support {op}",
                self.device().properties().name
            ));
        }
        supported
    }

    /// A queue with an index of its own.
    pub(crate) fn lane(&self) -> Lane {
        let index = self.next_index.fetch_add(1, Ordering::Relaxed);
        let options = QueueOptions {
            label: format!("lane-{index}"),
            index,
            ..QueueOptions::default()
        };
        let queue = self
            .device()
            .create_queue(options)
            .expect("a queue can be made");
        let lane = Lane::new(queue, index);
        locked(&self.lanes).push(Arc::clone(lane.appended()));
        lane
    }

    pub(crate) fn lanes(&self, count: usize) -> Vec<Lane> {
        (0..count).map(|_| self.lane()).collect()
    }

    pub(crate) fn event(&self) -> Box<dyn Event> {
        self.device()
            .create_event(false)
            .expect("an event can be made")
    }

    pub(crate) fn timed_event(&self) -> Box<dyn Event> {
        self.device()
            .create_event(true)
            .expect("an event with timing can be made")
    }

    /// Device memory that lives as long as the fixture.
    pub(crate) fn span(&self, bytes: usize) -> Span {
        self.span_in(bytes, Space::Device)
    }

    pub(crate) fn span_in(&self, bytes: usize, space: Space) -> Span {
        let memory = self
            .device()
            .allocate(bytes.max(1), space)
            .expect("there is memory for a test");
        let span = memory
            .span()
            .part(0, bytes)
            .expect("it is as long as asked");
        locked(&self.memories).push(memory);
        span
    }

    /// Row-major elements in memory of their own.
    pub(crate) fn tensor<T: Element>(&self, shape: &[usize]) -> View {
        let layout = Layout::contiguous(shape).expect("the shape is small");
        let span = self.span(layout.elements() * T::DTYPE.size());
        View::new(span, T::DTYPE, layout).expect("it fits")
    }

    /// Frees everything and asserts that the device counts it so.
    pub(crate) fn finish(self) {
        self.release();
        assert_eq!(
            self.device().memory_use(),
            self.before,
            "the memory in use is back where it began"
        );
    }

    fn release(&self) {
        let over = locked(&self.lanes)
            .drain(..)
            .all(|lane| lane.is_over(patience()));
        if !over {
            eprintln!("work is still going on: its memory is leaked");
            locked(&self.memories).drain(..).for_each(std::mem::forget);
            return;
        }
        for memory in locked(&self.memories).drain(..) {
            // SAFETY: it was allocated here, is taken out of the list once, and every command of every
            // lane of this fixture is over; the programs of the test are not replayed after it.
            unsafe { self.device().free(memory) };
        }
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        self.release();
    }
}

/// Tests one promise on a device, or prints why it cannot.
pub fn run(opened: Result<Subject, String>, promise: fn(&Fixture)) {
    match opened {
        Ok(subject) => {
            let fixture = Fixture::new(subject);
            promise(&fixture);
            fixture.finish();
        }
        Err(reason) => skip(&reason),
    }
}
