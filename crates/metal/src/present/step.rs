//! Steps: what Metal is asked to do for one op.

use std::sync::Arc;

use objc2_metal::{MTLBlitCommandEncoder, MTLComputeCommandEncoder, MTLSize};
use smallvec::{SmallVec, smallvec};
use streampool_device::{DType, Error, Layout, Op, OpKind, Result, Span, View};
use streampool_kernels::{Dispatch, Operand, Plan, lower, lower_to_simdgroups};

use super::core::Core;
use super::kernels::Pipeline;
use super::memory::{ALIGNMENT, Allocation};
use super::objects::{BlitEncoder, RawBuffer};
use super::page::{Compute, Maker, Page, Refused};
use super::staging::{Block, Blocks};

/// Copies at least this long leave the compute encoder.
const LONG_COPY: usize = 1 << 20;
/// What blit encoders copy multiples of, and from and to multiples of.
const WORD: usize = 4;
/// The most bytes of parameters that are copied into the command itself.
const INLINE: usize = 4 << 10;

/// What Metal is asked to do for one op, in order.
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
    pub fn steps(&self, op: &Op) -> Result<Steps> {
        if let Op::Copy { src, dst } = op
            && let Some(copy) = plain_copy(src, dst)
        {
            return Ok(Steps {
                list: smallvec![copy],
                scratch: 0,
            });
        }
        if self.simdgroup_matrices
            && let Some(plan) = lower_to_simdgroups(op, &self.limits)
        {
            return self.compiled(op.kind(), plan);
        }
        let plan = lower(op, &self.limits).ok_or_else(|| Error::Unsupported {
            device: self.properties.name.clone(),
            op: op.kind(),
            why: "Metal has no kernel for it, or none for so many elements".to_owned(),
        })?;
        self.compiled(op.kind(), plan)
    }

    fn compiled(&self, op: OpKind, plan: Plan) -> Result<Steps> {
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
            let pipeline = self.kernels.pipeline(op, &dispatch.kernel)?;
            if dispatch.threads as usize > pipeline.threads {
                return Err(Error::Unsupported {
                    device: self.properties.name.clone(),
                    op,
                    why: format!(
                        "its kernel has groups of {} threads, this GPU allows {}",
                        dispatch.threads, pipeline.threads
                    ),
                });
            }
            list.push(Step::Launch(Launch { pipeline, dispatch }));
        }
        Ok(Steps { list, scratch })
    }

    /// The steps that copy bytes from one span to another, as long.
    pub fn copying(&self, src: Span, dst: Span) -> Result<Steps> {
        if let Some(copy) = blit(src, dst) {
            return Ok(Steps {
                list: smallvec![copy],
                scratch: 0,
            });
        }
        let bytes = |span: Span| View::new(span, DType::U8, Layout::contiguous(&[span.bytes])?);
        self.steps(&Op::Copy {
            src: bytes(src)?,
            dst: bytes(dst)?,
        })
    }

    /// The step that does nothing, which makes a buffer that the GPU times.
    pub fn nop(&self) -> Result<Steps> {
        self.steps(&Op::Nop)
    }
}

/// A long copy of bytes as they are, if it is one.
fn plain_copy(src: &View, dst: &View) -> Option<Step> {
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

/// A copy that a blit encoder can do: of whole words.
fn blit(src: Span, dst: Span) -> Option<Step> {
    let whole = [src.offset, dst.offset, src.bytes]
        .iter()
        .all(|at| at.is_multiple_of(WORD));
    whole.then_some(Step::Copy { src, dst })
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

    /// Encodes them on `page`. `params` are the blocks of [`long_params`](Self::long_params).
    ///
    /// # Safety
    /// The memory that they name in `place` stays allocated until the buffer is over, and what touches it is ordered
    /// before or after it.
    pub unsafe fn encode<R: Fn(&Span) -> Span>(
        &self,
        page: &mut Page,
        maker: &Maker<'_>,
        place: &Place<'_, R>,
        params: &[Block],
    ) -> Result<(), Refused> {
        let mut params = params.iter();
        for step in &self.list {
            match step {
                Step::Launch(launch) => {
                    let (_, compute) = page.compute(maker)?;
                    let long = match launch.dispatch.params.as_bytes().len() > INLINE {
                        true => params.next(),
                        false => None,
                    };
                    // SAFETY: the caller vouches for the memory.
                    unsafe { launch.encode(compute, place, long) };
                }
                Step::Copy { src, dst } => {
                    let (_, blit) = page.blit(maker)?;
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
    if src.bytes == 0 {
        return;
    }
    // SAFETY: the caller vouches for both; neither is longer than its allocation.
    unsafe {
        blit.copyFromBuffer_sourceOffset_toBuffer_destinationOffset_size(
            Allocation::of(src).buffer(),
            src.offset,
            Allocation::of(dst).buffer(),
            dst.offset,
            src.bytes,
        );
    }
}
