//! The layer's kernel called directly, without stream or queue: what the runtime is measured against.

use std::sync::Arc;

use streampool::device::View;
use streampool::{Op, OpKind};

use super::linear::{Activations, Layer};

/// The layer over memory that nobody else uses.
pub struct Bare {
    op: Op<View>,
    /// The memory that the op names.
    _memory: (Arc<Layer>, Activations),
}

impl Bare {
    /// The layer over `data`. Both are ready: what was encoded on them is complete.
    pub fn new(layer: Arc<Layer>, data: Activations) -> streampool::Result<Self> {
        let op = Op::MatMul(layer.kernel_op(&data)?);
        op.validate()?;
        Ok(Bare {
            op,
            _memory: (layer, data),
        })
    }

    /// Runs the layer on this thread.
    pub fn run(&mut self) -> streampool::Result<()> {
        // SAFETY: the op was validated, and its buffers live as long as it does. `Layer` and `Activations`
        // are made complete; the layer is only read ever after, and the activations are this one's own, to
        // which `&mut self` gives this thread alone access.
        let done = unsafe { streampool::host::bare_execute(&self.op) };
        done.map_err(|message| {
            let fault = streampool::Fault::new("no queue", 0, OpKind::MatMul, message);
            streampool::Error::Device(streampool::device::Error::Fault(fault))
        })
    }
}
