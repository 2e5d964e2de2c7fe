//! What a program is made of: the steps of its ops, lowered once, and where in them the slots are.

use cudarc::driver::sys::CUdeviceptr;
use smallvec::SmallVec;
use streampool_device::{Op, OpKind, Result, Slots, Span};

use crate::memory::ALIGNMENT;
use crate::place::{Moved, address};
use crate::step::Steps;

/// What an instance is made from.
pub(super) struct Recipe {
    pub ops: Box<[Captured]>,
    pub slots: Slots,
    /// Where the steps of the ops have the slots.
    captured: Box<[CUdeviceptr]>,
    /// The bytes of scratch memory that the ops need, one after the other.
    pub scratch: usize,
}

/// Where the slots are now, and where the steps have them.
pub(super) type Bound = SmallVec<[Moved; 8]>;

pub(super) struct Captured {
    pub kind: OpKind,
    pub steps: Steps,
    /// The slots that its operands lie in.
    pub touches: SmallVec<[usize; 4]>,
}

impl Captured {
    fn new(op: &Op, steps: Steps, slots: &Slots) -> Captured {
        let mut touches = SmallVec::new();
        op.for_each_operand(|_, _, view| touches.extend(slots.holding(view)));
        touches.sort_unstable();
        touches.dedup();
        Captured {
            kind: op.kind(),
            steps,
            touches,
        }
    }
}

impl Recipe {
    /// The recipe of these ops, with their steps. Where the slots of an operand's memory cannot be told from its address,
    /// `lower` finds other steps.
    pub fn new(
        mut ops: Vec<(Box<Op>, Steps)>,
        spans: &[Span],
        lower: impl Fn(&Op) -> Result<Steps>,
    ) -> Result<Recipe> {
        let slots = Slots::new(spans, ALIGNMENT);
        let mut captured: Box<[CUdeviceptr]> = spans.iter().map(address).collect();
        if !ops.iter().all(|(op, _)| is_plain(op, spans)) {
            // What lies in a slot is lowered as memory of its own, aligned as it was captured, which a replay keeps.
            let own = apart(spans);
            for (op, steps) in &mut ops {
                *steps = lower(&slots.bind(op, &own))?;
            }
            captured = own.iter().map(address).collect();
        }
        let scratch = ops.iter().map(|(_, steps)| steps.scratch).max();
        let ops = ops.into_iter();
        Ok(Recipe {
            ops: ops
                .map(|(op, steps)| Captured::new(&op, steps, &slots))
                .collect(),
            slots,
            captured,
            scratch: scratch.unwrap_or(0),
        })
    }

    /// Where these slots are, for the steps.
    pub fn bound(&self, slots: &[Span]) -> Bound {
        let captured = self.captured.iter().zip(self.slots.sizes());
        let moved = captured.zip(slots).map(|((&from, &bytes), slot)| Moved {
            from,
            bytes,
            to: address(slot),
        });
        moved.collect()
    }
}

/// Whether what an operand has in memory tells the slot that it belongs to: it lies within that, or beside all.
fn is_plain(op: &Op, slots: &[Span]) -> bool {
    let mut is_plain = true;
    op.for_each_operand(|_, _, view| {
        let span = view.span();
        let overlaps = |slot: &&Span| {
            let (end, slot_end) = (span.offset + span.bytes, slot.offset + slot.bytes);
            slot.handle == span.handle && slot.offset < end && span.offset < slot_end
        };
        let first = slots.iter().find(overlaps);
        is_plain &= first.is_none_or(|slot| slot.contains(&span));
    });
    is_plain
}

/// Spans as long and aligned as these, where no memory is. Their offsets say how they are aligned, as those of memory do.
fn apart(spans: &[Span]) -> Vec<Span> {
    const FIRST: u64 = 1 << 63;
    let mut next = FIRST;
    let apart = spans.iter().map(|span| {
        let handle = next;
        next += (span.bytes as u64).next_multiple_of(ALIGNMENT as u64) + ALIGNMENT as u64;
        Span {
            handle,
            offset: (address(span) % ALIGNMENT as u64) as usize,
            bytes: span.bytes,
        }
    });
    apart.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_apart_is_as_aligned_and_says_so() {
        let span = Span {
            handle: 512,
            offset: 264,
            bytes: 100,
        };
        let own = apart(&[span; 2]);
        for own in &own {
            assert_eq!(own.offset, 8);
            assert_eq!(address(own) % ALIGNMENT as u64, 8);
        }
        assert!(address(&own[0]) + 100 < address(&own[1]));
    }
}
