//! The device: what it is, and what it hands out.

use std::path::Path;
use std::ptr::NonNull;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use objc2_metal::{MTLCopyAllDevices, MTLCreateSystemDefaultDevice, MTLDevice};
use streampool_device::{
    CacheReport, Device, DeviceKind, Error, Event, Memory, MemoryUse, Op, OpKind, Overhead,
    Prepared, Properties, Queue, QueueOptions, Quirk, Result, Space, Trace,
};
use streampool_kernels::Limits;

use super::archive::Archive;
use super::capture::Capture;
use super::core::Core;
use super::cores::cores;
use super::encoders::Encoders;
use super::event::MetalEvent;
use super::handlers::Callers;
use super::in_flight::InFlight;
use super::kernels::Kernels;
use super::memory::{ALIGNMENT, Ledger};
use super::objects::Gpu;
use super::own::Owned;
use super::pool::pooled;
use super::properties;
use super::queue::MetalQueue;
use super::signposts::Signposts;
use super::tracing::{Origin, Sink, Tracing};
use crate::MetalOptions;

// Without it, Metal names no default GPU to a program that shows no window.
#[cfg(target_vendor = "apple")]
#[link(name = "CoreGraphics", kind = "framework")]
unsafe extern "C" {}

/// Metal binds 31 buffers; one is for the parameters.
const BUFFERS: u32 = 30;

/// An Apple GPU as a device.
pub struct MetalDevice {
    core: Arc<Core>,
    capture: Capture,
}

impl MetalDevice {
    /// Opens a GPU. The error says what is missing.
    pub fn new(options: MetalOptions) -> Result<Arc<MetalDevice>> {
        options.check()?;
        if let Some(why) = properties::system().and_then(|version| properties::too_old(&version)) {
            return Err(none(why));
        }
        pooled(|| Self::open(&gpu(options.ordinal)?, &options)).map(Arc::new)
    }

    fn open(gpu: &Gpu, options: &MetalOptions) -> Result<MetalDevice> {
        let name = properties::unused_name(options.ordinal);
        let compute_units = cores(gpu);
        let recommended = usize::try_from(gpu.recommendedMaxWorkingSetSize());
        let recommended = recommended.unwrap_or(usize::MAX);
        let capacity = options
            .capacity
            .map_or(recommended, |asked| asked.min(recommended));
        let archive = options.cache_dir.as_deref().map(|dir| archive(gpu, dir));
        let core = Core {
            properties: Properties {
                name: name.clone(),
                kind: DeviceKind::Metal,
                hardware: gpu.name().to_string(),
                features: properties::features(gpu, options),
                compute_units: compute_units as usize,
                alignment: ALIGNMENT,
                memory_capacity: capacity,
                unified_memory: gpu.hasUnifiedMemory(),
            },
            limits: Limits {
                compute_units,
                shared_bytes: gpu.maxThreadgroupMemoryLength() as u32,
                buffers: BUFFERS,
            },
            simdgroup_matrices: properties::has_simdgroup_matrices(gpu),
            ledger: Ledger::new(gpu.clone(), name.clone(), capacity, options.residency_sets),
            kernels: Kernels::new(gpu.clone(), name, archive),
            own: Owned::default(),
            encoders: Encoders::new(options.serial_encoders),
            in_flight: InFlight::new(options.in_flight),
            callers: Callers::new(),
            tracing: Tracing::new(),
            signposts: Signposts::new(),
            lost: OnceLock::new(),
            gpu: gpu.clone(),
        };
        Ok(MetalDevice {
            core: Arc::new(core),
            capture: Capture::new(gpu),
        })
    }

    /// How many GPUs there are; the error says why there is none.
    pub fn count() -> Result<usize> {
        match pooled(|| MTLCopyAllDevices().len()) {
            0 => Err(none("Metal shows no GPU".to_owned())),
            count => Ok(count),
        }
    }

    /// Host memory as memory of this device, without a copy: whole pages of 16 KiB, of one region that is mapped (`mmap`,
    /// `vm_allocate`), since Metal takes no other. It counts as allocated, and is
    /// given up by [`Device::free`].
    ///
    /// # Safety
    /// - It stays allocated until it is freed here.
    /// - While a command that names it is incomplete, nobody else writes what that reads, or touches what it writes.
    pub unsafe fn wrap(&self, pointer: NonNull<u8>, bytes: usize) -> Result<Memory> {
        // SAFETY: the same promises are made to this function's caller.
        unsafe { self.core.ledger.wrap(pointer, bytes) }
    }

    /// Does `work` as one frame of Xcode's capture, if a capture of this device's scope is on. Calls that overlap, or are
    /// made within `work`, are one frame together. It ends also where `work` panics.
    pub fn capture_scope<R>(&self, work: impl FnOnce() -> R) -> R {
        let _frame = self.capture.frame();
        work()
    }

    /// One moment on the GPU's clock and on the host's.
    fn origin(&self) -> Result<Origin> {
        let mut queue = MetalQueue::new(self.core.clone(), QueueOptions::default())?;
        let event = MetalEvent::new(self.core.clone(), true);
        queue.record(&event)?;
        let gpu = event.time()?;
        Ok(Origin {
            gpu,
            at: Instant::now(),
        })
    }
}

fn none(why: String) -> Error {
    Error::Unavailable {
        device: DeviceKind::Metal.name().to_owned(),
        why,
    }
}

/// The GPU of this number. The first is the one that the system prefers, or the first of all where it prefers none.
fn gpu(ordinal: usize) -> Result<Gpu> {
    let all = MTLCopyAllDevices();
    let preferred = MTLCreateSystemDefaultDevice().or_else(|| all.iter().next());
    let preferred = preferred.ok_or_else(|| none("Metal shows no GPU".to_owned()))?;
    if ordinal == 0 {
        return Ok(preferred);
    }
    let mut others = all
        .iter()
        .filter(|gpu| gpu.registryID() != preferred.registryID());
    others.nth(ordinal - 1).ok_or_else(|| {
        let count = all.len();
        none(format!("there is no GPU {ordinal}, there are {count}"))
    })
}

/// The archive of kernels for this GPU, this system and this version of ours.
fn archive(gpu: &Gpu, folder: &Path) -> Arc<Archive> {
    let version = env!("CARGO_PKG_VERSION");
    let system = properties::system().unwrap_or_default();
    let stamp = format!("streampool {version} {} {system}", gpu.name());
    Archive::open(gpu, folder, &stamp)
}

impl Drop for MetalDevice {
    fn drop(&mut self) {
        // What is under way may keep the rest for a while, and the next device looks for the file now.
        self.core.kernels.save();
    }
}

impl Device for MetalDevice {
    fn properties(&self) -> &Properties {
        &self.core.properties
    }

    fn supports(&self, _op: OpKind) -> bool {
        true
    }

    fn allocate(&self, bytes: usize, space: Space) -> Result<Memory> {
        self.core.check_alive()?;
        self.core.ledger.allocate(bytes, space)
    }

    unsafe fn free(&self, memory: Memory) {
        // SAFETY: the same promises are made to this function's caller.
        unsafe { self.core.ledger.free(memory) }
    }

    fn host_address(&self, memory: &Memory) -> Result<NonNull<u8>> {
        self.core.ledger.host_address(memory)
    }

    fn memory_use(&self) -> MemoryUse {
        self.core.ledger.memory_use()
    }

    fn overhead(&self) -> Overhead {
        Overhead {
            memory: self.core.own.bytes(),
            staging: 0,
        }
    }

    fn prepare(&self, op: &Op) -> Result<Option<Prepared>> {
        Ok(Some(Box::new(self.core.prepared(op)?)))
    }

    fn create_queue(&self, options: QueueOptions) -> Result<Box<dyn Queue>> {
        Ok(Box::new(MetalQueue::new(self.core.clone(), options)?))
    }

    fn create_event(&self, timing: bool) -> Result<Box<dyn Event>> {
        Ok(Box::new(MetalEvent::new(self.core.clone(), timing)))
    }

    /// None: what has to be worked around is worked around inside this device.
    fn quirks(&self) -> Vec<Quirk> {
        Vec::new()
    }

    fn caches(&self) -> Vec<CacheReport> {
        vec![self.core.kernels.report()]
    }

    fn set_trace(&self, trace: Option<Arc<dyn Trace>>) {
        // On a lost device there is nothing to trace.
        let sink = trace.and_then(|trace| {
            let origin = self.origin().ok()?;
            Some(Sink { trace, origin })
        });
        self.core.tracing.set(sink);
    }
}

impl std::fmt::Debug for MetalDevice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MetalDevice")
            .field("properties", self.properties())
            .field("memory_use", &self.memory_use())
            .finish_non_exhaustive()
    }
}
