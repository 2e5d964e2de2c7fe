//! Models as they are in use, from the Python packages that carry them, against ONNX Runtime.

#[path = "../support/device.rs"]
mod device;

mod compare;
mod data;
mod kinds;
mod minilm;
mod ocr;
mod picture;
mod silero;
mod together;

use streampool_tensor::Pool;

/// A pool on the device that is tested, unless there is none.
fn pool() -> Option<Pool> {
    device::pool()
        .map_err(|why| println!("skipped: {why}"))
        .ok()
}
