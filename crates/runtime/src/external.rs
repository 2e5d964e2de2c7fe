//! Streams of the driver that other libraries in this process made: work here and there, one after the other.

#![expect(
    unsafe_code,
    reason = "hands the handle of a stream on to the device, for which the caller vouches"
)]

use streampool_device::Tick;

use crate::clock::Stamp;
use crate::memory::Buffer;
use crate::program::Program;
use crate::{Error, Result, Stream};

impl Stream {
    /// Makes what is encoded next wait for everything that `external` was given so far: a stream of the driver's that another
    /// library made, as `torch.cuda.current_stream().cuda_stream` is. Only CUDA has such streams.
    ///
    /// # Safety
    /// `external` is the handle of a stream of this device's driver, which lives until this returns.
    pub unsafe fn wait_for_external(&self, external: u64) -> Result<()> {
        // SAFETY: the caller's guarantee, handed on.
        self.with_queue(|queue| unsafe { queue.wait_for_external(external) })
    }

    /// Makes what `external` is given from now on wait for everything that was encoded here.
    ///
    /// # Safety
    /// As for [`wait_for_external`](Self::wait_for_external).
    pub unsafe fn hold_external(&self, external: u64) -> Result<()> {
        // SAFETY: the caller's guarantee, handed on.
        self.with_queue(|queue| unsafe { queue.hold_external(external) })
    }

    /// As [`replay`](Self::replay), between what `external` was given so far and what it is given from now on.
    ///
    /// # Safety
    /// As for [`wait_for_external`](Self::wait_for_external).
    pub unsafe fn replay_on(
        &self,
        external: u64,
        program: &Program,
        inputs: &[&Buffer],
        outputs: &mut [&mut Buffer],
    ) -> Result<Stamp> {
        self.replay_by(program, inputs, outputs, |queue, program, slots| {
            // SAFETY: whoever calls this vouches for the memory, and the caller for the handle.
            unsafe { queue.replay_on(external, program, slots) }
        })
    }

    fn with_queue(
        &self,
        append: impl FnOnce(&mut dyn streampool_device::Queue) -> streampool_device::Result<Tick>,
    ) -> Result<()> {
        self.core().check()?;
        let mut encoder = self.lane().lock();
        let tick = append(encoder.queue()?).map_err(Error::from)?;
        self.lane().appended(&mut encoder, tick);
        Ok(())
    }
}
