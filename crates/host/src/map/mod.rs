//! Fused elementwise expressions: compiled once to instructions over blocks, then executed by vector loops.
//!
//! An expression becomes a graph without duplicates, constants and dead values ([`graph`]), the graph a list
//! of instructions over a few buffers ([`program`]), and each instruction a loop made for this processor
//! ([`table`], [`machine`]); one that makes bytes of bytes becomes a table of them ([`bytes`]). A call finds the fewest dimensions its operands share ([`plan`]), and executes
//! all instructions for one block of elements after the other ([`run`]). Contiguous operands are read and
//! written where they are; others go through a buffer ([`stage`]).
//!
//! Each element's result depends on its operands alone: not on its place, its neighbours, the blocks, or the
//! number of threads.

mod bytes;
mod casts;
mod code;
mod graph;
mod half;
mod lane;
mod machine;
pub(crate) mod math32;
pub(crate) mod math64;
mod number;
mod plan;
mod program;
mod recent;
mod run;
mod stage;
mod table;
#[cfg(test)]
mod tests;

use std::ops::Range;
use std::sync::Arc;

use streampool_device::{CacheReport, Expr, View};
use streampool_kernels::Cache;

use self::code::Code;
use crate::kernels::{Bounds, simd};
use crate::team::Team;

pub(crate) use self::program::Program;
use self::recent::Recent;

/// Expressions kept compiled; more make those not used lately leave.
const CAPACITY: usize = 4096;

/// Above this many nodes an expression is looked for by its address first.
const LARGE: usize = 12;

/// The compiled expressions of a device.
pub(crate) struct Expressions {
    cache: Cache<Arc<Expr>, Program>,
    recent: Recent,
}

impl Expressions {
    /// None yet.
    pub(crate) fn new() -> Self {
        Expressions {
            cache: Cache::new("expressions", CAPACITY),
            recent: Recent::new(),
        }
    }

    /// Computes `outputs = expr(inputs)`. The result is the same however many threads the team has.
    ///
    /// # Safety
    /// The views are of memory on this machine, and for the time of the call nobody else writes it or reads
    /// the outputs. They have passed [`Op::validate`](streampool_device::Op::validate) with `expr`. No
    /// output overlaps another operand, unless it is exactly the view that an input is.
    pub(crate) unsafe fn execute(
        &self,
        expr: &Arc<Expr>,
        inputs: &[View],
        outputs: &[View],
        team: &dyn Team,
    ) -> Result<(), String> {
        let program = self.program(expr)?;
        // SAFETY: passed on.
        unsafe { program.execute(inputs, outputs, team) }
    }

    /// The program of an expression, compiled if it is not yet.
    pub(crate) fn program(&self, expr: &Arc<Expr>) -> Result<Arc<Program>, String> {
        let large = expr.nodes().len() > LARGE;
        if large && let Some(program) = self.recent.get(expr) {
            return Ok(program);
        }
        let program = self
            .cache
            .get_or_compile(expr, || Program::compile(expr, simd::level()))?;
        if large {
            self.recent.put(expr, &program);
        }
        Ok(program)
    }

    /// What is held.
    pub(crate) fn report(&self) -> CacheReport {
        let mut report = self.cache.report();
        report.hits += self.recent.hits();
        report
    }
}

impl Program {
    /// Computes `outputs = expr(inputs)` for the expression that this was compiled from.
    ///
    /// # Safety
    /// As for [`Expressions::execute`].
    pub(crate) unsafe fn execute(
        &self,
        inputs: &[View],
        outputs: &[View],
        team: &dyn Team,
    ) -> Result<(), String> {
        // SAFETY: passed on.
        unsafe { run::run(self, inputs, outputs, team) }
    }

    /// Between which numbers it keeps its one input, if that is all it does.
    pub(crate) fn bounds(&self) -> Option<Bounds> {
        let ([_], [_], [one]) = (&self.inputs[..], &self.outputs[..], &self.instructions[..])
        else {
            return None;
        };
        // The input and the output come before the constants.
        let number = |slot: u16| {
            let constant = self.constants.get(usize::from(slot).checked_sub(2)?)?;
            Some(f32::from_bits(constant.bits as u32)).filter(|number| !number.is_nan())
        };
        let (Code::Between, [0, least, most]) = (one.code, one.operands) else {
            return None;
        };
        Some(Bounds {
            least: Some(number(least)?),
            most: Some(number(most)?),
        })
    }

    /// Calls `f` with what computes the elements of any numbers, counted in the order in which the first output lies in memory.
    ///
    /// # Safety
    /// As for [`Expressions::execute`], and elements are computed once each, when their operands are ready.
    pub(crate) unsafe fn in_parts(
        &self,
        inputs: &[View],
        outputs: &[View],
        f: impl FnOnce(&(dyn Fn(Range<usize>) + Sync)),
    ) -> Result<(), String> {
        // SAFETY: passed on.
        unsafe { run::in_parts(self, inputs, outputs, f) }
    }
}
