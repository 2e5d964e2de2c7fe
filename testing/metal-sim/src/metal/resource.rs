//! What a command buffer names: it has to live until the command buffer is completed.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::report::{Rule, violation};

/// What a command buffer names.
pub(super) trait Resource: Send + Sync + 'static {
    /// By how many command buffers that do not retain it.
    fn uses(&self) -> &AtomicUsize;
}

/// A resource that has to live, for a command buffer that does not retain it names it.
pub(super) struct InFlight(Arc<dyn Resource>);

impl InFlight {
    pub fn new(resource: Arc<dyn Resource>) -> InFlight {
        resource.uses().fetch_add(1, Ordering::AcqRel);
        InFlight(resource)
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.uses().fetch_sub(1, Ordering::AcqRel);
    }
}

/// For the end of an object that a command buffer may name.
pub(super) fn freed_in_flight(resource: &impl Resource, name: impl FnOnce() -> String) {
    if resource.uses().load(Ordering::Acquire) > 0 {
        violation(
            Rule::FreedInFlight,
            format!(
                "{} is freed while a command buffer without retained references names it",
                name()
            ),
        );
    }
}
