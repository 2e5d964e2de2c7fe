//! Streams of the driver that somebody else made.

use cudarc::driver::sys::{self, CUstream, CUstreamCaptureStatus};
use streampool_device::Error;

use crate::context::{Context, Failure};

/// A stream of another user of the driver in this process.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct External {
    stream: CUstream,
    /// Handles are used again, numbers are not.
    id: u64,
}

// SAFETY: the driver's streams may be used from any thread.
unsafe impl Send for External {}

impl External {
    /// The stream of this handle, which captures nothing. The context is bound.
    ///
    /// # Safety
    /// `handle` is one of the driver's streams, which lives as long as this is used.
    pub unsafe fn of(context: &Context, handle: u64) -> Result<External, Failure> {
        let stream = handle as usize as CUstream;
        let mut status = CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE;
        // SAFETY: the caller vouches for the handle; it writes one value.
        let result = unsafe { sys::cuStreamIsCapturing(stream, &mut status) };
        context.check("cuStreamIsCapturing", result)?;
        if status != CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE {
            return Err(Failure::Unprepared(Error::Invalid {
                what: "a stream of the driver",
                got: "one that captures a graph".to_owned(),
                expected: "one that does not: run the model outside of the capture".to_owned(),
            }));
        }
        let mut id = 0;
        // SAFETY: as above.
        let result = unsafe { sys::cuStreamGetId(stream, &mut id) };
        context.check("cuStreamGetId", result)?;
        Ok(External { stream, id })
    }

    pub fn stream(&self) -> CUstream {
        self.stream
    }
}
