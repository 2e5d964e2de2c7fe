//! The imitation of Metal: a class for each object of its interface, and a GPU that runs what is committed.

mod archive;
mod blit;
mod buffer;
mod capture;
mod command_buffer;
mod compute;
mod device;
mod dispatch;
mod encoder;
mod event;
mod gpu;
mod handlers;
mod hazards;
mod library;
mod pipeline;
mod queue;
mod residency;
mod resource;
mod values;

use crate::runtime::Class;

pub(crate) use device::REGISTRY_ID;
pub(crate) use handlers::wait_until_idle;
pub(crate) use residency::resident;

pub(crate) fn classes() -> impl Iterator<Item = &'static Class> {
    [
        &archive::ARCHIVE,
        &archive::DESCRIPTOR,
        &blit::BLIT_ENCODER,
        &buffer::BUFFER,
        &capture::MANAGER,
        &capture::SCOPE,
        &command_buffer::COMMAND_BUFFER,
        &compute::COMPUTE_ENCODER,
        &device::DEVICE,
        &event::SHARED_EVENT,
        &library::FUNCTION,
        &library::LIBRARY,
        &library::OPTIONS,
        &pipeline::DESCRIPTOR,
        &pipeline::PIPELINE,
        &queue::QUEUE,
        &residency::DESCRIPTOR,
        &residency::SET,
    ]
    .into_iter()
}

/// A mutex that a panic elsewhere does not spoil.
fn lock<T>(mutex: &std::sync::Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}
