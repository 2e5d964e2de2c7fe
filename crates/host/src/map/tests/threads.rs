//! Many threads, divided work, several groups of operands at once, and what is refused.

use std::sync::Arc;
use std::thread;

use streampool_conformance::rng::Rng;
use streampool_device::{DType, Expr, Op, Unary, View};

use super::fused::{elements, random_expr};
use crate::kernels::simd::Level;
use crate::kernels::tests::ops::{Tensor, map, run};
use crate::map::run::run as run_program;
use crate::map::{Expressions, Program};
use crate::team::{Solo, Team};

/// An expression and its operands; every third input is one row for all.
struct Case {
    expr: Arc<Expr>,
    inputs: Vec<Tensor>,
    outputs: Vec<Tensor>,
}

impl Case {
    fn new(rng: &mut Rng, expr: Arc<Expr>, shape: &[usize]) -> Case {
        let inputs = expr.inputs().iter().enumerate();
        let inputs = inputs.map(|(number, &dtype)| {
            let own = if number % 3 == 2 {
                shape.len().min(1)
            } else {
                0
            };
            elements(dtype, &shape[own..], rng)
        });
        let outputs = expr.outputs().iter();
        let outputs = outputs.map(|&value| Tensor::zeros(expr.dtype(value), shape));
        Case {
            inputs: inputs.collect(),
            outputs: outputs.collect(),
            expr,
        }
    }

    fn op(&self) -> Op {
        let inputs: Vec<&Tensor> = self.inputs.iter().collect();
        map(&self.expr, &inputs, &self.outputs)
    }

    fn bytes(&self) -> Vec<Vec<u8>> {
        let outputs = self.outputs.iter();
        outputs.map(|output| output.bytes().to_vec()).collect()
    }

    fn execute(&self, expressions: &Expressions, team: &dyn Team) -> Vec<Vec<u8>> {
        let Op::Map {
            inputs, outputs, ..
        } = self.op()
        else {
            panic!("it is a map")
        };
        // SAFETY: the operands are this case's, whose outputs one thread at a time writes.
        unsafe { expressions.execute(&self.expr, &inputs, &outputs, team) }.unwrap();
        self.bytes()
    }
}

fn cases(rng: &mut Rng, shapes: &[Vec<usize>]) -> Vec<Case> {
    let each = shapes.iter();
    each.map(|shape| {
        let expr = Arc::new(random_expr(rng, 12));
        Case::new(rng, expr, shape)
    })
    .collect()
}

#[test]
fn splitting_changes_no_bit() {
    let shapes = [
        [1, 100_003],
        [20_011, 5],
        [77, 1301],
        [3, 33_333],
        [500, 200],
    ];
    for case in cases(&mut Rng::new(1), &shapes.map(|shape| shape.to_vec())) {
        run(&case.op());
    }
}

#[test]
fn eight_threads_at_once_compile_each_once() {
    let shapes = vec![vec![7, 400]; 10];
    // The same expressions for each thread, with outputs of its own.
    let of_each: Vec<Vec<Case>> = (0..8).map(|_| cases(&mut Rng::new(2), &shapes)).collect();
    let fresh = Expressions::new();
    let alone: Vec<_> = of_each[0]
        .iter()
        .map(|case| case.execute(&fresh, &Solo))
        .collect();
    let expressions = Expressions::new();
    thread::scope(|scope| {
        for (first, cases) in of_each.iter().enumerate() {
            let (expressions, alone) = (&expressions, &alone);
            scope.spawn(move || {
                for step in 0..40 {
                    let index = (first + step) % cases.len();
                    assert!(cases[index].execute(expressions, &Solo) == alone[index]);
                }
            });
        }
    });
    let report = expressions.report();
    assert_eq!((report.compiled, report.entries), (10, 10));
    assert!(report.hits >= 8 * 40 - 10 * 8, "{report:?}");
}

#[test]
fn groups_are_computed_as_if_alone() {
    let shapes = [
        vec![3, 5],
        vec![],
        vec![0, 4],
        vec![40_000],
        vec![7, 9, 300],
        vec![1],
        vec![100, 2000],
    ];
    for seed in 0..20 {
        let mut rng = Rng::new(seed);
        let expr = Arc::new(random_expr(&mut rng, 8));
        let groups = shapes.each_ref();
        let groups = groups.map(|shape| Case::new(&mut rng, Arc::clone(&expr), shape));
        let expressions = Expressions::new();
        let alone = groups
            .each_ref()
            .map(|group| group.execute(&expressions, &Solo));
        let views = |of: fn(&Case) -> &[Tensor]| -> Vec<View> {
            let all = groups.iter().flat_map(of);
            all.map(|tensor| tensor.view).collect()
        };
        let all = Op::Map {
            expr,
            inputs: views(|group| &group.inputs),
            outputs: views(|group| &group.outputs),
        };
        run(&all);
        assert!(groups.each_ref().map(Case::bytes) == alone, "seed {seed}");
    }
}

#[test]
fn no_elements_touch_nothing() {
    let expr = Arc::new(Expr::unary(Unary::Exp, DType::F32).unwrap());
    let [input, output] = [(); 2].map(|()| Tensor::zeros(DType::F32, &[3, 0, 2]));
    run(&map(&expr, &[&input], &[output]));
}

#[test]
fn operands_of_another_expression_are_refused() {
    let expr = Expr::unary(Unary::Exp, DType::F32).unwrap();
    let program = Program::compile(&expr, Level::Baseline).unwrap();
    let [input, output] = [(); 2].map(|()| Tensor::zeros(DType::F64, &[4]));
    // SAFETY: the operands outlive the call, which refuses to touch them.
    assert!(unsafe { run_program(&program, &[input.view], &[output.view], &Solo) }.is_err());
    // SAFETY: as above.
    assert!(unsafe { run_program(&program, &[], &[output.view], &Solo) }.is_err());
}
