//! Which form a layer takes.

use streampool_device::{Cell, DType, Direction, Layout, Rnn as Op, Span, View};

use super::{Form, rnn, simdgroup_rnn, tensor_core_rnn};
use crate::matmul::Product;
use crate::{Kernel, Limits, Plan};

/// An Apple GPU.
const LIMITS: Limits = Limits {
    compute_units: 16,
    shared_bytes: 32 << 10,
    buffers: 30,
};

fn op(dtype: DType, cell: Cell, [steps, batch, input, hidden]: [usize; 4]) -> Op {
    let mut allocations = 0;
    let mut view = |shape: &[usize]| {
        allocations += 1;
        let span = Span {
            handle: allocations << 40,
            offset: 0,
            bytes: 1 << 39,
        };
        let layout = Layout::contiguous(shape).expect("a layout");
        View::new(span, dtype, layout).expect("in bounds")
    };
    let gates = cell.gates() * hidden;
    Op {
        cell,
        direction: Direction::Forward,
        src: view(&[steps, batch, input]),
        weight: view(&[1, gates, input]),
        recurrent: view(&[1, gates, hidden]),
        bias: None,
        peephole: None,
        lengths: None,
        hidden: None,
        cell_state: None,
        dst: view(&[steps, 1, batch, hidden]),
        last_hidden: None,
        last_cell: None,
    }
}

/// Whether the product is by simdgroup matrices, and how steps are taken.
fn forms(plan: Plan) -> (bool, Form) {
    let product = matches!(
        plan.dispatches[0].kernel,
        Kernel::Product(Product::Blocks(_))
    );
    match plan.dispatches.last().map(|last| last.kernel.clone()) {
        Some(Kernel::Rnn(kernel)) => (product, kernel.form),
        other => panic!("{other:?} takes no steps"),
    }
}

#[test]
fn simdgroups_of_apple_multiply_matrices() {
    let of = |dtype, cell, sizes| simdgroup_rnn(&op(dtype, cell, sizes), &LIMITS).map(forms);
    let matrices = |width, tiles| Form::Matrices { width, tiles };
    for dtype in [DType::F16, DType::BF16] {
        let lstm = |sizes| of(dtype, Cell::Lstm, sizes);
        assert_eq!(lstm([20, 4, 64, 20]), Some((true, matrices(32, 1))));
        assert_eq!(lstm([20, 512, 64, 20]), Some((true, matrices(32, 4))));
        // States of 32 sequences and the sums of four gates do not fit.
        assert_eq!(lstm([20, 512, 64, 128]), Some((true, matrices(128, 2))));
        // Of so small an input the product is none for matrices, the steps are.
        assert_eq!(lstm([20, 4, 3, 20]), Some((false, matrices(32, 1))));
        let tanh = of(dtype, Cell::Tanh, [20, 512, 64, 128]);
        assert_eq!(tanh, Some((true, matrices(128, 4))));
        // The weights of wider states are in no registers.
        let (product, form) = lstm([20, 4, 64, 200]).expect("a plan");
        assert!(product && matches!(form, Form::Launches { run: 4, vector: 8 }));
    }
    let (product, form) = of(DType::F32, Cell::Lstm, [20, 4, 64, 20]).expect("a plan");
    assert!(product && matches!(form, Form::Sums { .. }));
    assert_eq!(of(DType::F32, Cell::Lstm, [20, 4, 3, 20]), None);
}

#[test]
fn other_gpus_take_tiles() {
    let plan = rnn(&op(DType::F16, Cell::Lstm, [20, 4, 64, 20]), &LIMITS).expect("a plan");
    let (product, form) = forms(plan);
    assert!(!product && matches!(form, Form::Tiles { width: 32, .. }));
}

#[test]
fn wide_states_get_a_launch_for_each_step() {
    let counted = |plan: Plan| {
        let steps = plan.dispatches.iter();
        let steps = steps.filter(|dispatch| matches!(dispatch.kernel, Kernel::Rnn(_)));
        (steps.count(), forms(plan).1)
    };
    let form = |dtype, cell, sizes| counted(rnn(&op(dtype, cell, sizes), &LIMITS).expect("a plan"));
    let launches = |run, vector| Form::Launches { run, vector };
    let (f16, f32, lstm) = (DType::F16, DType::F32, Cell::Lstm);
    assert_eq!(form(f16, lstm, [20, 1, 8, 512]), (20, launches(1, 8)));
    assert_eq!(form(f32, lstm, [20, 30, 8, 512]), (20, launches(8, 4)));
    assert_eq!(form(f32, lstm, [20, 3, 8, 102]), (20, launches(4, 2)));
    assert_eq!(form(f16, lstm, [20, 40, 8, 512]), (20, launches(8, 8)));
    let on_tensor_cores =
        |dtype, sizes| counted(tensor_core_rnn(&op(dtype, lstm, sizes), &LIMITS).expect("a plan"));
    // A thread reads its weights in so many rounds, if its registers hold them.
    let tiles = |tiles, ahead| Form::LaunchTiles { tiles, ahead };
    assert_eq!(on_tensor_cores(f16, [20, 8, 8, 512]), (20, launches(8, 8)));
    assert_eq!(on_tensor_cores(f16, [20, 9, 8, 512]), (20, tiles(1, 2)));
    assert_eq!(on_tensor_cores(f16, [20, 40, 8, 512]), (20, tiles(2, 2)));
    assert_eq!(on_tensor_cores(f32, [20, 8, 8, 512]), (20, launches(8, 4)));
    assert_eq!(on_tensor_cores(f32, [20, 40, 8, 512]), (20, tiles(2, 0)));
    assert_eq!(on_tensor_cores(f32, [20, 9, 8, 516]), (20, launches(8, 4)));
    // Rows of the state that are no whole vectors.
    assert_eq!(on_tensor_cores(f16, [20, 9, 8, 132]), (20, launches(8, 4)));
    let in_one = |dtype, cell, sizes| {
        let (count, form) = form(dtype, cell, sizes);
        count == 1 && matches!(form, Form::Sums { .. })
    };
    // Enough sequences to keep the device busy, no end of steps, two passes to a step, or rows at odd places.
    assert!(in_one(f32, lstm, [20, 4096, 8, 64]));
    assert!(in_one(f32, lstm, [5000, 1, 8, 512]));
    assert!(in_one(f32, lstm, [0, 1, 8, 512]));
    let reset_before = Cell::Gru { reset_after: false };
    assert!(in_one(f32, reset_before, [20, 1, 8, 512]));
    assert!(in_one(DType::F64, lstm, [20, 1, 8, 512]));
    assert!(in_one(f32, lstm, [20, 3, 8, 101]));
}
