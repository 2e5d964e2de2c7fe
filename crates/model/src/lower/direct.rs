//! Convolutions that write where what follows would: into a part of a concatenation, or where an elementwise op does.

use streampool_device::{Access, Conv, Op, View};

use super::uses::{self, Uses};
use crate::trace::{Listing, Memory};

/// Leaves out copies that only take what a convolution makes elsewhere; says how many.
pub fn write_directly(listing: &mut Listing) -> usize {
    let mut uses = Uses::of(&listing.steps, uses::outputs(&listing.outputs));
    let mut left_out = 0;
    for place in 0..listing.steps.len() {
        let Some((writer, direct)) = direct(listing, place, &uses) else {
            continue;
        };
        listing.merge(&mut uses, writer, place, direct);
        left_out += 1;
    }
    listing.steps.retain(|step| *step.op != Op::Nop);
    left_out
}

/// The convolution that writes where the copy at `place` would, and where it is.
fn direct(listing: &Listing, place: usize, uses: &Uses) -> Option<(usize, Op)> {
    let Op::Copy { src, dst } = &*listing.steps[place].op else {
        return None;
    };
    if src.dtype() != dst.dtype() || !uses::is_whole(src) {
        return None;
    }
    let (writer, mut conv) = alone_read(listing, src, place, uses)?;
    if listing.sources.contains_key(&Memory::of(dst.span())) {
        return None;
    }
    // Nobody looks there before the copy, and others write elsewhere.
    let target = Memory::of(dst.span());
    for step in uses.steps(dst).filter(|&step| step != place) {
        let mut is_free = true;
        listing.steps[step].op.for_each_operand(|_, access, view| {
            if Memory::of(view.span()) == target {
                is_free &= match access {
                    Access::Read => step > place,
                    Access::Write => are_apart(view, dst),
                };
            }
        });
        if !is_free {
            return None;
        }
    }
    conv.dst = *dst;
    let op = Op::Conv(conv);
    op.validate().ok()?;
    Some((writer, op))
}

/// Has a convolution write where an elementwise op will, if that op alone reads what the convolution makes and reads nothing
/// else. So the op works in place. Says how many do.
pub fn work_in_place(listing: &mut Listing) -> usize {
    let mut uses = Uses::of(&listing.steps, uses::outputs(&listing.outputs));
    let mut found = 0;
    for place in 0..listing.steps.len() {
        let Some((writer, conv, map)) = in_place(listing, place, &uses) else {
            continue;
        };
        for (place, op) in [(writer, conv), (place, map)] {
            uses.replace(place, &listing.steps[place].op, &op);
            *listing.steps[place].op = op;
        }
        found += 1;
    }
    found
}

/// The convolution before the elementwise op at `place`, and both as they are in place.
fn in_place(listing: &Listing, place: usize, uses: &Uses) -> Option<(usize, Op, Op)> {
    let Op::Map {
        expr,
        inputs,
        outputs,
    } = &*listing.steps[place].op
    else {
        return None;
    };
    let (&[src], &[dst]) = (&inputs[..], &outputs[..]) else {
        return None;
    };
    let lies = |view: &View| (view.dtype(), *view.layout(), view.span().bytes);
    if lies(&src) != lies(&dst) {
        return None;
    }
    let (writer, mut conv) = alone_read(listing, &src, place, uses)?;
    // Nobody looks there before.
    let is_free = uses.writer(&dst) == Some(place)
        && uses.steps(&dst).all(|step| step >= place)
        && !listing.sources.contains_key(&Memory::of(dst.span()));
    if !is_free {
        return None;
    }
    conv.dst = dst;
    let conv = Op::Conv(conv);
    let map = Op::Map {
        expr: expr.clone(),
        inputs: vec![dst],
        outputs: vec![dst],
    };
    (conv.validate().is_ok() && map.validate().is_ok()).then_some((writer, conv, map))
}

/// The convolution that makes `src`, which the step at `place` alone reads, and where it is.
fn alone_read(
    listing: &Listing,
    src: &View,
    place: usize,
    uses: &Uses,
) -> Option<(usize, Box<Conv>)> {
    let writer = uses.writer(src).filter(|&writer| writer < place)?;
    match &*listing.steps[writer].op {
        Op::Conv(conv) if conv.dst == *src && uses.only_reader(src) == Some(place) => {
            Some((writer, conv.clone()))
        }
        _ => None,
    }
}

/// Whether one ends before the other begins.
fn are_apart(one: &View, other: &View) -> bool {
    match (one.layout().extent(), other.layout().extent()) {
        (Some((first, last)), Some((other_first, other_last))) => {
            last < other_first || other_last < first
        }
        _ => true,
    }
}
