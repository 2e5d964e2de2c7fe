//! The making and the end of encoders: where the driver does not bear it otherwise, one at a time on the device.

use objc2::Message;
use objc2::rc::Retained;
use objc2_metal::{MTLCommandBuffer, MTLCommandEncoder};
use streampool_device::lock::{Guard, Mutex};

use super::objects::{Command, Movable};
use super::pool::pooled;
use crate::ranks;

/// Guards the making and releasing of encoders, and the calls in which the driver ends them at last: it keeps the last
/// encoder of a command buffer to go on with it, until there is another, or the buffer is committed, or freed without that.
///
/// To keep ended encoders until their buffer is over would not do: they would be released on a thread of Metal's
/// while others make theirs. So who ends one releases it at once, and nobody else makes or releases one meanwhile.
pub(crate) struct Encoders(Option<Mutex<()>>);

impl Encoders {
    pub fn new(serial: bool) -> Encoders {
        Encoders(serial.then(|| Mutex::new(ranks::ENCODERS, ())))
    }

    fn lock(&self) -> Option<Guard<'_, ()>> {
        self.0.as_ref().map(Mutex::lock)
    }

    /// An encoder as `make` makes it. No pool holds it any more when the lock is free.
    pub fn begin<T: Message>(
        &self,
        make: impl FnOnce() -> Option<Retained<T>>,
    ) -> Option<Movable<T>> {
        let _guard = self.lock();
        pooled(make).map(Movable)
    }

    /// Ends an encoder and releases it.
    pub fn end<T: Message + MTLCommandEncoder>(&self, encoder: Movable<T>) {
        let _guard = self.lock();
        encoder.endEncoding();
        drop(encoder);
    }

    /// Commits a command buffer. Nothing of an encoder is left to end when Metal, or we, free it after that.
    pub fn commit(&self, command: &Command) {
        let _guard = self.lock();
        command.commit();
    }

    /// Releases a command buffer that is not committed.
    pub fn release(&self, command: Command) {
        let _guard = self.lock();
        pooled(|| drop(command));
    }
}
