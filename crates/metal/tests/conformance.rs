//! The Metal device keeps every promise of the contract.
#![cfg(any(target_vendor = "apple", metal_sim))]

mod common;

use std::sync::Arc;

use common::open;
use streampool_conformance::{Subject, suite};
use streampool_device::{Combine, DType, Device, Op};
use streampool_metal::MetalOptions;

/// A device with another one beside it on the same GPU, and, where Metal is imitated, buffers that fail on request.
fn subject() -> Result<Subject, String> {
    let device: Arc<dyn Device> = open(MetalOptions::default())?;
    let other = open(MetalOptions::default())?;
    let subject = Subject::new(device)
        .with_other(other)
        .without(DType::F64)
        .refusing(combines_long_elements)
        .sampled(match watched_in_part() {
            true => SAMPLE,
            false => 1,
        });
    #[cfg(metal_sim)]
    let subject = subject.with_faults(|device, queue| {
        common::fail_next(&**device, &format!("lane-{queue}"));
    });
    Ok(subject)
}

/// Set where everything that is drawn for an op is tried under a sanitizer, too.
const EVERY_OP: &str = "METAL_EVERY_OP";
/// Else one in so many. Tests go through types and options by turns of other lengths than this.
const SAMPLE: usize = 31;

/// Whether a sanitizer watches, and not everything is to be tried. Each kernel is compiled first, and slow.
fn watched_in_part() -> bool {
    cfg!(any(sanitize_address, sanitize_thread)) && std::env::var_os(EVERY_OP).is_none()
}

/// Metal has no way for several threads to change words of 64 bits at once.
fn combines_long_elements(op: &Op) -> bool {
    match op {
        Op::Scatter(op) => op.combine != Combine::Replace && op.dst.dtype().size() == 8,
        _ => false,
    }
}

suite!(subject);
