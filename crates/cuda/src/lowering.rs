//! Lowering: which steps execute an op.

use smallvec::{SmallVec, smallvec};
use streampool_device::{Activation, DType, Error, MatMul, Op, OpKind, Result, View};
use streampool_kernels::{
    Missing, Plan, as_product, lower, product_of_many, rnn, small_product, tensor_core_patches,
    tensor_core_product, warpgroup_conv, warpgroup_product,
};

use crate::core::Core;
use crate::step::{Launch, NoSteps, Step, Steps};

/// Copies at least this long are the copy engine's.
const LONG_COPY: usize = 1 << 20;

impl Core {
    /// The steps of an op that was validated, for a program or to be submitted once. Compiles what was never compiled before.
    pub fn prepared(&self, op: &Op, for_program: bool) -> Result<Steps> {
        match self.steps(op, for_program, Missing::Compile) {
            Ok(steps) => Ok(steps),
            Err(NoSteps::Failed(error)) => Err(error),
            Err(NoSteps::Missing) => unreachable!("what is missing was to be compiled"),
        }
    }

    /// The steps of an op that was validated, for a program or to be submitted once.
    pub fn steps(&self, op: &Op, for_program: bool, missing: Missing) -> Result<Steps, NoSteps> {
        match op {
            Op::Copy { src, dst } if self.is_plain_copy(src, dst) => Ok(Steps {
                list: match (src.reach(), dst.reach()) {
                    (Some(src), Some(dst)) => smallvec![Step::Copy { src, dst }],
                    _ => SmallVec::new(),
                },
                of_many: SmallVec::new(),
                scratch: 0,
            }),
            Op::MatMul(product) => {
                if let Some(steps) = self.product(op.kind(), product, for_program, missing)? {
                    return Ok(steps);
                }
                match self.library_product(product, missing)? {
                    Some(steps) => Ok(steps),
                    None => self.lowered(op, missing),
                }
            }
            Op::Conv(conv) if !conv.is_of_bytes() => {
                let plan = |many| warpgroup_conv(conv, &self.limits, many);
                let is_ours = self.on_tensor_cores(&conv.src);
                if is_ours
                    && self.warpgroups
                    && let Some(steps) =
                        self.compiled_twice(op.kind(), plan, for_program, missing)?
                {
                    return Ok(steps);
                }
                if matches!(conv.src.dtype(), DType::F16 | DType::BF16)
                    && let Some(product) = as_product(conv)
                {
                    if let Some(steps) = self.product(op.kind(), &product, for_program, missing)? {
                        return Ok(steps);
                    }
                    // For other activations its result would wait in `f32`, twice as many bytes.
                    if matches!(conv.activation, Activation::None | Activation::Relu)
                        && let Some(steps) = self.library_product(&product, missing)?
                    {
                        return Ok(steps);
                    }
                }
                if is_ours && let Some(plan) = tensor_core_patches(conv, &self.limits) {
                    return self.compiled(op.kind(), plan, missing);
                }
                match self
                    .dnn
                    .steps(conv, missing, |rest| self.lowered(rest, missing))?
                {
                    Some(steps) => Ok(steps),
                    None => self.lowered(op, missing),
                }
            }
            Op::Rnn(_) => self.recurrent(op, missing),
            _ => self.lowered(op, missing),
        }
    }

    /// The steps of a product by our kernels; `None` where a library's may be faster.
    fn product(
        &self,
        kind: OpKind,
        op: &MatMul,
        for_program: bool,
        missing: Missing,
    ) -> Result<Option<Steps>, NoSteps> {
        if self.kernels.compiler().is_ok()
            && let Some(plan) = small_product(op, &self.limits)
        {
            return self.compiled(kind, plan, missing).map(Some);
        }
        let plan = |many| self.tensor_core_product(op, many);
        self.compiled_twice(kind, plan, for_program, missing)
    }

    fn library_product(&self, op: &MatMul, missing: Missing) -> Result<Option<Steps>, NoSteps> {
        self.blas
            .steps(op, missing, |rest| self.lowered(rest, missing))
    }

    /// The product by our kernels on tensor cores; for one of `many` streams, if that is another.
    fn tensor_core_product(&self, op: &MatMul, many: bool) -> Option<Plan> {
        let limits = &self.limits;
        if !self.on_tensor_cores(&op.a) {
            return None;
        }
        let by_warpgroups = self
            .warpgroups
            .then(|| warpgroup_product(op, limits, false))
            .flatten();
        match (by_warpgroups, many) {
            (Some(plan), false) => Some(plan),
            (Some(_), true) => warpgroup_product(op, limits, true),
            (None, false) => tensor_core_product(op, limits),
            (None, true) => product_of_many(op, limits),
        }
    }

    /// The launches of a plan, if there is one; for a program with those of the plan for one of many streams.
    fn compiled_twice(
        &self,
        op: OpKind,
        plan: impl Fn(bool) -> Option<Plan>,
        for_program: bool,
        missing: Missing,
    ) -> Result<Option<Steps>, NoSteps> {
        let Some(alone) = plan(false) else {
            return Ok(None);
        };
        let mut steps = self.compiled(op, alone, missing)?;
        if for_program && let Some(of_many) = plan(true) {
            steps.of_many = self.compiled(op, of_many, missing)?.list;
        }
        Ok(Some(steps))
    }

    /// Whether our kernels multiply factors like this one on tensor cores.
    fn on_tensor_cores(&self, factor: &View) -> bool {
        match factor.dtype() {
            DType::F32 => self.splits,
            _ => self.tensor_cores,
        }
    }

    fn is_plain_copy(&self, src: &View, dst: &View) -> bool {
        let bytes = src.layout().elements() * src.dtype().size();
        src.dtype() == dst.dtype()
            && src.layout().is_contiguous()
            && dst.layout().is_contiguous()
            && (bytes >= LONG_COPY || self.kernels.compiler().is_err())
    }

    /// The steps of an op by our own kernels.
    fn lowered(&self, op: &Op, missing: Missing) -> Result<Steps, NoSteps> {
        let plan = lower(op, &self.limits).ok_or_else(|| Error::Unsupported {
            device: self.properties.name.clone(),
            op: op.kind(),
            why: "CUDA has no kernel for it, or none for so many elements".to_owned(),
        })?;
        self.compiled(op.kind(), plan, missing)
    }

    /// The launches of a plan, its kernels compiled.
    fn compiled(&self, op: OpKind, plan: Plan, missing: Missing) -> Result<Steps, NoSteps> {
        let mut list = SmallVec::with_capacity(plan.dispatches.len());
        for dispatch in plan.dispatches {
            let function = self.kernels.function(op, &dispatch.kernel, missing)?;
            list.push(Step::Launch(Launch { function, dispatch }));
        }
        Ok(Steps {
            list,
            of_many: SmallVec::new(),
            scratch: plan.scratch,
        })
    }

    /// The library multiplies what all steps see of the input, and our kernel takes the steps.
    fn recurrent(&self, op: &Op, missing: Missing) -> Result<Steps, NoSteps> {
        let Op::Rnn(layer) = op else {
            return self.lowered(op, missing);
        };
        let product = match rnn::projection(layer) {
            Some(product) => self.blas.to_scratch(&product, missing)?,
            None => None,
        };
        let steps = rnn::steps(layer, &self.limits, self.tensor_cores);
        let (Some((product, scratch)), Some(plan)) = (product, steps) else {
            return self.lowered(op, missing);
        };
        // Work space of the library lies where the kernels put what they make after it.
        let mut steps = self.compiled(OpKind::Rnn, plan, missing)?;
        steps.list.insert(0, Step::Product(product));
        steps.scratch = steps.scratch.max(scratch);
        Ok(steps)
    }
}
