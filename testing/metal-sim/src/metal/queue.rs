//! `MTLCommandQueue`.

use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};

use super::command_buffer;
use super::committed::{Lane, Queue};
use super::device::Device;
use super::residency::{self, ResidencySet};
use crate::foundation::{NSOBJECT, autoreleased_string, text};
use crate::lock::lock;
use crate::method;
use crate::report::{Rule, violation};
use crate::runtime::{Body, Class, Definition, Id, Strong};
use crate::settings::{Refusal, is_refused, settings};

pub(super) static QUEUE: Class = Class::fixed(c"_Imitation_CommandQueue", Some(&NSOBJECT), define);

impl Body for Queue {}

impl Drop for Queue {
    fn drop(&mut self) {
        self.lane.close();
    }
}

pub(super) fn new(device: &Arc<Device>, most: usize) -> Id {
    if is_refused(Refusal::Queue) {
        return Id::NULL;
    }
    QUEUE.instance(Queue {
        device: Arc::clone(device),
        lane: Lane::open(),
        most,
        error: OnceLock::new(),
        there: Mutex::new(0),
        left: Condvar::new(),
        label: Mutex::default(),
        sets: Mutex::default(),
    })
}

impl Queue {
    pub fn label(&self) -> String {
        lock(&self.label).clone()
    }

    pub fn name(&self) -> String {
        format!("queue '{}'", lock(&self.label))
    }

    /// Waits until there is room for one more command buffer.
    fn enter(&self) {
        let longest = settings().longest_wait;
        let there = lock(&self.there);
        let waited = self
            .left
            .wait_timeout_while(there, longest, |there| *there >= self.most);
        let (mut there, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
        *there += 1;
        if timeout.timed_out() {
            drop(there);
            let what = format!(
                "{} has {} command buffers and none of them comes to its end",
                self.name(),
                self.most
            );
            violation(Rule::BuffersInFlight, what);
        }
    }

    /// A command buffer is completed, or freed without being committed.
    pub fn leave(&self) {
        *lock(&self.there) -= 1;
        self.left.notify_one();
    }
}

fn command_buffer_of(queue: &Arc<Queue>, retains: bool) -> Id {
    if is_refused(Refusal::CommandBuffer) {
        return Id::NULL;
    }
    queue.enter();
    command_buffer::new(queue, retains)
}

fn define(class: &Definition) {
    method!(class, "commandBuffer", |this: Queue| -> Id {
        command_buffer_of(this.body(), true)
    });
    method!(
        class,
        "commandBufferWithUnretainedReferences",
        |this: Queue| -> Id { command_buffer_of(this.body(), false) }
    );
    method!(class, "setLabel:", |this: Queue, label: Id| {
        *lock(&this.label) = text(label).unwrap_or_default()
    });
    method!(class, "label", |this: Queue| -> Id {
        autoreleased_string(&lock(&this.label))
    });
    method!(class, "addResidencySet:", |this: Queue, set: Id| {
        if set.body_if::<ResidencySet>().is_none() {
            return violation(
                Rule::Argument,
                "addResidencySet of what is no residency set".to_owned(),
            );
        }
        let mut sets = lock(&this.sets);
        if sets.len() == residency::MOST_SETS {
            return violation(
                Rule::Residency,
                format!("a queue has {} residency sets", sets.len()),
            );
        }
        sets.push(Strong::new(set));
    });
    method!(class, "removeResidencySet:", |this: Queue, set: Id| {
        lock(&this.sets).retain(|other| other.id() != set)
    });
}
