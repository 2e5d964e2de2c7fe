//! The CUDA device keeps every promise of the contract.

mod common;

use std::sync::Arc;

use common::{is_imitated, open, options};
use streampool_conformance::{Subject, suite};
use streampool_cuda::CudaDevice;
use streampool_device::Device;
use streampool_races::Races;

/// Set where everything that is drawn for an op is tried on the imitation of a GPU, too.
const EVERY_OP: &str = "CUDA_EVERY_OP";
/// Else one in so many. Tests go through types and options by turns of other lengths than this.
const SAMPLE: usize = 7;
/// Set where races are looked for.
const WATCHED: &str = "RACES";

/// A device with another one beside it, on the next GPU or on the same if there is only one, and launches that the driver refuses as the way to
/// make it fail.
fn subject() -> Result<Subject, String> {
    let gpus = CudaDevice::count().unwrap_or(1);
    let other = options().ordinal(1 % gpus.max(1));
    let (cuda, other) = (open(options())?, open(other)?);
    let device: Arc<dyn Device> = match std::env::var_os(WATCHED) {
        Some(_) => Races::new(cuda.clone()),
        None => cuda.clone(),
    };
    // There each kernel is compiled by a C++ compiler first, and slow.
    let in_part = is_imitated() && std::env::var_os(EVERY_OP).is_none();
    let subject = Subject::new(device)
        .with_other(other)
        .sampled(if in_part { SAMPLE } else { 1 });
    Ok(subject.with_faults(move |_, queue| cuda.refuse_next(queue)))
}

suite!(subject);
