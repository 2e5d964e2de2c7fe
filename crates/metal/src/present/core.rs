//! What everything on one device shares.

use std::sync::OnceLock;

use streampool_device::{Error, Properties, Result};
use streampool_kernels::Limits;

use super::encoders::Encoders;
use super::handlers::Callers;
use super::in_flight::InFlight;
use super::kernels::Kernels;
use super::memory::Ledger;
use super::objects::Gpu;
use super::own::Owned;
use super::signposts::Signposts;
use super::tracing::Tracing;

/// What everything on one device shares. Queues, events and programs keep it alive.
pub(crate) struct Core {
    pub properties: Properties,
    pub gpu: Gpu,
    pub limits: Limits,
    /// Whether simdgroups multiply matrices.
    pub simdgroup_matrices: bool,
    pub ledger: Ledger,
    pub own: Owned,
    pub kernels: Kernels,
    pub encoders: Encoders,
    pub in_flight: InFlight,
    pub callers: Callers,
    pub tracing: Tracing,
    pub signposts: Signposts,
    pub lost: OnceLock<String>,
}

impl Core {
    /// The GPU is gone: nothing works any more.
    pub fn lose(&self, why: &str) {
        let _ = self.lost.set(format!("{}: {why}", self.properties.name));
    }

    #[inline]
    pub fn check_alive(&self) -> Result<()> {
        match self.lost.get() {
            Some(why) => Err(Error::DeviceLost(why.clone())),
            None => Ok(()),
        }
    }
}
