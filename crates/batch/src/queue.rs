//! The queue that callers see.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

use streampool_device::Process;
use streampool_tensor::Array;

use crate::answer::{Answer, Joined, Part, To};
use crate::batch::Batch;
use crate::builder::{BatchQueueBuilder, WhenFull};
use crate::engine::{Admission, Engine, Full, Parts, Rejected, Shutdown};
use crate::error::{Error, Result};
use crate::figures::Fate;
use crate::inside::{Role, inside, is_inside};
use crate::names::Names;
use crate::nested::Waiting;
use crate::outcome::{Outcome, discard};
use crate::padding::{Filled, Waste};
use crate::request::{Kind, Request};
use crate::runner::Function;
use crate::schedule::{Entry, Ids, Schedule, Tenants};
use crate::shared::Shared;
use crate::statistics::Statistics;
use crate::ticket::{Outside, Ticket, outputs};

/// A queue that makes batches of the requests of many callers. Cheap to clone; clones are the same queue. When the last is dropped
/// the queue is closed, and what waits is refused.
#[derive(Clone)]
pub struct BatchQueue(Arc<Owner>);

/// A request is run in no more parts: one without elements may have any number of rows.
const MOST_PARTS: usize = 1 << 20;

/// Who drops this closes the queue. Tickets and threads hold what is in it, and not this.
struct Owner {
    shared: Arc<Shared>,
    function: Arc<Function>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

/// A request on its way in.
struct Prepared {
    kind: Kind,
    parts: Parts<Part>,
    answer: Arc<Answer>,
    filled: Option<Filled>,
}

/// What a caller does once its request is in.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Caller {
    /// It waits for the outputs, and may run a batch meanwhile.
    Waits,
    /// It runs the request if it can do that at once, and else gets a ticket.
    Runs,
    /// It gets a ticket.
    GoesOn,
}

/// A request that came in.
struct Entered {
    way: Way,
    answer: Arc<Answer>,
    filled: Option<Filled>,
    /// Holds for its caller, if that is in the queue's own function, as long as it waits.
    waiting: Option<Waiting>,
}

/// How a request came in.
enum Way {
    /// Its caller ran it without the lock.
    Ran,
    /// Its caller left it in the inbox, and hears whatever becomes of it.
    Left,
    /// By the lock.
    Locked {
        admission: Admission,
        /// Whether its caller ran a batch.
        helped: bool,
    },
}

impl BatchQueue {
    /// The settings of a queue to be made.
    pub fn builder() -> BatchQueueBuilder {
        BatchQueueBuilder::default()
    }

    /// A queue with this engine and these settings, and what it runs.
    fn start(
        engine: Engine<Kind, Part>,
        function: Arc<Function>,
        settings: BatchQueueBuilder,
    ) -> Result<BatchQueue> {
        let shared = Shared {
            engine,
            function: Arc::downgrade(&function),
            settings,
            nested: Arc::default(),
            names: Names::default(),
            waste: Waste::default(),
            process: Process::current(),
        };
        let owner = Owner {
            shared: Arc::new(shared),
            function,
            threads: Mutex::new(Vec::new()),
        };
        owner.hire(owner.threads())?;
        Ok(BatchQueue(Arc::new(owner)))
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.0.shared
    }

    /// Puts a request in the queue, and does not wait for it.
    ///
    /// Where there is no room it fails or waits for room, as `when_full` says. From within the queue's own function it is an error
    /// to wait for room without an end where all lanes are of calls that wait.
    pub fn submit(&self, request: impl Into<Request>) -> Result<Ticket> {
        let prepared = self.prepare(request.into())?;
        let when_full = self.when_full();
        let entered = self.enter(prepared, Caller::GoesOn, when_full.full())?;
        self.come_in("submit", entered, when_full.until())
    }

    /// As [`submit`](Self::submit), but the calling thread may run the request before this returns: for work that takes less time than
    /// to wake another thread.
    ///
    /// It does so if a lane is free and nothing else waits or, for a request without a deadline, if all that waits can go in one batch
    /// with it. Of a request that is divided, only the first batch runs so. It blocks where `submit` does: if there is no room, and
    /// `when_full` is to wait.
    pub fn run_or_submit(&self, request: impl Into<Request>) -> Result<Ticket> {
        let prepared = self.prepare(request.into())?;
        let when_full = self.when_full();
        let entered = self.enter(prepared, Caller::Runs, when_full.full())?;
        self.come_in("run_or_submit", entered, when_full.until())
    }

    /// Puts requests in the queue, all before the first of them can go.
    pub fn submit_many<R: Into<Request>>(
        &self,
        requests: impl IntoIterator<Item = R>,
    ) -> Vec<Result<Ticket>> {
        let requests = requests.into_iter().map(Into::into).collect();
        self.submit_all("submit_many", requests, self.when_full())
    }

    /// As [`submit_many`](Self::submit_many), whatever the queue's own `when_full` is.
    pub(crate) fn submit_all(
        &self,
        call: &'static str,
        requests: Vec<Request>,
        when_full: WhenFull,
    ) -> Vec<Result<Ticket>> {
        let shared = self.shared();
        if let Err(forked) = shared.check_process() {
            return requests.iter().map(|_| Err(forked.clone())).collect();
        }
        let prepared = requests.into_iter().map(|request| self.prepare(request));
        let mut prepared: Vec<Result<Prepared>> = prepared.collect();
        let parts = prepared.iter_mut().flatten();
        let parts = parts.map(|ready| (ready.kind.clone(), std::mem::take(&mut ready.parts)));
        let (admitted, _) = shared.engine.add(parts, when_full.full(), false);
        let mut admitted = admitted.into_iter();
        let entered = prepared.into_iter().map(|ready| {
            let ready = ready?;
            let admission = admitted.next().unwrap_or(Err(Rejected::Closed));
            let way = Way::Locked {
                admission: admission?,
                helped: false,
            };
            Ok(Entered {
                way,
                answer: ready.answer,
                filled: ready.filled,
                waiting: None,
            })
        });
        // They are all in before the first is waited for.
        let entered: Vec<Result<Entered>> = entered.collect();
        let until = when_full.until();
        let tickets = entered
            .into_iter()
            .map(|entered| self.come_in(call, entered?, until));
        tickets.collect()
    }

    /// Runs a request and waits for its outputs. Where a lane is free, and all that waits can go in one batch with the request,
    /// or the request is the first of the batch that goes next, the calling thread runs that itself.
    ///
    /// From within the queue's own function it is an error where all lanes are of calls that wait so.
    pub fn infer(&self, request: impl Into<Request>) -> Result<Vec<Array>> {
        let prepared = self.prepare(request.into())?;
        let when_full = self.when_full();
        let mut entered = self.enter(prepared, Caller::Waits, when_full.full())?;
        let _waiting = entered.waiting.take();
        if let Way::Locked { helped, .. } = entered.way {
            let ticket = self.come_in("infer", entered, when_full.until())?;
            return match helped {
                true => ticket.wait(),
                false => ticket.wait_asleep(),
            };
        }
        let shared = self.shared();
        let filled = entered.filled.as_ref();
        let result = entered.answer.wait();
        let mut ran = true;
        if let Way::Left = entered.way {
            shared.engine.was_woken();
            ran = !matches!(&result, Err(error) if error.is_refusal());
        }
        if let Some(filled) = filled
            && ran
        {
            shared.waste.count(filled);
        }
        outputs(result, filled)
    }

    /// The one way in. A request is
    ///
    /// - run by a caller that may run it, without the lock, if nothing else is to be done;
    /// - else left in the inbox by a caller that waits, for whoever has the lock next;
    /// - else, if it is in parts, or its caller waits for room only so long, or not at all, added by the lock.
    fn enter(&self, prepared: Prepared, caller: Caller, full: Full) -> Result<Entered> {
        let shared = self.shared();
        let Prepared {
            kind,
            mut parts,
            answer,
            filled,
        } = prepared;
        let mut waiting = None;
        let way = 'way: {
            if caller != Caller::GoesOn {
                let runner = shared.runner(&*self.0.function);
                match shared.engine.run_at_once(&kind, parts, &runner) {
                    Ok(()) => break 'way Way::Ran,
                    Err(left) => parts = left,
                }
            }
            if caller == Caller::Waits {
                waiting = shared.about_to_wait("infer", answer.clone())?;
                if parts.len() == 1 && !matches!(self.when_full(), WhenFull::Wait(_)) {
                    let turn = shared.engine.leave(kind, parts, full);
                    if let Some(turn) = turn {
                        shared.run(turn, &*self.0.function);
                    }
                    break 'way Way::Left;
                }
            }
            let request = std::iter::once((kind, parts));
            let helper = caller != Caller::GoesOn;
            let (mut added, turn) = shared.engine.add(request, full, helper);
            let helped = turn.is_some();
            if let Some(turn) = turn {
                shared.run(turn, &*self.0.function);
            }
            let admission = added.pop().unwrap_or(Err(Rejected::Closed))?;
            Way::Locked { admission, helped }
        };
        Ok(Entered {
            way,
            answer,
            filled,
            waiting,
        })
    }

    /// Puts a request in the queue as soon as there is room, without blocking a thread.
    pub async fn submit_when_room(&self, request: impl Into<Request>) -> Result<Ticket> {
        let prepared = self.prepare(request.into())?;
        let entered = self.enter(prepared, Caller::GoesOn, Full::Hold)?;
        let ids = match &entered.way {
            Way::Ran | Way::Left => Ids::new(),
            Way::Locked {
                admission: Admission::Queued(ids),
                ..
            } => ids.clone(),
            Way::Locked {
                admission: Admission::Held(place),
                ..
            } => {
                let outside = Outside::new(self.shared(), place);
                outside.await
            }
        };
        Ok(self.ticket(ids, entered))
    }

    fn when_full(&self) -> WhenFull {
        self.shared().settings.when_full
    }

    /// What is done on the caller's thread before any lock: sizes are checked, and the request filled up and divided.
    fn prepare(&self, mut request: Request) -> Result<Prepared> {
        let shared = self.shared();
        shared.check_process()?;
        let rows = request.rows()?;
        let filled = match &shared.settings.padding {
            Some(padding) => padding.apply(&mut request)?,
            None => None,
        };
        shared.settings.accepts.check(&request.inputs)?;
        let kind = Kind::of(&request);
        let bytes = request.bytes();
        let tenant = match &request.tenant {
            Some(name) => shared.tenant(name),
            None => 0,
        };
        let arrived = Instant::now();
        let answer = Arc::new(Outcome::new());
        if let Some(traced) = &request.traced {
            traced.comes(arrived);
        }
        let entry = |inputs: Vec<Array>, rows, bytes, to| Entry {
            job: Part::new(inputs, to, request.traced.clone()),
            rows,
            bytes,
            tenant,
            priority: request.priority,
            deadline: request.deadline,
            behind: request.behind,
            arrived,
        };
        let mut parts = Parts::new();
        let most = shared.settings.limits.rows;
        if rows <= most {
            parts.push(entry(
                request.inputs,
                rows,
                bytes,
                To::Caller(answer.clone()),
            ));
        } else {
            let count = rows.div_ceil(most);
            if count > MOST_PARTS {
                return Err(Error::Request {
                    input: 0,
                    got: format!("of {rows} rows"),
                    expected: format!("at most {MOST_PARTS} batches of {most}"),
                });
            }
            let joined = Arc::new(Joined::new(count, answer.clone()));
            for part in 0..count {
                let range = part * most..rows.min((part + 1) * most);
                let cut = |input: &Array| input.rows(range.clone()).map_err(Error::failed);
                let inputs = request.inputs.iter().map(cut).collect::<Result<_>>()?;
                let to = To::Joined(joined.clone(), part);
                parts.push(entry(inputs, range.len(), bytes / rows * range.len(), to));
            }
        }
        Ok(Prepared {
            kind,
            parts,
            answer,
            filled,
        })
    }

    /// Waits until a request is in the queue, or that time has come.
    fn come_in(
        &self,
        call: &'static str,
        entered: Entered,
        until: Option<Instant>,
    ) -> Result<Ticket> {
        let ids = match &entered.way {
            Way::Ran | Way::Left => Ids::new(),
            Way::Locked {
                admission: Admission::Queued(ids),
                ..
            } => ids.clone(),
            Way::Locked {
                admission: Admission::Held(place),
                ..
            } => {
                let (known, nested) = match until {
                    Some(until) => (place.wait_until(until), None),
                    None => match self.shared().about_to_wait(call, place.clone()) {
                        Ok(_waiting) => (Some(place.wait()), None),
                        Err(nested) => (None, Some(nested)),
                    },
                };
                let ids = match known {
                    Some(ids) => ids,
                    None => match self.shared().engine.withdraw(place, Fate::Rejected) {
                        Some(full) => return Err(nested.unwrap_or(full.into())),
                        None => place.wait(),
                    },
                };
                // Turned away, it has no place, and its answer says why.
                ids.unwrap_or_default()
            }
        };
        Ok(self.ticket(ids, entered))
    }

    fn ticket(&self, ids: Ids, entered: Entered) -> Ticket {
        let shared = self.shared();
        if let Some(filled) = &entered.filled
            && (matches!(entered.way, Way::Ran) || !ids.is_empty())
        {
            shared.waste.count(filled);
        }
        Ticket::new(shared.clone(), entered.answer, ids, entered.filled)
    }

    /// What it did and holds.
    pub fn statistics(&self) -> Statistics {
        Statistics::of(self.shared())
    }

    /// Takes no more requests, and waits until nothing is left: what waits is run, or refused. Called from within the queue's
    /// function it does not wait. To close a closed queue does nothing.
    pub fn shutdown(&self, how: Shutdown) {
        self.0.close(how);
    }

    /// Whether it takes requests.
    pub fn is_open(&self) -> bool {
        self.shared().check_process().is_ok() && self.shared().engine.is_open()
    }

    /// Opens it again after it was closed. An open queue stays as it is; one that is being closed is waited for, but from
    /// within the queue's function that is an error.
    pub fn restart(&self) -> Result<()> {
        self.shared().check_process()?;
        let engine = &self.shared().engine;
        if is_inside(&**self.shared()) && !engine.is_open() {
            return Err(Error::Inside {
                call: "restart",
                instead: "call it from another thread",
            });
        }
        let Some(threads) = self.0.wait_until_closed() else {
            return Ok(());
        };
        engine.open();
        self.0.hire(threads)
    }
}

impl BatchQueueBuilder {
    /// A queue in front of a function. The function is called from several threads at once, up to `max_in_flight`.
    ///
    /// Where it fails on a batch, it is called with parts of it, so that only the requests fail that are guilty. It may see the same
    /// rows again; where it fails on each of n requests it is called about n + log2(n) times for them. Where it knows that no part
    /// would do better it should fail with [`Error::unavailable`]: then it is not called again.
    pub fn build<E>(
        self,
        function: impl Fn(Batch) -> Result<Batch, E> + Send + Sync + 'static,
    ) -> Result<BatchQueue>
    where
        E: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        self.check()?;
        let tenants = self
            .tenants
            .iter()
            .map(|(name, weight)| (&name[..], *weight));
        let schedule = Schedule::new(self.limits.clone(), Tenants::new(tenants));
        let engine = Engine::new(schedule, self.lanes(), self.capacity);
        let function = move |batch| function(batch).map_err(Error::failed);
        BatchQueue::start(engine, Arc::new(function), self)
    }
}

impl Owner {
    /// Starts a worker for each lane, and the keeper of time.
    fn hire(&self, mut threads: MutexGuard<'_, Vec<JoinHandle<()>>>) -> Result<()> {
        for number in 0..=self.shared.settings.lanes() {
            let (shared, function) = (self.shared.clone(), self.function.clone());
            let work = move || {
                let work = || match number {
                    0 => shared.engine.keep_time(),
                    _ => shared.engine.work(&shared.runner(&*function)),
                };
                let worked = catch_unwind(AssertUnwindSafe(|| inside(&*shared, Role::Works, work)));
                if let Err(panic) = worked {
                    discard(panic);
                    // What panicked is the queue itself. All that waits is told, and nothing more is taken.
                    shared.engine.close(Shutdown::Cancel);
                }
            };
            let name = match number {
                0 => "batch-time".to_owned(),
                _ => format!("batch-{number}"),
            };
            let thread = std::thread::Builder::new().name(name).spawn(work);
            match thread {
                Ok(thread) => threads.push(thread),
                Err(error) => {
                    drop(threads);
                    self.close(Shutdown::Cancel);
                    return Err(Error::Thread(Arc::new(error)));
                }
            }
        }
        Ok(())
    }

    fn close(&self, how: Shutdown) {
        let shared = &self.shared;
        if shared.check_process().is_err() {
            return;
        }
        shared.engine.close(how);
        if !is_inside(&**shared) {
            self.wait_until_closed();
        }
    }

    fn threads(&self) -> MutexGuard<'_, Vec<JoinHandle<()>>> {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until nothing is left of a queue that is being closed, not even its threads. Nothing, if somebody has opened it again
    /// by then: the threads are others.
    fn wait_until_closed(&self) -> Option<MutexGuard<'_, Vec<JoinHandle<()>>>> {
        self.shared.engine.wait_until_closed();
        let mut threads = self.threads();
        if !self.shared.engine.is_closed() {
            return None;
        }
        for thread in threads.drain(..) {
            // A thread of the queue does not panic: all that it does is caught.
            let _ = thread.join();
        }
        Some(threads)
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        if self.shared.check_process().is_err() {
            // Of threads that are not here nothing is to be given back.
            let threads = self.threads.get_mut();
            std::mem::forget(std::mem::take(
                threads.unwrap_or_else(PoisonError::into_inner),
            ));
            return;
        }
        self.close(Shutdown::Cancel);
    }
}

impl std::fmt::Debug for BatchQueue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BatchQueue")
            .field("open", &self.is_open())
            .field("settings", &self.shared().settings)
            .finish_non_exhaustive()
    }
}
