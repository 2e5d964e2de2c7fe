//! The imitation of Metal: a class for each object of its interface, and a GPU that runs what is committed.

mod archive;
mod blit;
mod buffer;
mod capture;
mod command_buffer;
mod committed;
mod compute;
mod descriptor;
mod device;
mod device_class;
mod dispatch;
mod encoder;
mod event;
mod gpu;
mod handlers;
mod hazards;
mod library;
mod pass;
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
        &device_class::DEVICE,
        &event::SHARED_EVENT,
        &library::FUNCTION,
        &library::LIBRARY,
        &library::OPTIONS,
        &descriptor::DESCRIPTOR,
        &pipeline::PIPELINE,
        &queue::QUEUE,
        &residency::DESCRIPTOR,
        &residency::SET,
    ]
    .into_iter()
}
