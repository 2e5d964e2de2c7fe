//! The queue that callers see.

use std::cell::RefCell;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

use streampool_tensor::Array;

use crate::answer::{Answer, Joined, Part, To};
use crate::builder::{Builder, WhenFull};
use crate::engine::{Admission, Close, Done, Engine, Full, Parts, Rejected, Turn};
use crate::error::{Error, Result};
use crate::figures::Fate;
use crate::inference::InOrder;
use crate::outcome::Outcome;
use crate::padding::{Cut, Waste};
use crate::request::{Kind, Request};
use crate::runner::{Function, run};
use crate::schedule::{Entry, Id, Ids};
use crate::statistics::Statistics;
use crate::ticket::{Ticket, outputs};

/// A queue that makes batches of the requests of many callers. Cheap to clone; clones are the same queue. When the last is dropped
/// the queue is closed, and what waits is refused.
#[derive(Clone)]
pub struct BatchQueue(Arc<Owner>);

/// Who drops this closes the queue. Tickets and threads hold what is in it, and not this.
struct Owner {
    shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

/// What callers, tickets and threads share.
pub struct Shared {
    /// The queue as threads see it.
    pub engine: Engine<Kind, Part>,
    function: Box<Function>,
    settings: Builder,
    waste: Waste,
}

thread_local! {
    /// The queues whose function this thread is in.
    static INSIDE: RefCell<Vec<*const Shared>> = const { RefCell::new(Vec::new()) };
}

impl Shared {
    /// An engine with these settings, and what it runs.
    pub fn new(engine: Engine<Kind, Part>, function: Box<Function>, settings: Builder) -> Shared {
        Shared {
            engine,
            function,
            settings,
            waste: Waste::default(),
        }
    }

    fn run(&self, turn: Turn<Part>) {
        self.inside(|| self.engine.run(turn, &self.runner()));
    }

    /// Runs a request on the calling thread, without a lock, if nothing else is to be done. Says whether it did.
    fn run_at_once(&self, prepared: &mut Prepared) -> bool {
        let parts = std::mem::take(&mut prepared.parts);
        let run = || {
            let runner = self.runner();
            self.engine.run_at_once(&prepared.kind, parts, &runner)
        };
        let left = self.inside(run).err();
        prepared.parts = left.unwrap_or_default();
        prepared.parts.is_empty()
    }

    /// What runs a batch on a lane.
    fn runner(&self) -> impl Fn(Vec<Entry<Part>>, usize) -> Done {
        |entries, lane| run(&*self.function, entries, lane)
    }

    /// Notes that this thread is in the function, or one of the queue's own, as long as `work` lasts.
    fn inside<R>(&self, work: impl FnOnce() -> R) -> R {
        INSIDE.with_borrow_mut(|queues| queues.push(self));
        let result = work();
        INSIDE.with_borrow_mut(|queues| queues.pop());
        result
    }

    fn is_inside(&self) -> bool {
        INSIDE.with_borrow(|queues| queues.iter().any(|&queue| std::ptr::eq(queue, self)))
    }

    /// Runs these requests on the calling thread, if they are all that waits, and can go. Says whether it did.
    pub fn help(&self, ids: &[Id]) -> bool {
        let turn = self.engine.turn(ids);
        let helped = turn.is_some();
        if let Some(turn) = turn {
            self.run(turn);
        }
        helped
    }

    /// How much of what is computed was filled up.
    pub fn waste(&self) -> f64 {
        self.waste.part()
    }

    fn error(&self, rejected: Rejected, bytes: usize) -> Error {
        match rejected {
            Rejected::Closed => Error::Closed,
            Rejected::Expired => Error::Expired,
            Rejected::TooLarge => Error::TooLarge {
                bytes,
                capacity: self.settings.capacity.bytes,
            },
            Rejected::Full => self.full(),
        }
    }

    fn full(&self) -> Error {
        self.engine.look(|schedule, _, _| Error::Full {
            requests: schedule.requests(),
            bytes: schedule.bytes(),
            retry_after: schedule.backlog()
                / u32::try_from(self.settings.in_flight).unwrap_or(u32::MAX),
        })
    }
}

/// A request on its way in.
struct Prepared {
    kind: Kind,
    parts: Parts<Part>,
    answer: Arc<Answer>,
    cut: Option<Cut>,
    bytes: usize,
}

/// How a request came in.
struct Entering {
    admission: Admission,
    answer: Arc<Answer>,
    cut: Option<Cut>,
}

impl BatchQueue {
    /// The settings of a queue to be made.
    pub fn builder() -> Builder {
        Builder::default()
    }

    pub(crate) fn start(shared: Shared) -> Result<BatchQueue> {
        let owner = Owner {
            shared: Arc::new(shared),
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
    /// Where there is no room it fails or waits for room, as `when_full` says.
    pub fn submit(&self, request: impl Into<Request>) -> Result<Ticket> {
        let prepared = self.prepare(request.into())?;
        let (entering, _) = self.add(prepared, self.full(), false)?;
        self.come_in(entering)
    }

    /// Puts requests in the queue, all before the first of them can go.
    pub fn submit_many<R: Into<Request>>(
        &self,
        requests: impl IntoIterator<Item = R>,
    ) -> Vec<Result<Ticket>> {
        let shared = self.shared();
        let prepared = requests
            .into_iter()
            .map(|request| self.prepare(request.into()));
        let mut prepared: Vec<Result<Prepared>> = prepared.collect();
        let parts = prepared.iter_mut().flatten();
        let parts = parts.map(|ready| (ready.kind.clone(), std::mem::take(&mut ready.parts)));
        let (admitted, _) = shared.engine.add(parts, self.full(), false);
        let mut admitted = admitted.into_iter();
        let entered = prepared.into_iter().map(|ready| {
            let ready = ready?;
            let admission = admitted.next().unwrap_or(Err(Rejected::Closed));
            self.admitted(ready, admission)
        });
        // They are all in before the first is waited for.
        let entered: Vec<Result<Entering>> = entered.collect();
        let tickets = entered.into_iter().map(|entering| self.come_in(entering?));
        tickets.collect()
    }

    /// Runs a request and waits for its outputs. Where the queue has a lane free, the calling thread runs it itself.
    pub fn infer(&self, request: impl Into<Request>) -> Result<Vec<Array>> {
        let mut prepared = self.prepare(request.into())?;
        if self.shared().run_at_once(&mut prepared) {
            return outputs(prepared.answer.wait(), prepared.cut.as_ref());
        }
        let (entering, helped) = self.add(prepared, self.full(), true)?;
        let ticket = self.come_in(entering)?;
        match helped {
            true => ticket.wait(),
            false => ticket.wait_asleep(),
        }
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

    /// Runs many requests, and gives their outputs in order. Only some are under way at a time, however many there are.
    pub fn infer_all<I>(&self, requests: I) -> InOrder<I::IntoIter>
    where
        I: IntoIterator,
        I::Item: Into<Request>,
    {
        InOrder::new(
            self.clone(),
            requests.into_iter(),
            self.shared().settings.limits.rows,
            self.shared().settings.in_flight,
        )
    }

    fn full(&self) -> Full {
        match self.shared().settings.when_full {
            WhenFull::Reject => Full::Refuse,
            WhenFull::Block | WhenFull::Wait(_) => Full::Hold,
        }
    }

    /// What is done on the caller's thread before any lock: sizes are checked, and the request filled up and divided.
    fn prepare(&self, mut request: Request) -> Result<Prepared> {
        let shared = self.shared();
        let rows = request.rows()?;
        let cut = match &shared.settings.padding {
            Some(padding) => padding.apply(&mut request, &shared.waste)?,
            None => None,
        };
        let kind = Kind::of(&request);
        let bytes = request.bytes();
        let tenant = match &request.tenant {
            Some(name) => shared
                .engine
                .look(|schedule, _, _| schedule.tenants().named(name)),
            None => 0,
        };
        let arrived = Instant::now();
        let answer = Arc::new(Outcome::new());
        let entry = |inputs: Vec<Array>, rows, bytes, to| Entry {
            job: Part {
                inputs: Arc::new(inputs),
                to,
            },
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
            cut,
            bytes,
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
            shared.run(turn);
        }
        let admission = added.pop().unwrap_or(Err(Rejected::Closed));
        Ok((self.admitted(prepared, admission)?, helped))
    }

    fn admitted(
        &self,
        prepared: Prepared,
        admission: Result<Admission, Rejected>,
    ) -> Result<Entering> {
        let admission =
            admission.map_err(|rejected| self.shared().error(rejected, prepared.bytes))?;
        Ok(Entering {
            admission,
            answer: prepared.answer,
            cut: prepared.cut,
        })
    }

    /// Waits until a request is in the queue.
    fn come_in(&self, entering: Entering) -> Result<Ticket> {
        let shared = self.shared();
        let ids = match &entering.admission {
            Admission::Queued(ids) => ids.clone(),
            Admission::Held(place) => {
                let until = match shared.settings.when_full {
                    WhenFull::Wait(time) => Instant::now().checked_add(time),
                    WhenFull::Reject | WhenFull::Block => None,
                };
                let ids = match until {
                    None => Some(place.wait()),
                    Some(until) => place.wait_until(until).or_else(|| {
                        let given_up = shared.engine.withdraw(place, Fate::Rejected);
                        (!given_up).then(|| place.wait())
                    }),
                };
                let full = || self.shared().full();
                // Turned away, it has no place, and its answer says why.
                ids.ok_or_else(full)?.unwrap_or_default()
            }
        };
        Ok(self.ticket(ids, entering))
    }

    fn ticket(&self, ids: Ids, entering: Entering) -> Ticket {
        Ticket::new(self.shared().clone(), entering.answer, ids, entering.cut)
    }

    /// What it did and holds.
    pub fn statistics(&self) -> Statistics {
        Statistics::of(self.shared())
    }

    /// Takes no more requests, and waits until nothing is left: what waits is run, or refused. Called from within the queue's
    /// function it does not wait. To close a closed queue does nothing.
    pub fn close(&self, how: Close) {
        self.0.close(how);
    }

    /// Whether it takes requests.
    pub fn is_open(&self) -> bool {
        self.shared().engine.is_open()
    }

    /// Opens it again after it was closed. An open queue stays as it is; one that is being closed is waited for, but from
    /// within the queue's function that is an error.
    pub fn restart(&self) -> Result<()> {
        let engine = &self.shared().engine;
        if self.shared().is_inside() && !engine.is_open() {
            return Err(Error::Closed);
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
        for number in 0..=self.shared.settings.in_flight {
            let shared = self.shared.clone();
            let work = move || {
                shared.inside(|| match number {
                    0 => shared.engine.keep_time(),
                    _ => shared.engine.work(&shared.runner()),
                });
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
                    self.close(Close::Cancel);
                    return Err(Error::Thread(Arc::new(error)));
                }
            }
        }
        Ok(())
    }

    fn close(&self, how: Close) {
        let shared = &self.shared;
        shared.engine.close(how);
        if !shared.is_inside() {
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
            // A thread of the queue does not panic: what it calls is caught.
            let _ = thread.join();
        }
        Some(threads)
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.close(Close::Cancel);
    }
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
            && !self.queue.engine.withdraw(place, Fate::Cancelled)
            && let Some(ids) = place.wait()
        {
            self.queue.engine.cancel(&ids);
        }
    }
}
