//! The guard that stands round every call on an encoder or a command buffer: it finds the object's state, lets the call in or refuses it,
//! counts, and tells.
//!
//! A thread that ends an encoder is in its command buffer, too, and gets there first. So a thread that is in an encoder must not wait for a
//! command buffer: who calls the guard sees to that.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::figures::{Figure, Figures};
use super::guarded::{
    Call, Destruction, Destructor, Entry, Guarded, Hold, Holder, Misuse, Purpose, Thread, What,
};
use super::quarantine::{Kept, Quarantine};
use super::registry::{Found, Registry};
use super::settings::Settings;

/// What the guard cannot do itself.
pub trait World {
    /// Destroys an object by its own class's method.
    fn destroy(&self, object: usize, destructor: Destructor);
    /// What time it is.
    fn now(&self) -> Instant;
    /// Tells the user.
    fn say(&self, message: &str);
    /// Ends the process.
    fn abort(&self);
}

/// One for the process.
pub struct Guard<W> {
    /// How it behaves.
    pub settings: Settings,
    /// What it counted.
    pub figures: Figures,
    /// What it does it with.
    pub world: W,
    registry: Registry,
    quarantine: Quarantine,
}

/// A call that is under way.
#[derive(Debug)]
pub struct Pass {
    it: Arc<Guarded>,
    errand: Errand,
    /// The command buffer of which an encoder is ended, and how the thread is in it.
    commands: Option<InCommands>,
}

/// A command buffer that a thread is in because it ends an encoder of it.
#[derive(Debug)]
struct InCommands {
    it: Arc<Guarded>,
    hold: Hold,
}

impl Pass {
    /// Whether the call is on an encoder.
    pub fn is_in_encoder(&self) -> bool {
        self.it.what == What::Encoder
    }
}

#[derive(Debug)]
enum Errand {
    Use { hold: Hold, ends: bool },
    Destroy,
}

/// What is to become of a call.
#[derive(Debug)]
pub enum Verdict {
    /// It is made, and left afterwards.
    Guarded(Pass),
    /// It is made, and belongs to one that is guarded.
    Plain,
    /// It is not made.
    Refused,
}

/// Of what may happen very often, the first so many are told, then every power of two.
const TOLD: u64 = 8;

fn is_told(count: u64) -> bool {
    count <= TOLD || count.is_power_of_two()
}

impl<W: World> Guard<W> {
    /// A guard that knows no encoder yet.
    pub fn new(settings: Settings, world: W) -> Self {
        Guard {
            settings,
            figures: Figures::default(),
            world,
            registry: Registry::new(),
            quarantine: Quarantine::default(),
        }
    }

    /// An object was created, or is about to be initialised.
    pub fn created(&self, thread: Thread, what: What, object: usize) -> Arc<Guarded> {
        let (it, new) = self.registry.created(what, object);
        if new {
            self.figures.add(thread, creations(what), 1);
        }
        it
    }

    /// A command buffer made an encoder in this call.
    pub fn opened(&self, thread: Thread, encoder: usize, pass: &Pass) {
        let it = self.created(thread, What::Encoder, encoder);
        it.set_commands(pass.it.clone());
        pass.it.open(encoder, thread);
    }

    /// An encoder was returned by what may return one that was in use before. Such a one stays ended if it was.
    pub fn shown(&self, thread: Thread, encoder: usize) {
        if self.registry.shown(What::Encoder, encoder).1 {
            self.figures.add(thread, Figure::Created, 1);
        }
    }

    /// A queue made a command buffer.
    pub fn made(&self, thread: Thread, commands: usize, queue: usize) {
        self.created(thread, What::CommandBuffer, commands)
            .set_queue(queue);
    }

    /// A thread is about to ask a queue for a command buffer.
    pub fn before_command_buffer(&self, thread: Thread, queue: usize) {
        self.destroy_kept(thread, Some(queue));
    }

    /// A thread wants to call a method of an object.
    pub fn enter(&self, thread: Thread, what: What, object: usize, call: Call) -> Verdict {
        let it = self.find(thread, what, object);
        let commands = it.commands();
        let is_drivers = commands
            .as_ref()
            .is_some_and(|commands| commands.has_in_it(thread));
        // From within a call on the encoder there is no waiting for the command buffer.
        let gets_there_first = call.purpose == Purpose::End && !is_drivers && !it.has_in_it(thread);
        let commands = commands
            .filter(|_| gets_there_first)
            .and_then(|commands| self.enter_commands(thread, commands, call.name));
        // What the driver does with an encoder in a call on its command buffer, it may do after the end.
        let purpose = if is_drivers {
            Purpose::Other
        } else {
            call.purpose
        };
        let entry = it.enter(
            thread,
            Call { purpose, ..call },
            self.settings.patience(),
            |ahead| {
                self.tell_wait(thread, &it, call.name, ahead);
            },
        );
        match entry {
            Entry::Entered {
                nested,
                hold,
                waited,
                gave_up,
            } => {
                let figure = if nested {
                    Figure::NestedCalls
                } else {
                    Figure::Calls
                };
                self.figures.add(thread, figure, 1);
                self.count_wait(thread, waited);
                if gave_up {
                    self.give_up(thread, &it, call.name, waited);
                }
                let ends = call.purpose == Purpose::End;
                let errand = Errand::Use { hold, ends };
                Verdict::Guarded(Pass {
                    it,
                    errand,
                    commands,
                })
            }
            Entry::Destroying => {
                self.figures.add(thread, Figure::NestedCalls, 1);
                self.leave_commands(thread, commands);
                Verdict::Plain
            }
            Entry::Refused {
                misuse,
                waited,
                destroy,
            } => {
                self.count_wait(thread, waited);
                self.leave_commands(thread, commands);
                self.refuse(thread, &it, call.name, misuse);
                self.destroy_at_last(thread, it, destroy);
                Verdict::Refused
            }
        }
    }

    /// Whether a command buffer is committed, and was not given up.
    pub fn is_committed(&self, commands: usize) -> bool {
        let (it, _) = self.registry.find(What::CommandBuffer, commands);
        it.is_ended() && it.is_there()
    }

    /// Enters the command buffer of which an encoder is about to be ended.
    fn enter_commands(
        &self,
        thread: Thread,
        it: Arc<Guarded>,
        name: &'static str,
    ) -> Option<InCommands> {
        let call = Call {
            name,
            purpose: Purpose::Other,
        };
        let entry = it.enter(thread, call, self.settings.patience(), |ahead| {
            self.tell_wait(thread, &it, name, ahead);
        });
        match entry {
            Entry::Entered {
                hold,
                waited,
                gave_up,
                ..
            } => {
                self.count_wait(thread, waited);
                if gave_up {
                    self.give_up(thread, &it, name, waited);
                }
                Some(InCommands { it, hold })
            }
            // There is no such command buffer any more.
            Entry::Destroying | Entry::Refused { .. } => None,
        }
    }

    fn leave_commands(&self, thread: Thread, commands: Option<InCommands>) {
        if let Some(InCommands { it, hold }) = commands {
            let exit = it.leave(thread, hold, false);
            self.destroy_at_last(thread, it, exit.destroy);
        }
    }

    /// A thread comes back from a call.
    pub fn leave(&self, thread: Thread, pass: Pass) {
        let Pass {
            it,
            errand,
            commands,
        } = pass;
        match errand {
            Errand::Use { hold, ends } => {
                let exit = it.leave(thread, hold, ends);
                if exit.ended {
                    self.figures.add(thread, ends_of(it.what), 1);
                    close(&it);
                }
                self.destroy_at_last(thread, it, exit.destroy);
            }
            Errand::Destroy => self.destroyed(thread, it),
        }
        self.leave_commands(thread, commands);
    }

    /// A call was left by an exception or a jump: nobody comes back from it, and what it was to do is not done.
    pub fn abandon(&self, thread: Thread, mut pass: Pass) {
        self.figures.add(thread, Figure::Abandoned, 1);
        if let Errand::Use { ends, .. } = &mut pass.errand {
            *ends = false;
        }
        self.leave(thread, pass);
    }

    /// The last reference to an object was given up: its destructor is about to be called.
    pub fn destroy(
        &self,
        thread: Thread,
        what: What,
        object: usize,
        destructor: Destructor,
    ) -> Verdict {
        let it = self.find(thread, what, object);
        match it.destroy(thread, destructor) {
            Destruction::Now => {
                if self.keep(thread, &it, destructor) {
                    return Verdict::Refused;
                }
                let errand = Errand::Destroy;
                Verdict::Guarded(Pass {
                    it,
                    errand,
                    commands: None,
                })
            }
            Destruction::UnderWay => Verdict::Plain,
            Destruction::Deferred => {
                self.figures.add(thread, Figure::Deferred, 1);
                if self.settings.verbose && is_told(self.figures.sum(Figure::Deferred)) {
                    self.world.say(&format!(
                        "{} {object:#x} was given up by thread {} with a call in it, and lives until that is done",
                        what.name(),
                        thread.0
                    ));
                }
                Verdict::Refused
            }
            Destruction::Again => {
                self.refuse(thread, &it, "dealloc", Misuse::AfterDestruction);
                Verdict::Refused
            }
        }
    }

    /// Keeps an object that this thread is to destroy, if it is an encoder that is ended.
    fn keep(&self, thread: Thread, it: &Arc<Guarded>, destructor: Destructor) -> bool {
        let keeps = it.what == What::Encoder && it.is_ended();
        if keeps {
            it.keep();
            self.figures.add(thread, Figure::Kept, 1);
            self.quarantine.keep(Kept {
                since: self.world.now(),
                encoder: it.clone(),
                destructor,
            });
            self.destroy_kept(thread, None);
        }
        keeps
    }

    /// Destroys what need not be kept any longer.
    fn destroy_kept(&self, thread: Thread, queue: Option<usize>) {
        for kept in self.quarantine.over(self.world.now(), queue) {
            kept.encoder.destroy_kept(thread);
            self.world.destroy(kept.encoder.object, kept.destructor);
            self.destroyed(thread, kept.encoder);
        }
    }

    fn find(&self, thread: Thread, what: What, object: usize) -> Arc<Guarded> {
        let (it, found) = self.registry.find(what, object);
        if found == Found::Unannounced {
            self.figures.add(thread, Figure::Unannounced, 1);
        }
        it
    }

    fn count_wait(&self, thread: Thread, waited: Option<Duration>) {
        if let Some(waited) = waited {
            let nanoseconds = u64::try_from(waited.as_nanos()).unwrap_or(u64::MAX);
            self.figures.waited(thread, nanoseconds);
        }
    }

    fn tell_wait(&self, thread: Thread, it: &Guarded, name: &str, ahead: Holder) {
        self.figures.add(thread, Figure::LongWaits, 1);
        self.world.say(&format!(
            "{name} on {} {:#x} (thread {}) has waited {:?} for thread {}, which is in {}",
            it.what.name(),
            it.object,
            thread.0,
            self.settings.warn_after,
            ahead.thread.0,
            ahead.name
        ));
    }

    fn give_up(&self, thread: Thread, it: &Guarded, name: &str, waited: Option<Duration>) {
        self.figures.add(thread, Figure::GivenUp, 1);
        self.world.say(&format!(
            "{name} on {} {:#x} (thread {}) waited {:?}, longer than AGX_FIX_WAIT_MS, and goes on beside \
             the other thread, as without agx-fix",
            it.what.name(),
            it.object,
            thread.0,
            waited.unwrap_or_default()
        ));
    }

    fn refuse(&self, thread: Thread, it: &Guarded, name: &str, misuse: Misuse) {
        let what = it.what;
        let (figure, late) = match (misuse, what) {
            (Misuse::AfterEnd, What::Encoder) => (Figure::AfterEnd, what.end()),
            (Misuse::AfterEnd, What::CommandBuffer) => (Figure::AfterCommit, what.end()),
            (Misuse::AfterDestruction, _) => (Figure::AfterDestruction, "its last release"),
        };
        self.figures.add(thread, figure, 1);
        let count = self.figures.sum(figure);
        let abort = self.settings.abort;
        if abort || is_told(count) {
            let outcome = if abort {
                "aborting, as AGX_FIX_ABORT says"
            } else {
                "not made"
            };
            self.world.say(&format!(
                "{name} called on {} {:#x} after {late} (thread {}): {outcome}; {count} such calls so far",
                what.name(),
                it.object,
                thread.0
            ));
        }
        if abort {
            self.world.abort();
        }
    }

    /// Destroys an object whose destruction was deferred, if it falls to this thread.
    fn destroy_at_last(&self, thread: Thread, it: Arc<Guarded>, destructor: Option<Destructor>) {
        if let Some(destructor) = destructor
            && !self.keep(thread, &it, destructor)
        {
            self.world.destroy(it.object, destructor);
            self.destroyed(thread, it);
        }
    }

    /// An object was destroyed.
    fn destroyed(&self, thread: Thread, it: Arc<Guarded>) {
        if it.what == What::Encoder {
            self.figures.add(thread, Figure::Destroyed, 1);
        }
        close(&it);
        self.registry.gone(it);
    }
}

/// An encoder is ended or destroyed: its command buffer is free for another.
fn close(encoder: &Guarded) {
    if let Some(commands) = encoder.commands() {
        commands.close(encoder.object);
    }
}

/// What counts those that are created.
fn creations(what: What) -> Figure {
    match what {
        What::Encoder => Figure::Created,
        What::CommandBuffer => Figure::Buffers,
    }
}

/// What counts those that are ended.
fn ends_of(what: What) -> Figure {
    match what {
        What::Encoder => Figure::Ended,
        What::CommandBuffer => Figure::Committed,
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
