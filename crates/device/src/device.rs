//! The device: what it is, and what it hands out.

#![expect(
    unsafe_code,
    reason = "declares `Device::free`, whose caller vouches that nothing uses the memory"
)]

use std::ptr::NonNull;
use std::sync::Arc;

use crate::{DType, Event, Memory, Op, OpKind, Prepared, Queue, Quirk, Result, Space, Trace};

/// The family a device belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DeviceKind {
    /// The host CPU.
    Host,
    /// An NVIDIA GPU.
    Cuda,
    /// An Apple GPU.
    Metal,
}

impl DeviceKind {
    /// The name in settings and messages.
    pub const fn name(self) -> &'static str {
        match self {
            DeviceKind::Host => "host",
            DeviceKind::Cuda => "cuda",
            DeviceKind::Metal => "metal",
        }
    }
}

/// What does not change while a device lives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Properties {
    /// A name that tells it from others in this process, such as `host` or `cuda:1`.
    pub name: String,
    /// The family.
    pub kind: DeviceKind,
    /// What the hardware calls itself.
    pub hardware: String,
    /// What it computes with: instruction sets, compute capability, GPU family.
    pub features: Vec<String>,
    /// Processors that run kernels at the same time.
    pub compute_units: usize,
    /// Every allocation begins at a multiple of this, a power of two and at least 256.
    pub alignment: usize,
    /// The most bytes it can give in all.
    pub memory_capacity: usize,
    /// Whether the host reads and writes its memory directly.
    pub unified_memory: bool,
}

/// How a device's memory is used right now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MemoryUse {
    /// Bytes allocated and not yet freed.
    pub in_use: usize,
    /// Allocations not yet freed.
    pub allocations: usize,
}

/// What a device takes beside what was allocated, about. Nobody can free it but the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Overhead {
    /// Bytes of its memory: what ops work in, and what programs are made into.
    pub memory: usize,
    /// Bytes of the host's memory through which copies pass, if the device has another.
    pub staging: usize,
}

/// What a cache of a device holds and how it did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CacheReport {
    /// What it caches.
    pub name: String,
    /// Entries held.
    pub entries: usize,
    /// Look-ups answered from it.
    pub hits: u64,
    /// Entries made by compiling.
    pub compiled: u64,
    /// Entries read back from disk.
    pub loaded: u64,
    /// Why it does not work as it was set up to, though it does work: a directory that cannot be used.
    pub problem: Option<String>,
}

/// How a queue is made.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct QueueOptions {
    /// Names the queue in faults and traces.
    pub label: String,
    /// A number for traces.
    pub index: u32,
    /// Whose work goes first when the device cannot run all at once. A hint: a device may have no such
    /// choice.
    pub priority: Priority,
}

/// How urgent the work of a queue is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Priority {
    /// After all other.
    Low,
    /// As most work is.
    #[default]
    Normal,
    /// Before all other.
    High,
}

/// Which convolutions are faster if the channels of each place of a picture lie side by side.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ChannelsLast {
    /// Those of these element types. If `u8` is one, it executes [convolutions of bytes](crate::Conv), and faster than those of the
    /// floats that they stand for.
    pub dtypes: &'static [DType],
    /// Of these element types, those that see each channel by itself or each element once, and are not beside others: those are slower.
    pub simple: &'static [DType],
    /// Only where the weights, what is read and what is made all lie so.
    pub throughout: bool,
}

/// A device. All methods may be called from any thread at the same time.
///
/// A device promises that no call of one queue waits for a lock that another queue's call holds while it
/// does work, and that it calls nobody back while it holds a lock.
pub trait Device: Send + Sync + std::fmt::Debug {
    /// What it is.
    fn properties(&self) -> &Properties;

    /// Whether it executes this op at all.
    fn supports(&self, op: OpKind) -> bool;

    /// Which convolutions it computes faster if the channels of each place of a picture lie side by side.
    fn channels_last(&self) -> ChannelsLast {
        ChannelsLast::default()
    }

    /// Allocates `bytes` (rounded up by the device as it likes) in `space`, aligned to
    /// [`Properties::alignment`]. The contents are arbitrary. Zero bytes is an error.
    ///
    /// Fails with [`OutOfMemory`](crate::Error::OutOfMemory), with the figures, and then nothing changed.
    fn allocate(&self, bytes: usize, space: Space) -> Result<Memory>;

    /// Frees memory.
    ///
    /// # Safety
    /// - `memory` came from this device and is given back once.
    /// - No command that names it is still incomplete on any queue, and no program that names it will be
    ///   replayed without rebinding it.
    unsafe fn free(&self, memory: Memory);

    /// Where the host finds memory that is in [`Space::Staging`]; an error for other memory.
    fn host_address(&self, memory: &Memory) -> Result<NonNull<u8>>;

    /// How its memory is used.
    fn memory_use(&self) -> MemoryUse;

    /// What it takes for itself.
    fn overhead(&self) -> Overhead {
        Overhead::default()
    }

    /// Compiles what `op`, which was validated, needs here, if it never was. Encoding does that itself: this is for those
    /// who must not keep a queue to themselves for so long. What it returns saves
    /// [`encode_ready`](Queue::encode_ready) the work of doing so again.
    fn prepare(&self, _op: &Op) -> Result<Option<Prepared>> {
        Ok(None)
    }

    /// Makes a queue.
    fn create_queue(&self, options: QueueOptions) -> Result<Box<dyn Queue>>;

    /// Makes an event, never recorded yet; only one made with `timing` knows times.
    fn create_event(&self, timing: bool) -> Result<Box<dyn Event>>;

    /// The calls of this device that are not safe under threads.
    fn quirks(&self) -> Vec<Quirk>;

    /// What its caches hold.
    fn caches(&self) -> Vec<CacheReport>;

    /// Sends the interval of every op that completes from now on to `trace`, or stops doing so.
    fn set_trace(&self, trace: Option<Arc<dyn Trace>>);
}
