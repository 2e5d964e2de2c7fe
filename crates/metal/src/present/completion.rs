//! What happens to a sealed page: it is committed when its turn comes, Metal says how it ended, and what waited for
//! it goes on.

use std::ptr::NonNull;
use std::sync::Arc;

use block2::RcBlock;
use objc2::runtime::ProtocolObject;
use objc2_metal::{
    MTLCommandBuffer, MTLCommandBufferError, MTLCommandBufferStatus, MTLSharedEvent,
};
use streampool_device::{foreign, lock};

use super::lane::Lane;
use super::objects::{Command, RawCommand, gpu_times, message};
use super::page::{Held, command};
use super::pool::pooled;
use super::signposts::Signpost;
use super::state::{After, Late, Next, Sealed, State};

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
        while state.flight.is_none()
            && !state.queued
            && let Some(mut first) = state.sealed.pop_front()
        {
            if state.spoils(first.last) {
                match self.husk(&first) {
                    Some(husk) => first.command = husk,
                    None => {
                        self.give_up(first, after);
                        continue;
                    }
                }
            }
            match self.core.in_flight.enter(first.number, self) {
                true => self.commit(first, state),
                false => {
                    state.queued = true;
                    state.sealed.push_front(first);
                }
            }
        }
    }

    /// Its turn among the buffers in flight has come. Returns what other lanes can do then.
    pub(super) fn take_turn(self: &Arc<Self>) -> Vec<Next> {
        let mut after = After::default();
        let mut state = self.state.lock();
        state.queued = false;
        // Nothing takes it away meanwhile, or spoils it: what fails now is behind it.
        if let Some(first) = state.sealed.pop_front() {
            self.commit(first, &mut state);
        }
        self.release(state, &mut after);
        self.finish_own(after)
    }

    /// Commits a page that has been let in among the buffers in flight.
    fn commit(self: &Arc<Self>, sealed: Sealed, state: &mut State) {
        let lane = self.clone();
        let handler = RcBlock::new(move |buffer: NonNull<RawCommand>| {
            // SAFETY: Metal hands over the buffer that is over.
            let buffer = unsafe { buffer.as_ref() };
            pooled(|| lane.completed_by_metal(buffer));
        });
        pooled(|| {
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

    /// For a page that executes nothing any more, but is over only when what it was ordered after is: a buffer that waits
    /// and signals as it would. None, if it waits for nothing.
    fn husk(&self, sealed: &Sealed) -> Option<Command> {
        if sealed.waits.is_empty() {
            return None;
        }
        let husk = command(&self.queue).ok()?;
        for wait in &sealed.waits {
            let event = ProtocolObject::from_ref(&*wait.lane.timeline);
            husk.encodeWaitForEvent_value(event, wait.value);
        }
        let event = ProtocolObject::from_ref(&*self.timeline);
        husk.encodeSignalEvent_value(event, sealed.signal);
        Some(husk)
    }

    /// A page that executes nothing any more, with nothing to wait for, is over: all before it is.
    fn give_up(&self, sealed: Sealed, after: &mut After) {
        let Sealed {
            command,
            held,
            waits,
            ..
        } = sealed;
        // Before the memory that it names may be freed.
        pooled(|| drop(command));
        self.raise(sealed.signal);
        self.publish(sealed.last);
        after.given_up.push((held, waits));
    }

    /// Raises the timeline for a buffer that does not do so itself.
    fn raise(&self, signal: u64) {
        // One buffer of a lane is under way at a time, so nothing raises it meanwhile.
        if self.timeline.signaledValue() < signal {
            self.timeline.setSignaledValue(signal);
        }
    }

    /// The buffer in flight is over. Metal calls this on a thread of its own.
    fn completed_by_metal(self: &Arc<Self>, buffer: &RawCommand) {
        self.finish(After {
            next: self.conclude(end_of(buffer)),
            ..After::default()
        });
    }

    /// The buffer in flight has ended. That is told only once all it waited for is known to be over: the GPU signals
    /// before the host hears of it, and the host may hear of a fault.
    pub(super) fn conclude(self: &Arc<Self>, end: End) -> Vec<Next> {
        let mut state = self.state.lock();
        let Some(Flight { sealed, .. }) = &mut state.flight else {
            return Vec::new();
        };
        let waits = sealed.waits.iter();
        let mut open = waits.filter(|wait| !wait.lane.is_over(wait.value));
        let open = open.next().map(|wait| (wait.lane.clone(), wait.value));
        if let Some((lane, tick)) = open {
            drop(state);
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
        let (held, last) = (std::mem::take(&mut sealed.held), sealed.last);
        let well = end.error.is_none() && !state.spoils(last);
        drop(state);
        // However long it takes: nobody waits for the lane's lock, it starts nothing else, and no tick is over yet.
        if well {
            land(&held);
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
        let End { error, times } = end;
        let ran = (times.0, times.1.max(sealed.latest_wait()));
        let well = error.is_none() && !state.spoils(sealed.last);
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
        let interval = sealed.traced.filter(|_| well).map(|traced| {
            let interval = traced.interval(self.index, ran, state.traced_until);
            state.traced_until = Some(interval.end);
            (interval, self.core.tracing.begin_delivery())
        });
        self.publish(sealed.last);
        self.advance(&mut state, &mut after);
        // Only now, when the next page of this lane has asked for a slot: others may wait for it.
        after
            .next
            .extend(self.core.in_flight.leave().map(Next::Turn));
        self.release(state, &mut after);
        if let Some((interval, delivery)) = interval {
            if let Some(trace) = self.core.tracing.trace() {
                lock::assert_none_held();
                let _ = foreign::call(move || trace.op(interval));
            }
            drop(delivery);
        }
        after.released = Some(sealed);
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
