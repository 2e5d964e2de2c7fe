//! Recurrent layers: the library multiplies what all steps see of the input, and our kernel takes the steps.

use streampool_device::{Op, OpKind};
use streampool_kernels::{Missing, rnn};

use crate::core::Core;
use crate::step::{NoSteps, Step, Steps};

impl Core {
    /// The steps of a recurrent layer, by our own product where the library does not multiply such elements.
    pub fn recurrent(&self, op: &Op, missing: Missing) -> Result<Steps, NoSteps> {
        let Op::Rnn(layer) = op else {
            return self.lowered(op, missing);
        };
        let product = match rnn::projection(layer) {
            Some(product) => self.blas.to_scratch(&product, missing)?,
            None => None,
        };
        let (Some((product, scratch)), Some(plan)) = (product, rnn::steps(layer, &self.limits))
        else {
            return self.lowered(op, missing);
        };
        // Work space of the library lies where the kernels put what they make after it.
        let mut steps = self.compiled(OpKind::Rnn, plan, missing)?;
        steps.list.insert(0, Step::Product(product));
        steps.scratch = steps.scratch.max(scratch);
        Ok(steps)
    }
}
