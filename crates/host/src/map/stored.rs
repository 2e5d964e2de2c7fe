//! Programs and expressions as bytes.

#![expect(
    clippy::disallowed_methods,
    reason = "as long as an expression, which is bounded"
)]

use streampool_device::{DType, Expr, Node, Scalar};
use streampool_kernels::Stored;

use super::code::Code;
use super::machine::Level;
use super::program::{Constant, Program};

/// The bytes of an expression: equal for equal ones, different for different ones.
pub(super) fn key(expr: &Expr) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(8 + 16 * expr.nodes().len());
    dtypes(&mut bytes, expr.inputs());
    count(&mut bytes, expr.nodes().len());
    for &(node, dtype) in expr.nodes() {
        let (tag, function, operands) = match node {
            Node::Input(index) => (0, 0, [usize::from(index), 0, 0]),
            Node::Const(_) => (1, 0, [0; 3]),
            Node::Unary(function, x) => (2, function as u8, [x.index(), 0, 0]),
            Node::Binary(function, x, y) => (3, function as u8, [x.index(), y.index(), 0]),
            Node::Compare(comparison, x, y) => (4, comparison as u8, [x.index(), y.index(), 0]),
            Node::Select(condition, x, y) => (5, 0, [condition, x, y].map(|value| value.index())),
            Node::Cast(x) => (6, 0, [x.index(), 0, 0]),
        };
        bytes.extend([tag, function, dtype as u8]);
        for operand in operands {
            bytes.extend((operand as u16).to_le_bytes());
        }
        if let Node::Const(value) = node {
            let (kind, bits) = match value {
                Scalar::Float(value) => (0, value.to_bits()),
                Scalar::Int(value) => (1, value as u64),
                Scalar::Bool(value) => (2, u64::from(value)),
            };
            bytes.push(kind);
            bytes.extend(bits.to_le_bytes());
        }
    }
    count(&mut bytes, expr.outputs().len());
    for output in expr.outputs() {
        bytes.extend((output.index() as u16).to_le_bytes());
    }
    bytes
}

impl Stored for Program {
    fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        dtypes(&mut bytes, &self.inputs);
        dtypes(&mut bytes, &self.outputs);
        count(&mut bytes, self.constants.len());
        for constant in &self.constants {
            bytes.push(constant.size);
            bytes.extend(constant.bits.to_le_bytes());
        }
        count(&mut bytes, self.registers);
        count(&mut bytes, self.instructions.len());
        for instruction in &self.instructions {
            bytes.extend(instruction.code.to_bytes());
            bytes.extend(instruction.to.to_le_bytes());
            for operand in instruction.operands {
                bytes.extend(operand.to_le_bytes());
            }
        }
        bytes
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader(bytes);
        let inputs = reader.dtypes()?;
        let outputs = reader.dtypes()?;
        let constants = reader.list(|reader| {
            let [size] = reader.take()?;
            let bits = u64::from_le_bytes(reader.take()?);
            Some(Constant { bits, size })
        })?;
        let registers = reader.count()?;
        let code = reader.list(|reader| {
            let code = Code::from_bytes(reader.take()?)?;
            Some((
                code,
                reader.slot()?,
                [reader.slot()?, reader.slot()?, reader.slot()?],
            ))
        })?;
        let whole = reader.0.is_empty();
        let program = Program::checked(inputs, outputs, constants, registers, &code, Level::best());
        program.filter(|_| whole)
    }
}

fn count(bytes: &mut Vec<u8>, value: usize) {
    bytes.extend((value as u32).to_le_bytes());
}

fn dtypes(bytes: &mut Vec<u8>, list: &[DType]) {
    count(bytes, list.len());
    bytes.extend(list.iter().map(|&dtype| dtype as u8));
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*first)
    }

    fn count(&mut self) -> Option<usize> {
        let value = u32::from_le_bytes(self.take()?);
        // No program has more of anything than slots have numbers, but for instructions.
        usize::try_from(value).ok().filter(|&value| value < 1 << 24)
    }

    fn slot(&mut self) -> Option<u16> {
        self.take().map(u16::from_le_bytes)
    }

    fn list<T>(&mut self, mut item: impl FnMut(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let count = self.count()?;
        (0..count).map(|_| item(self)).collect()
    }

    fn dtypes(&mut self) -> Option<Vec<DType>> {
        self.list(|reader| {
            let [number] = reader.take()?;
            DType::ALL.into_iter().find(|&dtype| dtype as u8 == number)
        })
    }
}

#[cfg(test)]
mod tests {
    use streampool_device::{Binary, Unary};

    use super::*;

    fn sample() -> Expr {
        let mut expr = Expr::builder();
        let x = expr.input(DType::F32).unwrap();
        let h = expr.input(DType::F16).unwrap();
        let h = expr.cast(h, DType::F32).unwrap();
        let two = expr.constant(2.0, DType::F32).unwrap();
        let sum = expr.binary(Binary::Add, x, h).unwrap();
        let twice = expr.binary(Binary::Mul, sum, two).unwrap();
        let y = expr.unary(Unary::Tanh, twice).unwrap();
        expr.finish(&[y, sum]).unwrap()
    }

    #[test]
    fn a_program_comes_back_from_its_bytes() {
        let program = Program::compile(&sample(), Level::best()).unwrap();
        let bytes = program.to_bytes();
        let again = Program::from_bytes(&bytes).unwrap();
        assert_eq!(again.to_bytes(), bytes);
        assert_eq!(
            (again.width, again.cost, &again.used),
            (program.width, program.cost, &program.used)
        );
    }

    #[test]
    fn bytes_that_name_no_such_slot_are_refused() {
        let bytes = Program::compile(&sample(), Level::best())
            .unwrap()
            .to_bytes();
        let mut refused = 0;
        for position in 0..bytes.len() {
            assert!(Program::from_bytes(&bytes[..position]).is_none());
            for flip in [0x01, 0x40, 0xff] {
                let mut damaged = bytes.clone();
                damaged[position] ^= flip;
                // Some damage is another valid program; what counts is that slots stay in range.
                match Program::from_bytes(&damaged) {
                    Some(program) => {
                        for instruction in &program.instructions {
                            let count = instruction.code.operands().count();
                            let reads = &instruction.operands[..count];
                            assert!(
                                reads
                                    .iter()
                                    .all(|&slot| usize::from(slot) < program.slots())
                            );
                            assert!(usize::from(instruction.to) < program.slots());
                        }
                    }
                    None => refused += 1,
                }
            }
        }
        assert!(refused > bytes.len());
    }

    #[test]
    fn expressions_that_differ_have_different_keys() {
        let mut keys = std::collections::HashSet::new();
        for function in [Unary::Exp, Unary::Log] {
            for dtype in [DType::F32, DType::F16] {
                assert!(keys.insert(key(&Expr::unary(function, dtype).unwrap())));
            }
        }
        for constant in [
            Scalar::Float(1.0),
            Scalar::Int(1),
            Scalar::Bool(true),
            Scalar::Float(2.0),
        ] {
            let mut expr = Expr::builder();
            let value = expr.constant(constant, DType::F32).unwrap();
            assert!(keys.insert(key(&expr.finish(&[value]).unwrap())));
        }
        assert_eq!(key(&sample()), key(&sample()));
    }
}
