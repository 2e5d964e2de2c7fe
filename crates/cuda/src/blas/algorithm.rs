//! The algorithm of a product: chosen once for everything that it depends on.

use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use cudarc::cublaslt::sys::{
    self, cublasLtMatmulAlgo_t as Choice, cublasLtMatmulHeuristicResult_t as Candidate,
    cublasStatus_t as Status, cudaDataType_t as Type,
};
use cudarc::driver::sys::CUdeviceptr;

use super::descriptors::{Description, Layout, Method, Preference, check};
use super::key::{Key, Terms};
use super::library::Library;
use super::problem::Matrix;

/// How many algorithms the library is asked for: a later one counts only if those before it do not work.
const CANDIDATES: usize = 4;

/// An algorithm, with all that is the same in each of its calls. Nothing of it changes once it is made.
pub(super) struct Algorithm {
    library: Arc<Library>,
    method: Method,
    a: Layout,
    b: Layout,
    out: Layout,
    choice: Choice,
    ran: AtomicBool,
    /// Bytes of scratch memory that a call needs, which begin at a multiple of 256.
    pub workspace: usize,
}

/// The addresses that one call works on. Those that it does not need are zero.
#[derive(Debug, Clone, Copy)]
pub(super) struct Addresses {
    pub a: CUdeviceptr,
    pub b: CUdeviceptr,
    pub bias: CUdeviceptr,
    pub out: CUdeviceptr,
    pub workspace: CUdeviceptr,
}

impl Algorithm {
    /// Asks the library; `None` if it has no algorithm for this. The bias is only looked at as an address.
    pub fn choose(
        library: &Arc<Library>,
        key: &Key,
        terms: &Terms,
        bias: CUdeviceptr,
    ) -> Result<Option<Algorithm>, Status> {
        let problem = &key.problem;
        let method = Method::new(key, terms.precision);
        let side = |dtype, matrix: &Matrix, rows, columns| {
            let (rows, columns) = match matrix.turned {
                false => (rows, columns),
                true => (columns, rows),
            };
            Layout::new(dtype, matrix, rows, columns, problem.batch)
        };
        let a = side(key.factors, &problem.a, problem.m, problem.k)?;
        let b = side(key.factors, &problem.b, problem.k, problem.n)?;
        let out = side(key.result, &problem.out, problem.m, problem.n)?;
        let preference = Preference::new(key, terms)?;
        let mut description = Description::blank();
        description.describe(&method, bias)?;
        // SAFETY: the structure is plain numbers, of which zeros are values.
        let mut found: [Candidate; CANDIDATES] = unsafe { std::mem::zeroed() };
        let mut count = 0;
        let _alone = library.context.alone();
        // SAFETY: everything named is alive, and there is room for as many results as are asked for.
        let status = unsafe {
            sys::cublasLtMatmulAlgoGetHeuristic(
                library.handle(),
                description.raw(),
                a.raw(),
                b.raw(),
                out.raw(),
                out.raw(),
                preference.raw(),
                CANDIDATES as i32,
                found.as_mut_ptr(),
                &mut count,
            )
        };
        match status {
            Status::CUBLAS_STATUS_SUCCESS => {}
            Status::CUBLAS_STATUS_NOT_SUPPORTED | Status::CUBLAS_STATUS_INVALID_VALUE => {
                return Ok(None);
            }
            other => return Err(other),
        }
        let works = |candidate: &&Candidate| {
            candidate.state == Status::CUBLAS_STATUS_SUCCESS
                && candidate.workspaceSize <= terms.workspace
        };
        let count = usize::try_from(count).unwrap_or(0).min(CANDIDATES);
        Ok(found[..count]
            .iter()
            .find(works)
            .map(|candidate| Algorithm {
                library: library.clone(),
                method,
                a,
                b,
                out,
                choice: candidate.algo,
                ran: AtomicBool::new(false),
                workspace: candidate.workspaceSize,
            }))
    }

    /// Appends the product to `stream`.
    ///
    /// # Safety
    /// The context is bound, the addresses are those of memory that the problem fits in and that the key's
    /// alignment holds for, and what else touches that memory is ordered before or after.
    pub unsafe fn run(
        &self,
        addresses: &Addresses,
        alpha: f64,
        stream: sys::cudaStream_t,
    ) -> Result<(), Status> {
        let (single, zero) = (alpha as f32, 0f64);
        let alpha: *const c_void = match self.method.scale {
            Type::CUDA_R_64F => (&raw const alpha).cast(),
            _ => (&raw const single).cast(),
        };
        let mut description = Description::blank();
        description.describe(&self.method, addresses.bias)?;
        // SAFETY: what is named is alive during the call, which keeps none of it. The zero that makes the
        // library not read what was in the result is all bits zero in either type.
        let mut multiply = || unsafe {
            sys::cublasLtMatmul(
                self.library.handle(),
                description.raw(),
                alpha,
                pointer(addresses.a),
                self.a.raw(),
                pointer(addresses.b),
                self.b.raw(),
                (&raw const zero).cast(),
                pointer(addresses.out),
                self.out.raw(),
                pointer(addresses.out),
                self.out.raw(),
                &self.choice,
                pointer(addresses.workspace),
                self.workspace,
                stream,
            )
        };
        let context = &self.library.context;
        context.call(&self.ran, || check(multiply()))
    }
}

fn pointer(address: CUdeviceptr) -> *mut c_void {
    std::ptr::with_exposed_provenance_mut(address as usize)
}
