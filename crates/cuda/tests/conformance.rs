//! The CUDA device keeps every promise of the contract.

mod common;

use std::sync::Arc;

use common::{open, options};
use streampool_conformance::{Subject, suite};
use streampool_device::Device;

/// A device with another one beside it on the same GPU, and launches that the driver refuses as the way to
/// make it fail.
fn subject() -> Result<Subject, String> {
    let (cuda, other) = (open(options())?, open(options())?);
    let device: Arc<dyn Device> = cuda.clone();
    let subject = Subject::new(device).with_other(other);
    Ok(subject.with_faults(move |_, queue| cuda.refuse_next(queue)))
}

suite!(subject);
