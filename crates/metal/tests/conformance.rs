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
    if left_out() {
        return Err(format!("{EVERY_OP} is not set"));
    }
    let device: Arc<dyn Device> = open(MetalOptions::default())?;
    let other = open(MetalOptions::default())?;
    let subject = Subject::new(device)
        .with_other(other)
        .without(DType::F64)
        .refusing(combines_long_elements);
    #[cfg(metal_sim)]
    let subject = subject.with_faults(|device, queue| {
        common::fail_next(&**device, &format!("lane-{queue}"));
    });
    Ok(subject)
}

/// Set where each op is to be tested by itself under a sanitizer, too.
const EVERY_OP: &str = "METAL_EVERY_OP";

/// Whether the test that runs is of one op, and under a sanitizer. Kernels are not watched and slow, and random ops of every kind are
/// compared with the host in the behaviour tests.
fn left_out() -> bool {
    let watched = cfg!(any(sanitize_address, sanitize_thread));
    let test = std::thread::current();
    let of_an_op = test.name().is_some_and(|name| name.starts_with("ops_"));
    watched && of_an_op && std::env::var_os(EVERY_OP).is_none()
}

/// Metal has no way for several threads to change words of 64 bits at once.
fn combines_long_elements(op: &Op) -> bool {
    match op {
        Op::Scatter(op) => op.combine != Combine::Replace && op.dst.dtype().size() == 8,
        _ => false,
    }
}

suite!(subject);
