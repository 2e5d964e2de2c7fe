//! The device of a trace: memory without bytes, and a queue that lists.

#![expect(unsafe_code, reason = "implements the contract of a device")]

use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rustc_hash::FxHashSet;
use streampool_device::lock::Mutex;
use streampool_device::{
    Access, CacheReport, ChannelsLast, Device, DeviceKind, Error, Event, Memory, MemoryUse, OpKind,
    Properties, Queue, QueueOptions, Quirk, Result, Space, Span, Trace, View,
};

use super::listing::{self, Listing, Outcome, Source};
use super::log::Log;
use super::queue::TraceQueue;
use crate::graph::ValueId;
use crate::ranks;

/// What lists instead of computing.
#[derive(Debug)]
pub struct TraceDevice {
    properties: Properties,
    channels_last: ChannelsLast,
    next_handle: AtomicU64,
    log: Arc<Mutex<Log>>,
}

impl TraceDevice {
    /// One that prefers the convolutions that the device prefers which the listing is for.
    pub fn new(channels_last: ChannelsLast) -> Arc<TraceDevice> {
        Arc::new(TraceDevice {
            channels_last,
            properties: Properties {
                name: "trace".to_owned(),
                kind: DeviceKind::Host,
                hardware: "none".to_owned(),
                features: Vec::new(),
                compute_units: 1,
                alignment: 256,
                memory_capacity: isize::MAX as usize,
                unified_memory: false,
            },
            next_handle: AtomicU64::new(1),
            log: Arc::new(Mutex::new(ranks::LISTING, Log::default())),
        })
    }

    /// The node that what follows is listed for.
    pub fn begin(&self, node: usize) {
        self.log.lock().node = node;
    }

    /// Says what memory holds before the first step.
    pub fn source(&self, span: Span, source: Source) {
        self.log.lock().source(span, source);
    }

    /// Leaves the node to the time when the model is run.
    pub fn leave(&self) {
        self.log.lock().left = true;
    }

    /// If somebody asked for values: the inputs that these depend on, rising. None if the node is left.
    pub fn asked(&self) -> Option<Vec<usize>> {
        let log = self.log.lock();
        if log.left {
            return Some(Vec::new());
        }
        let mut needed = FxHashSet::from_iter([log.asked?]);
        for step in log.steps.iter().rev() {
            let mut writes_needed = false;
            step.op.for_each_operand(|_, access, view| {
                let memory = listing::Memory::of(view.span());
                writes_needed |= access == Access::Write && needed.contains(&memory);
            });
            if writes_needed {
                let add = |_, _, view: &View| {
                    needed.insert(listing::Memory::of(view.span()));
                };
                step.op.for_each_operand(add);
            }
        }
        let mut inputs: Vec<usize> = needed
            .iter()
            .filter_map(|memory| match log.sources.get(memory) {
                Some(Source::Input(place)) => Some(*place),
                _ => None,
            })
            .collect();
        inputs.sort_unstable();
        Some(inputs)
    }

    /// Whether memory holds something before the first step.
    pub fn has_source(&self, memory: listing::Memory) -> bool {
        self.log.lock().sources.contains_key(&memory)
    }

    /// What was listed.
    pub fn listing(&self, outputs: Vec<(ValueId, Outcome)>) -> Listing {
        let mut log = self.log.lock();
        Listing {
            steps: std::mem::take(&mut log.steps),
            sources: std::mem::take(&mut log.sources),
            outputs,
        }
    }
}

impl Device for TraceDevice {
    fn properties(&self) -> &Properties {
        &self.properties
    }

    fn supports(&self, _op: OpKind) -> bool {
        true
    }

    fn channels_last(&self) -> ChannelsLast {
        self.channels_last
    }

    fn allocate(&self, bytes: usize, space: Space) -> Result<Memory> {
        Ok(Memory {
            handle: self.next_handle.fetch_add(1, Ordering::Relaxed),
            bytes,
            space,
        })
    }

    unsafe fn free(&self, _memory: Memory) {}

    fn host_address(&self, memory: &Memory) -> Result<NonNull<u8>> {
        Err(Error::Invalid {
            what: "memory for the host to reach",
            got: format!("memory {} of a trace", memory.handle),
            expected: "memory that exists".to_owned(),
        })
    }

    fn memory_use(&self) -> MemoryUse {
        MemoryUse::default()
    }

    fn create_queue(&self, _options: QueueOptions) -> Result<Box<dyn Queue>> {
        Ok(Box::new(TraceQueue::new(self.log.clone())))
    }

    fn create_event(&self, _timing: bool) -> Result<Box<dyn Event>> {
        Err(Error::Unavailable {
            device: "trace".to_owned(),
            why: "a trace has one queue, and nothing to wait for".to_owned(),
        })
    }

    fn quirks(&self) -> Vec<Quirk> {
        Vec::new()
    }

    fn caches(&self) -> Vec<CacheReport> {
        Vec::new()
    }

    fn set_trace(&self, _trace: Option<Arc<dyn Trace>>) {}
}
