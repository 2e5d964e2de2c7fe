//! GPUs that reach each other's memory.

use cudarc::driver::sys::{self, CUresult};
use streampool_device::Result;

use crate::CudaDevice;
use crate::context::Failure;

impl CudaDevice {
    /// Lets the queues of this device work on `other`'s memory too: an op may then name spans of both. The
    /// answer is `false` where the hardware has no way between them.
    ///
    /// What `other`'s queues do with that memory is ordered by waiting: events belong to one device.
    pub fn reach(&self, other: &CudaDevice) -> Result<bool> {
        let context = &self.core.context;
        self.try_reach(other)
            .map_err(|failure| context.error(failure))
    }

    fn try_reach(&self, other: &CudaDevice) -> Result<bool, Failure> {
        let (mine, theirs) = (&self.core.context, &other.core.context);
        if mine.device() == theirs.device() {
            return Ok(true);
        }
        let _bound = mine.bind()?;
        theirs.check_alive()?;
        let mut can = 0;
        // SAFETY: it writes one integer.
        let result =
            unsafe { sys::cuDeviceCanAccessPeer(&mut can, mine.device(), theirs.device()) };
        mine.check("cuDeviceCanAccessPeer", result)?;
        if can == 0 {
            return Ok(false);
        }
        let _alone = mine.alone();
        // SAFETY: the context is alive as long as `other`.
        match unsafe { sys::cuCtxEnablePeerAccess(theirs.raw(), 0) } {
            CUresult::CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED => Ok(true),
            result => mine.check("cuCtxEnablePeerAccess", result).map(|()| true),
        }
    }
}
