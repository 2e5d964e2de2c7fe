//! Appending: what is written on the page of a lane, and when the page is sealed.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use streampool_device::lock::Guard;
use streampool_device::{Error, Handler, OpKind, Result, Tick};

use super::cost::Cost;
use super::errors::Refused;
use super::event::Recording;
use super::lane::Lane;
use super::page::{Draft, Held, Wait};
use super::pool::pooled;
use super::state::{MOST_SEALED, Sealed, State};
use super::tracing::{Times, Traced};
use super::writer::{Writer, Written};

impl Lane {
    /// Its state, if it takes commands: not while poisoned, not on a lost device.
    fn accepting(&self) -> Result<Guard<'_, State>> {
        self.core.check_alive()?;
        let state = self.state.lock();
        match &state.fault {
            Some(fault) => Err(Error::Poisoned(fault.clone())),
            None => Ok(state),
        }
    }

    /// As [`accepting`](Self::accepting), once there is room for another page.
    fn with_room(&self) -> Result<Guard<'_, State>> {
        let mut state = self.accepting()?;
        while state.sealed.len() >= MOST_SEALED {
            state.waiters += 1;
            state = self.over.wait(state);
            state.waiters -= 1;
        }
        match &state.fault {
            Some(fault) => Err(Error::Poisoned(fault.clone())),
            None => Ok(state),
        }
    }

    /// Appends a command that takes `bytes` of the host and costs the GPU `cost`. `encode` writes it, and says what to keep
    /// until it is over.
    pub fn execute(
        self: &Arc<Self>,
        op: OpKind,
        bytes: usize,
        cost: Cost,
        encode: impl FnOnce(&mut Writer<'_>) -> (Result<(), Refused>, Vec<Held>),
    ) -> Result<Tick> {
        let mut state = self.with_room()?;
        let origin = self.core.tracing.origin();
        let fits = |draft: &mut Draft| !draft.cost.plus(cost).is_too_much();
        // What is before it is executed also where a part of it fails, so it shares no page with one.
        if origin.is_some() || !state.page.draft().is_none_or(fits) {
            self.seal(&mut state, None);
        }
        let blame = (self.appended() + 1, op);
        let mut writer = Writer::new(self, state, blame, origin.is_some());
        let (outcome, mut held) = encode(&mut writer);
        let Written {
            mut state,
            in_parts,
            first,
        } = writer.finish();
        let (tick, refused) = (blame.0, outcome.err());
        if let Some(draft) = state.page.draft() {
            let blame = *draft.blame.get_or_insert(blame);
            draft.commands += 1;
            draft.bytes += bytes;
            if let Some(refused) = refused {
                // What was written of it cannot be taken back, so nothing of its buffer is executed.
                self.poison(&mut state, blame, self.refused(refused).to_string());
            }
        } else if !in_parts {
            // Without a page nothing was written. What was sealed goes on.
            self.go_on(state);
            return Err(self.refused(refused.unwrap_or(Refused("commandBuffer"))));
        } else if let Some(refused) = refused {
            // Unless a part of it has failed, which says why.
            self.poison(&mut state, blame, self.refused(refused).to_string());
        }
        if refused.is_some() {
            // Nothing has arrived.
            held.retain(|held| !matches!(held, Held::Landing(..)));
        }
        self.appended.store(tick, Ordering::Release);
        let mut kept = Vec::new();
        match state.last() {
            Some((last, all)) => {
                *last = tick;
                all.append(&mut held);
            }
            None => {
                kept = held;
                self.publish(tick);
            }
        }
        let traced = origin.map(|origin| Traced {
            tick,
            op,
            encoded: Instant::now(),
            origin,
            first,
        });
        if traced.is_some() || state.page.draft().is_some_and(|draft| draft.is_full()) {
            self.seal(&mut state, traced);
        }
        self.go_on(state);
        drop(kept);
        Ok(tick)
    }

    fn refused(&self, refused: Refused) -> Error {
        refused.error(&self.core.properties.name)
    }

    /// Appends a tick without work. It is over when what is before it is.
    pub fn pass(self: &Arc<Self>) -> Result<Tick> {
        let mut state = self.accepting()?;
        let tick = self.append_pass(&mut state);
        // It may be the turn of other lanes.
        pooled(|| self.go_on(state));
        Ok(tick)
    }

    /// As [`pass`](Self::pass): the caller has done the work itself, if nothing is before it. `work` is done without
    /// a lock; only the one who appends calls this, so nothing comes before it meanwhile.
    pub fn pass_with(self: &Arc<Self>, work: impl FnOnce()) -> Result<Option<Tick>> {
        let state = self.accepting()?;
        if !state.is_idle() {
            return Ok(None);
        }
        drop(state);
        work();
        self.pass().map(Some)
    }

    fn append_pass(&self, state: &mut State) -> Tick {
        let tick = self.appended() + 1;
        self.appended.store(tick, Ordering::Release);
        if let Some((last, _)) = state.last() {
            *last = tick;
        } else {
            self.publish(tick);
        }
        tick
    }

    /// Has `handler` called when everything before it is over.
    pub fn call_back(self: &Arc<Self>, handler: Handler) -> Result<Tick> {
        let mut state = self.accepting()?;
        // Before the tick can be over.
        self.handlers.push(self.appended() + 1, handler);
        let tick = self.append_pass(&mut state);
        self.go_on(state);
        Ok(tick)
    }

    /// Records an event here. One with timing ends a buffer, whose end is its time; `nop` writes work for a buffer
    /// where there is none.
    pub fn record(
        self: &Arc<Self>,
        timed: bool,
        nop: impl FnOnce(&mut Writer<'_>) -> Result<(), Refused>,
    ) -> Result<Recording> {
        let mut state = self.with_room()?;
        let mut written = Ok(());
        if timed && state.is_idle() {
            let blame = (self.appended() + 1, OpKind::Nop);
            let mut writer = Writer::new(self, state, blame, false);
            written = nop(&mut writer);
            state = writer.finish().state;
        }
        if let Err(refused) = written {
            // A page without a tick would be in the way of the next one.
            if let Some(draft) = state.page.close(&self.maker()) {
                self.core.encoders.release(draft.command);
            }
            return Err(self.refused(refused));
        }
        let tick = self.append_pass(&mut state);
        self.seal(&mut state, None);
        let State { sealed, flight, .. } = &mut *state;
        let behind = sealed
            .back_mut()
            .or_else(|| flight.as_mut().map(|flight| &mut flight.sealed));
        let times = behind
            .filter(|_| timed)
            .map(|buffer| buffer.times().clone());
        self.go_on(state);
        Ok(Recording {
            lane: self.clone(),
            tick,
            times,
        })
    }

    /// Makes what follows wait for a recording. What is before it does not.
    pub fn wait_for(self: &Arc<Self>, recording: &Recording) -> Result<Tick> {
        if Arc::ptr_eq(&recording.lane, self) || recording.is_over() {
            return self.pass();
        }
        let mut state = self.with_room()?;
        if state.page.draft().is_some_and(|draft| draft.commands > 0) {
            self.seal(&mut state, None);
        }
        let tick = self.appended() + 1;
        let maker = self.maker();
        let draft = match state.page.buffer(&maker) {
            Ok(draft) => draft,
            Err(refused) => {
                self.go_on(state);
                return Err(self.refused(refused));
            }
        };
        draft.waits.push(Wait {
            lane: recording.lane.clone(),
            tick: recording.tick,
        });
        draft.last = tick;
        self.appended.store(tick, Ordering::Release);
        self.go_on(state);
        Ok(tick)
    }

    /// Seals the page, if anything is on it: the encoder ends.
    pub(super) fn seal(&self, state: &mut State, traced: Option<Traced>) {
        state.wanted = false;
        let Some(draft) = state.page.close(&self.maker()) else {
            return;
        };
        let Draft {
            command,
            last,
            blame,
            held,
            waits,
            ..
        } = draft;
        state.sealed.push_back(Sealed {
            command,
            last,
            part_of: None,
            blame,
            held,
            waits,
            times: traced.as_ref().map(|_| Arc::new(Times::new())),
            traced,
        });
    }
}
