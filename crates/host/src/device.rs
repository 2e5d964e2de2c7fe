//! The device: what it is, and what it hands out.

use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use streampool_device::{
    CacheReport, ChannelsLast, DType, Device, DeviceKind, Event, Memory, MemoryUse, OpKind,
    Overhead, Properties, Queue, QueueOptions, Quirk, Result, Space, Trace,
};

use crate::core::{Core, Tracing};
use crate::event::HostEvent;
use crate::injector::Injector;
use crate::kernels::{self, scratch};
use crate::map::Expressions;
use crate::memory::{ALIGNMENT, Ledger};
use crate::options::HostOptions;
use crate::packs::Packs;
use crate::pool::Pool;
use crate::queue::HostQueue;

/// The host CPU as a device. Its workers end when it and all its queues, events and programs are dropped.
pub struct HostDevice {
    pub(crate) core: Arc<Core>,
}

impl HostDevice {
    /// Starts the workers. Fails on options that make no sense, and if a thread cannot be started.
    pub fn new(options: HostOptions) -> Result<Arc<HostDevice>> {
        options.check()?;
        let HostOptions { threads, capacity } = options;
        let name = unused_name();
        let core = Core {
            ledger: Ledger::new(&name, capacity),
            properties: Properties {
                name,
                kind: DeviceKind::Host,
                hardware: hardware(),
                features: kernels::features(),
                compute_units: threads,
                alignment: ALIGNMENT,
                memory_capacity: capacity,
                unified_memory: true,
            },
            injector: Injector::new(),
            expressions: Expressions::new(),
            packs: Packs::new(),
            tracing: Tracing::new(),
            pool: Pool::start(threads)?,
        };
        Ok(Arc::new(HostDevice {
            core: Arc::new(core),
        }))
    }

    /// Delays and faults on request, for tests.
    pub fn injector(&self) -> &Injector {
        &self.core.injector
    }
}

impl Device for HostDevice {
    fn properties(&self) -> &Properties {
        &self.core.properties
    }

    fn supports(&self, _op: OpKind) -> bool {
        true
    }

    fn channels_last(&self) -> ChannelsLast {
        ChannelsLast {
            // Bytes, and their sums.
            dtypes: match kernels::has_byte_dots() {
                true => &[DType::F32, DType::U8, DType::I32],
                false => &[DType::F32],
            },
            simple: &[],
            throughout: false,
        }
    }

    fn allocate(&self, bytes: usize, space: Space) -> Result<Memory> {
        self.core.ledger.allocate(bytes, space, &self.core.injector)
    }

    unsafe fn free(&self, memory: Memory) {
        // SAFETY: the same promises are made to the caller's caller, by `Device::free`.
        unsafe { self.core.ledger.free(memory) }
    }

    fn host_address(&self, memory: &Memory) -> Result<NonNull<u8>> {
        memory.staging_address()
    }

    fn memory_use(&self) -> MemoryUse {
        self.core.ledger.memory_use()
    }

    /// What kernels work in is shared by all host devices of a process.
    fn overhead(&self) -> Overhead {
        Overhead {
            memory: scratch::bytes() + self.core.packs.bytes(),
            staging: 0,
        }
    }

    fn create_queue(&self, options: QueueOptions) -> Result<Box<dyn Queue>> {
        self.core.pool.check_process()?;
        Ok(Box::new(HostQueue::new(Arc::clone(&self.core), options)))
    }

    fn create_event(&self, timing: bool) -> Result<Box<dyn Event>> {
        Ok(Box::new(HostEvent::new(Arc::clone(&self.core), timing)))
    }

    fn quirks(&self) -> Vec<Quirk> {
        Vec::new()
    }

    fn caches(&self) -> Vec<CacheReport> {
        Vec::from([self.core.expressions.report()])
    }

    fn set_trace(&self, trace: Option<Arc<dyn Trace>>) {
        self.core.tracing.set(trace);
    }
}

impl std::fmt::Debug for HostDevice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HostDevice")
            .field("properties", self.properties())
            .field("memory_use", &self.memory_use())
            .finish_non_exhaustive()
    }
}

/// `host` for the first device of this process, then `host:1` and so on.
fn unused_name() -> String {
    static MADE: AtomicUsize = AtomicUsize::new(0);
    match MADE.fetch_add(1, Ordering::Relaxed) {
        0 => "host".to_owned(),
        index => format!("host:{index}"),
    }
}

/// What the processor calls itself, or else its architecture.
fn hardware() -> String {
    std::fs::read_to_string("/proc/cpuinfo")
        .ok()
        .and_then(|text| {
            let line = text.lines().find(|line| line.starts_with("model name"))?;
            Some(line.split_once(':')?.1.trim().to_owned())
        })
        .unwrap_or_else(|| std::env::consts::ARCH.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_have_names_of_their_own_and_sound_properties() {
        let options = HostOptions::default().threads(3).capacity(4096);
        let (one, other) = (
            HostDevice::new(options.clone()).unwrap(),
            HostDevice::new(options).unwrap(),
        );
        assert_ne!(one.properties().name, other.properties().name);
        let properties = one.properties();
        assert_eq!(
            (properties.compute_units, properties.memory_capacity),
            (3, 4096)
        );
        assert!(properties.alignment.is_power_of_two() && !properties.hardware.is_empty());
        assert!(HostDevice::new(HostOptions::default().threads(0)).is_err());
    }
}
