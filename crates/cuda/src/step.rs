//! Steps: what the driver is asked to do for one op.

use std::ffi::c_void;
use std::sync::Arc;

use cudarc::driver::sys::{self, CUdeviceptr, CUstream};
use smallvec::SmallVec;
use streampool_device::{Error, Span};
use streampool_kernels::{Dispatch, NotReady, Operand};

use crate::blas::Product;
use crate::compiler::Function;
use crate::context::{Context, Failure};
use crate::dnn::Convolution;
use crate::place::{Place, address};
use crate::tensor_map;

/// What the driver is asked to do for one op, in order.
pub(crate) struct Steps {
    pub list: SmallVec<[Step; 1]>,
    /// What takes the list's place in a program while many streams share the GPU: the same bits come of it. Empty if the list serves
    /// both.
    pub of_many: SmallVec<[Step; 1]>,
    /// Bytes of scratch memory they share.
    pub scratch: usize,
}

/// One thing the driver is asked to do.
pub(crate) enum Step {
    /// Run a kernel of ours.
    Launch(Launch),
    /// Copy bytes.
    Copy {
        /// Where from.
        src: Span,
        /// Where to: as long.
        dst: Span,
    },
    /// Have cuBLASLt multiply.
    Product(Product),
    /// Have cuDNN convolve.
    Conv(Convolution),
}

/// A kernel and what it is given.
pub(crate) struct Launch {
    pub function: Arc<Function>,
    pub dispatch: Box<Dispatch>,
}

/// Why there are no steps for an op.
pub(crate) type NoSteps = NotReady<Error>;

impl Steps {
    /// The list for one of many streams, or for one that may be alone.
    pub fn list(&self, of_many: bool) -> &[Step] {
        match of_many && !self.of_many.is_empty() {
            true => &self.of_many,
            false => &self.list,
        }
    }

    /// About how much memory they take.
    pub fn bytes(&self) -> usize {
        (self.list.len() + self.of_many.len()) * (size_of::<Step>() + size_of::<Dispatch>())
    }
}

impl Step {
    /// Appends it to `stream`. The context is bound.
    ///
    /// # Safety
    /// The memory that it names, where `place` has it, and the scratch memory stay allocated until it is over, and what
    /// touches them is ordered before or after it.
    pub unsafe fn submit(
        &self,
        context: &Context,
        stream: CUstream,
        place: &Place<'_>,
    ) -> Result<(), Failure> {
        match self {
            Step::Launch(launch) => launch.with_arguments(context, place, |arguments| {
                let ([x, y, z], threads) = (launch.dispatch.groups, launch.dispatch.threads);
                // SAFETY: the function is loaded as long as this step holds it, its arguments are as its
                // text declares them, and the caller vouches for the memory.
                let result = unsafe {
                    sys::cuLaunchKernel(
                        launch.function.raw(),
                        x,
                        y,
                        z,
                        threads,
                        1,
                        1,
                        launch.function.brought(),
                        stream,
                        arguments.as_mut_ptr(),
                        std::ptr::null_mut(),
                    )
                };
                context.check("cuLaunchKernel", result)
            }),
            Step::Copy { src, dst } => {
                let (src_at, dst_at) = (place.of(address(src)), place.of(address(dst)));
                // SAFETY: the caller vouches for both; neither is longer than its allocation.
                let result = unsafe { sys::cuMemcpyAsync(dst_at, src_at, src.bytes, stream) };
                context.check("cuMemcpyAsync", result)
            }
            // SAFETY: the caller vouches for the memory.
            Step::Product(product) => unsafe { product.submit(context, stream, place) },
            Step::Conv(conv) => {
                let mut session = conv.session()?;
                // SAFETY: as above.
                unsafe { conv.submit(&mut session, context, stream, place) }
            }
        }
    }
}

impl Launch {
    /// Calls `work` with pointers to the arguments, which are alive until it returns.
    pub fn with_arguments<R>(
        &self,
        context: &Context,
        place: &Place<'_>,
        work: impl FnOnce(&mut [*mut c_void]) -> Result<R, Failure>,
    ) -> Result<R, Failure> {
        let mut addresses: SmallVec<[CUdeviceptr; 8]> = self
            .dispatch
            .operands
            .iter()
            .map(|operand| match operand {
                Operand::Memory(span) => place.of(address(span)),
                Operand::Scratch(offset) => place.scratch + *offset as u64,
            })
            .collect();
        let params = &self.dispatch.params;
        let with_maps;
        let params = match params.maps() {
            [] => params.as_bytes(),
            _ => {
                with_maps = tensor_map::written(context, params, &addresses)?;
                &with_maps
            }
        };
        let mut arguments: SmallVec<[*mut c_void; 9]> = addresses
            .iter_mut()
            .map(|address| std::ptr::from_mut(address).cast())
            .collect();
        arguments.push(params.as_ptr().cast_mut().cast());
        work(&mut arguments)
    }
}
