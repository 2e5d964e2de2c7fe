//! One call of the library.

use std::sync::Arc;

use cudarc::cublaslt::sys::cublasStatus_t as Status;
use cudarc::driver::sys::{CUresult, CUstream};

use super::algorithm::{Addresses, Algorithm};
use crate::context::{Context, Failure};
use crate::place::Place;

/// A product whose algorithm is chosen, and its operands.
///
/// Operands are raw addresses, and the algorithm was chosen for what these are multiples of: memory may move by multiples
/// of what allocations are aligned to. Submitting neither
/// allocates, waits nor asks the driver anything that a capture forbids, and several threads may submit the
/// same product at once, each with its own scratch memory.
pub(crate) struct Product {
    pub(super) algorithm: Arc<Algorithm>,
    /// Without those in scratch memory.
    pub(super) addresses: Addresses,
    /// Whether the result goes to the start of the scratch memory.
    pub(super) waits: bool,
    /// Where in the scratch memory the algorithm's part begins.
    pub(super) workspace_at: usize,
    pub(super) alpha: f64,
}

impl Product {
    /// # Safety
    /// As for [`Step::submit`](crate::step::Step::submit). The scratch memory begins at a multiple of 256.
    pub unsafe fn submit(
        &self,
        context: &Context,
        stream: CUstream,
        place: &Place<'_>,
    ) -> Result<(), Failure> {
        let mut addresses = Addresses {
            a: place.of(self.addresses.a),
            b: place.of(self.addresses.b),
            bias: place.of(self.addresses.bias),
            out: place.of(self.addresses.out),
            workspace: 0,
        };
        if self.waits {
            addresses.out = place.scratch;
        }
        if self.algorithm.workspace > 0 {
            addresses.workspace = place.scratch + self.workspace_at as u64;
        }
        // SAFETY: the problem was made of the op's views, which are in bounds, and the key of these
        // addresses; the caller vouches for the rest. The two names of a stream are one type.
        let result = unsafe { self.algorithm.run(&addresses, self.alpha, stream.cast()) };
        result.map_err(|status| failure(context, stream, status))
    }
}

/// The driver knows best what went wrong; what it does not know of is what the library says.
#[cold]
fn failure(context: &Context, stream: CUstream, status: Status) -> Failure {
    let asked = context.check("cublasLtMatmul", context.query(stream));
    if let Err(lost @ Failure::Lost(_)) = asked {
        return lost;
    }
    let result = match status {
        Status::CUBLAS_STATUS_NOT_INITIALIZED => CUresult::CUDA_ERROR_NOT_INITIALIZED,
        Status::CUBLAS_STATUS_ALLOC_FAILED => CUresult::CUDA_ERROR_OUT_OF_MEMORY,
        Status::CUBLAS_STATUS_INVALID_VALUE => CUresult::CUDA_ERROR_INVALID_VALUE,
        Status::CUBLAS_STATUS_ARCH_MISMATCH => CUresult::CUDA_ERROR_NO_BINARY_FOR_GPU,
        Status::CUBLAS_STATUS_NOT_SUPPORTED => CUresult::CUDA_ERROR_NOT_SUPPORTED,
        Status::CUBLAS_STATUS_EXECUTION_FAILED => CUresult::CUDA_ERROR_LAUNCH_FAILED,
        _ => CUresult::CUDA_ERROR_UNKNOWN,
    };
    Failure::Call("cublasLtMatmul", result)
}
