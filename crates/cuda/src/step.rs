//! Steps: what the driver is asked to do for one op.

use std::ffi::c_void;
use std::sync::Arc;

use cudarc::driver::sys::{self, CUdeviceptr, CUstream};
use smallvec::{SmallVec, smallvec};
use streampool_device::{Error, Op, OpKind, Result, Span, View};
use streampool_kernels::{
    Dispatch, Missing, NotReady, Operand, Plan, lower, small_product, split_product,
};

use crate::blas::Product;
use crate::compiler::Function;
use crate::context::{Context, Failure};
use crate::core::Core;
use crate::dnn::Convolution;

/// Copies at least this long are the copy engine's.
const LONG_COPY: usize = 1 << 20;

/// What the driver is asked to do for one op, in order.
pub(crate) struct Steps {
    pub list: SmallVec<[Step; 1]>,
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

/// Where steps find their memory.
#[derive(Clone, Copy)]
pub(crate) struct Place<'a> {
    pub scratch: CUdeviceptr,
    /// Memory that is elsewhere now than where the steps say.
    pub moved: &'a [Moved],
}

/// So many bytes that were at an address and are at another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Moved {
    pub from: CUdeviceptr,
    pub bytes: usize,
    pub to: CUdeviceptr,
}

impl Place<'_> {
    /// Where that which the steps have at `address` is now.
    #[inline]
    pub fn of(&self, address: CUdeviceptr) -> CUdeviceptr {
        let within = |moved: &&Moved| address.wrapping_sub(moved.from) < moved.bytes as u64;
        match self.moved.iter().find(within) {
            Some(moved) => moved.to + (address - moved.from),
            None => address,
        }
    }
}

/// The address of a span's first byte.
pub(crate) fn address(span: &Span) -> CUdeviceptr {
    span.handle.wrapping_add(span.offset as u64)
}

/// The address of a view's first element.
pub(crate) fn start(view: &View) -> CUdeviceptr {
    address(&view.span()) + (view.layout().offset() * view.dtype().size()) as u64
}

impl Core {
    /// The steps of an op that was validated. Compiles what was never compiled before.
    pub fn prepared(&self, op: &Op) -> Result<Steps> {
        match self.steps(op, Missing::Compile) {
            Ok(steps) => Ok(steps),
            Err(NoSteps::Failed(error)) => Err(error),
            Err(NoSteps::Missing) => unreachable!("what is missing was to be compiled"),
        }
    }

    /// The steps of an op that was validated.
    pub fn steps(&self, op: &Op, missing: Missing) -> Result<Steps, NoSteps> {
        match op {
            Op::Copy { src, dst } if self.is_plain_copy(src, dst) => Ok(Steps {
                list: match (src.reach(), dst.reach()) {
                    (Some(src), Some(dst)) => smallvec![Step::Copy { src, dst }],
                    _ => SmallVec::new(),
                },
                scratch: 0,
            }),
            Op::MatMul(product) => {
                if self.kernels.compiler().is_ok()
                    && let Some(plan) = small_product(product, &self.limits)
                {
                    return self.compiled(op.kind(), plan, missing);
                }
                if self.splits
                    && let Some(plan) = split_product(product, &self.limits)
                {
                    return self.compiled(op.kind(), plan, missing);
                }
                match self.blas.steps(self, product, missing)? {
                    Some(steps) => Ok(steps),
                    None => self.lowered(op, missing),
                }
            }
            Op::Conv(conv) => match self.dnn.steps(self, conv, missing)? {
                Some(steps) => Ok(steps),
                None => self.lowered(op, missing),
            },
            Op::Rnn(_) => self.recurrent(op, missing),
            _ => self.lowered(op, missing),
        }
    }

    fn is_plain_copy(&self, src: &View, dst: &View) -> bool {
        let bytes = src.layout().elements() * src.dtype().size();
        src.dtype() == dst.dtype()
            && src.layout().is_contiguous()
            && dst.layout().is_contiguous()
            && (bytes >= LONG_COPY || self.kernels.compiler().is_err())
    }

    /// The steps of an op by our own kernels.
    pub fn lowered(&self, op: &Op, missing: Missing) -> Result<Steps, NoSteps> {
        let plan = lower(op, &self.limits).ok_or_else(|| Error::Unsupported {
            device: self.properties.name.clone(),
            op: op.kind(),
            why: "CUDA has no kernel for it, or none for so many elements".to_owned(),
        })?;
        self.compiled(op.kind(), plan, missing)
    }

    /// The launches of a plan, its kernels compiled.
    pub fn compiled(&self, op: OpKind, plan: Plan, missing: Missing) -> Result<Steps, NoSteps> {
        let mut list = SmallVec::with_capacity(plan.dispatches.len());
        for dispatch in plan.dispatches {
            let function = self.kernels.function(op, &dispatch.kernel, missing)?;
            list.push(Step::Launch(Launch { function, dispatch }));
        }
        Ok(Steps {
            list,
            scratch: plan.scratch,
        })
    }
}

impl Steps {
    /// About how much memory they take.
    pub fn bytes(&self) -> usize {
        self.list.len() * (size_of::<Step>() + size_of::<Dispatch>())
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
            Step::Launch(launch) => launch.with_arguments(place, |arguments| {
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
                        0,
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
        place: &Place<'_>,
        work: impl FnOnce(&mut [*mut c_void]) -> R,
    ) -> R {
        let mut addresses: SmallVec<[CUdeviceptr; 8]> = self
            .dispatch
            .operands
            .iter()
            .map(|operand| match operand {
                Operand::Memory(span) => place.of(address(span)),
                Operand::Scratch(offset) => place.scratch + *offset as u64,
            })
            .collect();
        let params = self.dispatch.params.as_bytes();
        let mut arguments: SmallVec<[*mut c_void; 9]> = addresses
            .iter_mut()
            .map(|address| std::ptr::from_mut(address).cast())
            .collect();
        arguments.push(params.as_ptr().cast_mut().cast());
        work(&mut arguments)
    }
}
