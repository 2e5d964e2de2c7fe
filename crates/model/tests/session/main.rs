//! What sessions promise, on small models that are written here.

#[path = "../support/device.rs"]
mod device;
#[path = "../support/onnx.rs"]
mod onnx;

mod answers;
mod binding;
mod budgets;
mod bytes;
mod data;
mod defaults;
mod faults;
mod generated;
mod given_weights;
mod inputs;
mod lent;
mod memory;
mod outputs;
mod pending_and_late;
mod pictures;
mod profile;
mod random;
mod signals;
mod strings;
mod submits;
mod threads;

use streampool_model::{Array, Input, Outputs, Result, Session};
use streampool_tensor::Pool;

/// A pool on the device that is tested, unless there is none.
fn pool() -> Option<Pool> {
    device::pool()
        .map_err(|why| println!("skipped: {why}"))
        .ok()
}

fn floats(values: &[f32], shape: &[usize]) -> Array {
    Array::new(values, shape).unwrap()
}

fn longs(values: &[i64], shape: &[usize]) -> Array {
    Array::new(values, shape).unwrap()
}

/// The outputs for inputs in order.
fn run(session: &Session, inputs: &[&Array]) -> Result<Outputs> {
    let inputs: Vec<Input<'_>> = inputs.iter().map(|&array| array.into()).collect();
    session.run_positional(&inputs)
}

/// The first output for inputs in order.
fn first(session: &Session, inputs: &[&Array]) -> Array {
    let outputs = run(session, inputs).unwrap_or_else(|error| panic!("{error}"));
    outputs.at(0).unwrap().clone()
}
