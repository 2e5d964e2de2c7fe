//! Steps: what Metal is asked to do for one op.

use std::sync::Arc;

use objc2_metal::{MTLBlitCommandEncoder, MTLComputeCommandEncoder, MTLSize};
use smallvec::SmallVec;
use streampool_device::{DType, Error, Layout, Op, Result, Span, View};
use streampool_kernels::{Dispatch, Missing, NotReady, Operand, Plan, lower, lower_to_simdgroups};

use super::core::Core;
use super::cost::{Cost, MOST_BYTES, MOST_WORK};
use super::divide::divided;
use super::errors::Refused;
use super::kernels::Pipeline;
use super::memory::{ALIGNMENT, Allocation};
use super::objects::{BlitEncoder, RawBuffer};
use super::page::Compute;
use super::staging::{Block, Blocks};
use super::writer::Writer;

/// Copies at least this long leave the compute encoder.
const LONG_COPY: usize = 1 << 20;
/// One step copies no more than this.
const LONGEST_COPY: usize = MOST_BYTES as usize / 2;
/// What blit encoders copy multiples of, and from and to multiples of.
const WORD: usize = 4;
/// The most bytes of one blit. Those of 4 GiB and more were seen to leave a part undone, without a word: copies on macOS 14
/// (pytorch#124335), fills on macOS 26 (pytorch#161265).
const LONGEST_BLIT: usize = 2 << 30;
/// The most bytes of parameters that are copied into the command itself.
const INLINE: usize = 4 << 10;

/// Why there are no steps for an op.
pub(crate) type NoSteps = NotReady<Error>;

/// What Metal is asked to do for one op, in order.
#[derive(Default)]
pub(crate) struct Steps {
    pub list: SmallVec<[Step; 1]>,
    /// Bytes of scratch memory they share.
    pub scratch: usize,
}

/// One thing Metal is asked to do.
pub(crate) enum Step {
    /// Run a kernel.
    Launch(Launch),
    /// Copy bytes.
    Copy {
        /// Where from.
        src: Span,
        /// Where to: as long.
        dst: Span,
    },
}

/// A kernel and what it is given.
pub(crate) struct Launch {
    pipeline: Arc<Pipeline>,
    dispatch: Box<Dispatch>,
    cost: Cost,
}

/// Where steps find their memory.
pub(crate) struct Place<'a, R> {
    /// Where a span of the op is now.
    pub rebase: R,
    /// The scratch memory, if any is needed.
    pub scratch: Option<&'a RawBuffer>,
}

impl Core {
    /// The steps of an op that was validated. Compiles what was never compiled before.
    pub fn prepared(&self, op: &Op) -> Result<Steps> {
        match self.steps(op, Missing::Compile) {
            Ok(steps) => Ok(steps),
            Err(NoSteps::Failed(error)) => Err(error),
            Err(NoSteps::Missing) => unreachable!("what is missing was to be compiled"),
        }
    }

    /// The steps of an op that was validated, each as long as one page may be.
    pub fn steps(&self, op: &Op, missing: Missing) -> Result<Steps, NoSteps> {
        if op.work() <= MOST_WORK {
            return self.steps_of(op, missing);
        }
        let mut all = Steps::default();
        for part in divided(op, MOST_WORK) {
            let steps = self.steps_of(&part, missing)?;
            all.list.extend(steps.list);
            all.scratch = all.scratch.max(steps.scratch);
        }
        Ok(all)
    }

    fn steps_of(&self, op: &Op, missing: Missing) -> Result<Steps, NoSteps> {
        if let Op::Copy { src, dst } = op
            && let Some(copy) = plain_copy(src, dst)
        {
            return Ok(Steps {
                list: copy,
                scratch: 0,
            });
        }
        if self.simdgroup_matrices
            && let Some(plan) = lower_to_simdgroups(op, &self.limits)
        {
            return self.compiled(op, plan, missing);
        }
        let plan = lower(op, &self.limits).ok_or_else(|| Error::Unsupported {
            device: self.properties.name.clone(),
            op: op.kind(),
            why: "Metal has no kernel for it, or none for so many elements".to_owned(),
        })?;
        self.compiled(op, plan, missing)
    }

    fn compiled(&self, op: &Op, plan: Plan, missing: Missing) -> Result<Steps, NoSteps> {
        let (op, work) = (op.kind(), op.work() / plan.dispatches.len().max(1) as u64);
        let mut list = SmallVec::with_capacity(plan.dispatches.len());
        let mut scratch = plan.scratch;
        for dispatch in plan.dispatches {
            // What is bound begins within its buffer, also where nothing lies there.
            if dispatch
                .operands
                .iter()
                .any(|operand| matches!(operand, Operand::Scratch(_)))
            {
                scratch = plan.scratch + ALIGNMENT;
            }
            let pipeline = self.kernels.pipeline(op, &dispatch.kernel, missing)?;
            if dispatch.threads as usize > pipeline.threads {
                return Err(NoSteps::Failed(Error::Unsupported {
                    device: self.properties.name.clone(),
                    op,
                    why: format!(
                        "its kernel has groups of {} threads, this GPU allows {}",
                        dispatch.threads, pipeline.threads
                    ),
                }));
            }
            list.push(Step::Launch(Launch {
                cost: Cost::new(work, bytes(&dispatch.operands)),
                pipeline,
                dispatch,
            }));
        }
        Ok(Steps { list, scratch })
    }

    /// The steps that copy bytes from one span to another, as long. Few are copied by a kernel, as others are: a blit would
    /// end the encoder that is open.
    pub fn copying(&self, src: Span, dst: Span) -> Result<Steps> {
        let whole = blit(src, dst);
        let dtype = match whole {
            Some(copy) if src.bytes >= LONG_COPY => {
                return Ok(Steps {
                    list: copy,
                    scratch: 0,
                });
            }
            Some(_) => DType::U32,
            None => DType::U8,
        };
        let view = |span: Span| {
            let layout = Layout::contiguous(&[span.bytes / dtype.size()])?;
            View::new(span, dtype, layout)
        };
        self.prepared(&Op::Copy {
            src: view(src)?,
            dst: view(dst)?,
        })
    }

    /// The step that does nothing, which makes a buffer that the GPU times.
    pub fn nop(&self) -> Result<Steps> {
        self.prepared(&Op::Nop)
    }
}

/// The bytes of memory that a kernel works on.
fn bytes(operands: &[Operand]) -> u64 {
    let spans = operands.iter().map(|operand| match operand {
        Operand::Memory(span) => span.bytes as u64,
        Operand::Scratch(_) => 0,
    });
    spans.fold(0, u64::saturating_add)
}

impl Step {
    fn cost(&self) -> Cost {
        match self {
            Step::Launch(launch) => launch.cost,
            Step::Copy { src, .. } => Cost::new(0, (src.bytes as u64).saturating_mul(2)),
        }
    }
}

/// A long copy of bytes as they are, if it is one.
fn plain_copy(src: &View, dst: &View) -> Option<SmallVec<[Step; 1]>> {
    let bytes = src.layout().elements() * src.dtype().size();
    let plain = src.dtype() == dst.dtype()
        && src.layout().is_contiguous()
        && dst.layout().is_contiguous()
        && bytes >= LONG_COPY;
    match plain {
        true => blit(src.reach()?, dst.reach()?),
        false => None,
    }
}

/// A copy that a blit encoder can do: of whole words. One step is not longer than a page may be.
fn blit(src: Span, dst: Span) -> Option<SmallVec<[Step; 1]>> {
    let whole = [src.offset, dst.offset, src.bytes]
        .iter()
        .all(|at| at.is_multiple_of(WORD));
    let steps = (0..src.bytes).step_by(LONGEST_COPY).map(|at| {
        let bytes = LONGEST_COPY.min(src.bytes - at);
        let (src, dst) = (src.part(at, bytes).ok()?, dst.part(at, bytes).ok()?);
        Some(Step::Copy { src, dst })
    });
    whole.then_some(steps)?.collect()
}

impl Steps {
    /// About how many bytes they take beside themselves.
    pub fn bytes(&self) -> usize {
        let launches = self.list.iter().map(|step| match step {
            Step::Launch(launch) => size_of::<Dispatch>() + launch.dispatch.params.as_bytes().len(),
            Step::Copy { .. } => 0,
        });
        launches.sum()
    }

    /// Blocks for the parameters that are too long for a command, in order.
    pub fn long_params(&self, blocks: &Arc<Blocks>) -> Result<Vec<Block>, usize> {
        let mut taken = Vec::new();
        for step in &self.list {
            if let Step::Launch(launch) = step
                && let params = launch.dispatch.params.as_bytes()
                && params.len() > INLINE
            {
                let block = blocks.take(params.len()).ok_or(params.len())?;
                // SAFETY: the block is at least as long, and nobody else has it.
                unsafe {
                    block
                        .pointer()
                        .as_ptr()
                        .copy_from_nonoverlapping(params.as_ptr(), params.len());
                }
                taken.push(block);
            }
        }
        Ok(taken)
    }

    /// What all of them cost.
    pub fn cost(&self) -> Cost {
        self.list.iter().map(Step::cost).sum()
    }

    /// Encodes them by `writer`. `params` are the blocks of [`long_params`](Self::long_params).
    ///
    /// # Safety
    /// The memory that they name in `place` stays allocated until the buffer is over, and what touches it is ordered
    /// before or after it.
    pub unsafe fn encode<R: Fn(&Span) -> Span>(
        &self,
        writer: &mut Writer<'_>,
        place: &Place<'_, R>,
        params: &[Block],
    ) -> Result<(), Refused> {
        let mut params = params.iter();
        for step in &self.list {
            let (page, maker) = writer.page_for(step.cost())?;
            match step {
                Step::Launch(launch) => {
                    let (_, compute) = page.compute(&maker)?;
                    let long = match launch.dispatch.params.as_bytes().len() > INLINE {
                        true => params.next(),
                        false => None,
                    };
                    // SAFETY: the caller vouches for the memory.
                    unsafe { launch.encode(compute, place, long) };
                }
                Step::Copy { src, dst } => {
                    let (_, blit) = page.blit(&maker)?;
                    // SAFETY: as above.
                    unsafe { copy(blit, &(place.rebase)(src), &(place.rebase)(dst)) };
                }
            }
        }
        Ok(())
    }
}

impl Launch {
    /// # Safety
    /// As for [`Steps::encode`].
    unsafe fn encode<R: Fn(&Span) -> Span>(
        &self,
        compute: &mut Compute,
        place: &Place<'_, R>,
        long: Option<&Block>,
    ) {
        compute.set_pipeline(&self.pipeline.state);
        let encoder = compute.encoder();
        for (index, operand) in self.dispatch.operands.iter().enumerate() {
            let (buffer, offset) = match operand {
                Operand::Memory(span) => {
                    let span = (place.rebase)(span);
                    // SAFETY: the caller vouches that it is allocated.
                    let allocation = unsafe { Allocation::of(&span) };
                    // An empty span may lie at the very end.
                    let offset = if span.bytes == 0 { 0 } else { span.offset };
                    (Some(allocation.buffer()), offset)
                }
                Operand::Scratch(offset) => (place.scratch, *offset),
            };
            // SAFETY: the offset is within the buffer, and the text declares a pointer at this index.
            unsafe { encoder.setBuffer_offset_atIndex(buffer, offset, index) };
        }
        let (params, index) = (
            self.dispatch.params.as_bytes(),
            self.dispatch.operands.len(),
        );
        match long {
            // SAFETY: the block holds the parameters until the buffer is over.
            Some(block) => unsafe {
                encoder.setBuffer_offset_atIndex(Some(block.buffer()), 0, index);
            },
            // SAFETY: they are copied before it returns, and laid out as the text declares them.
            None => unsafe {
                let bytes = std::ptr::NonNull::from(params).cast();
                encoder.setBytes_length_atIndex(bytes, params.len(), index);
            },
        }
        let [width, height, depth] = self.dispatch.groups.map(|groups| groups as usize);
        let groups = MTLSize {
            width,
            height,
            depth,
        };
        let threads = MTLSize {
            width: self.dispatch.threads as usize,
            height: 1,
            depth: 1,
        };
        encoder.dispatchThreadgroups_threadsPerThreadgroup(groups, threads);
    }
}

/// Copies bytes from one span to another, as long.
///
/// # Safety
/// As for [`Steps::encode`].
unsafe fn copy(blit: &BlitEncoder, src: &Span, dst: &Span) {
    for done in (0..src.bytes).step_by(LONGEST_BLIT) {
        // SAFETY: the caller vouches for both; neither is longer than its allocation.
        unsafe {
            blit.copyFromBuffer_sourceOffset_toBuffer_destinationOffset_size(
                Allocation::of(src).buffer(),
                src.offset + done,
                Allocation::of(dst).buffer(),
                dst.offset + done,
                LONGEST_BLIT.min(src.bytes - done),
            );
        }
    }
}
