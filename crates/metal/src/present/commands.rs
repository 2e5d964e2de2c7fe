//! Where the command buffers of a lane come from: a queue of Metal's, which a new one takes the place of after a fault.

use objc2_foundation::NSString;
use objc2_metal::{MTLCommandQueue, MTLDevice};
use streampool_device::lock::Mutex;

use super::errors::Refused;
use super::memory::Ledger;
use super::objects::{Command, CommandQueue, Gpu, Movable};
use super::pool::pooled;
use crate::ranks;

/// Makes the command buffers of one lane.
pub(crate) struct Commands {
    /// Seen in Instruments and in Metal's own errors.
    name: String,
    /// How many command buffers it has room for.
    room: usize,
    queue: Mutex<CommandQueue>,
}

impl Commands {
    pub fn new(gpu: &Gpu, ledger: &Ledger, name: String, room: usize) -> Result<Commands, Refused> {
        let queue = queue(gpu, ledger, &name, room)?;
        Ok(Commands {
            queue: Mutex::new(ranks::COMMANDS, queue),
            name,
            room,
        })
    }

    /// A command buffer. It does not retain what it names: whoever appends vouches for the memory, and the rest is held
    /// by us, at less than Metal takes for it.
    pub fn make(&self) -> Result<Command, Refused> {
        // Not under the lock: where a queue is full, the call waits for room.
        let queue = self.queue.lock().clone();
        let made = pooled(|| queue.commandBufferWithUnretainedReferences());
        made.map(Movable)
            .ok_or(Refused("commandBufferWithUnretainedReferences"))
    }

    /// Begins anew, with nothing under way: a queue that one command buffer failed on may fail all that follow.
    pub fn renew(&self, gpu: &Gpu, ledger: &Ledger) -> Result<(), Refused> {
        let new = queue(gpu, ledger, &self.name, self.room)?;
        let old = std::mem::replace(&mut *self.queue.lock(), new);
        pooled(|| drop(old));
        Ok(())
    }
}

fn queue(gpu: &Gpu, ledger: &Ledger, name: &str, room: usize) -> Result<CommandQueue, Refused> {
    pooled(|| {
        let queue = gpu
            .newCommandQueueWithMaxCommandBufferCount(room)
            .ok_or(Refused("newCommandQueueWithMaxCommandBufferCount"))?;
        queue.setLabel(Some(&NSString::from_str(name)));
        ledger.attend(&queue);
        Ok(queue)
    })
}
