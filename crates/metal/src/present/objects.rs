//! Metal's objects by short names, and those that may go from thread to thread though their binding does not say so.

use std::ops::Deref;

use objc2::rc::Retained;
use objc2::runtime::ProtocolObject;
use objc2::{Message, msg_send};
use objc2_foundation::NSError;
use objc2_metal::{
    MTLBinaryArchive, MTLBlitCommandEncoder, MTLBuffer, MTLCaptureScope, MTLCommandBuffer,
    MTLCommandQueue, MTLComputeCommandEncoder, MTLComputePipelineDescriptor,
    MTLComputePipelineState, MTLDevice, MTLResidencySet,
};

pub(crate) type Gpu = Retained<ProtocolObject<dyn MTLDevice>>;
pub(crate) type CommandQueue = Retained<ProtocolObject<dyn MTLCommandQueue>>;
pub(crate) type PipelineState = Retained<ProtocolObject<dyn MTLComputePipelineState>>;
pub(crate) type RawBuffer = ProtocolObject<dyn MTLBuffer>;
pub(crate) type RawQueue = ProtocolObject<dyn MTLCommandQueue>;
pub(crate) type RawCommand = ProtocolObject<dyn MTLCommandBuffer>;
pub(crate) type Buffer = Movable<RawBuffer>;
pub(crate) type Command = Movable<RawCommand>;
pub(crate) type ComputeEncoder = Movable<ProtocolObject<dyn MTLComputeCommandEncoder>>;
pub(crate) type BlitEncoder = Movable<ProtocolObject<dyn MTLBlitCommandEncoder>>;
pub(crate) type BinaryArchive = Movable<ProtocolObject<dyn MTLBinaryArchive>>;
pub(crate) type Residency = Movable<ProtocolObject<dyn MTLResidencySet>>;
pub(crate) type Described = Movable<MTLComputePipelineDescriptor>;
pub(crate) type CaptureScope = Movable<ProtocolObject<dyn MTLCaptureScope>>;

/// An object that any thread may use, one at a time.
///
/// Buffers and archives that were read never change. Command buffers, encoders, capture scopes and residency sets are
/// guarded by the lock of who owns them; descriptors and archives that are written are used by one thread at a time.
pub(crate) struct Movable<T: ?Sized>(pub Retained<T>);

// SAFETY: Metal's objects belong to no thread: they may be used from any, if not from several at a time, which
// whoever owns one of these takes care of.
unsafe impl<T: ?Sized> Send for Movable<T> {}
// SAFETY: as above.
unsafe impl<T: ?Sized> Sync for Movable<T> {}

impl<T: ?Sized + Message> Deref for Movable<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

/// When the GPU began and ended a command buffer that is over, in seconds of its clock.
pub(crate) fn gpu_times(command: &RawCommand) -> (f64, f64) {
    // SAFETY: both are properties of `MTLCommandBuffer`, of the type `CFTimeInterval`, which is a double. The
    // binding has them only together with all of Core Foundation.
    unsafe {
        (
            msg_send![command, GPUStartTime],
            msg_send![command, GPUEndTime],
        )
    }
}

/// What an error of Metal says.
pub(crate) fn message(error: &NSError) -> String {
    format!("{} ({})", error.localizedDescription(), error.code())
}
