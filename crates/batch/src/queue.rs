//! The queue that callers see.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::Instant;

use streampool_device::Process;
use streampool_tensor::Array;

use crate::answer::{Answer, Joined, Part, To};
use crate::builder::{BatchQueueBuilder, WhenFull};
use crate::engine::{Admission, Done, Engine, Full, Parts, Rejected, Shutdown, Turn};
use crate::error::{Error, Result};
use crate::figures::Fate;
use crate::inference::InferAll;
use crate::inside::{Role, calls, inside, is_inside};
use crate::names::Names;
use crate::nested::{Awaited, Nested, Waiting};
use crate::outcome::{Outcome, discard};
use crate::padding::{Filled, Waste};
use crate::request::{Kind, Request};
use crate::runner::{Function, run};
use crate::schedule::{Entry, Id, Ids, Schedule, TenantId};
use crate::statistics::Statistics;
use crate::ticket::{Ticket, outputs};

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

/// What callers, tickets and threads share.
pub struct Shared {
    /// The queue as threads see it.
    pub engine: Engine<Kind, Part>,
    /// The owner's. A ticket may outlive the queue, but not keep what the function holds.
    function: Weak<Function>,
    settings: BatchQueueBuilder,
    nested: Arc<Nested>,
    names: Names,
    waste: Waste,
    /// The process whose queue it is. In a fork of it the threads are gone, and the locks are as they were.
    process: Process,
}

impl Shared {
    /// Refuses a fork of the process: nothing of the queue may be touched there.
    pub fn check_process(&self) -> Result<()> {
        match self.process.is_current() {
            true => Ok(()),
            false => Err(Error::Forked),
        }
    }

    fn run(&self, turn: Turn<'_, Kind, Part>, function: &Function) {
        inside(self, Role::Works, || turn.run(&self.runner(function)));
    }

    /// What runs a batch on a lane.
    fn runner(&self, function: &Function) -> impl Fn(Vec<Entry<Part>>, usize) -> Done {
        move |entries, lane| inside(self, Role::Calls, || run(function, entries, lane))
    }

    /// Runs these requests on the calling thread, if they are all that waits, and can go. Says whether it did.
    pub fn help(&self, ids: &[Id]) -> bool {
        // Of a queue that is gone nothing waits any more.
        let Some(function) = self.function.upgrade() else {
            return false;
        };
        let turn = self.engine.turn(ids);
        let helped = turn.is_some();
        if let Some(turn) = turn {
            self.run(turn, &*function);
        }
        helped
    }

    /// The calling thread is about to wait for an answer, or for room. From within the function that is refused where all lanes are of calls
    /// that wait; else it is to be held as long as the wait lasts.
    pub fn about_to_wait(
        &self,
        call: &'static str,
        awaited: Arc<dyn Awaited>,
    ) -> Result<Option<Waiting>> {
        let calls = calls(self);
        if calls == 0 {
            return Ok(None);
        }
        let waiting = self.nested.begin(calls, self.settings.lanes(), awaited);
        waiting.map(Some).ok_or(Error::Inside {
            call,
            instead: "raise `max_in_flight`, or ask another queue",
        })
    }

    fn tenant(&self, name: &str) -> TenantId {
        let named = |schedule: &mut Schedule<_, _>| schedule.tenants().named(name);
        let ask = || self.engine.look(|schedule, _, _| named(schedule));
        self.names.find(name, ask)
    }

    /// How much of what came in was filled up.
    pub fn waste(&self) -> f64 {
        self.waste.part()
    }
}

/// A request on its way in.
struct Prepared {
    kind: Kind,
    parts: Parts<Part>,
    answer: Arc<Answer>,
    filled: Option<Filled>,
}

/// How a request came in.
struct Entering {
    admission: Admission,
    answer: Arc<Answer>,
    filled: Option<Filled>,
}

impl BatchQueue {
    /// The settings of a queue to be made.
    pub fn builder() -> BatchQueueBuilder {
        BatchQueueBuilder::default()
    }

    /// A queue with this engine and these settings, and what it runs.
    pub(crate) fn start(
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

    fn shared(&self) -> &Arc<Shared> {
        &self.0.shared
    }

    /// Puts a request in the queue, and does not wait for it.
    ///
    /// Where there is no room it fails or waits for room, as `when_full` says. From within the queue's own function it is an error
    /// to wait for room without an end where all lanes are of calls that wait.
    pub fn submit(&self, request: impl Into<Request>) -> Result<Ticket> {
        let prepared = self.prepare(request.into())?;
        let when_full = self.when_full();
        let (entering, _) = self.add(prepared, when_full.full(), false)?;
        self.come_in("submit", entering, when_full.until())
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
            admitted_as(ready, admission)
        });
        // They are all in before the first is waited for.
        let entered: Vec<Result<Entering>> = entered.collect();
        let until = when_full.until();
        let tickets = entered
            .into_iter()
            .map(|entering| self.come_in(call, entering?, until));
        tickets.collect()
    }

    /// Runs a request and waits for its outputs. Where a lane is free, and all that waits can go in one batch with the request,
    /// or the request is the first of the batch that goes next, the calling thread runs that itself.
    ///
    /// From within the queue's own function it is an error where all lanes are of calls that wait so.
    pub fn infer(&self, request: impl Into<Request>) -> Result<Vec<Array>> {
        let mut prepared = self.prepare(request.into())?;
        if self.run_at_once(&mut prepared) {
            return outputs(prepared.answer.wait(), prepared.filled.as_ref());
        }
        let _waiting = self
            .shared()
            .about_to_wait("infer", prepared.answer.clone())?;
        match (prepared.parts.len(), self.when_full()) {
            (1, WhenFull::Reject | WhenFull::Block) => self.leave(prepared),
            _ => self.add_and_wait(prepared),
        }
    }

    /// Leaves a request in one part to whoever comes to the queue next, and sleeps until it is over, however that comes.
    fn leave(&self, prepared: Prepared) -> Result<Vec<Array>> {
        let shared = self.shared();
        let Prepared {
            kind,
            parts,
            answer,
            filled,
        } = prepared;
        let turn = shared.engine.leave(kind, parts, self.when_full().full());
        if let Some(turn) = turn {
            shared.run(turn, &*self.0.function);
        }
        let result = answer.wait();
        shared.engine.was_woken();
        if let Some(filled) = &filled
            && !matches!(&result, Err(error) if error.is_refusal())
        {
            shared.waste.count(filled);
        }
        outputs(result, filled.as_ref())
    }

    fn add_and_wait(&self, prepared: Prepared) -> Result<Vec<Array>> {
        let when_full = self.when_full();
        let (entering, helped) = self.add(prepared, when_full.full(), true)?;
        let ticket = self.come_in("infer", entering, when_full.until())?;
        match helped {
            true => ticket.wait(),
            false => ticket.wait_asleep(),
        }
    }

    /// Runs a request on the calling thread, without a lock, if nothing else is to be done. Says whether it did.
    fn run_at_once(&self, prepared: &mut Prepared) -> bool {
        let shared = self.shared();
        let parts = std::mem::take(&mut prepared.parts);
        let runner = shared.runner(&*self.0.function);
        let left = shared.engine.run_at_once(&prepared.kind, parts, &runner);
        prepared.parts = left.err().unwrap_or_default();
        let is_run = prepared.parts.is_empty();
        if is_run && let Some(filled) = &prepared.filled {
            shared.waste.count(filled);
        }
        is_run
    }

    /// Puts a request in the queue as soon as there is room, without blocking a thread.
    pub async fn submit_when_room(&self, request: impl Into<Request>) -> Result<Ticket> {
        let prepared = self.prepare(request.into())?;
        let (entering, _) = self.add(prepared, Full::Hold, false)?;
        let ids = match &entering.admission {
            Admission::Queued(ids) => ids.clone(),
            Admission::Held(place) => {
                let outside = Outside {
                    queue: self.shared(),
                    place: Some(place),
                };
                outside.await
            }
        };
        Ok(self.ticket(ids, entering))
    }

    /// Runs many requests, and gives their outputs in order. Only some are under way at a time, however many there are: as many as
    /// keep all lanes busy, and no more bytes than `capacity_bytes`. What finds no room waits for it, whatever `when_full` is.
    pub fn infer_all<I>(&self, requests: I) -> InferAll<I::IntoIter>
    where
        I: IntoIterator,
        I::Item: Into<Request>,
    {
        InferAll::new(self.clone(), requests.into_iter(), &self.shared().settings)
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
        let entry = |inputs: Vec<Array>, rows, bytes, to| Entry {
            job: Part::new(inputs, to),
            rows,
            bytes,
            tenant,
            priority: request.priority,
            deadline: request.deadline,
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

    /// Adds a request. Says also whether a `helper` has run a batch.
    fn add(&self, mut prepared: Prepared, full: Full, helper: bool) -> Result<(Entering, bool)> {
        let shared = self.shared();
        let parts = std::mem::take(&mut prepared.parts);
        let request = std::iter::once((prepared.kind.clone(), parts));
        let (mut added, turn) = shared.engine.add(request, full, helper);
        let helped = turn.is_some();
        if let Some(turn) = turn {
            shared.run(turn, &*self.0.function);
        }
        let admission = added.pop().unwrap_or(Err(Rejected::Closed));
        Ok((admitted_as(prepared, admission)?, helped))
    }

    /// Waits until a request is in the queue, or that time has come.
    fn come_in(
        &self,
        call: &'static str,
        entering: Entering,
        until: Option<Instant>,
    ) -> Result<Ticket> {
        let ids = match &entering.admission {
            Admission::Queued(ids) => ids.clone(),
            Admission::Held(place) => {
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
        Ok(self.ticket(ids, entering))
    }

    fn ticket(&self, ids: Ids, entering: Entering) -> Ticket {
        let shared = self.shared();
        if let Some(filled) = &entering.filled
            && !ids.is_empty()
        {
            shared.waste.count(filled);
        }
        Ticket::new(shared.clone(), entering.answer, ids, entering.filled)
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

fn admitted_as(prepared: Prepared, admission: Result<Admission, Rejected>) -> Result<Entering> {
    Ok(Entering {
        admission: admission?,
        answer: prepared.answer,
        filled: prepared.filled,
    })
}

/// A request that waits outside until there is room. Dropped before, it is given up.
struct Outside<'a> {
    queue: &'a Shared,
    place: Option<&'a Arc<crate::engine::Place>>,
}

impl Future for Outside<'_> {
    type Output = Ids;

    fn poll(
        mut self: std::pin::Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Ids> {
        let Some(place) = self.place else {
            panic!("polled after it was ready")
        };
        place.poll(context.waker()).map(|ids| {
            self.place = None;
            ids.unwrap_or_default()
        })
    }
}

impl Drop for Outside<'_> {
    fn drop(&mut self) {
        if let Some(place) = self.place
            && self.queue.engine.withdraw(place, Fate::Cancelled).is_none()
            && let Some(ids) = place.wait()
        {
            self.queue.engine.cancel(&ids);
        }
    }
}
