//! What happens to a sealed page: it is committed when its turn comes, Metal says how it ended, and what waited for
//! it goes on.

use std::ptr::NonNull;
use std::sync::Arc;

use block2::RcBlock;
use objc2::rc::autoreleasepool;
use objc2::runtime::ProtocolObject;
use objc2_metal::{
    MTLCommandBuffer, MTLCommandBufferError, MTLCommandBufferStatus, MTLSharedEvent,
};
use streampool_device::lock;

use super::lane::{After, EARLY, Lane, Late, Next, Sealed, State};
use super::objects::{Command, RawCommand, gpu_times, message};
use super::page::{Draft, Held, command};
use super::signposts::Signpost;

/// A buffer that is committed and not over.
pub(crate) struct Flight {
    pub sealed: Sealed,
    signpost: Signpost,
}

/// How a buffer ended, and when it ran, in seconds of the GPU's clock.
pub(crate) struct End {
    /// The error: its code, and what Metal says of it.
    error: Option<(isize, String)>,
    times: (f64, f64),
}

impl Lane {
    /// Commits the next sealed page, if there is one and its turn has come.
    pub(super) fn start(self: &Arc<Self>, state: &mut State, after: &mut After) {
        while state.flight.is_none() && !state.queued {
            let Some(first) = state.sealed.front() else {
                return;
            };
            if state.fault.is_some() && first.waits.is_empty() {
                if let Some(sealed) = state.sealed.pop_front() {
                    self.give_up(sealed, after);
                }
                continue;
            }
            if !self.core.in_flight.enter(first.number, self) {
                state.queued = true;
                return;
            }
            self.commit(state, after);
        }
    }

    /// Its turn among the buffers in flight has come. Returns the lanes whose turn is next, if it leaves its own.
    pub(super) fn take_turn(self: &Arc<Self>) -> Vec<Next> {
        let mut after = After::default();
        let mut state = self.state.lock();
        state.queued = false;
        self.commit(&mut state, &mut after);
        self.start(&mut state, &mut after);
        self.release(state, &mut after);
        self.finish_own(after)
    }

    /// Commits the first sealed page. It has been let in among the buffers in flight.
    fn commit(self: &Arc<Self>, state: &mut State, after: &mut After) {
        let Some(mut sealed) = state.sealed.pop_front() else {
            after.next.extend(self.leave());
            return;
        };
        if state.fault.is_some() {
            // It executes nothing any more, but is over only when what it was ordered after is.
            match self.husk(&sealed) {
                Some(husk) => sealed.command = husk,
                None => {
                    self.give_up(sealed, after);
                    after.next.extend(self.leave());
                    return;
                }
            }
        }
        let lane = self.clone();
        let handler = RcBlock::new(move |buffer: NonNull<RawCommand>| {
            // SAFETY: Metal hands over the buffer that is over.
            let buffer = unsafe { buffer.as_ref() };
            autoreleasepool(|_| lane.completed_by_metal(buffer));
        });
        autoreleasepool(|_| {
            // SAFETY: Metal copies the block, which owns what it uses.
            unsafe {
                sealed
                    .command
                    .addCompletedHandler(RcBlock::as_ptr(&handler))
            };
            let signpost = self.core.signposts.begin();
            let flight = state.flight.insert(Flight { sealed, signpost });
            flight.sealed.command.commit();
        });
    }

    /// A buffer that only waits and signals as `sealed` would.
    fn husk(&self, sealed: &Sealed) -> Option<Command> {
        let husk = command(&self.queue).ok()?;
        for wait in &sealed.waits {
            let event = ProtocolObject::from_ref(&*wait.lane.timeline);
            husk.encodeWaitForEvent_value(event, wait.value);
        }
        let event = ProtocolObject::from_ref(&*self.timeline);
        husk.encodeSignalEvent_value(event, sealed.signal);
        Some(husk)
    }

    /// A page that executes nothing any more, with nothing to wait for, is over.
    fn give_up(&self, sealed: Sealed, after: &mut After) {
        self.raise(sealed.signal);
        self.publish(sealed.last);
        after.released.push(sealed);
    }

    /// Raises the timeline for a buffer that does not do so itself.
    fn raise(&self, signal: u64) {
        // One buffer of a lane is under way at a time, so nothing raises it meanwhile.
        if self.timeline.signaledValue() < signal {
            self.timeline.setSignaledValue(signal);
        }
    }

    /// Leaves the buffers in flight to whose turn is next.
    fn leave(&self) -> Option<Next> {
        self.core.in_flight.leave().map(Next::Turn)
    }

    /// The buffer in flight is over. Metal calls this on a thread of its own.
    fn completed_by_metal(self: &Arc<Self>, buffer: &RawCommand) {
        // The turn is given on before the next page of this lane asks for one.
        let mut after = After::default();
        after.next.extend(self.leave());
        after.next.extend(self.conclude(end_of(buffer)));
        self.finish(after);
    }

    /// The buffer in flight has ended. That is told only once all it waited for is known to be over: the GPU signals
    /// before the host hears of it, and the host may hear of a fault.
    pub(super) fn conclude(self: &Arc<Self>, end: End) -> Vec<Next> {
        let state = self.state.lock();
        let Some(flight) = &state.flight else {
            return Vec::new();
        };
        let waits = flight.sealed.waits.iter();
        let mut open = waits.filter(|wait| !wait.lane.is_over(wait.value));
        let open = open.next().map(|wait| (wait.lane.clone(), wait.value));
        drop(state);
        if let Some((lane, tick)) = open {
            let late = Late {
                lane: self.clone(),
                end,
            };
            let mut state = lane.state.lock();
            state.late.push((tick, late));
            let mut after = After::default();
            // It may be over by now.
            lane.release(state, &mut after);
            return lane.finish_own(after);
        }
        self.settle(end)
    }

    fn settle(self: &Arc<Self>, end: End) -> Vec<Next> {
        let mut after = After::default();
        let mut state = self.state.lock();
        let Some(Flight { sealed, signpost }) = state.flight.take() else {
            return Vec::new();
        };
        self.core.signposts.end(signpost);
        let End { error, times: ran } = end;
        let well = error.is_none() && state.fault.is_none();
        if let Some((code, why)) = error {
            if code == MTLCommandBufferError::DeviceRemoved.0 as isize {
                self.core.lose(&why);
            }
            self.poison(&mut state, sealed.blame, why);
            self.raise(sealed.signal);
        }
        if let Some(times) = &sealed.times {
            let _ = times.set(ran);
        }
        if well {
            land(&sealed.held);
        }
        let interval = sealed.traced.filter(|_| well).map(|traced| {
            let interval = traced.interval(self.index, ran, state.traced_until);
            state.traced_until = Some(interval.end);
            (interval, self.core.tracing.begin_delivery())
        });
        self.publish(sealed.last);
        let early = |draft: &mut Draft| draft.commands >= EARLY;
        if state.sealed.is_empty() && (state.wanted || state.page.draft().is_some_and(early)) {
            self.seal(&mut state, None);
        }
        self.start(&mut state, &mut after);
        self.release(state, &mut after);
        if let Some((interval, delivery)) = interval {
            if let Some(trace) = self.core.tracing.trace() {
                lock::assert_none_held();
                trace.op(interval);
            }
            drop(delivery);
        }
        after.released.push(sealed);
        self.finish_own(after)
    }
}

fn end_of(buffer: &RawCommand) -> End {
    let status = buffer.status();
    let error = (status != MTLCommandBufferStatus::Completed).then(|| match buffer.error() {
        Some(error) => (error.code(), message(&error)),
        None => (0, format!("the buffer ended with status {}", status.0)),
    });
    End {
        error,
        times: gpu_times(buffer),
    }
}

/// Copies what has arrived from the GPU to where it is to go.
fn land(held: &[Held]) {
    for held in held {
        if let Held::Landing(block, into) = held {
            // SAFETY: the GPU has written the block, which is at least as long; the caller of `download` vouches for
            // `into` until this tick is over, which nobody knows yet.
            unsafe {
                block
                    .pointer()
                    .as_ptr()
                    .copy_to_nonoverlapping(into.pointer, into.bytes);
            }
        }
    }
}
