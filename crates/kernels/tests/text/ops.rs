//! Ops of every kind, for every way in which a kernel may be made for them.

#[path = "attention.rs"]
mod attention;
#[path = "index.rs"]
mod index;
#[path = "linalg.rs"]
mod linalg;
#[path = "order.rs"]
mod order;
#[path = "random.rs"]
mod random;
#[path = "rnn.rs"]
mod rnn;
#[path = "spatial.rs"]
mod spatial;

use std::sync::Arc;

use streampool_conformance::cases::Case;
use streampool_device::{
    Activation, Axes, Binary, Compare, DType, Expr, Layout, MatMul, Norm, NormKind, Op, ReduceKind,
    Result, Scalar, Span, Unary, Value, View,
};

const FLOATS: [DType; 4] = [DType::F32, DType::F16, DType::BF16, DType::F64];

/// All ops.
pub fn all() -> Vec<Op> {
    let mut ops = vec![Op::Nop];
    ops.extend(moves());
    ops.extend(maps());
    ops.extend(reductions());
    ops.extend(softmaxes());
    ops.extend(norms());
    ops.extend(products());
    ops.extend(attention::ops());
    ops.extend(rnn::ops());
    ops.extend(random::ops());
    ops.extend(spatial::ops());
    ops.extend(linalg::ops());
    ops.extend(index::ops());
    ops.extend(order::ops());
    for op in &ops {
        op.validate()
            .unwrap_or_else(|error| panic!("{op:?}: {error}"));
    }
    ops
}

/// Those by which devices are compared with each other.
pub fn drawn() -> Vec<Op> {
    let placed = |number| {
        let case = Case::random(number);
        let mut memory = Memory::default();
        let operands: Vec<View> = case
            .operands()
            .map(|(dtype, layout, _)| memory.view(dtype, layout))
            .collect();
        let op = case
            .op()
            .try_map(|_, _, &index| operands.get(index).copied().ok_or(index));
        op.expect("an op names its operands")
    };
    (0..32 * Case::KINDS).map(placed).collect()
}

/// Operands of one op, each in memory of its own.
#[derive(Default)]
struct Memory {
    allocations: u64,
}

impl Memory {
    fn view(&mut self, dtype: DType, layout: Layout) -> View {
        self.allocations += 1;
        let span = Span {
            handle: self.allocations << 44,
            offset: 0,
            bytes: 1 << 43,
        };
        View::new(span, dtype, layout).expect("the view is in bounds")
    }

    fn strided(&mut self, dtype: DType, shape: &[usize], strides: &[isize], offset: usize) -> View {
        self.view(
            dtype,
            Layout::strided(shape, strides, offset).expect("a layout"),
        )
    }

    fn row_major(&mut self, dtype: DType, shape: &[usize]) -> View {
        self.view(dtype, Layout::contiguous(shape).expect("a layout"))
    }

    fn turned(&mut self, dtype: DType, shape: &[usize]) -> View {
        let rank = shape.len();
        let mut order: Vec<usize> = (0..rank).collect();
        order.swap(rank - 2, rank - 1);
        let stored: Vec<usize> = order.iter().map(|&axis| shape[axis]).collect();
        let layout = Layout::contiguous(&stored).and_then(|layout| layout.permute(&order));
        self.view(dtype, layout.expect("a layout"))
    }
}

fn moves() -> Vec<Op> {
    let mut ops = Vec::new();
    let mut copy = |src, dst| ops.push(Op::Copy { src, dst });
    for from in DType::ALL {
        for to in DType::ALL {
            let mut memory = Memory::default();
            copy(
                memory.row_major(from, &[1000]),
                memory.row_major(to, &[1000]),
            );
        }
    }
    for dtype in [
        DType::U8,
        DType::Bool,
        DType::F16,
        DType::U16,
        DType::F32,
        DType::U32,
        DType::I64,
        DType::F64,
    ] {
        let mut memory = Memory::default();
        let dense = memory.row_major(dtype, &[6, 35]);
        let target = memory.row_major(dtype, &[6, 35]);
        copy(dense, memory.strided(dtype, &[6, 35], &[70, 2], 1));
        copy(memory.strided(dtype, &[6, 35], &[-35, -1], 209), target);
        copy(memory.strided(dtype, &[6, 35], &[0, 1], 0), target);
        copy(memory.strided(dtype, &[6, 35], &[0, 0], 3), target);
        copy(
            memory.strided(dtype, &[210], &[1], 1),
            memory.row_major(dtype, &[210]),
        );
        copy(
            memory.turned(dtype, &[100, 90]),
            memory.row_major(dtype, &[100, 90]),
        );
        copy(
            memory.turned(dtype, &[5, 100, 90]),
            memory.row_major(dtype, &[5, 100, 90]),
        );
        copy(
            memory.turned(dtype, &[1 << 16, 1 << 16]),
            memory.row_major(dtype, &[1 << 16, 1 << 16]),
        );
        copy(
            memory.row_major(dtype, &[1 << 32]),
            memory.row_major(dtype, &[1 << 32]),
        );
        copy(
            memory.strided(dtype, &[3, 1 << 30], &[1 << 32, 2], 0),
            memory.row_major(dtype, &[3, 1 << 30]),
        );
        let deep = [2, 3, 2, 3, 2, 3, 2, 3];
        let gaps = [2592, 840, 408, 132, 60, 18, 8, 2];
        copy(
            memory.strided(dtype, &deep, &gaps, 0),
            memory.row_major(dtype, &deep),
        );
    }
    let mut memory = Memory::default();
    copy(
        memory.turned(DType::F32, &[64, 64]),
        memory.row_major(DType::BF16, &[64, 64]),
    );
    copy(
        memory.turned(DType::Bool, &[64, 64]),
        memory.row_major(DType::I32, &[64, 64]),
    );
    for dtype in DType::ALL {
        let dst = Memory::default().row_major(dtype, &[1000]);
        let gaps = Memory::default().strided(dtype, &[10, 10], &[40, 2], 0);
        for dst in [dst, gaps] {
            ops.push(Op::Fill {
                dst,
                value: Scalar::Int(1),
            });
            if dtype != DType::Bool {
                let (start, step) = (Scalar::Float(0.5), Scalar::Float(2.0));
                ops.push(Op::Iota { dst, start, step });
            }
        }
    }
    ops
}

const UNARY: [Unary; 36] = {
    use Unary::*;
    [
        Neg, Abs, Sign, Relu, Exp, Log, Log1p, Expm1, Sqrt, Rsqrt, Recip, Sin, Cos, Tan, Asin,
        Acos, Atan, Sinh, Cosh, Tanh, Erf, Sigmoid, Silu, Gelu, GeluTanh, Softplus, Floor, Ceil,
        Round, Trunc, IsNan, IsInf, Not, Asinh, Acosh, Atanh,
    ]
};

const BINARY: [Binary; 14] = {
    use Binary::*;
    [
        Add, Sub, Mul, Div, Rem, Pow, Min, Max, Atan2, And, Or, Xor, Shl, Shr,
    ]
};

const COMPARE: [Compare; 6] = {
    use Compare::*;
    [Eq, Ne, Lt, Le, Gt, Ge]
};

/// An expression of every function that `dtype` has, and of casts from it to `targets`, summed to one number.
fn everything(dtype: DType, targets: &[DType]) -> Result<Expr> {
    let mut expr = Expr::builder();
    let (x, y) = (expr.input(dtype)?, expr.input(dtype)?);
    let number = expr.constant(3.25, dtype)?;
    let mut values: Vec<Value> = UNARY
        .iter()
        .filter_map(|&function| expr.unary(function, x).ok())
        .collect();
    values.extend(
        BINARY
            .iter()
            .filter_map(|&function| expr.binary(function, x, y).ok()),
    );
    for comparison in COMPARE {
        let holds = expr.compare(comparison, x, number)?;
        values.push(expr.select(holds, x, y)?);
    }
    for &to in targets {
        values.push(expr.cast(y, to)?);
    }
    let mut sum = expr.constant(0, DType::F32)?;
    for value in values {
        let value = expr.cast(value, DType::F32)?;
        sum = expr.binary(Binary::Add, sum, value)?;
    }
    let stored = expr.cast(sum, dtype)?;
    expr.finish(&[sum, stored])
}

/// An expression of many nodes.
fn long() -> Result<Expr> {
    let mut expr = Expr::builder();
    let x = expr.input(DType::F32)?;
    let mut y = x;
    for step in 0..600 {
        let factor = expr.constant(f64::from(step), DType::F32)?;
        let product = expr.binary(Binary::Mul, y, factor)?;
        y = expr.binary(Binary::Add, product, x)?;
    }
    expr.finish(&[y])
}

/// An expression of as many inputs and outputs as Metal has buffers for.
fn broad() -> Result<Expr> {
    let mut expr = Expr::builder();
    let inputs: Vec<Value> = (0..15)
        .map(|_| expr.input(DType::F16))
        .collect::<Result<_>>()?;
    let outputs: Vec<Value> = inputs
        .iter()
        .map(|&x| expr.binary(Binary::Mul, x, inputs[0]))
        .collect::<Result<_>>()?;
    expr.finish(&outputs)
}

fn map(expr: &Arc<Expr>, memory: &mut Memory, shape: &[usize]) -> Op {
    let outputs: Vec<DType> = expr
        .outputs()
        .iter()
        .map(|&output| expr.dtype(output))
        .collect();
    Op::Map {
        expr: expr.clone(),
        inputs: expr
            .inputs()
            .iter()
            .map(|&dtype| memory.row_major(dtype, shape))
            .collect(),
        outputs: outputs
            .iter()
            .map(|&dtype| memory.row_major(dtype, shape))
            .collect(),
    }
}

fn maps() -> Vec<Op> {
    let memory = &mut Memory::default();
    let mut ops = Vec::new();
    let singles: Vec<DType> = DType::ALL
        .into_iter()
        .filter(|&dtype| dtype != DType::F64)
        .collect();
    for &dtype in &singles {
        let expr = Arc::new(everything(dtype, &singles).expect("types agree"));
        ops.push(map(&expr, memory, &[1000]));
    }
    let doubles = Arc::new(everything(DType::F64, &DType::ALL).expect("types agree"));
    ops.push(map(&doubles, memory, &[1000]));
    for expr in [long(), broad()] {
        ops.push(map(&Arc::new(expr.expect("types agree")), memory, &[1000]));
    }
    for dtype in [DType::F32, DType::F16, DType::I8, DType::U16, DType::I64] {
        let expr = Arc::new(Expr::binary(Binary::Mul, dtype).expect("it is of numbers"));
        ops.push(map(&expr, memory, &[1000]));
        ops.push(map(&expr, memory, &[1 << 32]));
        for groups in [3, 8] {
            let mut views = |count| {
                (0..count)
                    .map(|_| memory.row_major(dtype, &[999]))
                    .collect()
            };
            ops.push(Op::Map {
                expr: expr.clone(),
                inputs: views(2 * groups),
                outputs: views(groups),
            });
        }
        let out = memory.row_major(dtype, &[30, 64]);
        let mut broadcast = |x: View, y: View| {
            let (inputs, outputs) = (vec![x, y], vec![out]);
            let expr = expr.clone();
            ops.push(Op::Map {
                expr,
                inputs,
                outputs,
            });
        };
        broadcast(out, memory.row_major(dtype, &[64]));
        broadcast(out, memory.row_major(dtype, &[30, 1]));
        broadcast(
            memory.row_major(dtype, &[30, 1]),
            memory.row_major(dtype, &[64]),
        );
        broadcast(out, memory.row_major(dtype, &[]));
        broadcast(out, memory.turned(dtype, &[30, 64]));
    }
    ops
}

fn reductions() -> Vec<Op> {
    use ReduceKind::{All, Any, ArgMax, ArgMin, Max, Mean, Min, Prod, Sum};
    let mut ops = Vec::new();
    let memory = &mut Memory::default();
    let mut reduce = |kind, src: View, axes: &[usize]| {
        let mut shape = src.shape().to_vec();
        axes.iter().for_each(|&axis| shape[axis] = 1);
        let dtype = match kind {
            ArgMax | ArgMin => DType::I64,
            _ => src.dtype(),
        };
        let dst = memory.row_major(dtype, &shape);
        let axes = Axes::new(axes).expect("axes");
        ops.push(Op::Reduce {
            kind,
            src,
            dst,
            axes,
        });
    };
    for dtype in DType::ALL {
        let kinds: &[ReduceKind] = match dtype {
            DType::Bool => &[Any, All],
            _ if dtype.is_float() => &[Sum, Mean, Prod, Max, Min, ArgMax, ArgMin],
            _ => &[Sum, Prod, Max, Min, ArgMax, ArgMin],
        };
        let sources = &mut Memory::default();
        for &kind in kinds {
            reduce(kind, sources.row_major(dtype, &[64, 96]), &[1]);
            reduce(kind, sources.row_major(dtype, &[64, 96]), &[0]);
        }
        let kind = kinds[0];
        reduce(kind, sources.row_major(dtype, &[1 << 22]), &[0]);
        reduce(kind, sources.row_major(dtype, &[4, 1 << 20]), &[1]);
        reduce(kind, sources.row_major(dtype, &[7, 5]), &[0, 1]);
        reduce(kind, sources.row_major(dtype, &[7, 5, 3, 4]), &[0, 2]);
        reduce(kind, sources.turned(dtype, &[50, 60]), &[1]);
        reduce(kind, sources.row_major(dtype, &[1 << 16, 1 << 16]), &[1]);
        reduce(kind, sources.row_major(dtype, &[6, 0]), &[1]);
        reduce(kind, sources.row_major(dtype, &[6, 4]), &[]);
    }
    ops.retain(|op| op.validate().is_ok());
    ops
}

fn softmaxes() -> Vec<Op> {
    let mut ops = Vec::new();
    for dtype in FLOATS {
        for log in [false, true] {
            for (shape, axis) in [
                (&[8, 10][..], 1),
                (&[8, 1000], 1),
                (&[3, 100_000], 1),
                (&[64, 80], 0),
                (&[3, 4, 5], 1),
                (&[40_000, 70_000], 1),
            ] {
                let mut memory = Memory::default();
                let (src, dst) = (
                    memory.row_major(dtype, shape),
                    memory.row_major(dtype, shape),
                );
                ops.push(Op::Softmax {
                    src,
                    dst,
                    axis,
                    log,
                });
            }
            let mut memory = Memory::default();
            let (src, dst) = (
                memory.turned(dtype, &[70, 80]),
                memory.row_major(dtype, &[70, 80]),
            );
            ops.push(Op::Softmax {
                src,
                dst,
                axis: 1,
                log,
            });
        }
    }
    ops
}

fn norms() -> Vec<Op> {
    let mut ops = Vec::new();
    for dtype in FLOATS {
        for kind in [NormKind::Layer, NormKind::Rms] {
            for (has_scale, has_bias) in [(false, false), (true, false), (true, true)] {
                for (shape, axis) in [
                    (&[8, 10][..], 1),
                    (&[8, 4096], 1),
                    (&[3, 100_000], 1),
                    (&[6, 7, 8], 1),
                ] {
                    let mut memory = Memory::default();
                    let (src, dst) = (
                        memory.row_major(dtype, shape),
                        memory.row_major(dtype, shape),
                    );
                    let mut weight =
                        |wanted: bool| wanted.then(|| memory.row_major(dtype, &shape[axis..]));
                    let (scale, bias) = (weight(has_scale), weight(has_bias));
                    let added = has_bias.then(|| memory.row_major(dtype, shape));
                    let with_sum = added.is_some() && kind == NormKind::Rms;
                    ops.push(Op::Norm(Norm {
                        added,
                        sum: with_sum.then(|| memory.row_major(dtype, shape)),
                        kind,
                        src,
                        dst,
                        scale,
                        bias,
                        axis,
                        epsilon: 1e-5,
                    }));
                }
            }
        }
        let mut memory = Memory::default();
        let (src, dst) = (
            memory.turned(dtype, &[70, 80]),
            memory.row_major(dtype, &[70, 80]),
        );
        let (scale, bias) = (None, None);
        ops.push(Op::Norm(Norm {
            added: None,
            sum: None,
            kind: NormKind::Layer,
            src,
            dst,
            scale,
            bias,
            axis: 1,
            epsilon: 1e-5,
        }));
    }
    ops
}

fn products() -> Vec<Op> {
    use Activation::{Gelu, GeluTanh, HardSwish, None as Nothing, Relu, Sigmoid, Silu, Tanh};
    let mut ops = Vec::new();
    for dtype in [
        DType::F32,
        DType::F16,
        DType::BF16,
        DType::F64,
        DType::I8,
        DType::U8,
    ] {
        let result = if dtype.is_float() { dtype } else { DType::I32 };
        let activations: &[Activation] = match dtype {
            DType::F32 => &[Relu, Gelu, GeluTanh, Silu, Sigmoid, Tanh, HardSwish],
            _ if dtype.is_float() => &[GeluTanh],
            _ => &[],
        };
        let mut memory = Memory::default();
        let mut multiply = |a: View, b: View, out: View, bias: Option<View>, activation, alpha| {
            ops.push(Op::MatMul(MatMul {
                a,
                b,
                out,
                bias,
                activation,
                alpha,
            }));
        };
        for m in [1, 3, 4, 16, 300] {
            for (k, n) in [(256, 128), (37, 41)] {
                let (a, out) = (
                    memory.row_major(dtype, &[m, k]),
                    memory.row_major(result, &[m, n]),
                );
                multiply(a, memory.row_major(dtype, &[k, n]), out, None, Nothing, 1.0);
                let bias = memory.row_major(result, &[n]);
                multiply(
                    a,
                    memory.turned(dtype, &[k, n]),
                    out,
                    Some(bias),
                    Nothing,
                    1.0,
                );
            }
        }
        for m in [1, 300] {
            let a = memory.turned(dtype, &[3, m, 64]);
            let b = memory.row_major(dtype, &[64, 96]);
            let out = memory.turned(result, &[3, m, 96]);
            multiply(a, b, out, None, Nothing, 1.0);
            for &activation in activations {
                multiply(a, b, out, None, activation, 0.5);
            }
        }
        // Of few tiles and many terms.
        let (a, b) = (
            memory.row_major(dtype, &[70, 3000]),
            memory.turned(dtype, &[3000, 64]),
        );
        multiply(
            a,
            b,
            memory.row_major(result, &[70, 64]),
            None,
            Nothing,
            1.0,
        );
        let (a, b) = (
            memory.row_major(dtype, &[5, 0]),
            memory.row_major(dtype, &[0, 7]),
        );
        multiply(a, b, memory.row_major(result, &[5, 7]), None, Nothing, 1.0);
    }
    ops
}
