//! Short ways to write ops.

use std::sync::Arc;
use std::time::{Duration, Instant};

use streampool_device::{Activation, Binary, DType, Expr, MatMul, Op, Scalar, Unary, View};

use crate::fixture::Fixture;
use crate::lane::Lane;

pub(crate) fn fill(dst: View, value: impl Into<Scalar>) -> Op {
    Op::Fill {
        dst,
        value: value.into(),
    }
}

pub(crate) fn copy(src: View, dst: View) -> Op {
    Op::Copy { src, dst }
}

/// `view += amount`, in place: it shows how often and in which order it ran.
pub(crate) fn add(view: View, amount: f64) -> Op {
    affine(view, 1.0, amount)
}

/// `view = view * factor + amount`, in place.
pub(crate) fn affine(view: View, factor: f64, amount: f64) -> Op {
    let build = || {
        let mut expr = Expr::builder();
        let x = expr.input(view.dtype())?;
        let factor = expr.constant(factor, view.dtype())?;
        let amount = expr.constant(amount, view.dtype())?;
        let scaled = expr.binary(Binary::Mul, x, factor)?;
        let y = expr.binary(Binary::Add, scaled, amount)?;
        expr.finish(&[y])
    };
    Op::Map {
        expr: Arc::new(build().expect("the expression is right")),
        inputs: vec![view],
        outputs: vec![view],
    }
}

pub(crate) fn matmul(a: View, b: View, out: View) -> Op {
    Op::MatMul(MatMul {
        a,
        b,
        out,
        bias: None,
        activation: Activation::None,
        alpha: 1.0,
    })
}

/// Work that takes a queue a while: some hundred microseconds for each step, also on a GPU, which is faster at it than a busy
/// thread at appending it.
pub(crate) struct Load(Op);

impl Load {
    /// Each queue that is kept busy at the same time needs its own.
    pub(crate) fn new(fixture: &Fixture) -> Load {
        const ENOUGH: Duration = Duration::from_micros(300);
        let mut lane = fixture.lane();
        let mut takes = |load: &Load| {
            // The first may have to be compiled, and each thread may have to wait for a processor: the shortest counts.
            let times = [(); 5].map(|()| {
                let begun = Instant::now();
                load.append(&mut lane, 1);
                lane.sync();
                begun.elapsed()
            });
            times.into_iter().min().unwrap_or_default()
        };
        let lengths = [1 << 7, 1 << 11, 1 << 15, 1 << 18, 1 << 21, 1 << 24];
        let mut load = Load::of(fixture, lengths[0]);
        for length in &lengths[1..] {
            if takes(&load) >= ENOUGH {
                break;
            }
            load = Load::of(fixture, *length);
        }
        load
    }

    fn of(fixture: &Fixture, length: usize) -> Load {
        let view = fixture.tensor::<f32>(&[length]);
        let build = || {
            let mut expr = Expr::builder();
            let mut y = expr.input(DType::F32)?;
            for _ in 0..8 {
                y = expr.unary(Unary::Sin, y)?;
            }
            expr.finish(&[y])
        };
        Load(Op::Map {
            expr: Arc::new(build().expect("the expression is right")),
            inputs: vec![view],
            outputs: vec![view],
        })
    }

    /// Appends `steps` of it.
    pub(crate) fn append(&self, lane: &mut Lane, steps: usize) {
        for _ in 0..steps {
            lane.run(&self.0);
        }
    }
}
