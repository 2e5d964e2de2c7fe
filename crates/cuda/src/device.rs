//! The device: what it is, and what it hands out.

use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use cudarc::driver::sys::CUdevice_attribute as Attribute;
use streampool_device::{
    CacheReport, ChannelsLast, DType, Device, DeviceKind, Error, Event, Memory, MemoryUse, Op,
    OpKind, Overhead, Prepared, Properties, Queue, QueueOptions, Quirk, Result, Space, Trace,
};
use streampool_kernels::Limits;

use crate::blas::Blas;
use crate::compiler::Kernels;
use crate::context::{Context, Failure};
use crate::core::Core;
use crate::dnn::Dnn;
use crate::event::CudaEvent;
use crate::injector::Injector;
use crate::lane::Lane;
use crate::memory::{ALIGNMENT, Ledger};
use crate::options::{CudaOptions, Precision};
use crate::pinned::Pinned;
use crate::program::Budget;
use crate::queue::CudaQueue;
use crate::stock::Stock;
use crate::tracing::{Origin, Sink, Tracing};
use crate::watcher::Watcher;
use crate::{driver, properties};

/// An NVIDIA GPU as a device.
pub struct CudaDevice {
    pub(crate) core: Arc<Core>,
}

/// How often a moment is looked for on both clocks.
const ATTEMPTS: usize = 4;

impl CudaDevice {
    /// Opens a GPU. The error says what is missing: the driver, the GPU, or a driver that is new enough.
    pub fn new(options: CudaOptions) -> Result<Arc<CudaDevice>> {
        options.check()?;
        let context = Context::open(options.ordinal)?;
        Self::with_context(&context, options)
            .map_err(|failure| context.error(failure))
            .map(Arc::new)
    }

    fn with_context(context: &Arc<Context>, options: CudaOptions) -> Result<CudaDevice, Failure> {
        let _bound = context.bind()?;
        let kernels = Kernels::new(context.clone(), options.cache_dir);
        let blas = Blas::new(context, options.precision);
        let dnn = Dnn::new(context, options.precision);
        // From Ampere on, tensor cores multiply TF32, and what they multiply is fetched past the registers.
        let capability = context.capability()?;
        let tensor_cores = kernels.compiler().is_ok() && capability >= (8, 0);
        let splits = tensor_cores && options.precision == Precision::Exact;
        let capacity = properties::memory(context)?;
        let capacity = options
            .capacity
            .map_or(capacity, |asked| asked.min(capacity));
        let units = context.attribute(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?;
        let shared =
            context.attribute(Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK)?;
        let pinned = Pinned::new(context.clone())?;
        let core = Core {
            properties: Properties {
                name: context.name.clone(),
                kind: DeviceKind::Cuda,
                hardware: properties::hardware(context)?,
                features: properties::features(context, &kernels, &blas, &dnn)?,
                compute_units: units,
                alignment: ALIGNMENT,
                memory_capacity: capacity,
                unified_memory: false,
            },
            limits: Limits {
                compute_units: units as u32,
                shared_bytes: shared as u32,
                // Addresses take eight bytes each, of 4096 for them and the parameters.
                buffers: 480,
            },
            ledger: Ledger::new(context.clone(), pinned.clone(), capacity),
            pinned,
            stock: Arc::new(Stock::new(context.clone())?),
            kernels,
            blas,
            dnn,
            tensor_cores,
            splits,
            warpgroups: tensor_cores && capability == (9, 0),
            starts_early: capability >= (9, 0),
            programs: Budget::new(options.program_memory),
            watcher: Watcher::new(),
            tracing: Tracing::new(),
            injector: Injector::new(),
            context: context.clone(),
        };
        Ok(CudaDevice {
            core: Arc::new(core),
        })
    }

    /// How many GPUs there are; the error says why there is none.
    pub fn count() -> Result<usize> {
        let counted = driver::start().and_then(|()| driver::count());
        counted.map_err(|why| Error::Unavailable {
            device: DeviceKind::Cuda.name().to_owned(),
            why,
        })
    }

    /// Makes the next command of the queue of this index a launch that the driver refuses: for tests of what
    /// follows a fault.
    pub fn refuse_next(&self, queue: u32) {
        self.core.injector.arm(queue);
    }

    fn origin(&self) -> Result<Origin, Failure> {
        let lane = Lane::new(self.core.clone(), QueueOptions::default())?;
        let found = || {
            let begun = Instant::now();
            let mark = lane.shelf.mark(lane.stream, true)?;
            mark.wait()?;
            let at = Instant::now();
            Ok((at.duration_since(begun), Origin { mark, at }))
        };
        // A thread that is interrupted sees the mark too late, which moves all intervals. The quickest of some attempts is near the truth.
        let mut best = found()?;
        for _ in 1..ATTEMPTS {
            let next = found()?;
            if next.0 < best.0 {
                best = next;
            }
        }
        Ok(best.1)
    }
}

impl Device for CudaDevice {
    fn properties(&self) -> &Properties {
        &self.core.properties
    }

    fn supports(&self, _op: OpKind) -> bool {
        true
    }

    /// cuDNN's kernels for tensor cores read and write so, and convert what does not lie so in each run; for `f32` its others are
    /// faster, but ours for what it does not compute are not.
    fn channels_last(&self) -> ChannelsLast {
        let has_library = self.core.dnn.library().is_ok();
        let core = &self.core;
        let (dtypes, simple): (&[_], &[_]) = match core.warpgroups && core.splits {
            true => (&[DType::F16, DType::BF16, DType::F32], &[]),
            false if has_library => (&[DType::F16, DType::BF16], &[DType::F32]),
            false => (&[], &[DType::F32]),
        };
        ChannelsLast {
            dtypes,
            simple,
            throughout: true,
        }
    }

    fn allocate(&self, bytes: usize, space: Space) -> Result<Memory> {
        self.core.ledger.allocate(bytes, space)
    }

    unsafe fn free(&self, memory: Memory) {
        // SAFETY: the same promises are made to this function's caller.
        unsafe { self.core.ledger.free(memory) }
    }

    fn host_address(&self, memory: &Memory) -> Result<NonNull<u8>> {
        memory.staging_address()
    }

    fn memory_use(&self) -> MemoryUse {
        self.core.ledger.memory_use()
    }

    fn overhead(&self) -> Overhead {
        let own = self.core.context.own.load(Ordering::Relaxed);
        Overhead {
            memory: own + self.core.programs.graphs(),
            staging: self.core.pinned.bytes(),
        }
    }

    fn prepare(&self, op: &Op) -> Result<Option<Prepared>> {
        let context = &self.core.context;
        let _bound = context.bind().map_err(|failure| context.error(failure))?;
        // It may be for a program: who encodes an op by itself needs less, once.
        Ok(Some(Box::new(self.core.prepared(op, true)?)))
    }

    fn create_queue(&self, options: QueueOptions) -> Result<Box<dyn Queue>> {
        Ok(Box::new(CudaQueue::new(self.core.clone(), options)?))
    }

    fn create_event(&self, timing: bool) -> Result<Box<dyn Event>> {
        Ok(Box::new(CudaEvent::new(self.core.clone(), timing)))
    }

    fn quirks(&self) -> Vec<Quirk> {
        Vec::new()
    }

    fn caches(&self) -> Vec<CacheReport> {
        vec![
            self.core.kernels.report(),
            self.core.blas.report(),
            self.core.dnn.report(),
            self.core.programs.report(),
        ]
    }

    fn set_trace(&self, trace: Option<Arc<dyn Trace>>) {
        // On a lost device there is nothing to trace.
        let sink = trace.and_then(|trace| {
            let origin = Arc::new(self.origin().ok()?);
            Some(Sink { trace, origin })
        });
        self.core.tracing.set(sink);
    }
}

impl std::fmt::Debug for CudaDevice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CudaDevice")
            .field("properties", self.properties())
            .field("memory_use", &self.memory_use())
            .finish_non_exhaustive()
    }
}
