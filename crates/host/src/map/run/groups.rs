//! Several groups of operands at once: one pool of work for the team.

use std::ops::Range;

use streampool_device::View;

use super::{Call, GRAIN, WORTH_SHARING, check};
use crate::kernels::scratch::{Count, filled, push, with_room};
use crate::map::plan::{Operand, Space};
use crate::map::program::Program;
use crate::team::Team;

/// Elements of one call.
struct Piece {
    call: usize,
    elements: Range<usize>,
}

/// Executes `program` over each group of views.
///
/// # Safety
/// As for [`run`](super::run), for all groups at once.
pub(super) unsafe fn run(
    program: &Program,
    inputs: &[View],
    outputs: &[View],
    team: &dyn Team,
) -> Result<(), String> {
    let (reads, writes) = (program.inputs.len(), program.outputs.len());
    let mut operands = filled(Operand::EMPTY, Count::of(inputs.len()) + outputs.len());
    let mut spaces = with_room(Count::of(outputs.len() / writes.max(1)));
    let groups = outputs.chunks(writes.max(1)).enumerate();
    for ((group, outputs), operands) in groups.zip(operands.chunks_mut(reads + writes)) {
        let inputs = inputs
            .get(group * reads..(group + 1) * reads)
            .unwrap_or(&[]);
        check(program, inputs, outputs)?;
        spaces.push(Space::new(inputs, outputs, operands));
    }
    let all = spaces.into_iter().zip(operands.chunks(reads + writes));
    let mut calls = with_room(Count::of(all.len()));
    for (space, operands) in all.filter(|(space, _)| space.elements > 0) {
        push(&mut calls, Call::new(program, space, operands));
    }
    let pieces = pieces(&calls, team.width());
    let tasks = tasks(&calls, &pieces);
    let work = |task: usize| {
        for piece in &pieces[tasks[task].clone()] {
            // SAFETY: passed on; pieces are disjoint ranges of elements, and no two elements of outputs share
            // memory.
            unsafe { calls[piece.call].part(piece.elements.clone()) };
        }
    };
    match tasks.len() {
        0 => {}
        1 => work(0),
        tasks => team.run(tasks, &work),
    }
    Ok(())
}

/// Large calls in parts, small ones whole.
fn pieces(calls: &[Call], width: usize) -> Vec<Piece> {
    let parts_of = |call: usize| {
        let (elements, parts) = (calls[call].space.elements, calls[call].parts(width));
        let grains = elements.div_ceil(GRAIN);
        let bound = move |part: usize| (grains * part / parts * GRAIN).min(elements);
        (0..parts).map(move |part| Piece {
            call,
            elements: bound(part)..bound(part + 1),
        })
    };
    let mut pieces = with_room(Count::of(calls.len()));
    for piece in (0..calls.len()).flat_map(parts_of) {
        push(&mut pieces, piece);
    }
    pieces
}

/// Neighbouring pieces, as many as are together worth another thread.
fn tasks(calls: &[Call], pieces: &[Piece]) -> Vec<Range<usize>> {
    let mut tasks = with_room(Count::of(pieces.len()));
    let (mut start, mut work) = (0, 0usize);
    for (number, piece) in pieces.iter().enumerate() {
        let call = &calls[piece.call];
        let each = call.work() / call.space.elements;
        work = work.saturating_add(each.saturating_mul(piece.elements.len()));
        if work >= WORTH_SHARING {
            tasks.push(start..number + 1);
            (start, work) = (number + 1, 0);
        }
    }
    if start < pieces.len() {
        tasks.push(start..pieces.len());
    }
    tasks
}
