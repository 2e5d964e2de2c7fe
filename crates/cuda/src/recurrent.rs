//! Recurrent layers: the library multiplies what all steps see of the input, and our kernel takes the steps.

use streampool_device::{Op, OpKind, Result};
use streampool_kernels::rnn;

use crate::core::Core;
use crate::step::{Step, Steps};

impl Core {
    /// The steps of a recurrent layer, by our own product where the library does not multiply such elements.
    pub fn recurrent(&self, op: &Op) -> Result<Steps> {
        let Op::Rnn(layer) = op else {
            return self.lowered(op);
        };
        let product = rnn::projection(layer).and_then(|product| self.blas.to_scratch(&product));
        let (Some((product, scratch)), Some(plan)) = (product, rnn::steps(layer, &self.limits))
        else {
            return self.lowered(op);
        };
        // Work space of the library lies where the kernels put what they make after it.
        let mut steps = self.compiled(OpKind::Rnn, plan)?;
        steps.list.insert(0, Step::Product(product));
        steps.scratch = steps.scratch.max(scratch);
        Ok(steps)
    }
}
