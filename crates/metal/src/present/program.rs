//! Programs: ops captured once, lowered and compiled once, and encoded again at each replay with other slots.
//!
//! Metal has no graph that is bound anew. What a replay saves is all before the encoder: checks, lowering, the look-up
//! of kernels.

use std::any::Any;
use std::sync::Arc;

use streampool_device::{Error, Op, Program, Result, Slots, Span};

use super::core::Core;
use super::cost::Cost;
use super::errors::Refused;
use super::memory::ALIGNMENT;
use super::staging::{Block, Blocks};
use super::step::{Place, Steps};
use super::writer::Writer;

/// The handle of what lies in the first slot; the next ones follow. No allocation has such an address.
const FIRST_SLOT: u64 = 1 << 63;
/// From one handle of a slot to the next.
const STRIDE: u64 = ALIGNMENT as u64;

/// A program of a Metal device.
pub(crate) struct MetalProgram {
    core: Arc<Core>,
    ops: Box<[Steps]>,
    slots: Slots,
    /// The spans that the slots were captured as, with the handles of slots.
    marks: Box<[Span]>,
    /// The bytes of scratch memory that the ops need, one after the other.
    pub scratch: usize,
    pub cost: Cost,
}

impl MetalProgram {
    /// The program of these ops, which were validated.
    pub fn new(core: Arc<Core>, ops: &[Op], spans: &[Span]) -> Result<MetalProgram> {
        let slots = Slots::new(spans, ALIGNMENT);
        let handles = (FIRST_SLOT..).step_by(STRIDE as usize);
        let marks: Box<[Span]> = spans
            .iter()
            .zip(handles)
            .map(|(span, handle)| Span { handle, ..*span })
            .collect();
        // What lies in a slot is lowered as memory of its own, aligned as it was captured, which a replay keeps.
        let ops = ops.iter().map(|op| core.prepared(&slots.bind(op, &marks)));
        let ops: Box<[Steps]> = ops.collect::<Result<_>>()?;
        Ok(MetalProgram {
            scratch: ops.iter().map(|steps| steps.scratch).max().unwrap_or(0),
            cost: ops.iter().map(Steps::cost).sum(),
            ops,
            slots,
            marks,
            core,
        })
    }

    /// The Metal program behind `program`, if it is one of this device.
    pub fn of<'a>(program: &'a dyn Program, core: &Arc<Core>) -> Result<&'a MetalProgram> {
        program
            .as_any()
            .downcast_ref::<MetalProgram>()
            .filter(|program| Arc::ptr_eq(&program.core, core))
            .ok_or_else(|| Error::Foreign {
                what: "a program",
                device: core.properties.name.clone(),
            })
    }

    /// Whether `slots` fit.
    pub fn check(&self, slots: &[Span]) -> Result<()> {
        self.slots.check(slots)
    }

    /// Whether it does nothing.
    pub fn is_empty(&self) -> bool {
        self.ops.iter().all(|steps| steps.list.is_empty())
    }

    /// Blocks for long parameters, op by op.
    pub fn long_params(&self, blocks: &Arc<Blocks>) -> Result<Vec<Vec<Block>>, usize> {
        let ops = self.ops.iter();
        ops.map(|steps| steps.long_params(blocks)).collect()
    }

    /// Encodes all of it, bound to `slots`, which were [checked](Self::check).
    ///
    /// # Safety
    /// As for [`Queue::replay`](streampool_device::Queue::replay).
    pub unsafe fn encode(
        &self,
        writer: &mut Writer<'_>,
        slots: &[Span],
        scratch: Option<&super::objects::RawBuffer>,
        params: &[Vec<Block>],
    ) -> Result<(), Refused> {
        let place = Place {
            rebase: |span: &Span| self.rebased(span, slots),
            scratch,
        };
        for (steps, params) in self.ops.iter().zip(params) {
            // SAFETY: the caller vouches for the memory of the ops with these slots.
            unsafe { steps.encode(writer, &place, params)? };
        }
        Ok(())
    }

    /// Where `span` is when the slots are bound to these.
    fn rebased(&self, span: &Span, slots: &[Span]) -> Span {
        if span.handle < FIRST_SLOT {
            return *span;
        }
        let slot = ((span.handle - FIRST_SLOT) / STRIDE) as usize;
        Span {
            handle: slots[slot].handle,
            offset: slots[slot].offset + (span.offset - self.marks[slot].offset),
            bytes: span.bytes,
        }
    }
}

impl Program for MetalProgram {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn ops(&self) -> usize {
        self.ops.len()
    }

    fn slots(&self) -> &[usize] {
        self.slots.sizes()
    }

    fn bytes(&self) -> usize {
        let steps: usize = self.ops.iter().map(Steps::bytes).sum();
        size_of::<MetalProgram>() + size_of_val(&*self.ops) + steps
    }
}
