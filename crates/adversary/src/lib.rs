//! A device around another that imitates driver bugs.
//!
//! An [`Adversary`] executes everything on the device it wraps. It watches which threads call it at the same time, and
//! where a driver with the [`Quirk`]s it was given would break, the queue fails with a fault whose message begins with
//! "quirk violated". Run a program on it to see whether it keeps to what such a driver can bear.
//!
//! ```
//! use streampool_adversary::Adversary;
//! use streampool_device::{Device, Error, Flush, Op, QueueOptions, Quirk};
//! use streampool_host::{HostDevice, HostOptions};
//!
//! // At most one buffer may be in flight.
//! let host = HostDevice::new(HostOptions::default())?;
//! host.injector().delay_queue(0, std::time::Duration::from_millis(50));
//! let device = Adversary::new(host, [Quirk::BuffersInFlight(1)]);
//!
//! let mut queue = device.create_queue(QueueOptions::default())?;
//! for _ in 0..2 {
//!     // SAFETY: it names no memory.
//!     unsafe { queue.encode(&Op::Nop)? };
//!     queue.flush(Flush::Start)?;
//! }
//! assert_eq!(device.violations(), 1);
//! let fault = queue.progress().fault().expect("the queue is poisoned");
//! assert_eq!(fault.message(), "quirk violated: buffers-in-flight: 2 in flight, at most 1 allowed");
//! queue.recover()?;
//! # Ok::<(), Error>(())
//! ```

mod bugs;
mod queue;
mod ranks;

use std::ptr::NonNull;
use std::sync::Arc;

use streampool_device::{
    CacheReport, ChannelsLast, Device, Event, Memory, MemoryUse, Op, OpKind, Overhead, Prepared,
    Properties, Queue, QueueOptions, Quirk, Result, Space, Trace,
};

use crate::bugs::Bugs;
use crate::queue::Watched;

/// A device with bugs that the one it wraps does not have.
#[derive(Debug)]
pub struct Adversary {
    device: Arc<dyn Device>,
    bugs: Arc<Bugs>,
    channels_last: ChannelsLast,
}

impl Adversary {
    /// Imitates `quirks` around `device`.
    pub fn new(device: Arc<dyn Device>, quirks: impl IntoIterator<Item = Quirk>) -> Arc<Adversary> {
        let channels_last = device.channels_last();
        Adversary::with_channels_last(device, quirks, channels_last)
    }

    /// The same, and a device that wants pictures laid out as another does.
    pub fn with_channels_last(
        device: Arc<dyn Device>,
        quirks: impl IntoIterator<Item = Quirk>,
        channels_last: ChannelsLast,
    ) -> Arc<Adversary> {
        Arc::new(Adversary {
            device,
            bugs: Arc::new(Bugs::new(quirks.into_iter().collect())),
            channels_last,
        })
    }

    /// How often it was used in a way that a driver with these bugs cannot bear.
    pub fn violations(&self) -> u64 {
        self.bugs.violations()
    }
}

impl Device for Adversary {
    fn properties(&self) -> &Properties {
        self.device.properties()
    }

    fn supports(&self, op: OpKind) -> bool {
        self.device.supports(op)
    }

    fn allocate(&self, bytes: usize, space: Space) -> Result<Memory> {
        self.device.allocate(bytes, space)
    }

    unsafe fn free(&self, memory: Memory) {
        // SAFETY: the caller's guarantee, handed on.
        unsafe { self.device.free(memory) }
    }

    fn host_address(&self, memory: &Memory) -> Result<NonNull<u8>> {
        self.device.host_address(memory)
    }

    fn memory_use(&self) -> MemoryUse {
        self.device.memory_use()
    }

    fn overhead(&self) -> Overhead {
        self.device.overhead()
    }

    fn channels_last(&self) -> ChannelsLast {
        self.channels_last
    }

    fn prepare(&self, op: &Op) -> Result<Option<Prepared>> {
        self.device.prepare(op)
    }

    fn create_queue(&self, options: QueueOptions) -> Result<Box<dyn Queue>> {
        let label = options.label.clone();
        let queue = self.device.create_queue(options)?;
        Ok(Box::new(Watched::new(queue, label, self.bugs.clone())))
    }

    fn create_event(&self, timing: bool) -> Result<Box<dyn Event>> {
        self.device.create_event(timing)
    }

    /// Those of the device that it wraps, too.
    fn quirks(&self) -> Vec<Quirk> {
        let mut quirks = self.device.quirks();
        quirks.extend(self.bugs.quirks());
        quirks.sort_unstable();
        quirks.dedup();
        quirks
    }

    fn caches(&self) -> Vec<CacheReport> {
        self.device.caches()
    }

    fn set_trace(&self, trace: Option<Arc<dyn Trace>>) {
        self.device.set_trace(trace);
    }
}
