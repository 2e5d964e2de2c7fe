//! A device around another that finds uses of the same memory that nothing orders.
//!
//! [`Races`] executes everything on the device it wraps. It notes which bytes each command reads and writes, and what orders
//! commands: their place in their queue, events that are recorded and waited for, and the host, which appends one command
//! after it was told that another is over. Where two commands touch the same byte, one of them writes it, and nothing orders
//! them, or where memory is freed before the host knows that its last use is over, it panics and names both. It does not
//! matter whether they met this time.
//!
//! ```should_panic
//! use streampool_device::{Device, Queue, QueueOptions, Space};
//! use streampool_host::{HostDevice, HostOptions};
//! use streampool_races::Races;
//!
//! let device = Races::new(HostDevice::new(HostOptions::default())?);
//! let memory = device.allocate(64, Space::Device)?;
//! let [mut one, mut other] = [0, 1].map(|_| device.create_queue(QueueOptions::default()).unwrap());
//! // SAFETY: the memory lives; that both write it is the bug.
//! unsafe {
//!     one.upload(memory.span(), &[1; 64])?;
//!     other.upload(memory.span(), &[2; 64])?;
//! }
//! # Ok::<(), streampool_device::Error>(())
//! ```
//!
//! # What it does not see
//! - What the host reads and writes in memory of [`Space::Staging`] without a command.
//! - Streams of other libraries.
//! - How a device orders the ops of one program among each other: a replay is one command here. The imitations of NVIDIA's
//!   driver and of Metal look at that.
//! - That one thread was told what another relies on: what any thread knows to be over, all know. Delays on the device that is
//!   wrapped make that rare.

mod access;
mod clock;
mod event;
mod order;
mod planted;
mod program;
mod queue;

use std::collections::VecDeque;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use streampool_device::{
    CacheReport, ChannelsLast, Device, Event, Memory, MemoryUse, Op, OpKind, Overhead, Prepared,
    Properties, Queue, QueueOptions, Quirk, Result, Space, Trace,
};

pub use planted::Planted;

use crate::event::Watched;
use crate::order::Order;
use crate::queue::Lane;

/// Freed memory of so many bytes is kept from others, who would have it at the same address: what was freed is told from what is lent.
const KEPT: usize = 64 << 20;

/// A device that is watched for races.
#[derive(Debug)]
pub struct Races {
    device: Arc<dyn Device>,
    order: Arc<Order>,
    planted: Option<Planted>,
    /// Memory that was freed, the oldest first, but not given back yet.
    kept: Mutex<VecDeque<Memory>>,
}

impl Races {
    /// Watches `device`, and panics where it finds a race.
    pub fn new(device: Arc<dyn Device>) -> Arc<Races> {
        Races::planted(device, None)
    }

    /// The same, with a bug.
    pub fn planted(device: Arc<dyn Device>, planted: impl Into<Option<Planted>>) -> Arc<Races> {
        Arc::new(Races {
            device,
            order: Arc::default(),
            planted: planted.into(),
            kept: Mutex::default(),
        })
    }

    fn kept(&self) -> MutexGuard<'_, VecDeque<Memory>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives back the oldest of what was freed, until no more than so many bytes are kept.
    fn give_back(&self, most: usize) {
        let mut kept = self.kept();
        while bytes(&kept) > most
            && let Some(memory) = kept.pop_front()
        {
            self.order.given_back(memory.handle);
            // SAFETY: whoever freed it gave the guarantee.
            unsafe { self.device.free(memory) }
        }
    }

    /// How many commands it has looked at.
    pub fn commands(&self) -> u64 {
        self.order.commands()
    }
}

impl Device for Races {
    fn properties(&self) -> &Properties {
        self.device.properties()
    }

    fn supports(&self, op: OpKind) -> bool {
        self.device.supports(op)
    }

    fn allocate(&self, bytes: usize, space: Space) -> Result<Memory> {
        let allocated = self.device.allocate(bytes, space).or_else(|_| {
            self.give_back(0);
            self.device.allocate(bytes, space)
        })?;
        self.order.allocated(allocated.handle);
        Ok(allocated)
    }

    unsafe fn free(&self, memory: Memory) {
        // Before another thread is given the same memory.
        self.order.freed(memory.handle);
        // A bug is to be found, not suffered: what may be in use because of it stays.
        if self.planted.is_none() {
            self.kept().push_back(memory);
            self.give_back(KEPT);
        }
    }

    fn host_address(&self, memory: &Memory) -> Result<NonNull<u8>> {
        self.device.host_address(memory)
    }

    fn memory_use(&self) -> MemoryUse {
        let kept = self.kept();
        let held = self.device.memory_use();
        MemoryUse {
            in_use: held.in_use - bytes(&kept),
            allocations: held.allocations - kept.len(),
        }
    }

    fn overhead(&self) -> Overhead {
        self.device.overhead()
    }

    fn channels_last(&self) -> ChannelsLast {
        self.device.channels_last()
    }

    fn prepare(&self, op: &Op) -> Result<Option<Prepared>> {
        self.device.prepare(op)
    }

    fn create_queue(&self, options: QueueOptions) -> Result<Box<dyn Queue>> {
        let label = options.label.clone();
        let queue = self.device.create_queue(options)?;
        let alignment = self.properties().alignment;
        let order = self.order.clone();
        Ok(Box::new(Lane::new(
            queue,
            label,
            alignment,
            order,
            self.planted,
        )))
    }

    fn create_event(&self, timing: bool) -> Result<Box<dyn Event>> {
        let event = self.device.create_event(timing)?;
        Ok(Box::new(Watched::new(event, self.order.clone())))
    }

    fn quirks(&self) -> Vec<Quirk> {
        self.device.quirks()
    }

    fn caches(&self) -> Vec<CacheReport> {
        self.device.caches()
    }

    fn set_trace(&self, trace: Option<Arc<dyn Trace>>) {
        self.device.set_trace(trace);
    }
}

fn bytes(memory: &VecDeque<Memory>) -> usize {
    memory.iter().map(|memory| memory.bytes).sum()
}

impl Drop for Races {
    fn drop(&mut self) {
        self.give_back(0);
    }
}
