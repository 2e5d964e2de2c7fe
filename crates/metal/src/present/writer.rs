//! The writing of one command, on one page or, where it costs the GPU too much for one, on several.

use std::sync::Arc;

use streampool_device::lock::Guard;
use streampool_device::{OpKind, Tick};

use super::cost::Cost;
use super::errors::Refused;
use super::lane::Lane;
use super::page::{Maker, Page};
use super::state::{MOST_SEALED, State};
use super::tracing::Times;

/// Told where a part of the command has failed already. The fault says why.
const FAILED: Refused = Refused("commit");

/// Writes one command of a lane.
pub(crate) struct Writer<'a> {
    lane: &'a Arc<Lane>,
    /// None only where a panic has taken it.
    state: Option<Guard<'a, State>>,
    blame: (Tick, OpKind),
    /// Whether somebody wants to know when it ran.
    timed: bool,
    /// What of it is on the page.
    cost: Cost,
    /// Whether pages with parts of it are sealed.
    in_parts: bool,
    /// When the first of these ran.
    first: Option<Arc<Times>>,
}

/// What has become of a command.
pub(crate) struct Written<'a> {
    /// Of the lane.
    pub state: Guard<'a, State>,
    /// Whether pages with parts of it are sealed.
    pub in_parts: bool,
    /// When the first of these ran, if somebody wants to know.
    pub first: Option<Arc<Times>>,
}

impl<'a> Writer<'a> {
    pub fn new(
        lane: &'a Arc<Lane>,
        state: Guard<'a, State>,
        blame: (Tick, OpKind),
        timed: bool,
    ) -> Writer<'a> {
        Writer {
            lane,
            state: Some(state),
            blame,
            timed,
            cost: Cost::default(),
            in_parts: false,
            first: None,
        }
    }

    /// The page for a step of this cost. Where it is full, it is sealed, and this waits until there is room for another.
    pub fn page_for(&mut self, cost: Cost) -> Result<(&mut Page, Maker<'_>), Refused> {
        if !self.cost.is_nothing() && self.cost.plus(cost).is_too_much() {
            self.turn_over()?;
        }
        self.cost = self.cost.plus(cost);
        let state = self.state.as_mut().ok_or(FAILED)?;
        Ok((&mut state.page, self.lane.maker()))
    }

    fn turn_over(&mut self) -> Result<(), Refused> {
        let mut state = self.state.take().ok_or(FAILED)?;
        self.note_cost(&mut state);
        if let Some(draft) = state.page.draft() {
            draft.blame.get_or_insert(self.blame);
            // It is over when what is before the command is.
            draft.last = draft.last.max(self.blame.0 - 1);
        }
        self.lane.seal(&mut state, None);
        if let Some(sealed) = state.sealed.back_mut() {
            sealed.part_of = Some(self.blame.0);
            if self.timed && !self.in_parts {
                self.first = Some(sealed.times().clone());
            }
            self.in_parts = true;
        }
        self.lane.go_on(state);
        let mut state = self.lane.state.lock();
        while state.sealed.len() >= MOST_SEALED && state.fault.is_none() {
            state.waiters += 1;
            state = self.lane.over.wait(state);
            state.waiters -= 1;
        }
        let failed = state.fault.is_some();
        self.state = Some(state);
        match failed {
            true => Err(FAILED),
            false => Ok(()),
        }
    }

    fn note_cost(&mut self, state: &mut State) {
        let cost = std::mem::take(&mut self.cost);
        if let Some(draft) = state.page.draft() {
            draft.cost = draft.cost.plus(cost);
        }
    }

    pub fn finish(mut self) -> Written<'a> {
        let state = self.state.take();
        let mut state = state.unwrap_or_else(|| self.lane.state.lock());
        self.note_cost(&mut state);
        Written {
            state,
            in_parts: self.in_parts,
            first: self.first,
        }
    }
}
