//! How far a queue is, for any thread to see and to wait for.

use std::sync::Arc;
use std::time::Instant;

use streampool_device::{Fault, Progress, Result, Tick, commands};

use crate::strand::Strand;

/// A strand, seen from outside.
pub(crate) struct HostProgress(pub(crate) Arc<Strand>);

impl Progress for HostProgress {
    fn completed(&self) -> Tick {
        let completed = self.0.completed();
        if completed < self.0.appended() {
            self.0.start();
        }
        completed
    }

    fn fault(&self) -> Option<Fault> {
        self.0.fault()
    }

    fn give_up(&self, since: Tick, until: Tick) -> bool {
        self.0.give_up(since, until);
        true
    }

    fn wait(&self, tick: Tick, deadline: Option<Instant>) -> Result<()> {
        commands::check_wait(tick, self.0.appended())?;
        self.0.reach(tick, deadline)?;
        commands::outcome(tick, self.0.fault())
    }
}
