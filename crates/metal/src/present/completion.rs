//! What happens to a sealed page: it is committed when its turn comes, Metal says how it ended, and what waited for
//! it goes on.

use std::ptr::NonNull;
use std::sync::Arc;

use block2::RcBlock;
use objc2_metal::{MTLCommandBuffer, MTLCommandBufferStatus};
use streampool_device::{OpKind, Tick, foreign, lock};

use super::errors::{explained, is_lost};
use super::lane::Lane;
use super::objects::{RawCommand, gpu_times};
use super::page::Held;
use super::peer::{Next, Peer};
use super::pool::pooled;
use super::state::{After, Flight, Sealed, State};

/// How a buffer ended, and when it ran, in seconds of the GPU's clock.
pub(crate) struct End {
    /// The error: its code, and what Metal says of it.
    error: Option<(isize, String)>,
    times: (f64, f64),
}

impl Lane {
    /// Commits the next sealed page, if there is one, what it waits for is over, and its turn has come.
    pub(super) fn start(self: &Arc<Self>, state: &mut State, after: &mut After) {
        while state.flight.is_none()
            && !state.queued
            && let Some(first) = state.sealed.front()
        {
            let mut waits = first.waits.iter();
            if waits.any(|wait| wait.lane.will_tell(wait.tick, self.clone())) {
                state.queued = true;
                return;
            }
            let is_void = first.is_empty() || state.spoils(first.part_of.unwrap_or(first.last));
            if !is_void && !self.core.in_flight.enter(self) {
                state.queued = true;
                return;
            }
            match state.sealed.pop_front() {
                Some(first) if is_void => self.give_up(first, after),
                Some(first) => self.commit(first, state),
                None => {}
            }
        }
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
            self.core.encoders.commit(&flight.sealed.command);
        });
    }

    /// A page that executes nothing, or nothing any more, is over: all before it is, and all that it waited for.
    fn give_up(&self, sealed: Sealed, after: &mut After) {
        let Sealed {
            command,
            last,
            held,
            waits,
            ..
        } = sealed;
        // Before the memory that it names may be freed.
        self.core.encoders.release(command);
        self.publish(last);
        after.given_up.push((held, waits));
    }

    /// The buffer in flight is over. Metal calls this on a thread of its own.
    fn completed_by_metal(self: &Arc<Self>, buffer: &RawCommand) {
        self.finish(After {
            next: self.conclude(end_of(buffer)),
            ..After::default()
        });
    }

    /// The buffer in flight has ended.
    fn conclude(self: &Arc<Self>, end: End) -> Vec<Next> {
        let mut state = self.state.lock();
        let Some(Flight { sealed, .. }) = &mut state.flight else {
            return Vec::new();
        };
        let held = std::mem::take(&mut sealed.held);
        let well = end.error.is_none();
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
        let End { error, times: ran } = end;
        let well = error.is_none();
        if let Some((code, why)) = error {
            if is_lost(code) {
                self.core.lose(&why);
            }
            let blame = sealed.blame.unwrap_or((sealed.last, OpKind::Nop));
            self.poison(&mut state, blame, why);
        }
        if let Some(times) = &sealed.times {
            let _ = times.set(ran);
        }
        let interval = sealed.traced.as_ref().filter(|_| well).map(|traced| {
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

impl Peer for Lane {
    fn proceed(self: Arc<Self>) -> Vec<Next> {
        let mut after = After::default();
        let mut state = self.state.lock();
        state.queued = false;
        self.advance(&mut state, &mut after);
        self.release(state, &mut after);
        self.finish_own(after)
    }

    fn take_turn(self: Arc<Self>) -> Vec<Next> {
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

    fn will_tell(&self, tick: Tick, lane: Arc<dyn Peer>) -> bool {
        // Who publishes a tick looks who is to be told after that.
        let mut told = self.told.lock();
        let open = !self.is_over(tick);
        if open {
            told.push((tick, lane));
        }
        open
    }

    fn call_handlers(&self) {
        self.handlers.call_all();
    }
}

fn end_of(buffer: &RawCommand) -> End {
    let status = buffer.status();
    let error = (status != MTLCommandBufferStatus::Completed).then(|| match buffer.error() {
        Some(error) => (error.code(), explained(&error)),
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
