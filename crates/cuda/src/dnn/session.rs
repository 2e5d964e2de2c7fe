//! Handles of the library, each used by one caller at a time.

use std::collections::HashMap;
use std::sync::Arc;

use cudarc::cudnn::sys::{
    self, cudnnConvolutionDescriptor_t, cudnnConvolutionMode_t as Mode, cudnnDataType_t as Type,
    cudnnFilterDescriptor_t, cudnnHandle_t, cudnnMathType_t as Math, cudnnStatus_t as Status,
    cudnnTensorDescriptor_t, cudnnTensorFormat_t as Format,
};
use streampool_device::DType;
use streampool_device::lock::Mutex;

use super::problem::{Order, Problem};
use crate::context::Context;
use crate::options::Precision;
use crate::ranks;

/// A session forgets what it was told of when it was told of more than this many problems.
const MOST_KNOWN: usize = 1024;

pub(super) fn check(status: Status) -> Result<(), Status> {
    match status {
        Status::CUDNN_STATUS_SUCCESS => Ok(()),
        other => Err(other),
    }
}

/// The sessions of a device that nobody uses now.
///
/// The library allows a handle to one thread at a time, so there are as many as callers at the same time. They are not
/// closed when the device is: a library may wait for the whole context then, and that crashes in the driver (seen in
/// 580) while other threads make graphs. What they hold goes with the context or the process.
pub(super) struct Sessions {
    pub context: Arc<Context>,
    idle: Mutex<Vec<Session>>,
    precision: Precision,
}

/// A handle, and what the library was told by it.
pub(super) struct Session {
    handle: cudnnHandle_t,
    known: HashMap<Arc<Problem>, Description>,
}

// SAFETY: the library's documentation allows a handle, and what was made with it, on any thread, by one at a time.
unsafe impl Send for Session {}

impl Sessions {
    pub fn new(context: Arc<Context>, precision: Precision) -> Sessions {
        Sessions {
            context,
            idle: Mutex::new(ranks::DNN, Vec::new()),
            precision,
        }
    }

    /// A session for the caller alone, until it is dropped. The context is bound. Making one asks things of the driver
    /// that a capture forbids.
    pub fn take(&self) -> Result<Lent<'_>, Status> {
        let idle = self.idle.lock().pop();
        let session = match idle {
            Some(session) => session,
            None => Session::open(&self.context)?,
        };
        Ok(Lent {
            sessions: self,
            session: Some(session),
        })
    }
}

/// A session that goes back when it is dropped.
pub(crate) struct Lent<'a> {
    sessions: &'a Sessions,
    session: Option<Session>,
}

impl Lent<'_> {
    /// The handle, and the description of a problem.
    pub(super) fn know(
        &mut self,
        problem: &Arc<Problem>,
    ) -> Result<(cudnnHandle_t, &Description), Status> {
        let precision = self.sessions.precision;
        let Some(session) = &mut self.session else {
            return Err(Status::CUDNN_STATUS_NOT_INITIALIZED);
        };
        if session.known.len() >= MOST_KNOWN && !session.known.contains_key(problem) {
            session.known.clear();
        }
        if !session.known.contains_key(problem) {
            let description = Description::new(problem, precision)?;
            session.known.insert(problem.clone(), description);
        }
        match session.known.get(problem) {
            Some(description) => Ok((session.handle, description)),
            None => Err(Status::CUDNN_STATUS_INTERNAL_ERROR),
        }
    }
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        if let Some(session) = self.session.take() {
            self.sessions.idle.lock().push(session);
        }
    }
}

impl Session {
    fn open(context: &Context) -> Result<Session, Status> {
        let _alone = context.alone();
        let mut handle = std::ptr::null_mut();
        // SAFETY: the library is there and a context is bound; it writes one handle.
        check(unsafe { sys::cudnnCreate(&mut handle) })?;
        Ok(Session {
            handle,
            known: HashMap::new(),
        })
    }
}

/// A problem in the library's own structures, which nobody writes once they are made.
pub(super) struct Description {
    pub src: cudnnTensorDescriptor_t,
    pub weight: cudnnFilterDescriptor_t,
    pub dst: cudnnTensorDescriptor_t,
    pub conv: cudnnConvolutionDescriptor_t,
    /// How exact products are allowed to be.
    pub math: Math,
}

impl Description {
    fn new(problem: &Problem, precision: Precision) -> Result<Description, Status> {
        let null: *mut std::ffi::c_void = std::ptr::null_mut();
        let mut made = Description {
            src: null.cast(),
            weight: null.cast(),
            dst: null.cast(),
            conv: null.cast(),
            math: math(problem.dtype, precision),
        };
        // SAFETY: each writes one pointer, to memory of the library's own; what was made goes with `made`.
        unsafe {
            check(sys::cudnnCreateTensorDescriptor(&mut made.src))?;
            check(sys::cudnnCreateFilterDescriptor(&mut made.weight))?;
            check(sys::cudnnCreateTensorDescriptor(&mut made.dst))?;
            check(sys::cudnnCreateConvolutionDescriptor(&mut made.conv))?;
        }
        let dtype = data_type(problem.dtype);
        for (descriptor, sizes) in [(made.src, &problem.src), (made.dst, &problem.dst)] {
            let strides = problem
                .strides(sizes)
                .ok_or(Status::CUDNN_STATUS_NOT_SUPPORTED)?;
            // SAFETY: there are as many sizes and strides as is said.
            check(unsafe {
                sys::cudnnSetTensorNdDescriptor(
                    descriptor,
                    dtype,
                    sizes.len() as i32,
                    sizes.as_ptr(),
                    strides.as_ptr(),
                )
            })?;
        }
        let format = match problem.order {
            Order::ChannelsFirst => Format::CUDNN_TENSOR_NCHW,
            Order::ChannelsLast => Format::CUDNN_TENSOR_NHWC,
        };
        let (weight, spatial) = (&problem.weight, problem.padding.len() as i32);
        // SAFETY: there are as many sizes as is said.
        unsafe {
            check(sys::cudnnSetFilterNdDescriptor(
                made.weight,
                dtype,
                format,
                weight.len() as i32,
                weight.as_ptr(),
            ))?;
            check(sys::cudnnSetConvolutionNdDescriptor(
                made.conv,
                spatial,
                problem.padding.as_ptr(),
                problem.stride.as_ptr(),
                problem.dilation.as_ptr(),
                Mode::CUDNN_CROSS_CORRELATION,
                Type::CUDNN_DATA_FLOAT,
            ))?;
            check(sys::cudnnSetConvolutionGroupCount(
                made.conv,
                problem.groups,
            ))?;
            check(sys::cudnnSetConvolutionMathType(made.conv, made.math))?;
        }
        Ok(made)
    }
}

impl Drop for Description {
    fn drop(&mut self) {
        // SAFETY: each was made once and is not used after; null stands for none, which the library is not asked about.
        // They are memory of the host's: nothing is waited for.
        unsafe {
            if !self.src.is_null() {
                sys::cudnnDestroyTensorDescriptor(self.src);
            }
            if !self.weight.is_null() {
                sys::cudnnDestroyFilterDescriptor(self.weight);
            }
            if !self.dst.is_null() {
                sys::cudnnDestroyTensorDescriptor(self.dst);
            }
            if !self.conv.is_null() {
                sys::cudnnDestroyConvolutionDescriptor(self.conv);
            }
        }
    }
}

fn data_type(dtype: DType) -> Type {
    match dtype {
        DType::F16 => Type::CUDNN_DATA_HALF,
        DType::BF16 => Type::CUDNN_DATA_BFLOAT16,
        _ => Type::CUDNN_DATA_FLOAT,
    }
}

/// How exact products are. What the library has no way for is done in a more exact one.
fn math(dtype: DType, precision: Precision) -> Math {
    match (dtype, precision) {
        (DType::F32, Precision::Exact) => Math::CUDNN_FMA_MATH,
        (DType::F32, Precision::F16) => Math::CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION,
        // By default it rounds factors of `f32` to TF32.
        (DType::F32, _) => Math::CUDNN_DEFAULT_MATH,
        _ => Math::CUDNN_TENSOR_OP_MATH,
    }
}
