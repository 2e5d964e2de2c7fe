//! How far a queue is, for any thread to see and to wait for.

use std::sync::Arc;
use std::time::Instant;

use streampool_device::{Error, Fault, Progress, Result, Tick};

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

    fn wait(&self, tick: Tick, deadline: Option<Instant>) -> Result<()> {
        let appended = self.0.appended();
        if tick > appended {
            return Err(Error::Invalid {
                what: "the tick to wait for",
                got: tick.to_string(),
                expected: format!("at most {appended}, the last one of its queue"),
            });
        }
        self.0.reach(tick, deadline)?;
        match self.0.fault() {
            Some(fault) if tick >= fault.tick() => Err(Error::Fault(fault)),
            _ => Ok(()),
        }
    }
}
