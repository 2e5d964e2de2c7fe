//! Many threads, split work, and the cache.

use std::sync::Arc;
use std::thread;

use streampool_device::{DType, Expr, Layout, Unary, View};

use crate::team::{Solo, Team};

use super::fused::{element, random_expr};
use super::{Buffer, Expressions, Numbers};

/// Threads made for each call.
pub(super) struct Threads(pub(super) usize);

impl Team for Threads {
    fn width(&self) -> usize {
        self.0
    }

    fn run(&self, parts: usize, work: &(dyn Fn(usize) + Sync)) {
        thread::scope(|scope| {
            for part in 0..parts {
                scope.spawn(move || work(part));
            }
        });
    }
}

/// An expression, its inputs, and the bytes it gives.
struct Case {
    expr: Arc<Expr>,
    inputs: Vec<Vec<u8>>,
    shape: [usize; 2],
}

impl Case {
    fn new(seed: u64, rows: usize, columns: usize) -> Case {
        let mut numbers = Numbers::new(seed);
        let expr = Arc::new(random_expr(&mut numbers, 12));
        let inputs = expr
            .inputs()
            .iter()
            .map(|&dtype| {
                let elements = (0..rows * columns).map(|_| element(dtype, &mut numbers));
                elements.flat_map(|element| element.write(dtype)).collect()
            })
            .collect();
        Case {
            expr,
            inputs,
            shape: [rows, columns],
        }
    }

    /// Executes it; every second input is given one row for all.
    fn execute(&self, expressions: &Expressions, team: &dyn Team) -> Vec<Vec<u8>> {
        let whole = Layout::contiguous(&self.shape).unwrap();
        let row = Layout::contiguous(&self.shape[1..]).unwrap();
        let mut sources: Vec<Buffer> = self.inputs.iter().map(|bytes| Buffer::of(bytes)).collect();
        let inputs: Vec<View> = sources
            .iter_mut()
            .zip(self.expr.inputs())
            .enumerate()
            .map(|(index, (buffer, &dtype))| {
                buffer.view(dtype, if index % 2 == 1 { row } else { whole })
            })
            .collect();
        let types = self
            .expr
            .outputs()
            .iter()
            .map(|&value| self.expr.dtype(value));
        let mut targets: Vec<Buffer> = types
            .clone()
            .map(|dtype| Buffer::new(whole.elements() * dtype.size()))
            .collect();
        let outputs: Vec<View> = targets
            .iter_mut()
            .zip(types)
            .map(|(buffer, dtype)| buffer.view(dtype, whole))
            .collect();
        // SAFETY: the buffers are this function's own and outlive the call.
        unsafe { expressions.execute(&self.expr, &inputs, &outputs, team) }.unwrap();
        targets
            .iter_mut()
            .map(|target| target.bytes().to_vec())
            .collect()
    }
}

#[test]
fn splitting_changes_no_bit() {
    let expressions = Expressions::new();
    for (seed, rows, columns) in [
        (1, 1, 100_003),
        (2, 20_011, 5),
        (3, 77, 1301),
        (4, 3, 33_333),
        (5, 500, 200),
    ] {
        let case = Case::new(seed, rows, columns);
        let alone = case.execute(&expressions, &Solo);
        for width in [2, 3, 8] {
            assert!(
                case.execute(&expressions, &Threads(width)) == alone,
                "{width} threads, seed {seed}"
            );
        }
    }
}

#[test]
fn eight_threads_at_once_get_the_bits_of_one() {
    let expressions = Expressions::new();
    let cases: Vec<Case> = (10..20).map(|seed| Case::new(seed, 7, 400)).collect();
    let alone: Vec<_> = {
        let fresh = Expressions::new();
        cases
            .iter()
            .map(|case| case.execute(&fresh, &Solo))
            .collect()
    };
    thread::scope(|scope| {
        for first in 0..8 {
            let (expressions, cases, alone) = (&expressions, &cases, &alone);
            scope.spawn(move || {
                for step in 0..40 {
                    let index = (first + step) % cases.len();
                    assert!(cases[index].execute(expressions, &Solo) == alone[index]);
                }
            });
        }
    });
    let report = expressions.report();
    assert_eq!(report.compiled, 10, "each was compiled once");
    assert_eq!(report.entries, 10);
    assert!(report.hits >= 8 * 40 - 10 * 8, "{report:?}");
}

#[test]
fn no_elements_touch_nothing() {
    let expr = Arc::new(Expr::unary(Unary::Exp, DType::F32).unwrap());
    let mut buffer = Buffer::new(0);
    let empty = Layout::contiguous(&[3, 0, 2]).unwrap();
    let (input, output) = (
        buffer.view(DType::F32, empty),
        Buffer::new(0).view(DType::F32, empty),
    );
    super::execute(&expr, &[input], &[output], &Threads(4));
}

#[test]
fn operands_of_another_expression_are_refused() {
    let expr = Expr::unary(Unary::Exp, DType::F32).unwrap();
    let program = super::Program::compile(&expr, super::Level::Baseline).unwrap();
    let flat = Layout::contiguous(&[4]).unwrap();
    let (mut source, mut target) = (Buffer::new(32), Buffer::new(32));
    let (input, output) = (source.view(DType::F64, flat), target.view(DType::F64, flat));
    // SAFETY: the buffers outlive the call, which refuses to touch them.
    assert!(unsafe { super::run(&program, &[input], &[output], &Solo) }.is_err());
    // SAFETY: as above.
    assert!(unsafe { super::run(&program, &[], &[output], &Solo) }.is_err());
}
