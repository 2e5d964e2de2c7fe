//! What all parts of one host device share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use streampool_device::lock::{self, Mutex};
use streampool_device::{Interval, Properties, Trace, foreign};

use crate::injector::Injector;
use crate::map::Expressions;
use crate::memory::Ledger;
use crate::packs::Packs;
use crate::pool::Pool;
use crate::ranks;

/// The shared state. Queues, strands, events and programs keep it alive; the workers do not.
pub(crate) struct Core {
    pub(crate) properties: Properties,
    pub(crate) ledger: Ledger,
    pub(crate) injector: Injector,
    pub(crate) expressions: Expressions,
    pub(crate) packs: Packs,
    pub(crate) tracing: Tracing,
    pub(crate) pool: Pool,
}

/// Where intervals are sent.
pub(crate) struct Tracing {
    on: AtomicBool,
    trace: Mutex<Option<Arc<dyn Trace>>>,
}

impl Tracing {
    pub(crate) fn new() -> Self {
        Tracing {
            on: AtomicBool::new(false),
            trace: Mutex::new(ranks::TRACE, None),
        }
    }

    pub(crate) fn set(&self, trace: Option<Arc<dyn Trace>>) {
        let on = trace.is_some();
        let old = std::mem::replace(&mut *self.trace.lock(), trace);
        self.on.store(on, Ordering::Relaxed);
        // The lock is free: it is foreign code.
        drop(old);
    }

    pub(crate) fn is_on(&self) -> bool {
        self.on.load(Ordering::Relaxed)
    }

    pub(crate) fn send(&self, interval: Interval) {
        let trace = self.trace.lock().clone();
        if let Some(trace) = trace {
            lock::assert_none_held();
            // The panic hook has reported it, and the op is over. It may be the last to hold the trace, too.
            let _ = foreign::call(move || trace.op(interval));
        }
    }
}
