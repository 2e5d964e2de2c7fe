//! How far a queue is, for any thread to see and to wait for.

use std::sync::Arc;
use std::time::Instant;

use streampool_device::{Fault, Progress, Result, Tick, commands};

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

    fn withdraw(&self, tick: Tick) {
        self.0.withdraw(tick);
    }

    fn wait(&self, tick: Tick, deadline: Option<Instant>) -> Result<()> {
        commands::check_wait(tick, self.0.appended())?;
        self.0.reach(tick, deadline)?;
        commands::outcome(tick, self.0.fault())
    }
}
