//! The slots of a program: which operands of its ops each replay binds anew, and to what.

use crate::{Error, Op, OpKind, Result, Span, View};

/// The slots of a captured program, on a device whose handles are addresses.
///
/// An operand belongs to the first slot that its span lies within, and keeps its place in there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slots {
    captured: Box<[Span]>,
    sizes: Box<[usize]>,
    alignment: usize,
}

impl Slots {
    /// What memory for slots begins at a multiple of on the host: allocators align all that is large to it. Ops there take
    /// operands that begin at any of their elements.
    pub const HOST_ALIGNMENT: usize = 16;

    /// The slots that were captured as these spans, on a device that aligns allocations to `alignment`.
    pub fn new(captured: &[Span], alignment: usize) -> Slots {
        Slots {
            captured: captured.into(),
            sizes: captured.iter().map(|slot| slot.bytes).collect(),
            alignment: alignment.max(1),
        }
    }

    /// Their sizes, in bytes.
    pub fn sizes(&self) -> &[usize] {
        &self.sizes
    }

    /// The slot that `view` lies in.
    pub fn holding(&self, view: &View) -> Option<usize> {
        let span = view.span();
        self.captured.iter().position(|slot| slot.contains(&span))
    }

    /// Whether a replay may bind them to `given`: as many, each as long as captured and at the same address modulo
    /// what allocations are aligned to. Then every operand inside is aligned as it was.
    pub fn check(&self, given: &[Span]) -> Result<()> {
        let invalid = |got: String, expected: String| Error::InvalidOp {
            op: OpKind::Replay,
            argument: "slots",
            got,
            expected,
        };
        if given.len() != self.captured.len() {
            let expected = format!("{}, one for each slot", self.captured.len());
            return Err(invalid(format!("{} spans", given.len()), expected));
        }
        for (index, (given, captured)) in given.iter().zip(&self.captured).enumerate() {
            if given.bytes < captured.bytes {
                return Err(invalid(
                    format!("{} bytes for slot {index}", given.bytes),
                    format!("at least {}", captured.bytes),
                ));
            }
            let (got, place) = (address(given), address(captured) % self.alignment);
            if got % self.alignment != place {
                return Err(invalid(
                    format!("at address {got:#x} for slot {index}"),
                    format!(
                        "{place} bytes behind a multiple of {}, as when it was captured",
                        self.alignment
                    ),
                ));
            }
        }
        Ok(())
    }

    /// `op` with its operands in slots moved to where these are now.
    ///
    /// # Panics
    /// If `given` would be refused by a [check](Self::check), where that would have left an operand out of bounds.
    pub fn bind(&self, op: &Op, given: &[Span]) -> Op {
        let bound = op.try_map(|_, _, view| {
            let Some(slot) = self.holding(view) else {
                return Ok::<View, Error>(*view);
            };
            let (captured, given, span) = (&self.captured[slot], &given[slot], view.span());
            Ok(view.rebased(given.part(span.offset - captured.offset, span.bytes)?))
        });
        bound.unwrap_or_else(|error| panic!("slots are bound that were not checked: {error}"))
    }
}

/// Where it begins, modulo all there are: only its alignment counts.
fn address(span: &Span) -> usize {
    (span.handle as usize).wrapping_add(span.offset)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DType, Layout};

    fn span(handle: u64, offset: usize, bytes: usize) -> Span {
        Span {
            handle,
            offset,
            bytes,
        }
    }

    fn view(span: Span) -> View {
        View::new(span, DType::F32, Layout::contiguous(&[4]).unwrap()).unwrap()
    }

    fn copy(src: Span, dst: Span) -> Op {
        Op::Copy {
            src: view(src),
            dst: view(dst),
        }
    }

    #[test]
    fn operands_keep_their_place_within_the_first_slot_that_holds_them() {
        let slots = Slots::new(&[span(4096, 64, 64), span(4096, 64, 128)], 256);
        let inside = [(80, Some(0)), (112, Some(0)), (116, Some(1)), (60, None)];
        for (offset, slot) in inside {
            assert_eq!(slots.holding(&view(span(4096, offset, 16))), slot);
        }
        assert_eq!(slots.holding(&view(span(8192, 80, 16))), None);
        let op = copy(span(4096, 80, 16), span(4096, 176, 16));
        let bound = slots.bind(&op, &[span(1 << 20, 0, 64), span(1 << 21, 32, 500)]);
        assert_eq!(bound, copy(span(1 << 20, 16, 16), span(1 << 21, 144, 16)));
        let elsewhere = copy(span(8192, 0, 16), span(8192, 64, 16));
        assert_eq!(slots.bind(&elsewhere, &[span(0, 0, 64); 2]), elsewhere);
    }

    #[test]
    fn what_does_not_fit_is_refused_with_the_figures() {
        let slots = Slots::new(&[span(4096, 0, 100), span(4096, 104, 8)], 256);
        assert_eq!(slots.sizes(), [100, 8]);
        let good = [span(8192, 0, 100), span(8192, 360, 9)];
        assert_eq!(slots.check(&good), Ok(()));
        let cases = [
            (vec![good[0]], "1 spans"),
            (vec![span(8192, 0, 99), good[1]], "99 bytes for slot 0"),
            (vec![span(8192, 128, 100), good[1]], "0x2080 for slot 0"),
            (
                vec![good[0], span(8192, 112, 8)],
                "104 bytes behind a multiple of 256",
            ),
        ];
        for (given, message) in cases {
            let error = slots.check(&given).unwrap_err();
            assert!(error.to_string().contains(message), "{error}");
        }
    }

    #[test]
    fn an_operand_inside_a_slot_stays_aligned() {
        // The slot begins between two `f64`, the operand in it at one.
        let slots = Slots::new(&[span(4096, 4, 36)], 256);
        let inside = |handle, offset| {
            View::new(
                span(handle, offset, 32),
                DType::F64,
                Layout::contiguous(&[4]).unwrap(),
            )
        };
        let op = Op::Fill {
            dst: inside(4096, 8).unwrap(),
            value: crate::Scalar::Int(0),
        };
        for offset in (0..512).step_by(4) {
            let given = [span(8192, offset, 36)];
            if slots.check(&given).is_ok() {
                let bound = slots.bind(&op, &given);
                assert_eq!(
                    bound,
                    Op::Fill {
                        dst: inside(8192, offset + 4).unwrap(),
                        value: crate::Scalar::Int(0),
                    }
                );
                assert_eq!((8192 + offset + 4) % 8, 0);
            }
        }
        assert!(slots.check(&[span(8192, 260, 36)]).is_ok());
    }
}
