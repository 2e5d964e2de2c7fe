//! Executing a program: block by block, so that what lies between two instructions stays in the cache.

use std::ops::Range;

use streampool_device::View;

use crate::kernels::scratch::{Count, LINE, filled, push, with_room, with_scratch};
use crate::kernels::split;
use crate::team::Team;

use super::plan::{Access, Operand, Space};
use super::program::Program;
use super::stage::{Way, spread, transfer};

/// Buffers of a block together take about this many bytes, half of a small first-level cache.
const CACHE: usize = 20 << 10;

/// Operands up to this number are planned without allocating.
const FEW: usize = 8;

/// Work below this is not worth another thread, in picoseconds.
const WORTH_SHARING: usize = 10_000_000;

/// Reading or writing one byte far from the caches, in picoseconds.
const BYTE: usize = 30;

/// Parts end at multiples of this, so that two threads never write one cache line of an aligned output.
const GRAIN: usize = 1024;

/// Executes `program` over the views.
///
/// # Safety
/// The views are of memory on this machine that nobody writes, and of which nobody reads the outputs, during
/// the call. They have passed [`Op::validate`](streampool_device::Op::validate) with the expression that the
/// program was compiled from. No output overlaps another operand, unless it is exactly the view that an
/// input is.
pub(super) unsafe fn run(
    program: &Program,
    inputs: &[View],
    outputs: &[View],
    team: &dyn Team,
) -> Result<(), String> {
    if outputs.len() != program.outputs.len() {
        // SAFETY: passed on.
        return unsafe { run_groups(program, inputs, outputs, team) };
    }
    check(program, inputs, outputs)?;
    let count = inputs.len() + outputs.len();
    let mut few = [Operand::EMPTY; FEW];
    let mut many;
    let operands = match few.get_mut(..count) {
        Some(few) => few,
        None => {
            many = filled(Operand::EMPTY, Count::of(count));
            &mut many[..]
        }
    };
    let space = Space::new(inputs, outputs, operands);
    if space.elements == 0 {
        return Ok(());
    }
    let call = Call::new(program, space, operands);
    let parts = call.parts(team.width());
    if parts == 1 {
        // SAFETY: passed on; this thread executes all of it.
        unsafe { call.part(0..space.elements) };
        return Ok(());
    }
    let grains = space.elements.div_ceil(GRAIN);
    let bound = |part: usize| (grains * part / parts * GRAIN).min(space.elements);
    team.run(parts, &|part| {
        // SAFETY: passed on; parts are disjoint ranges of elements, and no two elements of an output share
        // memory.
        unsafe { call.part(bound(part)..bound(part + 1)) };
    });
    Ok(())
}

/// Calls `f` with what executes the elements of any numbers, counted in the order in which the first output lies in memory.
///
/// # Safety
/// As for [`run`], of one group; and when elements are executed, their operands are ready.
pub(super) unsafe fn in_parts(
    program: &Program,
    inputs: &[View],
    outputs: &[View],
    f: impl FnOnce(&(dyn Fn(Range<usize>) + Sync)),
) -> Result<(), String> {
    check(program, inputs, outputs)?;
    let mut operands = filled(Operand::EMPTY, Count::of(inputs.len()) + outputs.len());
    let space = Space::new(inputs, outputs, &mut operands);
    let call = Call::new(program, space, &operands);
    // SAFETY: passed on; whoever calls it answers for the range.
    f(&|range| unsafe { call.part(range) });
    Ok(())
}

/// Whether the views are of the types that the program was compiled for.
fn check(program: &Program, inputs: &[View], outputs: &[View]) -> Result<(), String> {
    let views = inputs.iter().chain(outputs).map(View::dtype);
    if views.eq(program.inputs.iter().chain(&program.outputs).copied()) {
        return Ok(());
    }
    Err("the compiled expression is of other operands than the call".to_owned())
}

/// One execution of a program.
struct Call<'a> {
    program: &'a Program,
    space: Space,
    operands: &'a [Operand],
    /// Elements of a block.
    block: usize,
    /// Bytes of a buffer.
    buffer: usize,
    /// How many buffers there are.
    buffers: usize,
}

// SAFETY: the pointers in the operands are to memory that outlives the call and that each part touches in
// ranges of its own, as the caller of `run` vouches.
unsafe impl Sync for Call<'_> {}

impl<'a> Call<'a> {
    fn new(program: &'a Program, space: Space, operands: &'a [Operand]) -> Call<'a> {
        let staged = operands
            .iter()
            .filter(|operand| operand.access != Access::Direct)
            .count();
        let buffers = program.constants.len() + program.registers + staged;
        let fit = CACHE / (program.width * buffers.max(1));
        let block = match program.instructions.len() {
            // Nothing lies between instructions, or waits in a buffer.
            0 | 1 if buffers == 0 => space.elements,
            _ => (fit / LINE * LINE).clamp(LINE, GRAIN),
        };
        let block = block.min(space.elements);
        let row = space.sizes[space.rank - 1];
        let repeats = |operand: &Operand| operand.access == Access::Repeated;
        let block = match operands.iter().any(repeats) && row > 0 && row <= block {
            // Each begins where a row does, if the first does.
            true => block / row * row,
            false => block,
        };
        Call {
            program,
            space,
            operands,
            block,
            buffer: (block * program.width).next_multiple_of(LINE),
            buffers,
        }
    }

    /// How many parts the work is worth.
    fn parts(&self, width: usize) -> usize {
        let worth = self.work() / WORTH_SHARING;
        split::parts(worth, width).min(self.space.elements.div_ceil(GRAIN))
    }

    /// Picoseconds of work, roughly.
    fn work(&self) -> usize {
        let bytes: usize = self.operands.iter().map(|operand| operand.size).sum();
        let each = self.program.cost + bytes * BYTE;
        self.space.elements.saturating_mul(each)
    }

    /// Executes the elements of these numbers.
    ///
    /// # Safety
    /// As for [`run`]; no other thread executes any of these elements.
    unsafe fn part(&self, range: Range<usize>) {
        let slots = self.program.slots();
        let table = (slots * size_of::<*mut u8>()).next_multiple_of(LINE);
        // In a single-block call nothing needs room unless it is staged.
        let buffer = if self.buffers == 0 { 0 } else { self.buffer };
        with_scratch(
            Count::of(self.buffers) * buffer + table,
            |memory: *mut u8| {
                // SAFETY: the memory begins with room for one pointer for each slot, is aligned for them, and
                // zero bytes are pointers too.
                let table_of =
                    unsafe { std::slice::from_raw_parts_mut(memory.cast::<*mut u8>(), slots) };
                self.place(table_of, memory.wrapping_add(table));
                // SAFETY: passed on; every slot was just given its buffer or its operand.
                unsafe { self.blocks(table_of, range) };
            },
        );
    }

    /// Gives each slot that needs one a buffer.
    fn place(&self, table: &mut [*mut u8], mut next: *mut u8) {
        let operands = self.operands.len();
        for (slot, place) in table.iter_mut().enumerate() {
            match self.operands.get(slot) {
                Some(operand) if operand.access == Access::Direct => *place = operand.base,
                _ => {
                    *place = next;
                    next = next.wrapping_add(self.buffer);
                }
            }
            debug_assert!(slot < operands || !place.is_null());
        }
    }

    /// # Safety
    /// As for [`part`](Self::part); the table names a buffer for each slot that is not a direct operand.
    unsafe fn blocks(&self, table: &mut [*mut u8], range: Range<usize>) {
        let operands = self.operands.len();
        for (constant, &buffer) in self.program.constants.iter().zip(&table[operands..]) {
            let from = std::ptr::from_ref(&constant.bits).cast();
            // SAFETY: the constant is at most eight aligned bytes, and the buffer holds a block of them.
            unsafe { spread(from, buffer, self.block, usize::from(constant.size)) };
        }
        for (operand, &buffer) in self.operands.iter().zip(&*table) {
            if operand.access == Access::Constant {
                // SAFETY: an operand of a space with elements has its first; the buffer holds a block.
                unsafe { spread(operand.base, buffer, self.block, operand.size) };
            }
        }
        let inner = self.space.rank - 1;
        let mut number = range.start;
        // Where in a row the last block began whose repeated operands are in the buffers, and how long it was.
        let mut repeated = (0, 0);
        while number < range.end {
            let position = self.space.position(number);
            let mut count = self.block.min(range.end - number);
            if self.space.by_rows {
                count = count.min(self.space.sizes[inner] - position[inner]);
            }
            let again = repeated.0 == position[inner] && count <= repeated.1;
            for (slot, operand) in self.operands.iter().enumerate() {
                match operand.access {
                    Access::Direct => {
                        let offset = self.space.offset(operand, &position);
                        table[slot] = operand.base.wrapping_offset(offset);
                    }
                    Access::Repeated if again => {}
                    Access::Staged | Access::Repeated
                        if self.program.used.get(slot) == Some(&true) =>
                    {
                        let way = Way::Gather;
                        // SAFETY: the block lies inside the space, and its buffer is of this thread.
                        unsafe {
                            transfer(way, &self.space, operand, position, table[slot], count)
                        };
                    }
                    Access::Staged | Access::Repeated | Access::Constant => {}
                }
            }
            if !again {
                repeated = (position[inner], count);
            }
            if let (Some(values), &[from, to]) = (&self.program.table, &*table) {
                // SAFETY: the input is of bytes, the output of what the table has, and `count` of both lie in the space or are buffers.
                unsafe { values.look_up(from, to, count) };
            }
            for instruction in &self.program.instructions {
                let [x, y, z] = instruction.operands.map(|slot| table[usize::from(slot)]);
                let to = table[usize::from(instruction.to)];
                // SAFETY: `Program::checked` made sure that slots exist and have elements of the right size;
                // all of them are buffers of a block or direct operands, of which `count` elements lie
                // inside the space; no result is an operand of its own instruction, and outputs that are
                // inputs too are staged.
                unsafe { (instruction.entry)(to, x, y, z, count) };
            }
            for (slot, operand) in self
                .operands
                .iter()
                .enumerate()
                .skip(self.program.inputs.len())
            {
                if operand.access == Access::Staged {
                    let way = Way::Scatter;
                    // SAFETY: the block lies inside the space and this thread alone writes it.
                    unsafe { transfer(way, &self.space, operand, position, table[slot], count) };
                }
            }
            number += count;
        }
    }
}

/// Elements of one call.
struct Piece {
    call: usize,
    elements: Range<usize>,
}

/// Executes `program` over each group of views: one pool of work for the team.
///
/// # Safety
/// As for [`run`], for all groups at once.
unsafe fn run_groups(
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
