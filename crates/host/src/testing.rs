//! What the tests of this crate have in common.

use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::thread::ThreadId;
use std::time::Duration;

use streampool_device::{
    DType, Device, HostSlice, Interval, Layout, Memory, Op, Program, Queue, QueueOptions, Space,
    Span, Trace, View,
};

use crate::{HostDevice, HostOptions};

/// Longer than anything here takes, unless it hangs.
pub(crate) const FOREVER: Duration = Duration::from_secs(60);

/// Memory that goes back to its device.
pub(crate) struct Buffer {
    device: Arc<HostDevice>,
    memory: Option<Memory>,
    elements: usize,
}

pub(crate) fn device(threads: usize) -> Arc<HostDevice> {
    HostDevice::new(HostOptions::default().threads(threads).capacity(1 << 30)).unwrap()
}

pub(crate) fn queue(device: &HostDevice, index: u32) -> Box<dyn Queue> {
    let label = format!("queue {index}");
    let options = QueueOptions {
        label,
        index,
        ..QueueOptions::default()
    };
    device.create_queue(options).unwrap()
}

impl Buffer {
    /// `elements` floats.
    pub(crate) fn new(device: &Arc<HostDevice>, elements: usize) -> Buffer {
        Buffer {
            memory: Some(device.allocate(elements * 4, Space::Device).unwrap()),
            device: Arc::clone(device),
            elements,
        }
    }

    /// Exactly the bytes of the floats.
    pub(crate) fn span(&self) -> Span {
        let whole = self.memory.as_ref().unwrap().span();
        whole.part(0, self.elements * 4).unwrap()
    }

    pub(crate) fn view(&self) -> View {
        let layout = Layout::contiguous(&[self.elements]).unwrap();
        View::new(self.span(), DType::F32, layout).unwrap()
    }

    pub(crate) fn fill(&self, value: f32) -> Op {
        Op::Fill {
            dst: self.view(),
            value: value.into(),
        }
    }

    pub(crate) fn copy_from(&self, other: &Buffer) -> Op {
        Op::Copy {
            src: other.view(),
            dst: self.view(),
        }
    }

    /// The contents, after everything on `queue`.
    pub(crate) fn read(&self, queue: &mut dyn Queue) -> Vec<f32> {
        let mut values = vec![0f32; self.elements];
        let into = HostSlice {
            pointer: values.as_mut_ptr().cast(),
            bytes: self.elements * 4,
        };
        // SAFETY: the buffer and the vector outlive the wait, and the tests touch neither meanwhile.
        let tick = unsafe { queue.download(self.span(), into).unwrap() };
        queue.progress().wait(tick, None).unwrap();
        values
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if let Some(memory) = self.memory.take() {
            // SAFETY: tests drop buffers after the work that names them is over.
            unsafe { self.device.free(memory) };
        }
    }
}

/// Encodes an op whose buffers the test keeps until it is over.
pub(crate) fn encode(queue: &mut dyn Queue, op: &Op) -> u64 {
    // SAFETY: tests keep buffers alive and order what conflicts.
    unsafe { queue.encode(op).unwrap() }
}

/// Ends a capture without constants.
pub(crate) fn end_capture(queue: &mut dyn Queue, slots: &[Span]) -> Arc<dyn Program> {
    // SAFETY: there are no constants.
    unsafe { queue.end_capture(slots, &[]).unwrap() }
}

/// Tells which thread executed what.
pub(crate) struct Spy(pub(crate) Sender<(ThreadId, Interval)>);

impl Trace for Spy {
    fn op(&self, interval: Interval) {
        // A test that is over listens no more.
        let _ = self.0.send((std::thread::current().id(), interval));
    }
}
