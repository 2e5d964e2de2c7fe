//! What is known of an op before it is executed: its constants packed, its division planned.

use std::sync::Arc;

use streampool_device::Op;

use super::preparation::Preparation;
use super::{conv, matmul, rnn};

/// What an op, wherever its operands other than constants lie, is executed with.
#[derive(Default)]
pub(crate) enum Prepared {
    /// Nothing but the op.
    #[default]
    Plain,
    /// A product with a packed operand.
    MatMul(matmul::Ready),
    /// A convolution, divided for any number of threads.
    Conv(Box<conv::Ready>),
    /// A recurrent layer with packed weights.
    Rnn(Box<rnn::Ready>),
    /// A compiled expression.
    Map(Arc<crate::map::Program>),
}

impl Prepared {
    /// Prepares a validated op.
    ///
    /// # Safety
    /// Constants can be read, and nobody writes them as long as what is returned is used.
    pub(crate) unsafe fn new(op: &Op, preparation: &Preparation<'_>) -> Self {
        // SAFETY: passed on from the caller.
        unsafe {
            match op {
                Op::MatMul(op) => matmul::prepare(op, preparation).map(Prepared::MatMul),
                Op::Conv(op) => {
                    conv::prepare(op, preparation).map(|ready| Prepared::Conv(Box::new(ready)))
                }
                Op::Rnn(op) => {
                    rnn::prepare(op, preparation).map(|ready| Prepared::Rnn(Box::new(ready)))
                }
                _ => None,
            }
        }
        .unwrap_or_default()
    }

    pub(super) fn matmul(&self) -> Option<&matmul::Ready> {
        match self {
            Prepared::MatMul(ready) => Some(ready),
            _ => None,
        }
    }

    pub(crate) fn conv(&self) -> Option<&conv::Ready> {
        match self {
            Prepared::Conv(ready) => Some(ready),
            _ => None,
        }
    }

    pub(super) fn rnn(&self) -> Option<&rnn::Ready> {
        match self {
            Prepared::Rnn(ready) => Some(ready),
            _ => None,
        }
    }
}
