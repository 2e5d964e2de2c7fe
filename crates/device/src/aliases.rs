//! Whether groups of operands are apart: with hundreds of them, not each can be compared with each.

use crate::check::invalid;
use crate::{Expr, OpKind, Result, Span, View};

/// Checks that no output of a [`Map`](crate::Op::Map) over several groups shares memory with another operand, save
/// that it may be exactly an input of its own group. Groups are computed in no certain order.
pub(crate) fn groups_apart(expr: &Expr, inputs: &[View], outputs: &[View]) -> Result<()> {
    let (reads, writes) = (expr.inputs().len(), expr.outputs().len());
    let mut written: Vec<(Span, usize)> = outputs
        .iter()
        .enumerate()
        .filter_map(|(number, output)| Some((output.reach()?, number)))
        .collect();
    written.sort_unstable_by_key(|(span, _)| (span.handle, span.offset));
    for pair in written.windows(2) {
        let [(before, _), (after, _)] = [pair[0], pair[1]];
        if before.handle == after.handle && after.offset < before.offset + before.bytes {
            return shared("output");
        }
    }
    for (number, input) in inputs.iter().enumerate() {
        let Some(read) = input.reach() else { continue };
        // Those written are apart by now: all that begin and end before it come first.
        let first = written.partition_point(|(span, _)| {
            (span.handle, span.offset + span.bytes) <= (read.handle, read.offset)
        });
        let meeting = written[first..].iter().take_while(|(span, _)| {
            span.handle == read.handle && span.offset < read.offset + read.bytes
        });
        for &(_, output) in meeting {
            if number / reads != output / writes || *input != outputs[output] {
                return shared("input");
            }
        }
    }
    Ok(())
}

#[cold]
fn shared(other: &str) -> Result<()> {
    Err(invalid(
        OpKind::Map,
        "output",
        format_args!("in memory that {other} is in, too"),
        "in memory of its own",
    ))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use crate::{Binary, DType, Expr, Layout, Op, Span, View};

    /// A vector of four floats that begins at this byte.
    fn at(handle: u64, offset: usize) -> View {
        let span = Span {
            handle,
            offset,
            bytes: 16,
        };
        View::new(span, DType::F32, Layout::contiguous(&[4]).unwrap()).unwrap()
    }

    fn checked(inputs: &[View], outputs: &[View]) -> bool {
        let op = Op::Map {
            expr: Arc::new(Expr::binary(Binary::Add, DType::F32).unwrap()),
            inputs: inputs.to_vec(),
            outputs: outputs.to_vec(),
        };
        op.validate().is_ok()
    }

    #[test]
    fn groups_may_read_the_same_and_write_what_they_read_themselves() {
        let (x, y) = (at(1, 0), at(1, 16));
        assert!(checked(&[x, x, x, y], &[at(2, 0), at(2, 16)]));
        assert!(checked(&[x, y, y, y], &[x, at(2, 0)]), "in place");
        assert!(checked(&[y, y, y, x], &[at(2, 0), x]), "in place");
    }

    #[test]
    fn groups_touch_nothing_that_others_write() {
        let (x, y, z) = (at(1, 0), at(1, 16), at(1, 32));
        assert!(
            !checked(&[x, x, y, y], &[y, z]),
            "the first writes what the second reads"
        );
        assert!(
            !checked(&[x, x, y, y], &[z, x]),
            "the second writes what the first reads"
        );
        assert!(!checked(&[x, x, y, y], &[z, z]), "both write");
        assert!(
            !checked(&[x, x, y, y], &[z, at(1, 40)]),
            "both write a part"
        );
        assert!(
            !checked(&[x, x, at(1, 8), y], &[x, z]),
            "a part of what is read"
        );
        assert!(checked(&[x, x, y, y], &[z, at(2, 32)]), "other memory");
    }
}
