//! How far a queue is, for any thread to see and to wait for.

use std::sync::Arc;
use std::time::Instant;

use streampool_device::{Error, Fault, Progress, Result, Tick};

use crate::lane::Lane;

/// A lane, seen from outside.
pub(crate) struct CudaProgress(pub Arc<Lane>);

impl Progress for CudaProgress {
    fn completed(&self) -> Tick {
        self.0.poll()
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
