//! Memory that the host and the device both reach.

#![expect(unsafe_code, reason = "lends the host memory that no stream uses")]

use std::ptr::NonNull;
use std::sync::Arc;

use super::Buffer;
use crate::Result;
use crate::clocks::Clocks;
use crate::core::Core;
use crate::lane::Lane;

/// A buffer in staging memory, and where the host finds it.
pub(crate) struct Shared {
    buffer: Buffer,
    address: NonNull<u8>,
    clocks: Arc<Clocks>,
}

// SAFETY: the address is that of the buffer's memory, which any thread may reach; references to it come from
// borrows of the whole.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}

impl Shared {
    /// `bytes` bytes, all zero.
    pub fn new(core: &Core, lane: &Lane, bytes: usize) -> Result<Shared> {
        let chunk = core.staging(bytes.max(1))?;
        let span = chunk.span().part(0, bytes)?;
        let address = chunk.host_address()?;
        // SAFETY: the device says that the host reaches the memory there, and nobody has it yet.
        unsafe { address.write_bytes(0, bytes) };
        Ok(Shared {
            buffer: lane.adopt(span, Some(Box::new(move || drop(chunk)))),
            address,
            clocks: core.clocks.clone(),
        })
    }

    pub fn buffer(&self) -> &Buffer {
        &self.buffer
    }

    /// Its bytes, once no stream uses them; fails if that could not be waited for.
    pub fn bytes_mut(&mut self) -> Result<&mut [u8]> {
        for stamp in self.buffer.marks().uses() {
            self.clocks.wait(stamp, None)?;
        }
        // SAFETY: it is that long and was written wholly when it was made; what was encoded to use it is over, since
        // each wait said so, and nothing more can be while it is borrowed.
        Ok(unsafe { std::slice::from_raw_parts_mut(self.address.as_ptr(), self.buffer.bytes()) })
    }
}
