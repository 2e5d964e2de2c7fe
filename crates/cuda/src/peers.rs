//! GPUs that reach each other's memory.

use cudarc::driver::sys::{self, CUresult};
use streampool_device::{Error, Result};

use crate::context::Failure;
use crate::{CudaDevice, driver};

impl CudaDevice {
    /// Whether the hardware has a way from the GPU of one number to the memory of another, so that [`reach`](Self::reach) would
    /// open it. No device has to be open.
    pub fn can_reach(from: usize, to: usize) -> Result<bool> {
        let unavailable = |why: String| Error::Unavailable {
            device: driver::name(from),
            why,
        };
        driver::start().map_err(unavailable)?;
        let mut devices = [0; 2];
        let mut can = 0;
        for (device, ordinal) in devices.iter_mut().zip([from, to]) {
            let ordinal = i32::try_from(ordinal).unwrap_or(i32::MAX);
            // SAFETY: the driver is started; it writes one handle, or refuses the number.
            let result = unsafe { sys::cuDeviceGet(device, ordinal) };
            check(result).map_err(unavailable)?;
        }
        let [from, to] = devices;
        // SAFETY: both are GPUs of the driver; it writes one integer.
        let result = unsafe { sys::cuDeviceCanAccessPeer(&mut can, from, to) };
        check(result).map_err(unavailable)?;
        Ok(can != 0)
    }

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

fn check(result: CUresult) -> Result<(), String> {
    match result {
        CUresult::CUDA_SUCCESS => Ok(()),
        other => Err(driver::message(other)),
    }
}
