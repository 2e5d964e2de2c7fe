//! What is known of one encoder or command buffer: whether it is ended or destroyed, which thread is in a call on it, and who waits. The
//! end of a command buffer is its commit.
//!
//! One thread at a time is in such an object; a call that it makes on the same object from there is let through. Every call
//! pins the object, also while it waits for its turn. An object that is pinned is not destroyed: whoever unpins it last
//! does that.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::sync::{Condvar, Mutex, MutexGuard, lock, wait_for};

/// A thread, by a number that no other has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Thread(pub u64);

/// What is guarded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// An encoder.
    Encoder,
    /// A command buffer.
    CommandBuffer,
}

impl What {
    /// What people call it.
    pub fn name(self) -> &'static str {
        match self {
            What::Encoder => "encoder",
            What::CommandBuffer => "command buffer",
        }
    }

    /// The method that ends it.
    pub fn end(self) -> &'static str {
        match self {
            What::Encoder => "endEncoding",
            What::CommandBuffer => "commit",
        }
    }
}

/// What a call is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// To put work into it, which has to be done before it is ended.
    Encode,
    /// As [`Purpose::Encode`], into a command buffer of which no encoder is open.
    Apart,
    /// To end it. Of a command buffer, too, no encoder may be open then.
    End,
    /// Anything else, which may be done as long as it lives.
    Other,
}

/// A call of a method.
#[derive(Debug, Clone, Copy)]
pub struct Call {
    /// The method, for people.
    pub name: &'static str,
    /// What it is for.
    pub purpose: Purpose,
}

/// How an object is destroyed once that is safe: the method that would have done it, and its selector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Destructor {
    /// The address of the method.
    pub method: usize,
    /// What it is called with.
    pub selector: usize,
}

/// What a call on an encoder does wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Misuse {
    /// It comes after the end.
    AfterEnd,
    /// It comes after the last reference was given up.
    AfterDestruction,
}

/// How a thread is in such an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Hold {
    /// Alone.
    Alone,
    /// Beside another, for which it waited too long.
    Beside,
}

/// What came of wanting to make a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Entry {
    /// The thread is in the encoder, and has to leave it.
    Entered {
        /// How.
        hold: Hold,
        /// Whether it was in it before.
        nested: bool,
        /// How long it waited, if it had to.
        waited: Option<Duration>,
        /// Whether it waited as long as it may, and what it waited for is not over.
        gave_up: bool,
    },
    /// The thread is destroying the encoder, and this call belongs to that. There is nothing to leave.
    Destroying,
    /// The call must not be made.
    Refused {
        /// Why.
        misuse: Misuse,
        /// How long the thread waited, if it had to.
        waited: Option<Duration>,
        /// What the thread has to destroy the encoder with, because everybody else has left it.
        destroy: Option<Destructor>,
    },
}

/// What came of leaving an encoder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exit {
    /// Whether the call was the one that ended it.
    pub ended: bool,
    /// What the thread has to destroy it with, because everybody else has left it.
    pub destroy: Option<Destructor>,
}

/// What came of wanting to destroy an encoder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Destruction {
    /// This thread does it, and says when it is done.
    Now,
    /// Whoever leaves the encoder last does it.
    Deferred,
    /// This thread is at it: a class passes it on to the one above.
    UnderWay,
    /// It is being destroyed, or was before.
    Again,
}

/// Who is alone in an encoder.
#[derive(Debug, Clone, Copy)]
pub struct Holder {
    /// The thread.
    pub thread: Thread,
    /// The method it called first.
    pub name: &'static str,
    depth: usize,
}

/// How long a call waits for its turn.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    /// After so long, it says for whom it waits.
    pub warn_after: Duration,
    /// After so long, it goes on beside the other.
    pub limit: Duration,
}

#[derive(Debug, Clone, Copy)]
enum Life {
    Lives,
    /// Given up by its last user; somebody is in it.
    Condemned(Destructor),
    DestroyedBy(Thread),
    /// Given up, and to be destroyed later.
    Kept,
    Gone,
}

/// An encoder of a command buffer that is not ended.
#[derive(Debug)]
struct Open {
    encoder: usize,
    by: Holder,
}

#[derive(Debug)]
struct State {
    ended: bool,
    life: Life,
    holder: Option<Holder>,
    /// Those in it beside the holder, one entry for each call.
    beside: Vec<Thread>,
    /// Calls that are in it or wait to be.
    pins: usize,
    waiting: usize,
    /// Of a command buffer: its encoder.
    open: Option<Open>,
    /// Of a command buffer: its queue, or 0.
    queue: usize,
    /// Of an encoder: the command buffer that it is of, where that is known.
    commands: Option<Arc<Guarded>>,
}

impl State {
    fn hold_of(&self, thread: Thread) -> Option<Hold> {
        if self.holder.is_some_and(|holder| holder.thread == thread) {
            Some(Hold::Alone)
        } else {
            self.beside.contains(&thread).then_some(Hold::Beside)
        }
    }

    /// For whom a call has to wait.
    fn ahead_of(&self, thread: Thread, purpose: Purpose) -> Option<Holder> {
        let apart = matches!(purpose, Purpose::Apart | Purpose::End);
        let open = self.open.as_ref().map(|open| open.by);
        self.holder
            .or(open.filter(|by| apart && by.thread != thread))
    }

    fn allows(&self, purpose: Purpose) -> bool {
        !self.ended || purpose == Purpose::Other
    }

    /// Takes a pin away. If it was the last of a condemned encoder, the thread has to destroy it.
    fn unpin(&mut self, thread: Thread) -> Option<Destructor> {
        self.pins -= 1;
        match self.life {
            Life::Condemned(destructor) if self.pins == 0 => {
                self.life = Life::DestroyedBy(thread);
                Some(destructor)
            }
            _ => None,
        }
    }
}

/// One object, from its creation until its memory is given back.
#[derive(Debug)]
pub struct Guarded {
    /// What it is.
    pub what: What,
    /// Its address.
    pub object: usize,
    state: Mutex<State>,
    free: Condvar,
}

impl Guarded {
    /// A new one.
    pub fn new(what: What, object: usize) -> Self {
        Guarded {
            what,
            object,
            state: Mutex::new(State {
                ended: false,
                life: Life::Lives,
                holder: None,
                beside: Vec::new(),
                pins: 0,
                waiting: 0,
                open: None,
                queue: 0,
                commands: None,
            }),
            free: Condvar::new(),
        }
    }

    /// Enters the encoder for a call, after waiting for whoever is in it. When that takes long, `say` hears for whom, once.
    pub fn enter(
        &self,
        thread: Thread,
        call: Call,
        patience: Patience,
        say: impl FnOnce(Holder),
    ) -> Entry {
        let mut state = lock(&self.state);
        let hold = state.hold_of(thread);
        match state.life {
            Life::DestroyedBy(by) if by == thread => return Entry::Destroying,
            Life::Condemned(_) if hold.is_some() => {}
            Life::Lives => {}
            Life::Condemned(_) | Life::DestroyedBy(_) | Life::Kept | Life::Gone => {
                return Entry::Refused {
                    misuse: Misuse::AfterDestruction,
                    waited: None,
                    destroy: None,
                };
            }
        }
        if let Some(hold) = hold {
            state.pins += 1;
            match (hold, &mut state.holder) {
                (Hold::Alone, Some(holder)) => holder.depth += 1,
                _ => state.beside.push(thread),
            }
            return Entry::Entered {
                hold,
                nested: true,
                waited: None,
                gave_up: false,
            };
        }
        state.pins += 1;
        let purpose = call.purpose;
        let waited = if state.ahead_of(thread, purpose).is_some() {
            let waited;
            (state, waited) = self.wait(state, (thread, purpose), patience, say);
            Some(waited)
        } else {
            None
        };
        if !state.allows(purpose) {
            let destroy = state.unpin(thread);
            self.pass_on(state);
            return Entry::Refused {
                misuse: Misuse::AfterEnd,
                waited,
                destroy,
            };
        }
        let gave_up = state.ahead_of(thread, purpose).is_some();
        let hold = if state.holder.is_none() {
            state.holder = Some(Holder {
                thread,
                name: call.name,
                depth: 1,
            });
            Hold::Alone
        } else {
            state.beside.push(thread);
            Hold::Beside
        };
        Entry::Entered {
            hold,
            nested: false,
            waited,
            gave_up,
        }
    }

    /// Sleeps until the call need not wait for anybody, or patience ends. Says how long that took.
    fn wait<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        (thread, purpose): (Thread, Purpose),
        patience: Patience,
        say: impl FnOnce(Holder),
    ) -> (MutexGuard<'a, State>, Duration) {
        let begun = Instant::now();
        let mut say = Some(say);
        state.waiting += 1;
        while let Some(holder) = state.ahead_of(thread, purpose) {
            let waited = begun.elapsed();
            if waited >= patience.warn_after
                && let Some(say) = say.take()
            {
                // For whom it waits may leave meanwhile.
                drop(state);
                say(holder);
                state = lock(&self.state);
                continue;
            }
            if waited >= patience.limit {
                break;
            }
            let until = match say {
                Some(_) => patience.limit.min(patience.warn_after),
                None => patience.limit,
            };
            state = wait_for(&self.free, state, until - waited);
        }
        state.waiting -= 1;
        (state, begun.elapsed())
    }

    /// Leaves the encoder after a call, which ended it or not.
    pub fn leave(&self, thread: Thread, hold: Hold, ended: bool) -> Exit {
        let mut state = lock(&self.state);
        let ended = ended && !state.ended;
        state.ended |= ended;
        match (hold, &mut state.holder) {
            (Hold::Alone, Some(holder)) if holder.depth > 1 => holder.depth -= 1,
            (Hold::Alone, _) => state.holder = None,
            (Hold::Beside, _) => {
                if let Some(place) = state.beside.iter().position(|&known| known == thread) {
                    state.beside.swap_remove(place);
                }
            }
        }
        let destroy = state.unpin(thread);
        self.pass_on(state);
        Exit { ended, destroy }
    }

    /// Wakes those that wait, if nobody is in it. They do not all wait for the same.
    fn pass_on(&self, state: MutexGuard<'_, State>) {
        let wake = state.waiting > 0 && state.holder.is_none();
        drop(state);
        if wake {
            self.free.notify_all();
        }
    }

    /// Of a command buffer: a thread got an encoder of it.
    pub fn open(&self, encoder: usize, thread: Thread) {
        let by = Holder {
            thread,
            name: "an encoder of it that is not ended",
            depth: 0,
        };
        lock(&self.state).open = Some(Open { encoder, by });
    }

    /// Of a command buffer: an encoder of it is ended, or is gone.
    pub fn close(&self, encoder: usize) {
        let mut state = lock(&self.state);
        if state
            .open
            .as_ref()
            .is_some_and(|open| open.encoder == encoder)
        {
            state.open = None;
            self.pass_on(state);
        }
    }

    /// Of a command buffer: which queue it is of.
    pub fn set_queue(&self, queue: usize) {
        lock(&self.state).queue = queue;
    }

    /// Of a command buffer: its queue, or 0 where that is not known.
    pub fn queue(&self) -> usize {
        lock(&self.state).queue
    }

    /// Of an encoder: which command buffer it is of.
    pub fn set_commands(&self, commands: Arc<Guarded>) {
        lock(&self.state).commands = Some(commands);
    }

    /// Of an encoder: the command buffer that it is of, where that is known.
    pub fn commands(&self) -> Option<Arc<Guarded>> {
        lock(&self.state).commands.clone()
    }

    /// Whether a thread is in a call on it.
    pub fn has_in_it(&self, thread: Thread) -> bool {
        lock(&self.state).hold_of(thread).is_some()
    }

    /// Whether it is ended.
    pub fn is_ended(&self) -> bool {
        lock(&self.state).ended
    }

    /// The last user has given it up.
    pub fn destroy(&self, thread: Thread, destructor: Destructor) -> Destruction {
        let mut state = lock(&self.state);
        match state.life {
            Life::Lives => {}
            Life::DestroyedBy(by) if by == thread => return Destruction::UnderWay,
            Life::Condemned(_) | Life::DestroyedBy(_) | Life::Kept | Life::Gone => {
                return Destruction::Again;
            }
        }
        let pinned = state.pins > 0;
        if cfg!(planted) {
            drop(state);
            state = lock(&self.state);
        }
        if pinned {
            state.life = Life::Condemned(destructor);
            Destruction::Deferred
        } else {
            state.life = Life::DestroyedBy(thread);
            Destruction::Now
        }
    }

    /// It is not destroyed now by the thread that was to.
    pub fn keep(&self) {
        lock(&self.state).life = Life::Kept;
    }

    /// It was kept, and this thread destroys it now.
    pub fn destroy_kept(&self, thread: Thread) {
        lock(&self.state).life = Life::DestroyedBy(thread);
    }

    /// It has been destroyed.
    pub fn destroyed(&self) {
        lock(&self.state).life = Life::Gone;
    }

    /// Its object was handed out to begin with. False when it is destroyed, so that this must be another object at the
    /// same address. A driver may keep ended encoders and hand them out again.
    pub fn renew(&self) -> bool {
        let mut state = lock(&self.state);
        match state.life {
            Life::Lives => {
                state.ended &= state.pins > 0;
                true
            }
            Life::Condemned(_) => true,
            Life::DestroyedBy(_) | Life::Kept | Life::Gone => false,
        }
    }

    /// Whether its object may still be handed out: it is not being destroyed, nor was it.
    pub fn is_there(&self) -> bool {
        matches!(lock(&self.state).life, Life::Lives | Life::Condemned(_))
    }

    /// Whether its memory was given back.
    pub fn is_gone(&self) -> bool {
        matches!(lock(&self.state).life, Life::Gone)
    }
}
