//! The algorithm of a convolution: chosen once for each problem, and the same for every session.

use std::ffi::{c_int, c_void};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use cudarc::cudnn::sys::{
    self, cudnnConvolutionBwdDataAlgo_t as Backward, cudnnConvolutionBwdDataAlgoPerf_t,
    cudnnConvolutionFwdAlgo_t as Forward, cudnnConvolutionFwdAlgoPerf_t,
    cudnnDeterminism_t as Determinism, cudnnMathType_t as Math, cudnnStatus_t as Status,
};
use cudarc::driver::sys::CUdeviceptr;

use super::problem::Problem;
use super::session::{Lent, check};

/// How many algorithms the library is asked for: it has no more.
const CANDIDATES: usize = 16;

/// An algorithm, and the bytes of scratch memory it needs.
#[derive(Debug)]
pub(super) struct Algorithm {
    kind: Kind,
    math: Math,
    pub ran: AtomicBool,
    pub workspace: usize,
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    Forward(Forward),
    /// A transpose is what the library calls the gradient of a convolution by its source.
    Backward(Backward),
}

/// The addresses that one call works on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Addresses {
    pub src: CUdeviceptr,
    pub weight: CUdeviceptr,
    pub dst: CUdeviceptr,
    pub workspace: CUdeviceptr,
}

/// Those that sum what a window sees, and nothing else: others go through transforms, by which NaN and infinity spread
/// to neighbours.
const SUMMING: [Forward; 4] = [
    Forward::CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM,
    Forward::CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM,
    Forward::CUDNN_CONVOLUTION_FWD_ALGO_GEMM,
    Forward::CUDNN_CONVOLUTION_FWD_ALGO_DIRECT,
];

impl Algorithm {
    /// Asks the library; `None` if it has no algorithm for this that comes to the same bits each time.
    pub fn choose(
        session: &mut Lent<'_>,
        problem: &Arc<Problem>,
        most_workspace: usize,
    ) -> Result<Option<Algorithm>, Status> {
        let (handle, told) = session.know(problem)?;
        let mut count: c_int = 0;
        let usable = |status, determinism, memory: usize| {
            status == Status::CUDNN_STATUS_SUCCESS
                && determinism == Determinism::CUDNN_DETERMINISTIC
                && memory <= most_workspace
        };
        let found = |count: c_int| usize::try_from(count).unwrap_or(0).min(CANDIDATES);
        if problem.transposed {
            // SAFETY: the structure is plain numbers, of which zeros are values.
            let mut all: [cudnnConvolutionBwdDataAlgoPerf_t; CANDIDATES] =
                unsafe { std::mem::zeroed() };
            // SAFETY: everything named is alive, and there is room for as many results as are asked for.
            let status = unsafe {
                sys::cudnnGetConvolutionBackwardDataAlgorithm_v7(
                    handle,
                    told.weight,
                    told.src,
                    told.conv,
                    told.dst,
                    CANDIDATES as c_int,
                    &mut count,
                    all.as_mut_ptr(),
                )
            };
            if !is_answer(status)? {
                return Ok(None);
            }
            let best = all[..found(count)].iter().find(|candidate| {
                candidate.algo == Backward::CUDNN_CONVOLUTION_BWD_DATA_ALGO_1
                    && usable(candidate.status, candidate.determinism, candidate.memory)
            });
            return Ok(best.map(|best| Algorithm {
                kind: Kind::Backward(best.algo),
                math: within(told.math, best.mathType),
                ran: AtomicBool::new(false),
                workspace: best.memory,
            }));
        }
        // SAFETY: the structure is plain numbers, of which zeros are values.
        let mut all: [cudnnConvolutionFwdAlgoPerf_t; CANDIDATES] = unsafe { std::mem::zeroed() };
        // SAFETY: everything named is alive, and there is room for as many results as are asked for.
        let status = unsafe {
            sys::cudnnGetConvolutionForwardAlgorithm_v7(
                handle,
                told.src,
                told.weight,
                told.conv,
                told.dst,
                CANDIDATES as c_int,
                &mut count,
                all.as_mut_ptr(),
            )
        };
        if !is_answer(status)? {
            return Ok(None);
        }
        let best = all[..found(count)].iter().find(|candidate| {
            SUMMING.contains(&candidate.algo)
                && usable(candidate.status, candidate.determinism, candidate.memory)
        });
        Ok(best.map(|best| Algorithm {
            kind: Kind::Forward(best.algo),
            math: within(told.math, best.mathType),
            ran: AtomicBool::new(false),
            workspace: best.memory,
        }))
    }

    /// Appends the convolution to `stream`.
    ///
    /// # Safety
    /// The context is bound, the addresses are those of memory that the problem fits in, and what else touches that
    /// memory is ordered before or after.
    pub unsafe fn run(
        &self,
        session: &mut Lent<'_>,
        problem: &Arc<Problem>,
        addresses: &Addresses,
        stream: sys::cudaStream_t,
    ) -> Result<(), Status> {
        let (handle, told) = session.know(problem)?;
        let (one, zero) = (1f32, 0f32);
        let (one, zero): (*const c_void, *const c_void) =
            ((&raw const one).cast(), (&raw const zero).cast());
        // SAFETY: what is named is alive during the calls, which keep none of it but the stream, and that is set again
        // before the session's next work; a beta of zero makes the library not read what was in the result.
        unsafe {
            check(sys::cudnnSetStream(handle, stream))?;
            check(sys::cudnnSetConvolutionMathType(told.conv, self.math))?;
            check(match self.kind {
                Kind::Forward(algorithm) => sys::cudnnConvolutionForward(
                    handle,
                    one,
                    told.src,
                    pointer(addresses.src),
                    told.weight,
                    pointer(addresses.weight),
                    told.conv,
                    algorithm,
                    pointer(addresses.workspace),
                    self.workspace,
                    zero,
                    told.dst,
                    pointer(addresses.dst),
                ),
                Kind::Backward(algorithm) => sys::cudnnConvolutionBackwardData(
                    handle,
                    one,
                    told.weight,
                    pointer(addresses.weight),
                    told.src,
                    pointer(addresses.src),
                    told.conv,
                    algorithm,
                    pointer(addresses.workspace),
                    self.workspace,
                    zero,
                    told.dst,
                    pointer(addresses.dst),
                ),
            })
        }
    }
}

/// The way that is proposed, unless it is asked to be exact.
fn within(asked: Math, proposed: Math) -> Math {
    match asked {
        Math::CUDNN_FMA_MATH => asked,
        _ => proposed,
    }
}

/// Whether the library answered; an error if it failed otherwise than by not having what was asked for.
fn is_answer(status: Status) -> Result<bool, Status> {
    match status {
        Status::CUDNN_STATUS_SUCCESS => Ok(true),
        Status::CUDNN_STATUS_NOT_INITIALIZED
        | Status::CUDNN_STATUS_SUBLIBRARY_LOADING_FAILED
        | Status::CUDNN_STATUS_SUBLIBRARY_VERSION_MISMATCH
        | Status::CUDNN_STATUS_EXECUTION_FAILED => Err(status),
        _ => Ok(false),
    }
}

fn pointer(address: CUdeviceptr) -> *mut c_void {
    std::ptr::with_exposed_provenance_mut(address as usize)
}
