//! The device where there is no Metal: there is none, and it says so.

use std::ptr::NonNull;
use std::sync::Arc;

use streampool_device::{
    CacheReport, Device, DeviceKind, Error, Event, Memory, MemoryUse, OpKind, Properties, Queue,
    QueueOptions, Quirk, Result, Space, Trace,
};

use crate::MetalOptions;

/// An Apple GPU as a device. This system has no Metal, so there is none.
#[derive(Debug)]
pub enum MetalDevice {}

impl MetalDevice {
    /// Opens a GPU: an error on this system.
    pub fn new(_: MetalOptions) -> Result<Arc<MetalDevice>> {
        Err(unavailable())
    }

    /// How many GPUs there are: an error on this system.
    pub fn count() -> Result<usize> {
        Err(unavailable())
    }
}

fn unavailable() -> Error {
    Error::Unavailable {
        device: DeviceKind::Metal.name().to_owned(),
        why: "Metal is on Apple's systems only".to_owned(),
    }
}

impl Device for MetalDevice {
    fn properties(&self) -> &Properties {
        match *self {}
    }

    fn supports(&self, _: OpKind) -> bool {
        match *self {}
    }

    fn allocate(&self, _: usize, _: Space) -> Result<Memory> {
        match *self {}
    }

    unsafe fn free(&self, _: Memory) {
        match *self {}
    }

    fn host_address(&self, _: &Memory) -> Result<NonNull<u8>> {
        match *self {}
    }

    fn memory_use(&self) -> MemoryUse {
        match *self {}
    }

    fn create_queue(&self, _: QueueOptions) -> Result<Box<dyn Queue>> {
        match *self {}
    }

    fn create_event(&self, _: bool) -> Result<Box<dyn Event>> {
        match *self {}
    }

    fn quirks(&self) -> Vec<Quirk> {
        match *self {}
    }

    fn caches(&self) -> Vec<CacheReport> {
        match *self {}
    }

    fn set_trace(&self, _: Option<Arc<dyn Trace>>) {
        match *self {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_says_why_there_is_none() {
        let opened = MetalDevice::new(MetalOptions::default()).map(drop);
        assert_eq!(opened, MetalDevice::count().map(drop));
        let message = opened.unwrap_err().to_string();
        assert!(message.starts_with("no metal device: "), "{message}");
        assert!(message.contains("Apple"), "{message}");
    }
}
