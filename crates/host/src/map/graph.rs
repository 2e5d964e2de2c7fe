//! From an expression to a graph of instructions in which nothing is computed twice, or computed at all if
//! it is constant.

#![expect(
    clippy::disallowed_macros,
    clippy::disallowed_methods,
    reason = "as long as an expression, which is bounded"
)]

use std::collections::HashMap;

use streampool_device::{Binary, DType, Expr, Node, Unary};

use super::bytes::VALUES;
use super::code::Code;
use super::lane::{Half, Lane};
use super::number;
use super::table;
use crate::kernels::simd::Level;

/// The index of a step of the graph.
pub(super) type Id = u32;

/// One value of the graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Step {
    /// The elements of an input as they are stored.
    Input(u16),
    /// A constant's bits.
    Const(Lane, u64),
    /// The result of an instruction; unused operands are zero.
    Apply(Code, [Id; 3]),
}

/// Where an output comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Source {
    pub(super) step: Id,
    pub(super) dtype: DType,
}

/// Steps, each after its operands, and the sources of the outputs.
///
/// A value of type `f16` or `bf16` is held as `f32` and rounded to its type after every function that may
/// leave it, so that fusing functions never changes a result.
#[derive(Debug)]
pub(super) struct Graph {
    pub(super) steps: Vec<Step>,
    pub(super) outputs: Vec<Source>,
    known: HashMap<Step, Id>,
    level: Level,
}

impl Graph {
    pub(super) fn new(expr: &Expr, level: Level) -> Result<Graph, String> {
        let mut graph = Graph {
            steps: Vec::new(),
            outputs: Vec::new(),
            known: HashMap::new(),
            level,
        };
        let mut values = Vec::with_capacity(expr.nodes().len());
        for &(node, dtype) in expr.nodes() {
            let value = graph.lower(expr, &values, node, dtype)?;
            values.push(value);
        }
        for &output in expr.outputs() {
            let dtype = expr.dtype(output);
            let mut step = values[output.index()];
            if let (Some(half), Step::Apply(Code::Round(rounded), [unrounded, ..])) =
                (Half::of(dtype), graph.steps[step as usize])
                && half == rounded
            {
                // Storing rounds anyway.
                step = unrounded;
            }
            graph.outputs.push(Source { step, dtype });
        }
        Ok(graph)
    }

    fn lower(
        &mut self,
        expr: &Expr,
        values: &[Id],
        node: Node,
        dtype: DType,
    ) -> Result<Id, String> {
        let lane = Lane::of(dtype);
        match node {
            Node::Input(index) => {
                let input = self.push(Step::Input(index))?;
                match Half::of(dtype) {
                    Some(half) => self.apply(Code::Load(half), &[input]),
                    None => Ok(input),
                }
            }
            Node::Const(value) => match Half::of(dtype) {
                Some(half) => {
                    let wide =
                        self.push(Step::Const(Lane::F64, number::constant(value, Lane::F64)))?;
                    let narrow = self.apply(Code::NarrowOdd, &[wide])?;
                    self.apply(Code::Round(half), &[narrow])
                }
                None => self.push(Step::Const(lane, number::constant(value, lane))),
            },
            Node::Unary(function, x) => {
                let code = Code::Unary(function, Lane::of(expr.dtype(x)));
                let result = self.apply(code, &[values[x.index()]])?;
                self.rounded(result, dtype, !stays_in_type(function))
            }
            Node::Binary(function, x, y) => {
                let operands = [values[x.index()], values[y.index()]];
                let result = self.apply(Code::Binary(function, lane), &operands)?;
                let picks = matches!(function, Binary::Min | Binary::Max);
                self.rounded(result, dtype, !picks)
            }
            Node::Compare(comparison, x, y) => {
                let code = Code::Compare(comparison, Lane::of(expr.dtype(x)));
                self.apply(code, &[values[x.index()], values[y.index()]])
            }
            Node::Select(condition, x, y) => {
                let operands = [condition, x, y].map(|value| values[value.index()]);
                self.apply(Code::Select(lane), &operands)
            }
            Node::Cast(x) => self.cast(values[x.index()], expr.dtype(x), dtype),
        }
    }

    fn rounded(&mut self, value: Id, dtype: DType, inexact: bool) -> Result<Id, String> {
        match Half::of(dtype) {
            Some(half) if inexact => self.apply(Code::Round(half), &[value]),
            _ => Ok(value),
        }
    }

    fn cast(&mut self, value: Id, from: DType, to: DType) -> Result<Id, String> {
        if from == to {
            return Ok(value);
        }
        let Some(half) = Half::of(to) else {
            let (from, to) = (Lane::of(from), Lane::of(to));
            return if from == to {
                Ok(value)
            } else {
                self.apply(Code::Cast(from, to), &[value])
            };
        };
        let single = match Lane::of(from) {
            Lane::F32 => value,
            // At most eight bits: exact in any half.
            lane @ (Lane::I8 | Lane::U8 | Lane::Bool) => {
                return self.apply(Code::Cast(lane, Lane::F32), &[value]);
            }
            lane @ (Lane::I16 | Lane::U16) => self.apply(Code::Cast(lane, Lane::F32), &[value])?,
            lane => {
                let double = match lane {
                    Lane::I64 => self.apply(Code::WidenOdd, &[value])?,
                    Lane::U64 => self.apply(Code::WidenOddUnsigned, &[value])?,
                    Lane::I32 | Lane::U32 => self.apply(Code::Cast(lane, Lane::F64), &[value])?,
                    _ => value,
                };
                self.apply(Code::NarrowOdd, &[double])?
            }
        };
        self.apply(Code::Round(half), &[single])
    }

    /// Two functions as one that does the same with one pass over a block.
    fn joined(&self, code: Code, operands: &[Id]) -> Option<(Code, [Id; 3])> {
        const MUL: Code = Code::Binary(Binary::Mul, Lane::F32);
        const MAX: Code = Code::Binary(Binary::Max, Lane::F32);
        const ADD: Code = Code::Binary(Binary::Add, Lane::F32);
        const SUB: Code = Code::Binary(Binary::Sub, Lane::F32);
        const ROUND: Code = Code::Unary(Unary::Round, Lane::F32);
        let inner = |id: Id, of: Code| match self.steps[id as usize] {
            Step::Apply(code, [x, y, _]) if code == of => Some((x, y)),
            _ => None,
        };
        if let (Code::Cast(Lane::F32, byte @ (Lane::U8 | Lane::I8)), &[sum]) = (code, operands) {
            let (left, right) = inner(sum, ADD)?;
            return [(left, right), (right, left)]
                .into_iter()
                .find_map(|(whole, y)| match self.steps[whole as usize] {
                    Step::Apply(ROUND, [x, ..]) => Some((Code::Nearest(byte), [x, y, 0])),
                    _ => None,
                });
        }
        let &[left, right] = operands else {
            return None;
        };
        match code {
            Code::Binary(Binary::Add, Lane::F32) => [(left, right), (right, left)]
                .into_iter()
                .find_map(|(product, z)| {
                    inner(product, MUL).map(|(x, y)| (Code::MulAdd, [x, y, z]))
                }),
            Code::Binary(Binary::Min, Lane::F32) => {
                inner(left, MAX).map(|(x, y)| (Code::Between, [x, y, right]))
            }
            Code::Binary(Binary::Mul, Lane::F32) => {
                let orders = [(left, right), (right, left)];
                let swish = orders.iter().find(|&&(x, gate)| self.is_hard_gate(x, gate));
                let swish = swish.map(|&(x, _)| (Code::HardSwish, [x, 0, 0]));
                swish.or_else(|| {
                    orders.iter().find_map(|&(difference, z)| {
                        inner(difference, SUB).map(|(x, y)| (Code::LessTimes, [x, y, z]))
                    })
                })
            }
            _ => None,
        }
    }

    /// Whether it is `min(max(x / 6 + 1/2, 0), 1)`.
    fn is_hard_gate(&self, x: Id, gate: Id) -> bool {
        let is_number = |id: Id, number: f32| {
            self.steps[id as usize] == Step::Const(Lane::F32, number.to_bits().into())
        };
        let Step::Apply(Code::Between, [sum, least, most]) = self.steps[gate as usize] else {
            return false;
        };
        let Step::Apply(Code::MulAdd, [left, right, half]) = self.steps[sum as usize] else {
            return false;
        };
        let sixth = |(one, other): (Id, Id)| one == x && is_number(other, table::SIXTH);
        is_number(least, 0.0)
            && is_number(most, 1.0)
            && is_number(half, 0.5)
            && [(left, right), (right, left)].into_iter().any(sixth)
    }

    fn apply(&mut self, code: Code, operands: &[Id]) -> Result<Id, String> {
        let joined = self.joined(code, operands);
        let (code, operands) = match &joined {
            Some((code, operands)) => (*code, &operands[..]),
            None => (code, operands),
        };
        let mut padded = [0; 3];
        padded[..operands.len()].copy_from_slice(operands);
        let mut constants = [0; 3];
        let constant = operands
            .iter()
            .zip(&mut constants)
            .all(|(&operand, constant)| match self.steps[operand as usize] {
                Step::Const(_, bits) => {
                    *constant = bits;
                    true
                }
                _ => false,
            });
        if constant {
            let bits = self.evaluate(code, constants)?;
            return self.push(Step::Const(code.lane(), bits));
        }
        self.push(Step::Apply(code, padded))
    }

    fn push(&mut self, step: Step) -> Result<Id, String> {
        if let Some(&id) = self.known.get(&step) {
            return Ok(id);
        }
        let id = self.steps.len() as Id;
        self.steps.push(step);
        self.known.insert(step, id);
        Ok(id)
    }

    /// The bits of the output for each value of the one input, which is of one byte.
    pub(super) fn table(&self) -> Result<[u64; VALUES], String> {
        let mut table = [0; VALUES];
        let mut values = vec![0; self.steps.len()];
        for (byte, result) in table.iter_mut().enumerate() {
            for (id, step) in self.steps.iter().enumerate() {
                values[id] = match *step {
                    Step::Input(_) => byte as u64,
                    Step::Const(_, bits) => bits,
                    Step::Apply(code, operands) => {
                        self.evaluate(code, operands.map(|operand| values[operand as usize]))?
                    }
                };
            }
            *result = self
                .outputs
                .first()
                .map_or(0, |output| values[output.step as usize]);
        }
        Ok(table)
    }

    /// Executes one instruction now, with the very loop that would execute it later.
    fn evaluate(&self, code: Code, operands: [u64; 3]) -> Result<u64, String> {
        let Some(entry) = table::entry(code, self.level) else {
            return Err(format!("no kernel for {code:?}"));
        };
        let [x, y, z] = operands
            .each_ref()
            .map(|bits| std::ptr::from_ref(bits).cast());
        let mut result = 0u64;
        // SAFETY: each pointer is to eight aligned bytes, enough for one element of any lane; they are
        // different variables; the level is one that this processor has.
        unsafe { entry(std::ptr::from_mut(&mut result).cast(), x, y, z, 1) };
        Ok(result)
    }
}

// Constants are kept in eight bytes whose first ones are the element.
const _: () = assert!(cfg!(target_endian = "little"));

/// Whether the result of a half is exactly a half.
fn stays_in_type(function: Unary) -> bool {
    use Unary::{Abs, Ceil, Floor, IsInf, IsNan, Neg, Relu, Round, Sign, Trunc};
    matches!(
        function,
        Neg | Abs | Sign | Relu | Floor | Ceil | Round | Trunc | IsNan | IsInf
    )
}
