//! The layer's kernel called directly, without stream or queue: what the runtime is measured against.

use std::sync::Arc;

use streampool::device::View;
use streampool::{Buffer, DType, Op, OpKind};

use crate::dense::{Dense, User};

/// A layer over memory that nobody else uses.
pub struct Layer {
    op: Op<View>,
    /// The memory that the op names.
    _memory: (Arc<Dense>, User),
}

impl Layer {
    /// The layer over the memory of `user`. Both are ready: what was encoded on them is complete.
    pub fn new(layer: Arc<Dense>, user: User) -> streampool::runtime::Result<Self> {
        let view = |buffer: &Buffer, layout| View::new(buffer.span(), DType::F32, layout);
        let shapes = user.shapes;
        let op = layer.op(
            view(&user.x, shapes.x)?,
            view(&layer.weights, shapes.weights)?,
            view(&layer.bias, shapes.bias)?,
            view(&user.y, shapes.y)?,
        );
        op.validate()?;
        Ok(Layer {
            op,
            _memory: (layer, user),
        })
    }

    /// Runs the layer on this thread.
    pub fn run(&mut self) -> streampool::runtime::Result<()> {
        // SAFETY: the op was validated, and its buffers live as long as it does. `Dense` and `User` are made complete; the layer
        // is only read ever after, and what the user has is this one's own, to which `&mut self` gives this thread alone access.
        let done = unsafe { streampool_host::bare_execute(&self.op) };
        done.map_err(|message| {
            let fault = streampool::Fault::new("no queue", 0, OpKind::MatMul, message);
            streampool::runtime::Error::Device(streampool::device::Error::Fault(fault))
        })
    }
}
