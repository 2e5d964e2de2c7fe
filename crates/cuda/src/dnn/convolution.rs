//! One call of the library.

use std::sync::Arc;

use cudarc::cudnn::sys::cudnnStatus_t as Status;
use cudarc::driver::sys::{CUresult, CUstream};

use super::algorithm::{Addresses, Algorithm};
use super::problem::Problem;
use super::session::{Lent, Sessions};
use crate::context::{Context, Failure};
use crate::place::Place;

/// A convolution whose algorithm is chosen, and its operands.
///
/// Several threads may submit the same one at once, each with its own session and scratch memory.
pub(crate) struct Convolution {
    pub(super) sessions: Arc<Sessions>,
    pub(super) problem: Arc<Problem>,
    pub(super) algorithm: Arc<Algorithm>,
    /// Without those in scratch memory.
    pub(super) addresses: Addresses,
}

impl Convolution {
    /// A session to submit it with. The context is bound. What it asks of the driver a capture forbids.
    pub fn session(&self) -> Result<Lent<'_>, Failure> {
        let taken = self.sessions.take().and_then(|mut session| {
            session.know(&self.problem)?;
            Ok(session)
        });
        taken.map_err(|status| Failure::Call("cudnnCreate", result(status)))
    }

    /// Appends it to `stream`. Neither does it allocate, wait, nor ask the driver anything that a capture forbids.
    ///
    /// # Safety
    /// As for [`Step::submit`](crate::step::Step::submit). The scratch memory begins at a multiple of 256.
    pub unsafe fn submit(
        &self,
        session: &mut Lent<'_>,
        context: &Context,
        stream: CUstream,
        place: &Place<'_>,
    ) -> Result<(), Failure> {
        let mut addresses = Addresses {
            src: place.of(self.addresses.src),
            weight: place.of(self.addresses.weight),
            dst: place.of(self.addresses.dst),
            workspace: 0,
        };
        if self.algorithm.workspace > 0 {
            addresses.workspace = place.scratch;
        }
        // SAFETY: the problem was made of the op's views, which are in bounds; the caller vouches for the rest. The
        // two names of a stream are one type.
        let convolve = || unsafe {
            self.algorithm
                .run(session, &self.problem, &addresses, stream.cast())
        };
        let submitted = context.call(&self.algorithm.ran, convolve);
        submitted.map_err(|status| failure(context, stream, status))
    }
}

/// The driver knows best what went wrong; what it does not know of is what the library says.
#[cold]
fn failure(context: &Context, stream: CUstream, status: Status) -> Failure {
    const CALL: &str = "cudnnConvolution";
    let asked = context.check(CALL, context.query(stream));
    match asked {
        Err(lost @ Failure::Lost(_)) => lost,
        _ => Failure::Call(CALL, result(status)),
    }
}

/// What the driver would call it.
fn result(status: Status) -> CUresult {
    match status {
        Status::CUDNN_STATUS_NOT_INITIALIZED => CUresult::CUDA_ERROR_NOT_INITIALIZED,
        Status::CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED => {
            CUresult::CUDA_ERROR_OUT_OF_MEMORY
        }
        Status::CUDNN_STATUS_BAD_PARAM => CUresult::CUDA_ERROR_INVALID_VALUE,
        Status::CUDNN_STATUS_NOT_SUPPORTED_ARCH_MISMATCH => CUresult::CUDA_ERROR_NO_BINARY_FOR_GPU,
        Status::CUDNN_STATUS_NOT_SUPPORTED => CUresult::CUDA_ERROR_NOT_SUPPORTED,
        Status::CUDNN_STATUS_EXECUTION_FAILED => CUresult::CUDA_ERROR_LAUNCH_FAILED,
        _ => CUresult::CUDA_ERROR_INVALID_HANDLE,
    }
}
