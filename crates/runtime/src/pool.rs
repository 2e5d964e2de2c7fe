//! The pool: the streams of one device, and which thread is on which.

#![expect(
    unsafe_code,
    reason = "takes foreign memory, for which its caller vouches"
)]

use std::sync::{Arc, OnceLock};
use std::time::Instant;

use streampool_device::{Device, Flush};

use crate::binding::{self, Binding, Kept};
use crate::core::{Core, DEFAULT_STREAM};
use crate::event::Event;
use crate::lease::{self, Lease, Slot};
use crate::memory::{Buffer, Pressure};
use crate::profiler::{Profile, Profiler};
use crate::run::{self, Hold, Running};
use crate::settings::Settings;
use crate::sync::Ordering;
use crate::{Error, OnStream, Result, Snapshot, Stream, os};

/// The streams of one device. Cheap to clone; clones are the same pool.
///
/// Each thread that uses it gets a stream of its own from it; stream 0 is the main thread's. When the last
/// clone is dropped, the work in flight is completed and everything is given back to the device.
///
/// ```
/// use streampool_host::{HostDevice, HostOptions};
/// use streampool_runtime::Pool;
///
/// let pool = Pool::new(HostDevice::new(HostOptions::default())?)?;
/// std::thread::scope(|scope| {
///     let threads: Vec<_> = (0..8)
///         .map(|_| scope.spawn(|| pool.current()?.synchronize()))
///         .collect();
///     threads.into_iter().try_for_each(|thread| thread.join().unwrap())
/// })?;
/// # Ok::<(), streampool_runtime::Error>(())
/// ```
#[derive(Clone)]
pub struct Pool(Arc<Inner>);

struct Inner {
    core: Arc<Core>,
    streams: Box<[OnceLock<Stream>]>,
}

impl Pool {
    /// A pool over `device`, set up by the environment's `STREAMPOOL_*` variables.
    pub fn new(device: Arc<dyn Device>) -> Result<Pool> {
        Pool::with_settings(device, Settings::builder().build()?)
    }

    /// A pool over `device` with these settings.
    pub fn with_settings(device: Arc<dyn Device>, settings: Settings) -> Result<Pool> {
        settings.validate()?;
        let core = Arc::new(Core::new(device, settings)?);
        let count = core.settings.streams + core.urgent();
        let streams = (0..count).map(|_| OnceLock::new()).collect();
        Ok(Pool(Arc::new(Inner { core, streams })))
    }

    /// The device.
    pub fn device(&self) -> &Arc<dyn Device> {
        &self.0.core.device
    }

    /// Whether the other is this pool, too.
    pub fn is_same(&self, other: &Pool) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// The settings in force.
    pub fn settings(&self) -> &Settings {
        &self.0.core.settings
    }

    /// The stream of this thread. The first call on a thread leases one, which is returned when the thread
    /// ends; the main thread has stream 0. Inside a [scope](Self::with_stream) it is the scope's.
    ///
    /// When all are leased, the [exhaustion](crate::WhenExhausted) policy decides. A [run](Self::for_run) of the thread gives the
    /// lease to threads that wait; the next call takes another.
    #[inline]
    pub fn current(&self) -> Result<&Stream> {
        if let Some(index) = binding::cached(self.0.core.id)
            && let Some(stream) = self.0.streams[usize::from(index)].get()
            && !os::is_stale(self.0.core.id)
        {
            return Ok(stream);
        }
        self.bind()
    }

    #[cold]
    fn bind(&self) -> Result<&Stream> {
        let core = &self.0.core;
        core.check()?;
        let index = match binding::bound(core.id) {
            Some(index) => index,
            None if os::is_main_thread() => DEFAULT_STREAM,
            None => self.bind_new()?,
        };
        let stream = self.numbered(index)?;
        binding::cache(Binding {
            pool: core.id,
            stream: index,
        });
        Ok(stream)
    }

    fn bind_new(&self) -> Result<u8> {
        let core = &self.0.core;
        match lease::claim(core)? {
            Slot::Shared(index) => {
                binding::keep(Kept::shared(core, index));
                Ok(index)
            }
            Slot::Claimed(index) => {
                self.claimed(index)?;
                binding::keep(Kept::leased(core, index, lease::end));
                Ok(index)
            }
        }
    }

    fn leased(&self, index: u8) -> Result<Lease> {
        Ok(Lease::new(self.claimed(index)?.clone()))
    }

    /// The stream whose slot was just claimed; the slot goes back if it cannot be made.
    fn claimed(&self, index: u8) -> Result<&Stream> {
        self.stream(usize::from(index))
            .inspect_err(|_| self.0.core.slots.release(index))
    }

    /// The stream of this number, whoever has it. A number that the pool does not have is an error.
    pub fn stream(&self, index: usize) -> Result<&Stream> {
        let last = self.settings().streams - 1;
        if index > last {
            return Err(Error::NoSuchStream { index, last });
        }
        self.numbered(index as u8)
    }

    fn numbered(&self, index: u8) -> Result<&Stream> {
        let place = &self.0.streams[usize::from(index)];
        if let Some(stream) = place.get() {
            return Ok(stream);
        }
        let lane = self.0.core.lane(index)?.clone();
        Ok(place.get_or_init(|| Stream::new(self.0.core.clone(), lane)))
    }

    /// A stream whose work goes before that of others, where the device has such a choice. There are two of them beyond the
    /// pool's number of streams, which whoever asks shares with others. A pool of as many streams as there can be has none:
    /// then it is the thread's own. Nobody owns such a stream, so one that is poisoned is recovered here, for who comes next.
    pub fn urgent(&self) -> Result<&Stream> {
        let Some(index) = self.0.core.next_urgent() else {
            return self.current();
        };
        let stream = self.numbered(index)?;
        if stream.fault().is_some() {
            stream.recover()?;
        }
        Ok(stream)
    }

    /// Stream 0, the main thread's.
    pub fn default_stream(&self) -> Result<&Stream> {
        self.stream(usize::from(DEFAULT_STREAM))
    }

    /// A stream for the caller, returned when the lease is dropped. Nobody else is given it meanwhile. When all are leased, the
    /// [exhaustion](crate::WhenExhausted) policy decides: under `Share` it is one that others use, too, under `Wait` the caller waits
    /// its turn, under `Fail` it is an error.
    pub fn lease(&self) -> Result<Lease> {
        self.0.core.check()?;
        match lease::claim(&self.0.core)? {
            Slot::Claimed(index) => self.leased(index),
            Slot::Shared(index) => Ok(Lease::shared(self.numbered(index)?.clone())),
        }
    }

    /// A stream for the caller, if one is free and nobody waits for one.
    pub fn try_lease(&self) -> Result<Option<Lease>> {
        let core = &self.0.core;
        core.check()?;
        let used = core.preferred.load(Ordering::Relaxed);
        let claimed = core.slots.try_claim_preferring(None, used);
        claimed.map(|index| self.leased(index)).transpose()
    }

    /// As [`lease`](Self::lease), but never a stream that others use, too: where all are leased, `Share` fails like `Fail`.
    pub fn lease_alone(&self) -> Result<Lease> {
        let lease = self.lease()?;
        let limit = self.settings().streams - 1;
        match lease.is_shared() {
            true => Err(Error::NoFreeStream { limit }),
            false => Ok(lease),
        }
    }

    /// As [`lease`](Self::lease), for a task of an executor: where all are leased, the task waits, and its thread does not.
    /// Tasks and threads that wait are served in the order of their coming, whatever the policy is. The lease is never shared.
    /// It waits without end: dropping the future gives up its place. Run the task's work with [`bind_future`](Self::bind_future).
    pub fn lease_when_free(&self) -> impl Future<Output = Result<Lease>> + Send + use<> {
        let pool = self.clone();
        async move {
            pool.0.core.check()?;
            let index = lease::claim_in_turn(&pool.0.core).await?;
            pool.leased(index)
        }
    }

    /// Returns this thread's stream now instead of at the thread's end, after waiting for its work; one that
    /// it shares it just leaves. Says whether there was one. The next use takes another.
    pub fn release_current_stream(&self) -> bool {
        binding::take(self.0.core.id).is_some()
    }

    /// Runs `work` with `stream` as this thread's current stream. Scopes nest, and end with a panic too.
    /// A stream of another pool is refused.
    pub fn with_stream<R>(&self, stream: &Stream, work: impl FnOnce() -> R) -> Result<R> {
        let _entered = binding::enter(self.binding_of(stream)?);
        Ok(work())
    }

    /// Runs `work` with a stream that nobody else has as this thread's current stream.
    pub fn with_new_stream<R>(&self, work: impl FnOnce(&Stream) -> R) -> Result<R> {
        let lease = self.lease_alone()?;
        self.with_stream(&lease, || work(&lease))
    }

    /// Runs `work` on a stream for just this run, with it as this thread's current stream. For work that is waited for
    /// within the call: then threads can be more than streams, and each gets its turn.
    ///
    /// Inside a [scope](Self::with_stream) or a task it is the stream of that; on the main thread stream 0; on a thread that has
    /// [leased](Self::current) one, that. Any other thread takes a free stream, the one of its last run if it can, and gives it
    /// back at the end. So it holds none between two runs.
    ///
    /// When no stream is free, the run waits in the order of coming, until `deadline` at most. Under `Share` it shares a
    /// stream if for 100 ms none goes from one thread to another, because leases have them. Under `Fail` it fails.
    ///
    /// A lease that a thread has by [`current`](Self::current) goes to who waits when a run on it ends. The thread's next use
    /// takes another stream.
    #[inline]
    pub fn for_run<R>(
        &self,
        deadline: Option<Instant>,
        work: impl FnOnce(&Stream) -> R,
    ) -> Result<R> {
        let core = &self.0.core;
        core.check()?;
        let hold = run::begin(core, deadline)?;
        let (stream, enters) = match hold {
            Hold::Given => (self.current()?, false),
            Hold::Leased(index) => (self.numbered(index)?, false),
            Hold::Claimed(index) => (self.claimed(index)?, true),
            Hold::Shared(index) => (self.numbered(index)?, true),
        };
        let running = Running { core, stream, hold };
        let _entered = enters.then(|| {
            binding::enter(Binding {
                pool: core.id,
                stream: stream.index(),
            })
        });
        Ok(work(running.stream))
    }

    /// The future with `stream` as its current stream, whichever thread polls it.
    pub fn bind_future<F: Future>(&self, stream: &Stream, future: F) -> Result<OnStream<F>> {
        Ok(OnStream::new(self.binding_of(stream)?, future))
    }

    fn binding_of(&self, stream: &Stream) -> Result<Binding> {
        self.0.core.check()?;
        if stream.pool_id() != self.0.core.id {
            return Err(Error::ForeignStream);
        }
        Ok(Binding {
            pool: self.0.core.id,
            stream: stream.index(),
        })
    }

    /// Waits until everything encoded so far on any stream is complete. Others may go on encoding: what
    /// they add is not waited for. Fails with the first failure found, after waiting for all.
    pub fn synchronize(&self) -> Result<()> {
        let core = &self.0.core;
        core.check()?;
        let flushed: Vec<_> = core
            .lanes()
            .map(|lane| (lane, core.flush(lane, Flush::Start)))
            .collect();
        flushed
            .into_iter()
            .map(|(lane, flushed)| core.wait(lane, flushed?, None))
            .fold(Ok(()), Result::and)
    }

    /// An event. Dropping it returns it for the next who asks.
    pub fn event(&self) -> Result<Event> {
        self.0.core.check()?;
        Event::new(&self.0.core, false)
    }

    /// An event that knows when it was reached.
    pub fn timed_event(&self) -> Result<Event> {
        self.0.core.check()?;
        Event::new(&self.0.core, true)
    }

    /// A buffer over memory that was not allocated here. `release` is called once, when the buffer has been
    /// dropped and no stream uses the memory any more.
    ///
    /// # Safety
    /// `span` is memory of this pool's device that stays allocated, and that nobody else writes until `release` is called, or reads
    /// if it is written here. It is aligned to 256 bytes; on the host 16 are enough, since ops there take operands that begin
    /// at any of their elements.
    pub unsafe fn adopt(
        &self,
        span: streampool_device::Span,
        release: impl FnOnce() + Send + Sync + 'static,
    ) -> Result<Buffer> {
        let stream = self.current()?;
        Ok(stream.lane().adopt(span, Some(Box::new(release))))
    }

    /// As [`adopt`](Self::adopt), for memory whose owner does not have to be told: it orders what it does with the memory after
    /// the work here by itself, as by [`Stream::hold_external`](crate::Stream::hold_external).
    ///
    /// # Safety
    /// `span` is memory of this pool's device, aligned to 256 bytes, that stays allocated and is touched by nobody else until
    /// the buffer is dropped and what was encoded with it is over.
    pub unsafe fn lend(&self, span: streampool_device::Span) -> Result<Buffer> {
        Ok(self.current()?.lane().adopt(span, None))
    }

    /// Gives memory that nothing uses back to the device; says how many bytes.
    pub fn trim(&self) -> Result<usize> {
        self.0.core.check()?;
        Ok(self.0.core.trim_all())
    }

    /// Calls `relieve` whenever memory is short, so that caches above can let go of buffers. It runs on the
    /// thread that ran short, holding no lock, and may use the pool's streams. It is kept until the pool
    /// shuts down; so it must not own the pool itself.
    pub fn on_pressure(&self, relieve: impl Fn(&Pressure) + Send + Sync + 'static) {
        self.0.core.pressure.add(Arc::new(relieve));
    }

    /// What the pool holds and did, at this moment.
    pub fn snapshot(&self) -> Result<Snapshot> {
        self.0.core.check()?;
        Ok(Snapshot::of(&self.0.core))
    }

    /// Records every op from now on, at most `capacity` of them, until the recording is finished.
    pub fn profile(&self, capacity: usize) -> Result<Recording> {
        self.0.core.check()?;
        let profiler = Profiler::new(capacity);
        self.device().set_trace(Some(profiler.clone()));
        Ok(Recording {
            pool: self.clone(),
            profiler,
        })
    }
}

/// A profile in the making. Dropping it ends the recording and forgets it.
pub struct Recording {
    pool: Pool,
    profiler: Arc<Profiler>,
}

impl Recording {
    /// Names what the host did between `begin` and now, to be seen beside the ops.
    pub fn host_span(&self, name: &'static str, begin: Instant) {
        let thread = std::thread::current();
        let label = thread.name().unwrap_or("unnamed thread");
        self.profiler.host_span(label, name, begin, Instant::now());
    }

    /// Puts a mark at this moment.
    pub fn mark(&self, name: impl Into<std::borrow::Cow<'static, str>>) {
        self.profiler.mark(name);
    }

    /// Ends it, after waiting for the work in flight.
    pub fn finish(self) -> Result<Profile> {
        // A fault is told to those it hit; what was recorded up to it is wanted all the more.
        if let Err(error @ (Error::ShutDown | Error::Forked)) = self.pool.synchronize() {
            return Err(error);
        }
        self.pool.device().set_trace(None);
        Ok(self.profiler.finish(&self.pool.device().properties().name))
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        self.pool.device().set_trace(None);
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if os::is_stale(self.core.id) {
            // The parent's locks are as they were at the fork: nothing behind this may be touched again.
            std::mem::forget(self.core.clone());
            return;
        }
        self.core.shut_down();
    }
}

impl PartialEq for Pool {
    /// Whether both are the same pool.
    fn eq(&self, other: &Self) -> bool {
        self.0.core.id == other.0.core.id
    }
}

impl Eq for Pool {}

impl std::fmt::Debug for Pool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.core.fmt(f)
    }
}
