//! What everything on one device shares.

use std::sync::Arc;

use cudarc::driver::sys::{self, CUstream};
use streampool_device::Properties;
use streampool_kernels::Limits;

use crate::blas::Blas;
use crate::compiler::Kernels;
use crate::context::{Context, Failure};
use crate::dnn::Dnn;
use crate::injector::Injector;
use crate::memory::Ledger;
use crate::pinned::Pinned;
use crate::program::Budget;
use crate::stock::Stock;
use crate::tracing::Tracing;
use crate::watcher::Watcher;

/// What everything on one device shares. Queues, events and programs keep it alive.
pub(crate) struct Core {
    pub properties: Properties,
    pub context: Arc<Context>,
    pub limits: Limits,
    pub ledger: Ledger,
    pub pinned: Arc<Pinned>,
    pub stock: Arc<Stock>,
    pub kernels: Kernels,
    pub blas: Blas,
    pub dnn: Dnn,
    /// Whether our kernels use the tensor cores.
    pub tensor_cores: bool,
    /// Whether products of `f32` go to the tensor cores in parts.
    pub splits: bool,
    /// Whether these are Hopper's, which warpgroups use.
    pub warpgroups: bool,
    /// Whether a kernel may start while the one before it ends, and waits for it by itself.
    pub starts_early: bool,
    pub programs: Budget,
    pub watcher: Watcher,
    pub tracing: Tracing,
    pub injector: Injector,
}

impl Core {
    /// A launch beyond what any GPU can run, which the driver refuses.
    pub fn refused_launch(&self, stream: CUstream) -> Result<(), Failure> {
        let function = self.kernels.nop()?;
        let mut argument = [0u64; 1];
        let mut arguments = [argument.as_mut_ptr().cast()];
        // SAFETY: the arguments are those of the empty kernel; so many threads are refused, not launched.
        let result = unsafe {
            sys::cuLaunchKernel(
                function.raw(),
                1,
                1,
                1,
                1 << 20,
                1,
                1,
                0,
                stream,
                arguments.as_mut_ptr(),
                std::ptr::null_mut(),
            )
        };
        self.context.check("cuLaunchKernel", result)
    }
}
