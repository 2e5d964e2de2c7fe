//! A compiled expression: instructions over slots.

#![expect(
    clippy::disallowed_macros,
    clippy::disallowed_methods,
    reason = "as long as an expression, which is bounded"
)]

use streampool_device::{DType, Expr};

use super::bytes::{self, Table};
use super::code::Code;
use super::graph::{Graph, Id, Source, Step};
use super::lane::{Half, Lane};
use super::machine::Entry;
use super::table;
use crate::kernels::simd::Level;

/// One instruction: `to = code(operands)`. Slots are numbered inputs first, then outputs, constants and
/// registers.
#[derive(Debug, Clone, Copy)]
pub(super) struct Instruction {
    pub(super) code: Code,
    pub(super) entry: Entry,
    pub(super) to: u16,
    pub(super) operands: [u16; 3],
}

/// A constant, spread over a block before the first one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Constant {
    pub(super) bits: u64,
    pub(super) size: u8,
}

/// A compiled expression. It is only ever made by [`Program::checked`], which makes sure that executing it
/// stays inside its slots whatever made it up.
#[derive(Debug, Clone)]
pub(crate) struct Program {
    pub(super) inputs: Vec<DType>,
    pub(super) outputs: Vec<DType>,
    pub(super) constants: Vec<Constant>,
    pub(super) registers: usize,
    pub(super) instructions: Vec<Instruction>,
    /// Whether an instruction reads this input.
    pub(super) used: Vec<bool>,
    /// Bytes of one element of any slot, at most.
    pub(super) width: usize,
    /// Roughly how long one element takes, in picoseconds.
    pub(super) cost: usize,
    /// The one output for each value of the one input, in place of instructions.
    pub(super) table: Option<Table>,
}

impl Program {
    pub(super) fn compile(expr: &Expr, level: Level) -> Result<Program, String> {
        let graph = Graph::new(expr, level)?;
        let mut allocation = Allocation::new(expr, &graph)?;
        allocation.emit(&graph)?;
        let Allocation {
            code,
            constants,
            registers,
            ..
        } = allocation;
        let outputs = graph.outputs.iter().map(|source| source.dtype).collect();
        let program = Program::checked(
            expr.inputs().to_vec(),
            outputs,
            constants,
            registers,
            &code,
            level,
        );
        let mut program = program.ok_or("the expression compiled to an invalid program")?;
        if let ([input], [output]) = (&program.inputs[..], &program.outputs[..])
            && bytes::gain(*input, *output, program.cost, program.instructions.len())
        {
            program.table = Some(Table::of(&graph.table()?, *output));
            program.instructions.clear();
            program.constants.clear();
            (program.registers, program.width) = (0, output.size());
            program.cost = bytes::COST;
        }
        Ok(program)
    }

    /// The program of these parts, or `None` if an instruction names a slot that is not there or whose
    /// elements have another size.
    pub(super) fn checked(
        inputs: Vec<DType>,
        outputs: Vec<DType>,
        constants: Vec<Constant>,
        registers: usize,
        code: &[(Code, u16, [u16; 3])],
        level: Level,
    ) -> Option<Program> {
        let operands = inputs.len() + outputs.len();
        let slots = operands + constants.len() + registers;
        let mut width = inputs
            .iter()
            .chain(&outputs)
            .map(|dtype| dtype.size())
            .max()?;
        width = constants
            .iter()
            .map(|constant| usize::from(constant.size))
            .fold(width, usize::max);
        for (code, ..) in code {
            width = code.operands().fold(width.max(code.result()), usize::max);
        }
        let fits = |slot: u16, size: usize| {
            let slot = usize::from(slot);
            match inputs.iter().chain(&outputs).nth(slot) {
                Some(dtype) => dtype.size() == size,
                None => slot < slots,
            }
        };
        let constant =
            |slot: u16| (operands..operands + constants.len()).contains(&usize::from(slot));
        let mut used = vec![false; inputs.len()];
        let mut instructions = Vec::with_capacity(code.len());
        for &(code, to, operands) in code {
            let reads = &operands[..code.operands().count()];
            let fine = usize::from(to) >= inputs.len()
                && !constant(to)
                && fits(to, code.result())
                && reads
                    .iter()
                    .zip(code.operands())
                    .all(|(&slot, size)| fits(slot, size) && slot != to);
            if !fine {
                return None;
            }
            for &slot in reads {
                if let Some(used) = used.get_mut(usize::from(slot)) {
                    *used = true;
                }
            }
            instructions.push(Instruction {
                code,
                entry: table::entry(code, level)?,
                to,
                operands,
            });
        }
        let cost = instructions
            .iter()
            .map(|instruction| instruction.code.cost())
            .sum();
        let sizes = constants
            .iter()
            .all(|constant| matches!(constant.size, 1 | 2 | 4 | 8));
        (sizes && slots <= usize::from(u16::MAX)).then_some(Program {
            inputs,
            outputs,
            constants,
            registers,
            instructions,
            used,
            width,
            cost,
            table: None,
        })
    }

    /// How many slots there are.
    pub(super) fn slots(&self) -> usize {
        self.inputs.len() + self.outputs.len() + self.constants.len() + self.registers
    }
}

/// Gives each live step of a graph a slot, and writes the instructions.
struct Allocation {
    first_output: usize,
    first_register: usize,
    constants: Vec<Constant>,
    /// The slot of each step that has one by now.
    slots: Vec<Option<u16>>,
    /// The last step that reads each step; the step itself if none does; `None` if it is dead.
    last_use: Vec<Option<Id>>,
    free: Vec<u16>,
    registers: usize,
    code: Vec<(Code, u16, [u16; 3])>,
}

impl Allocation {
    fn new(expr: &Expr, graph: &Graph) -> Result<Allocation, String> {
        let last_use = last_uses(graph);
        let first_output = expr.inputs().len();
        let first_constant = first_output + graph.outputs.len();
        let mut constants = Vec::new();
        let mut slots = vec![None; graph.steps.len()];
        for (id, step) in graph.steps.iter().enumerate() {
            slots[id] = match *step {
                _ if last_use[id].is_none() => None,
                Step::Input(index) => Some(index),
                Step::Const(lane, bits) => {
                    let slot = slot(first_constant + constants.len())?;
                    constants.push(Constant {
                        bits,
                        size: lane.size() as u8,
                    });
                    Some(slot)
                }
                Step::Apply(..) => None,
            };
        }
        Ok(Allocation {
            first_output,
            first_register: first_constant + constants.len(),
            constants,
            slots,
            last_use,
            free: Vec::new(),
            registers: 0,
            code: Vec::new(),
        })
    }

    fn emit(&mut self, graph: &Graph) -> Result<(), String> {
        let mut stored: Vec<Vec<usize>> = vec![Vec::new(); graph.steps.len()];
        for (output, source) in graph.outputs.iter().enumerate() {
            stored[source.step as usize].push(output);
        }
        for (id, &step) in graph.steps.iter().enumerate() {
            if self.last_use[id].is_none() {
                continue;
            }
            if let Step::Apply(code, operands) = step {
                let direct = stored[id]
                    .iter()
                    .find(|&&output| !is_half(graph.outputs[output]));
                self.apply(id as Id, code, operands, direct.copied())?;
            }
            self.store(id, &stored[id], &graph.outputs)?;
            if self.last_use[id] == Some(id as Id) {
                self.release(id as Id);
            }
        }
        Ok(())
    }

    /// One instruction, straight into an output if it computes one.
    fn apply(
        &mut self,
        id: Id,
        code: Code,
        operands: [Id; 3],
        output: Option<usize>,
    ) -> Result<(), String> {
        let count = code.operands().count();
        let mut reads = [0; 3];
        for (read, &operand) in reads.iter_mut().zip(&operands[..count]) {
            *read = self.slots[operand as usize].ok_or("a step is read before it is computed")?;
        }
        // The result gets its slot before the operands give theirs back: loops do not work in place.
        let to = match (output, self.free.pop()) {
            (Some(output), free) => {
                self.free.extend(free);
                slot(self.first_output + output)?
            }
            (None, Some(free)) => free,
            (None, None) => {
                self.registers += 1;
                slot(self.first_register + self.registers - 1)?
            }
        };
        self.code.push((code, to, reads));
        self.slots[id as usize] = Some(to);
        for (index, &operand) in operands[..count].iter().enumerate() {
            let last = self.last_use[operand as usize] == Some(id);
            if last && !operands[..index].contains(&operand) {
                self.release(operand);
            }
        }
        Ok(())
    }

    /// Puts a step into the outputs that want it and do not have it yet.
    fn store(&mut self, id: usize, outputs: &[usize], sources: &[Source]) -> Result<(), String> {
        for &output in outputs {
            let to = slot(self.first_output + output)?;
            let from = self.slots[id].ok_or("an output is stored before it is computed")?;
            if from == to {
                continue;
            }
            let dtype = sources[output].dtype;
            let code = match Half::of(dtype) {
                Some(half) => Code::Store(half),
                None => Code::Move(Lane::of(dtype)),
            };
            self.code.push((code, to, [from, 0, 0]));
        }
        Ok(())
    }

    fn release(&mut self, id: Id) {
        if let Some(slot) = self.slots[id as usize]
            && usize::from(slot) >= self.first_register
        {
            self.free.push(slot);
        }
    }
}

fn is_half(source: Source) -> bool {
    Half::of(source.dtype).is_some()
}

fn slot(number: usize) -> Result<u16, String> {
    u16::try_from(number).map_err(|_| {
        format!(
            "the expression needs more than {} operands, constants and values",
            u16::MAX
        )
    })
}

fn last_uses(graph: &Graph) -> Vec<Option<Id>> {
    let mut last: Vec<Option<Id>> = vec![None; graph.steps.len()];
    for source in &graph.outputs {
        last[source.step as usize] = Some(source.step);
    }
    for id in (0..graph.steps.len()).rev() {
        if let (Some(_), Step::Apply(code, operands)) = (last[id], graph.steps[id]) {
            for &operand in &operands[..code.operands().count()] {
                let latest = &mut last[operand as usize];
                *latest = (*latest).max(Some(id as Id));
            }
        }
    }
    last
}
