//! Streams: in-order lanes of work that threads encode to.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use streampool_device::{Fault, Flush};

use crate::binding::{self, Binding};
use crate::clock::Stamp;
use crate::core::{Core, DEFAULT_STREAM};
use crate::lane::{Lane, label};
use crate::memory::Buffer;
use crate::{Error, Event, Result, faults, order};

/// One of a pool's streams. Cheap to clone; clones are the same stream.
///
/// Work on a stream executes in the order it was encoded; work on different streams does so at the same
/// time. Any thread may encode to any stream: what one call encodes stays together.
#[derive(Clone)]
pub struct Stream(Arc<Parts>);

struct Parts {
    core: Arc<Core>,
    lane: Arc<Lane>,
}

impl Stream {
    pub(crate) fn new(core: Arc<Core>, lane: Arc<Lane>) -> Self {
        Stream(Arc::new(Parts { core, lane }))
    }

    #[inline]
    pub(crate) fn core(&self) -> &Core {
        &self.0.core
    }

    #[inline]
    pub(crate) fn lane(&self) -> &Lane {
        &self.0.lane
    }

    /// The number of the pool it belongs to, unique in this process.
    pub fn pool_id(&self) -> u64 {
        self.core().id
    }

    /// Its number in its pool.
    pub fn index(&self) -> u8 {
        self.lane().index
    }

    /// Whether it is the default stream, the main thread's.
    pub fn is_default(&self) -> bool {
        self.index() == DEFAULT_STREAM
    }

    /// Allocates `bytes` on this stream. What the memory holds is arbitrary.
    ///
    /// When memory is short, what can be reclaimed is; [`OutOfMemory`](Error::OutOfMemory) comes after
    /// everything was tried, with the figures.
    #[inline]
    pub fn allocate(&self, bytes: usize) -> Result<Buffer> {
        self.core().allocate(self.lane(), bytes)
    }

    /// As [`allocate`](Self::allocate), for what is kept and read for long, as weights are. It lies apart from all else where
    /// there is room: a device that orders work by whole allocations would have who reads it wait for writes to what lies
    /// beside it.
    pub fn allocate_lasting(&self, bytes: usize) -> Result<Buffer> {
        self.core().allocate_lasting(self.lane(), bytes)
    }

    /// Has what is encoded start now. Without it, work starts when somebody waits for it, or when enough
    /// has come together. Does not wait, save where a device bears only so many buffers in flight.
    pub fn flush(&self) -> Result<()> {
        self.core().check()?;
        self.core().flush(self.lane(), Flush::Start)?;
        Ok(())
    }

    /// Waits until everything encoded so far is complete; the waiting thread may do the work itself.
    ///
    /// Fails with the fault if any of it failed, or used what failed elsewhere.
    #[inline]
    pub fn synchronize(&self) -> Result<()> {
        self.synchronize_by(None)
    }

    /// As [`synchronize`](Self::synchronize), for at most `timeout`; then fails with
    /// [`Timeout`](streampool_device::Error::Timeout), and the work goes on.
    pub fn synchronize_timeout(&self, timeout: Duration) -> Result<()> {
        self.synchronize_by(Instant::now().checked_add(timeout))
    }

    #[inline]
    fn synchronize_by(&self, deadline: Option<Instant>) -> Result<()> {
        self.core().check()?;
        let flushed = self
            .core()
            .flush_by(self.lane(), Flush::ForWaiter, deadline)?;
        self.core().wait(self.lane(), flushed, deadline)
    }

    /// Whether everything encoded so far is complete. Never blocks.
    pub fn is_idle(&self) -> bool {
        self.lane().is_idle()
    }

    /// Records `event` here: it is complete when everything encoded before is.
    pub fn record(&self, event: &Event) -> Result<Stamp> {
        self.core().check()?;
        event.belongs_to(self.pool_id())?;
        let mut encoder = self.lane().lock();
        event.record(|device_event| {
            let tick = encoder.queue()?.record(device_event)?;
            Ok(self.lane().appended(&mut encoder, tick))
        })
    }

    /// Makes what is encoded next wait for the event's latest recording. An event that was never recorded
    /// is an error.
    pub fn wait(&self, event: &Event) -> Result<()> {
        self.core().check()?;
        event.belongs_to(self.pool_id())?;
        let (core, lane) = (self.core(), self.lane());
        let mut encoder = lane.lock();
        let (stamp, tick) =
            event.with_recording(|device_event| Ok(encoder.queue()?.wait(device_event)?))?;
        if stamp.stream != self.index() {
            encoder.after.cover(stamp);
            order::consume(core, lane, &mut encoder, stamp, tick);
        }
        lane.appended(&mut encoder, tick);
        Ok(())
    }

    /// Makes what is encoded next wait for everything that `other` has encoded.
    pub fn wait_for_stream(&self, other: &Stream) -> Result<()> {
        self.core().check()?;
        if other.pool_id() != self.pool_id() {
            return Err(Error::ForeignStream);
        }
        let stamp = Stamp {
            stream: other.index(),
            tick: other.lane().last_tick(),
        };
        if other.index() == self.index() || stamp.tick == 0 {
            return Ok(());
        }
        let (core, lane) = (self.core(), self.lane());
        let mut encoder = order::unobstructed(core, || order::wait_for(core, lane, &[stamp]))?;
        order::consume(core, lane, &mut encoder, stamp, lane.last_tick());
        Ok(())
    }

    /// Calls `handler` once when everything encoded so far is complete, or with the fault that hit it or
    /// what it used. It runs on any thread, with this stream as the current one, and may use the pool
    /// freely. A stream's handlers run in order, one at a time.
    pub fn on_complete(
        &self,
        handler: impl FnOnce(std::result::Result<(), Fault>) + Send + 'static,
    ) -> Result<()> {
        self.core().check()?;
        let stream = self.clone();
        // What is refused is dropped when the lock is free: it is the caller's, and may use the pool.
        let handler = Arc::new(Mutex::new(Some(handler)));
        let kept = handler.clone();
        let added = {
            let mut encoder = self.lane().lock();
            let before = Stamp {
                stream: self.index(),
                tick: self.lane().last_tick(),
            };
            let handler = move |outcome: std::result::Result<(), Fault>| {
                let outcome = outcome.and_then(|()| faults::outcome(stream.core(), before));
                let _entered = binding::enter(Binding {
                    pool: stream.pool_id(),
                    stream: stream.index(),
                });
                let handler = handler
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .take();
                if let Some(handler) = handler {
                    handler(outcome);
                }
            };
            let added = encoder
                .queue()
                .and_then(|queue| Ok(queue.on_complete(Box::new(handler))?));
            if let Ok(tick) = added {
                self.lane().appended(&mut encoder, tick);
            }
            added
        };
        drop(kept);
        added?;
        self.flush()
    }

    /// The place of the command that was encoded last.
    pub fn position(&self) -> Stamp {
        Stamp {
            stream: self.index(),
            tick: self.lane().last_tick(),
        }
    }

    /// Waits until the command at `stamp` is over; what comes behind it is not waited for. Fails with the fault that hit
    /// this command, or what it used, even if the stream was recovered meanwhile.
    pub fn wait_until(&self, stamp: Stamp, deadline: Option<Instant>) -> Result<()> {
        let core = self.core();
        core.check()?;
        if stamp.stream != self.index() {
            return Err(Error::ForeignStream);
        }
        let flushed = core.flush_by(self.lane(), Flush::ForWaiter, deadline)?;
        core.wait_for(self.lane(), stamp.tick, flushed, deadline)
    }

    /// As [`wait_until`](Self::wait_until), for all commands behind the place `since`, up to `until`; both are of this stream.
    pub fn wait_between(
        &self,
        since: Stamp,
        until: Stamp,
        deadline: Option<Instant>,
    ) -> Result<()> {
        if until.tick <= since.tick {
            return Ok(());
        }
        self.wait_until(until, deadline)?;
        faults::check_between(self.lane(), since.tick + 1, until.tick)
    }

    /// Says that nobody wants any more what the calling thread encoded behind the place `since`. On the host it is stopped, and
    /// this is `true`: it fails with a fault, from which the stream is to be [recovered](Self::recover). A GPU computes it to
    /// its end.
    pub fn give_up(&self, since: Stamp) -> bool {
        let until = self.lane().last_tick();
        let own = self.lane().lock().own_between(since.tick, until);
        let progress = &self.lane().progress;
        own.into_iter().fold(false, |is_ended, (since, until)| {
            progress.give_up(since, until) || is_ended
        })
    }

    /// Whose work it was that failed with this fault.
    pub fn culprit(&self, fault: &Fault) -> Culprit {
        if fault.queue() != label(self.index()) {
            return Culprit::Elsewhere;
        }
        match self.lane().lock().is_own(fault.tick()) {
            true => Culprit::ThisThread,
            false => Culprit::OtherThread,
        }
    }

    /// The fault that poisons this stream: it takes no work until [`recover`](Self::recover).
    pub fn fault(&self) -> Option<Fault> {
        self.lane().progress.fault()
    }

    /// Makes a poisoned stream usable again, after waiting for what is left of its work. What the fault hit
    /// stays failed: who uses those results is told. Without a fault it does nothing.
    pub fn recover(&self) -> Result<()> {
        self.core().check()?;
        let flushed = self.core().flush(self.lane(), Flush::ForWaiter)?;
        // The fault is told below, if it is there.
        let _ = self.lane().progress.wait(flushed.tick, None);
        let mut encoder = self.lane().lock();
        let fault = self.fault();
        if let Some(fault) = &fault {
            faults::remember(self.lane(), fault, self.lane().last_tick());
            encoder.queue()?.recover()?;
            encoder.forget_marker();
        }
        drop(encoder);
        if let Some(_fault) = fault {
            streampool_device::warning!("fault", stream = self.index(), why = _fault.to_string());
        }
        Ok(())
    }

    /// Leaves the stream fit for its next holder: idle, and without a fault that is not theirs.
    pub(crate) fn vacate(&self) {
        if self.core().is_shut() {
            return;
        }
        if !self.is_idle() {
            // Who held the stream no longer asks.
            let _ = self.synchronize();
        }
        if self.fault().is_some() {
            let _ = self.recover();
        }
        let _ = faults::settle(self.core(), self.lane(), self.lane().last_tick(), None);
    }
}

impl Buffer {
    /// Tells that work on `stream`, encoded by other means than this crate, uses the buffer: it is not
    /// reused before what is on that stream now is complete. Ops encoded here need no such call.
    pub fn record_stream(&self, stream: &Stream) -> Result<()> {
        self.belongs_to(stream.pool_id())?;
        stream.core().check()?;
        // Marks are set by the holder of the stream's lock.
        let _encoder = stream.lane().lock();
        let tick = stream.lane().last_tick();
        if tick > 0 {
            self.marks().read_at(Stamp {
                stream: stream.index(),
                tick,
            });
        }
        Ok(())
    }
}

/// Whose work on a stream failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Culprit {
    /// The calling thread encoded it on this stream.
    ThisThread,
    /// Another thread did, or it is too long ago to tell.
    OtherThread,
    /// It was on another stream.
    Elsewhere,
}

impl PartialEq for Stream {
    fn eq(&self, other: &Self) -> bool {
        self.pool_id() == other.pool_id() && self.index() == other.index()
    }
}

impl Eq for Stream {}

impl std::fmt::Debug for Stream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "stream {} of {:?}", self.index(), self.core())
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use streampool_device::{DType, Device, Op};
    use streampool_host::{HostDevice, HostOptions, OpMatcher};

    use super::*;
    use crate::{Pool, Settings};

    /// So long who waits for a lock waits for it: far longer than anything takes here that does not.
    const HELD: Duration = Duration::from_secs(20);

    /// What `wait` comes to, and how long it takes, while another thread holds the lock of `held`.
    fn while_locked(held: &Stream, wait: impl FnOnce() -> Result<()>) -> (Result<()>, Duration) {
        let (locked, is_locked) = std::sync::mpsc::channel();
        let (over, is_over) = std::sync::mpsc::channel::<()>();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                let lock = held.lane().lock();
                locked.send(()).unwrap();
                let _ = is_over.recv_timeout(HELD);
                drop(lock);
            });
            is_locked.recv().unwrap();
            let begun = Instant::now();
            let outcome = wait();
            let took = begun.elapsed();
            drop(over);
            (outcome, took)
        })
    }

    fn device_and_pool() -> (Arc<HostDevice>, Pool) {
        let device = HostDevice::new(HostOptions::default().threads(2)).unwrap();
        let settings = Settings::builder().streams(4).build().unwrap();
        let pool = Pool::with_settings(device.clone() as Arc<dyn Device>, settings).unwrap();
        (device, pool)
    }

    fn fill(stream: &Stream, buffer: &mut Buffer) -> Result<()> {
        let (dst, value) = (buffer.write(DType::F32, &[64])?, 1.0.into());
        stream.encode(Op::Fill { dst, value }).map(drop)
    }

    fn copy(stream: &Stream, src: &Buffer, dst: &mut Buffer) -> Result<()> {
        let (src, dst) = (src.read(DType::F32, &[64])?, dst.write(DType::F32, &[64])?);
        stream.encode(Op::Copy { src, dst }).map(drop)
    }

    #[test]
    fn long_after_a_fault_what_is_good_is_read_without_the_writers_lock() {
        let (device, pool) = device_and_pool();
        let (writer, reader) = (pool.stream(1).unwrap(), pool.stream(2).unwrap());
        let mut values = writer.allocate(256).unwrap();
        let mut to = reader.allocate(256).unwrap();
        let broken = OpMatcher::any().on_queue(1);
        device.injector().fail_op(broken, 1, "broken on purpose");
        fill(writer, &mut values).unwrap();
        assert!(writer.synchronize().is_err());
        writer.recover().unwrap();
        let mut others = writer.allocate(256).unwrap();
        for buffer in [&mut values, &mut others] {
            fill(writer, buffer).unwrap();
        }
        writer.synchronize().unwrap();
        // That the later one is good says so of all since the fault.
        copy(reader, &others, &mut to).unwrap();
        for values in [&others, &values] {
            let (outcome, took) = while_locked(writer, || copy(reader, values, &mut to));
            outcome.unwrap();
            assert!(took < HELD / 2, "{took:?}");
        }
    }

    #[test]
    fn a_timeout_bounds_the_wait_for_locks_of_streams() {
        let (_, pool) = device_and_pool();
        let [source, one, other] = [0, 1, 2].map(|index| pool.stream(index).unwrap());
        let [mut first, mut values, mut to] =
            [source, one, other].map(|stream| stream.allocate(256).unwrap());
        fill(source, &mut first).unwrap();
        copy(one, &first, &mut values).unwrap();
        copy(other, &values, &mut to).unwrap();
        // Its own lock, and that of a stream whose results it used, which used another's: whether they are good is asked there.
        let time = Duration::from_millis(5);
        for held in [other, one] {
            let all = while_locked(held, || other.synchronize_timeout(time));
            let until = || Instant::now().checked_add(time);
            let place = while_locked(held, || other.wait_until(other.position(), until()));
            for (outcome, took) in [all, place] {
                assert!(took < HELD / 2, "{took:?}");
                assert!(outcome.is_err_and(|error| is_timeout(&error)));
            }
        }
        assert_eq!(other.synchronize_timeout(Duration::MAX), Ok(()));
    }

    fn is_timeout(error: &Error) -> bool {
        matches!(error, Error::Device(streampool_device::Error::Timeout(_)))
    }
}
