//! The guard that stands round every call on an encoder: it finds the encoder's state, lets the call in or refuses it,
//! counts, and tells.

use std::sync::Arc;
use std::time::Duration;

use super::encoder::{
    Call, Destruction, Destructor, Encoder, Entry, Hold, Misuse, Purpose, Thread,
};
use super::figures::{Figure, Figures};
use super::registry::{Found, Registry};
use super::settings::Settings;

/// What the guard cannot do itself.
pub trait World {
    /// Destroys an object by its own class's method.
    fn destroy(&self, object: usize, destructor: Destructor);
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
}

/// A call that is under way.
#[derive(Debug)]
pub struct Pass {
    encoder: Arc<Encoder>,
    object: usize,
    errand: Errand,
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
        }
    }

    /// An encoder was created, or is about to be initialised.
    pub fn created(&self, thread: Thread, object: usize) {
        if self.registry.created(object) {
            self.figures.add(thread, Figure::Created, 1);
        }
    }

    /// An encoder was returned by what may return one that was in use before. Such a one stays ended if it was.
    pub fn shown(&self, thread: Thread, object: usize) {
        if self.registry.shown(object) {
            self.figures.add(thread, Figure::Created, 1);
        }
    }

    /// A thread wants to call a method of an encoder.
    pub fn enter(&self, thread: Thread, object: usize, call: Call) -> Verdict {
        let encoder = self.find(thread, object);
        let entry = encoder.enter(thread, call, self.settings.patience(), |holder| {
            self.figures.add(thread, Figure::LongWaits, 1);
            self.world.say(&format!(
                "{} on encoder {object:#x} (thread {}) has waited {:?} for thread {}, which is in {}",
                call.name, thread.0, self.settings.warn_after, holder.thread.0, holder.name
            ));
        });
        match entry {
            Entry::Entered {
                hold,
                nested,
                waited,
            } => {
                let figure = if nested {
                    Figure::NestedCalls
                } else {
                    Figure::Calls
                };
                self.figures.add(thread, figure, 1);
                self.count_wait(thread, waited);
                if hold == Hold::Beside && !nested {
                    self.give_up(thread, object, call.name, waited);
                }
                let ends = call.purpose == Purpose::End;
                let errand = Errand::Use { hold, ends };
                Verdict::Guarded(Pass {
                    encoder,
                    object,
                    errand,
                })
            }
            Entry::Destroying => {
                self.figures.add(thread, Figure::NestedCalls, 1);
                Verdict::Plain
            }
            Entry::Refused {
                misuse,
                waited,
                destroy,
            } => {
                self.count_wait(thread, waited);
                self.refuse(thread, object, call.name, misuse);
                self.destroy_at_last(thread, object, encoder, destroy);
                Verdict::Refused
            }
        }
    }

    /// A thread comes back from a call.
    pub fn leave(&self, thread: Thread, pass: Pass) {
        let Pass {
            encoder,
            object,
            errand,
        } = pass;
        match errand {
            Errand::Use { hold, ends } => {
                let exit = encoder.leave(thread, hold, ends);
                if exit.ended {
                    self.figures.add(thread, Figure::Ended, 1);
                }
                self.destroy_at_last(thread, object, encoder, exit.destroy);
            }
            Errand::Destroy => {
                self.figures.add(thread, Figure::Destroyed, 1);
                self.registry.gone(object, encoder);
            }
        }
    }

    /// A call was left by an exception or a jump: nobody comes back from it, and what it was to do is not done.
    pub fn abandon(&self, thread: Thread, mut pass: Pass) {
        self.figures.add(thread, Figure::Abandoned, 1);
        if let Errand::Use { ends, .. } = &mut pass.errand {
            *ends = false;
        }
        self.leave(thread, pass);
    }

    /// The last reference to an encoder was given up: its destructor is about to be called.
    pub fn destroy(&self, thread: Thread, object: usize, destructor: Destructor) -> Verdict {
        let encoder = self.find(thread, object);
        match encoder.destroy(thread, destructor) {
            Destruction::Now => {
                let errand = Errand::Destroy;
                Verdict::Guarded(Pass {
                    encoder,
                    object,
                    errand,
                })
            }
            Destruction::UnderWay => Verdict::Plain,
            Destruction::Deferred => {
                self.figures.add(thread, Figure::Deferred, 1);
                if self.settings.verbose && is_told(self.figures.sum(Figure::Deferred)) {
                    self.world.say(&format!(
                        "encoder {object:#x} was given up by thread {} with a call in it, and lives until that is done",
                        thread.0
                    ));
                }
                Verdict::Refused
            }
            Destruction::Again => {
                self.refuse(thread, object, "dealloc", Misuse::AfterDestruction);
                Verdict::Refused
            }
        }
    }

    fn find(&self, thread: Thread, object: usize) -> Arc<Encoder> {
        let (encoder, found) = self.registry.find(object);
        if found == Found::Unannounced {
            self.figures.add(thread, Figure::Unannounced, 1);
        }
        encoder
    }

    fn count_wait(&self, thread: Thread, waited: Option<Duration>) {
        if let Some(waited) = waited {
            let nanoseconds = u64::try_from(waited.as_nanos()).unwrap_or(u64::MAX);
            self.figures.waited(thread, nanoseconds);
        }
    }

    fn give_up(&self, thread: Thread, object: usize, name: &str, waited: Option<Duration>) {
        self.figures.add(thread, Figure::GivenUp, 1);
        self.world.say(&format!(
            "{name} on encoder {object:#x} (thread {}) waited {:?}, longer than AGX_FIX_WAIT_MS, and goes on beside \
             the other thread, as without agx-fix",
            thread.0,
            waited.unwrap_or_default()
        ));
    }

    fn refuse(&self, thread: Thread, object: usize, name: &str, misuse: Misuse) {
        let (figure, what) = match misuse {
            Misuse::AfterEnd => (Figure::AfterEnd, "after endEncoding"),
            Misuse::AfterDestruction => (Figure::AfterDestruction, "after its last release"),
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
                "{name} called on encoder {object:#x} {what} (thread {}): {outcome}; {count} such calls so far",
                thread.0
            ));
        }
        if abort {
            self.world.abort();
        }
    }

    /// Destroys an encoder whose destruction was deferred, if it falls to this thread.
    fn destroy_at_last(
        &self,
        thread: Thread,
        object: usize,
        encoder: Arc<Encoder>,
        destructor: Option<Destructor>,
    ) {
        if let Some(destructor) = destructor {
            self.world.destroy(object, destructor);
            self.figures.add(thread, Figure::Destroyed, 1);
            self.registry.gone(object, encoder);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
