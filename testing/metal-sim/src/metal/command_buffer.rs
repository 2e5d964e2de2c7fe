//! `MTLCommandBuffer`: what is encoded, until it is committed and the GPU has run it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::thread;

use super::committed::{CommandBuffer, Queue, State, Status, Step, Turn, Work};
use super::encoder::race;
use super::event::Event;
use super::pass::Pass;
use super::resource::{InFlight, Resource};
use super::values::failure;
use super::{blit, compute, handlers};
use crate::foundation::{NSOBJECT, autoreleased_string, error, text};
use crate::lock::lock;
use crate::report::{Rule, violation};
use crate::runtime::{Block, Body, Class, Definition, Id, autorelease};
use crate::settings::{change, settings};
use crate::{chance, method};

pub(super) static COMMAND_BUFFER: Class =
    Class::fixed(c"_Imitation_CommandBuffer", Some(&NSOBJECT), define);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        if chance::one_in(32) {
            thread::yield_now();
        }
        self.0.is_in_use.store(false, Ordering::Release);
    }
}

impl State {
    fn status(&self) -> Status {
        self.status.unwrap_or(Status::NotEnqueued)
    }

    /// Whether it keeps the screen waiting until it is killed.
    fn is_too_long(&self) -> bool {
        let Some(most) = settings().watchdog else {
            return false;
        };
        let threads = self.steps.iter().map(|step| match step {
            Step::Pass(pass) => pass.threads(),
            _ => 0,
        });
        threads.fold(0, u64::saturating_add) > most
    }
}

impl Body for CommandBuffer {
    fn freed(&self) {
        self.end_encoder();
        if lock(&self.state).has_open_encoder {
            violation(
                Rule::EndEncoding,
                format!("{} is released with an open encoder", self.name()),
            );
        }
        if lock(&self.state).status() == Status::NotEnqueued {
            self.queue.leave();
        }
        self.let_go();
    }
}

/// A command buffer that the innermost pool holds.
pub(super) fn new(queue: &Arc<Queue>, retains: bool) -> Id {
    let commands = Arc::new(CommandBuffer {
        queue: Arc::clone(queue),
        id: OnceLock::new(),
        retains,
        is_in_use: AtomicBool::new(false),
        state: Mutex::default(),
        handled: Condvar::new(),
    });
    let id = COMMAND_BUFFER.instance_with(Arc::clone(&commands));
    commands.id.get_or_init(|| id);
    autorelease(id)
}

impl CommandBuffer {
    pub fn name(&self) -> String {
        format!(
            "command buffer '{}' of {}",
            lock(&self.state).label,
            self.queue.name()
        )
    }

    pub fn turn(&self, what: &str) -> Turn<'_> {
        if self.is_in_use.swap(true, Ordering::AcqRel) {
            violation(
                Rule::OneThread,
                format!("{what} on {} while another thread uses it", self.name()),
            );
        }
        Turn(self)
    }

    /// What it names need not live any longer.
    fn let_go(&self) {
        let named = std::mem::take(&mut lock(&self.state).in_flight);
        drop(named);
    }

    /// Whether more may be added: it is neither committed nor is an encoder open.
    fn is_open_for(&self, what: &str) -> bool {
        let (status, has_open_encoder) = {
            let state = lock(&self.state);
            (state.status(), state.has_open_encoder)
        };
        if status != Status::NotEnqueued {
            violation(
                Rule::EncodeAfterCommit,
                format!("{what} on {}, which is committed", self.name()),
            );
        } else if has_open_encoder {
            violation(
                Rule::OneEncoder,
                format!("{what} on {} while an encoder is open", self.name()),
            );
        } else {
            return true;
        }
        false
    }

    pub fn is_committed(&self) -> bool {
        lock(&self.state).status() != Status::NotEnqueued
    }

    /// Marks that an encoder is open; says whether it may be.
    pub fn open_encoder(&self) -> bool {
        race();
        let _turn = self.turn("an encoder is made");
        let open = self.is_open_for("an encoder is made");
        lock(&self.state).has_open_encoder |= open;
        open
    }

    pub fn close_encoder(&self, pass: Option<Pass>) {
        let mut state = lock(&self.state);
        state.has_open_encoder = false;
        state.is_ending = true;
        state.steps.extend(pass.map(Step::Pass));
    }

    /// Where the driver comes to the end of an encoder at last: it keeps the last one to go on with it, until there is
    /// another, or something else is encoded, or the command buffer is committed or freed.
    fn end_encoder(&self) {
        if std::mem::take(&mut lock(&self.state).is_ending) {
            race();
        }
    }

    /// Something is named that has to live until it is completed.
    pub fn names(&self, resource: Arc<impl Resource>) {
        if !self.retains {
            lock(&self.state).in_flight.push(InFlight::new(resource));
        }
    }

    fn encode_event(&self, what: &str, event: Id, step: impl FnOnce(Arc<Event>) -> Step) {
        let Some(event) = event.body_if::<Event>() else {
            return violation(
                Rule::Argument,
                format!("{what} without an event that lives"),
            );
        };
        let _turn = self.turn(what);
        self.end_encoder();
        if self.is_open_for(what) {
            self.names(Arc::clone(&event));
            lock(&self.state).steps.push(step(event));
        }
    }

    fn commit(self: &Arc<Self>) {
        let _turn = self.turn("commit");
        self.end_encoder();
        if self.is_committed() {
            return violation(
                Rule::CommitOnce,
                format!("{} is committed again", self.name()),
            );
        }
        if lock(&self.state).has_open_encoder {
            violation(
                Rule::EndEncoding,
                format!("{} is committed with an open encoder", self.name()),
            );
        }
        self.queue.device.in_flight.fetch_add(1, Ordering::AcqRel);
        self.check_limit();
        let id = self.id.get().copied().unwrap_or(Id::NULL).retain();
        handlers::count_committed();
        let label = self.queue.label();
        let planned = change(|settings| {
            let mut failures = settings.failures.iter();
            let at = failures.position(|failure| failure.queue == label);
            at.map(|at| settings.failures.remove(at))
        });
        let mut steps = {
            let mut state = lock(&self.state);
            state.status = Some(Status::Committed);
            state.resets = self.queue.device.resets.load(Ordering::Acquire);
            let places = state.steps.len() + 1;
            state.planned = match planned {
                Some(failure) if failure.somewhere => Some((chance::below(places), failure.code)),
                Some(failure) => Some((0, failure.code)),
                None => state
                    .is_too_long()
                    .then(|| (chance::below(places), failure::IMPACTING_INTERACTIVITY)),
            };
            std::mem::take(&mut state.steps)
        };
        let queue = Arc::as_ptr(&self.queue).addr();
        for step in &mut steps {
            if let Step::Pass(pass) = step {
                let hazards = &self.queue.device.hazards;
                pass.place = Some(hazards.enter(queue, &pass.accesses));
            }
        }
        let work = |(place, step)| Work {
            commands: Arc::clone(self),
            place,
            step,
        };
        let end = (steps.len(), Step::End(id));
        self.queue
            .lane
            .append(steps.into_iter().enumerate().chain([end]).map(work));
    }

    /// Breaks like a driver that does not bear many command buffers in flight.
    fn check_limit(&self) {
        let in_flight = self.queue.device.in_flight.load(Ordering::Acquire);
        let most = settings().most_in_flight;
        if most.is_some_and(|most| in_flight > most) {
            violation(
                Rule::DeviceInFlight,
                format!("{in_flight} command buffers of the device are in flight"),
            );
        }
    }

    /// Called by the GPU before a step: says whether it is to be executed.
    pub fn begin_step(&self, place: usize) -> bool {
        let lost = settings().lost;
        let now = self.queue.device.now();
        let mut state = lock(&self.state);
        if state.status() == Status::Committed {
            state.status = Some(Status::Scheduled);
            state.started = now;
        }
        if lost {
            state.failed = Some(failure::DEVICE_REMOVED);
        } else if let Some(code) = self.queue.error.get() {
            state.failed.get_or_insert(*code);
        } else if let Some((from, code)) = state.planned
            && place >= from
        {
            self.fail_at(&mut state, code);
        } else if state.resets != self.queue.device.resets.load(Ordering::Acquire) {
            state.failed.get_or_insert(failure::INNOCENT_VICTIM);
        }
        state.failed.is_none()
    }

    /// Called by the GPU where a step goes wrong.
    pub fn fail(&self, code: isize) {
        self.fail_at(&mut lock(&self.state), code);
    }

    fn fail_at(&self, state: &mut State, code: isize) {
        if state.failed.is_none() {
            state.failed = Some(code);
            if settings().victims {
                self.queue.device.resets.fetch_add(1, Ordering::AcqRel);
            }
        }
    }

    /// Called by the GPU after all steps.
    pub fn complete(self: Arc<Self>, id: Id) {
        self.let_go();
        let handlers = {
            let mut state = lock(&self.state);
            state.status = Some(match state.failed {
                Some(code) => {
                    // It was seen to stay in error.
                    self.queue.error.get_or_init(|| code);
                    Status::Error
                }
                None => Status::Completed,
            });
            state.ended = self.queue.device.now();
            std::mem::take(&mut state.handlers)
        };
        self.queue.device.in_flight.fetch_sub(1, Ordering::AcqRel);
        self.queue.leave();
        handlers::call(self, id, handlers);
    }

    /// Called when the handlers have returned.
    pub fn set_handled(&self) {
        lock(&self.state).is_handled = true;
        self.handled.notify_all();
    }

    fn wait(self: &Arc<Self>) {
        if !self.is_committed() || handlers::is_called_for(self) {
            return violation(
                Rule::WaitNeedsCommit,
                format!("a wait for {} that never ends", self.name()),
            );
        }
        let mut state = lock(&self.state);
        while !state.is_handled {
            state = self
                .handled
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }
}

fn define(class: &Definition) {
    method!(
        class,
        "computeCommandEncoder",
        |this: CommandBuffer| -> Id { compute::new(this.body(), false) }
    );
    method!(
        class,
        "computeCommandEncoderWithDispatchType:",
        |this: CommandBuffer, kind: usize| -> Id { compute::new(this.body(), kind == 1) }
    );
    method!(class, "blitCommandEncoder", |this: CommandBuffer| -> Id {
        blit::new(this.body())
    });
    method!(
        class,
        "encodeSignalEvent:value:",
        |this: CommandBuffer, event: Id, value: u64| {
            this.encode_event("a signal", event, |event| Step::Signal(event, value));
        }
    );
    method!(
        class,
        "encodeWaitForEvent:value:",
        |this: CommandBuffer, event: Id, value: u64| {
            this.encode_event("a wait", event, |event| Step::Wait(event, value));
        }
    );
    method!(
        class,
        "addCompletedHandler:",
        |this: CommandBuffer, handler: Id| {
            let _turn = this.turn("addCompletedHandler");
            if this.is_committed() {
                return violation(
                    Rule::HandlerAfterCommit,
                    format!("a handler for {}", this.name()),
                );
            }
            if !this.is_open_for("a handler") {
                return;
            }
            match Block::keep(handler) {
                Some(handler) => lock(&this.state).handlers.push(handler),
                None => violation(Rule::Argument, "a handler that is no block".to_owned()),
            }
        }
    );
    method!(class, "commit", |this: CommandBuffer| {
        this.body().commit()
    });
    method!(class, "waitUntilCompleted", |this: CommandBuffer| {
        this.body().wait()
    });
    method!(class, "status", |this: CommandBuffer| -> usize {
        lock(&this.state).status() as usize
    });
    method!(class, "error", |this: CommandBuffer| -> Id {
        let (status, failed) = {
            let state = lock(&this.state);
            (state.status(), state.failed)
        };
        match failed {
            Some(code) if status == Status::Error => {
                let what = format!("{} failed with code {code} (imitated)", this.name());
                autorelease(error("MTLCommandBufferErrorDomain", code, &what))
            }
            _ => Id::NULL,
        }
    });
    method!(class, "retainedReferences", |this: CommandBuffer| -> u8 {
        u8::from(this.retains)
    });
    method!(class, "GPUStartTime", |this: CommandBuffer| -> f64 {
        lock(&this.state).started
    });
    method!(class, "GPUEndTime", |this: CommandBuffer| -> f64 {
        lock(&this.state).ended
    });
    method!(class, "setLabel:", |this: CommandBuffer, label: Id| {
        lock(&this.state).label = text(label).unwrap_or_default();
    });
    method!(class, "label", |this: CommandBuffer| -> Id {
        let label = lock(&this.state).label.clone();
        autoreleased_string(&label)
    });
}
