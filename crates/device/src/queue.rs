//! The queue: one in-order lane of a device.

#![expect(
    unsafe_code,
    reason = "declares the calls whose caller vouches for the memory that an op names"
)]

use std::any::Any;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::{Error, Event, Fault, Op, Program, Result, Span, Tick};

/// Called once, when everything before it on its queue is complete, or with the fault that hit it.
pub type Handler = Box<dyn FnOnce(std::result::Result<(), Fault>) + Send>;

/// What a device made of an op ahead of time.
pub type Prepared = Box<dyn Any + Send + Sync>;

/// How soon flushed work has to start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flush {
    /// Now, whoever waits.
    Start,
    /// The calling thread is about to wait for it: the device may leave the work to that thread.
    ForWaiter,
}

/// Host bytes that a download writes after the call has returned.
#[derive(Debug)]
pub struct HostSlice {
    /// The first byte.
    pub pointer: *mut u8,
    /// How many there are.
    pub bytes: usize,
}

// SAFETY: it is an address and a length; whoever dereferences it has the guarantee given to `Queue::download`.
unsafe impl Send for HostSlice {}

/// One in-order lane. Commands execute in the order they were appended, each after the one before it.
///
/// Every method that appends takes `&mut self` and returns the tick of what it appended. Nothing is
/// promised to start before [`flush`](Queue::flush), or before somebody queries or waits for it on
/// [`Progress`] or on an event recorded after it; a device may start it sooner.
///
/// No two places append at the same time. Who may only look at a queue cannot encode:
///
/// ```compile_fail,E0596
/// # use streampool_device::{Op, Queue, Result, Tick};
/// fn append(queue: &dyn Queue, op: &Op) -> Result<Tick> {
///     unsafe { queue.encode(op) }
/// }
/// ```
///
/// and of two threads only one can have it:
///
/// ```compile_fail,E0499
/// # use streampool_device::{Op, Queue};
/// fn append(queue: &mut dyn Queue, op: &Op) {
///     std::thread::scope(|scope| {
///         scope.spawn(|| unsafe { queue.encode(op) });
///         scope.spawn(|| unsafe { queue.encode(op) });
///     });
/// }
/// ```
///
/// The same with the queue handed over, one thread after the other:
///
/// ```
/// # use streampool_device::{Op, Queue, Result, Tick};
/// fn append(queue: &mut dyn Queue, op: &Op) -> Result<Tick> {
///     std::thread::scope(|scope| {
///         scope.spawn(|| unsafe { queue.encode(op) });
///     });
///     unsafe { queue.encode(op) }
/// }
/// ```
///
/// # Faults
/// When a command fails, the queue is poisoned: what follows is not executed, events recorded on it
/// complete with the fault, handlers are called with it, and appending fails with
/// [`Poisoned`](crate::Error::Poisoned) until [`recover`](Queue::recover). Waits for events are honoured all
/// the same: a tick is over only when what it was ordered after is. Other queues go on.
///
/// # Capture
/// Between [`begin_capture`](Queue::begin_capture) and [`end_capture`](Queue::end_capture), `encode`
/// appends to the program instead of the queue, and returns the tick of the last real command. Every other
/// appending method fails with [`Capturing`](crate::Error::Capturing). Other queues are not affected.
///
/// # Dropping
/// Dropping a queue does not wait. What was appended still executes, its handlers are still called, and
/// its [`Progress`] stays valid.
pub trait Queue: Send {
    /// The part of this queue that any thread may look at.
    fn progress(&self) -> Arc<dyn Progress>;

    /// Appends an op. It is [validated](Op::validate) first; an op that is refused leaves nothing behind.
    ///
    /// # Safety
    /// - Every span it names is allocated on this device and stays so until the op is complete.
    /// - Until then nothing else writes what it reads, or touches what it writes, except commands ordered
    ///   before or after it by this queue or by events.
    /// - No written operand aliases another, save as [`Op`] allows.
    unsafe fn encode(&mut self, op: &Op) -> Result<Tick>;

    /// As [`encode`](Queue::encode), but compiles nothing: `None` if `op` needs a kernel that never was, and then nothing
    /// has changed. With what the device [prepared](crate::Device::prepare) it is never `None`.
    ///
    /// # Safety
    /// As for [`encode`](Queue::encode), and `prepared` was made of this `op` by this device.
    unsafe fn encode_ready(
        &mut self,
        op: &Op,
        _prepared: Option<Prepared>,
    ) -> Result<Option<Tick>> {
        // SAFETY: the caller's guarantee, handed on.
        unsafe { self.encode(op) }.map(Some)
    }

    /// Appends a copy of `bytes` to the start of `dst`. The bytes are taken before it returns. Fails if
    /// they do not fit.
    ///
    /// # Safety
    /// As for [`encode`](Queue::encode), with `dst` written.
    unsafe fn upload(&mut self, dst: Span, bytes: &[u8]) -> Result<Tick>;

    /// Appends a copy of `src` into host memory of the same size. Fails if the sizes differ.
    ///
    /// # Safety
    /// - As for [`encode`](Queue::encode), with `src` read.
    /// - `into` stays valid, and nobody else touches it, until the command is complete or has been
    ///   [withdrawn](Progress::withdraw).
    unsafe fn download(&mut self, src: Span, into: HostSlice) -> Result<Tick>;

    /// Records `event` here: it completes when everything before it has. An earlier recording of the same
    /// event no longer counts for it, but whoever already waits for that one still gets it.
    fn record(&mut self, event: &dyn Event) -> Result<Tick>;

    /// Makes what follows wait for the event's latest recording. Fails with
    /// [`NotRecorded`](crate::Error::NotRecorded) if there is none. A recording that completes with a fault
    /// releases the wait all the same and does not poison this queue: the caller learns of it from the event.
    fn wait(&mut self, event: &dyn Event) -> Result<Tick>;

    /// Calls `handler` once when everything before it is complete. Handlers of one queue run one at a time
    /// and in order, on any thread, while no lock of the device is held: they may use the device freely,
    /// this queue included. Later commands do not wait for them.
    fn on_complete(&mut self, handler: Handler) -> Result<Tick>;

    /// Hands over everything appended so far and returns the tick of its last command. Never blocks.
    fn flush(&mut self, when: Flush) -> Result<Tick>;

    /// Starts a capture.
    fn begin_capture(&mut self) -> Result<()>;

    /// Ends the capture and returns what was captured. Spans within `slots[i]` become the program's slot
    /// `i`, bound anew at each replay.
    ///
    /// `constants` are memory that no longer changes: what the device finds there now, it finds at each
    /// replay. It may read it at once and keep it in the form that suits its kernels. A span in a slot is
    /// no constant.
    ///
    /// # Safety
    /// - All of `constants` is allocated on this device, and what writes it is complete.
    /// - Nobody writes or frees it as long as the program or a replay of it lives.
    unsafe fn end_capture(
        &mut self,
        slots: &[Span],
        constants: &[Span],
    ) -> Result<Arc<dyn Program>>;

    /// Appends a replay of `program`, its slots bound to `slots`, each at least as long as the one captured
    /// and aligned like it. It is one command, and the op of its faults is
    /// [`Replay`](crate::OpKind::Replay).
    ///
    /// # Safety
    /// As for [`encode`](Queue::encode), for every op of the program with its slots bound.
    unsafe fn replay(&mut self, program: &Arc<dyn Program>, slots: &[Span]) -> Result<Tick>;

    /// Makes what follows wait for everything that `external` was given so far: a stream of the driver that somebody else made,
    /// such as another library in this process. Only a device whose driver has such streams does so.
    ///
    /// # Safety
    /// `external` is the handle of a stream of this device's driver, which lives until this returns.
    unsafe fn wait_for_external(&mut self, _external: u64) -> Result<Tick> {
        Err(no_external_streams())
    }

    /// Makes what `external` is given from now on wait for everything that was appended here.
    ///
    /// # Safety
    /// As for [`wait_for_external`](Queue::wait_for_external).
    unsafe fn hold_external(&mut self, _external: u64) -> Result<Tick> {
        Err(no_external_streams())
    }

    /// As [`replay`](Queue::replay), between what `external` was given so far and what it is given from now on: the replay waits for
    /// the one, and the other waits for the replay. It is still one command of this queue.
    ///
    /// # Safety
    /// As for [`replay`](Queue::replay) and for [`wait_for_external`](Queue::wait_for_external). What is on `external` is ordered
    /// with the replay like commands of this queue.
    unsafe fn replay_on(
        &mut self,
        external: u64,
        program: &Arc<dyn Program>,
        slots: &[Span],
    ) -> Result<Tick> {
        // SAFETY: the caller's guarantees, handed on.
        unsafe {
            self.wait_for_external(external)?;
            let tick = self.replay(program, slots)?;
            self.hold_external(external)?;
            Ok(tick)
        }
    }

    /// Clears the poison, after waiting for what was appended to be over. Without poison it does nothing.
    fn recover(&mut self) -> Result<()>;
}

fn no_external_streams() -> Error {
    Error::Invalid {
        what: "a stream of the driver",
        got: "one of another library".to_owned(),
        expected: "none: only a CUDA device works beside the streams of others".to_owned(),
    }
}

/// How far a queue is. Shared freely; outlives its queue.
pub trait Progress: Send + Sync {
    /// The highest tick known to be over, executed or not because of a fault. Never blocks, never goes
    /// back, and reading it makes what came before visible to this thread. Polling it makes work start.
    fn completed(&self) -> Tick;

    /// The fault that poisons the queue now.
    fn fault(&self) -> Option<Fault>;

    /// Waits until `tick` is over, flushing it if need be; the waiting thread may execute the work itself.
    /// Fails with the fault if `tick` was hit by one that is not yet recovered, with
    /// [`Timeout`](crate::Error::Timeout) at the deadline, and with [`Invalid`](crate::Error::Invalid) if
    /// no command of that tick was ever appended.
    ///
    /// Success and a fault mean that the tick is over. After any other error it may still be under way:
    /// [`completed`](Progress::completed) tells.
    fn wait(&self, tick: Tick, deadline: Option<Instant>) -> Result<()>;

    /// Says that nobody wants any more what was appended behind `since`, up to `until`. A device that can ends it, and says so:
    /// then the first of these commands that is not over fails with a fault, even if it is under way. Others are executed all
    /// the same.
    fn give_up(&self, _since: Tick, _until: Tick) -> bool {
        false
    }

    /// Takes back the host memory that downloads up to `tick` were to write: once this returns, they write nothing there
    /// any more. It waits for what it cannot take back. For who lent memory to a download and could not wait for it.
    fn withdraw(&self, tick: Tick) {
        while self.completed() < tick {
            if self.wait(tick, None).is_err() {
                std::thread::sleep(RETRY);
            }
        }
    }
}

/// How long to rest before a wait that failed is tried again.
const RETRY: Duration = Duration::from_millis(1);
