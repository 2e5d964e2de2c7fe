//! A case: a random op, what its operands lie in, and what is in there before.

use std::convert::Infallible;
use std::sync::Arc;

use half::{bf16, f16};
use streampool_device::{
    Access, Activation, Axes, Binary, Compare, DType, Expr, Layout, MatMul, Norm, NormKind, Op,
    ReduceKind, Unary,
};

use super::random::Rng;

const FLOATS: [DType; 4] = [DType::F32, DType::F16, DType::BF16, DType::F64];
const INTEGERS: [DType; 8] = [
    DType::I8,
    DType::U8,
    DType::I16,
    DType::U16,
    DType::I32,
    DType::U32,
    DType::I64,
    DType::U64,
];

/// An operand that is yet to get its memory.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    pub dtype: DType,
    pub layout: Layout,
}

/// An op and the bytes that its operands lie in, in the order in which it names them.
pub struct Case {
    pub op: Op<Plan>,
    pub reads: Vec<Vec<u8>>,
    pub writes: Vec<Vec<u8>>,
}

impl Case {
    pub fn random(seed: u64) -> Case {
        let mut rng = Rng::new(seed);
        let op = match rng.below(7) {
            0 => copy(&mut rng),
            1 | 2 => map(&mut rng),
            3 => reduce(&mut rng),
            4 => softmax(&mut rng),
            5 => norm(&mut rng),
            _ => matmul(&mut rng),
        };
        let (mut reads, mut writes) = (Vec::new(), Vec::new());
        each_operand(&op, |access, plan| match access {
            Access::Read => reads.push(random_bytes(&mut rng, plan)),
            // What is not written has to stay: a value of every type.
            Access::Write => writes.push(vec![1; bytes_of(plan)]),
        });
        Case { op, reads, writes }
    }

    /// The types of what is written.
    pub fn written(&self) -> impl Iterator<Item = DType> {
        let mut dtypes = Vec::new();
        each_operand(&self.op, |access, plan| {
            if access == Access::Write {
                dtypes.push(plan.dtype);
            }
        });
        dtypes.into_iter()
    }
}

fn each_operand(op: &Op<Plan>, mut f: impl FnMut(Access, &Plan)) {
    let visited = op.try_map(|_, access, plan| {
        f(access, plan);
        Ok::<_, Infallible>(())
    });
    let Ok(_) = visited;
}

fn bytes_of(plan: &Plan) -> usize {
    let last = plan.layout.extent().map_or(0, |(_, last)| last as usize);
    (last + 1) * plan.dtype.size()
}

fn random_bytes(rng: &mut Rng, plan: &Plan) -> Vec<u8> {
    let count = bytes_of(plan) / plan.dtype.size();
    let mut bytes = Vec::with_capacity(bytes_of(plan));
    for _ in 0..count {
        let (float, small) = (rng.float(), rng.below(11) as i8 - 5);
        match plan.dtype {
            DType::F64 => bytes.extend(float.to_ne_bytes()),
            DType::F32 => bytes.extend((float as f32).to_ne_bytes()),
            DType::F16 => bytes.extend(f16::from_f64(float).to_ne_bytes()),
            DType::BF16 => bytes.extend(bf16::from_f64(float).to_ne_bytes()),
            DType::I8 => bytes.extend(small.to_ne_bytes()),
            DType::U8 => bytes.push(small.unsigned_abs()),
            DType::I16 => bytes.extend(i16::from(small).to_ne_bytes()),
            DType::U16 => bytes.extend(u16::from(small.unsigned_abs()).to_ne_bytes()),
            DType::I32 => bytes.extend(i32::from(small).to_ne_bytes()),
            DType::U32 => bytes.extend(u32::from(small.unsigned_abs()).to_ne_bytes()),
            DType::I64 => bytes.extend(i64::from(small).to_ne_bytes()),
            DType::U64 => bytes.extend(u64::from(small.unsigned_abs()).to_ne_bytes()),
            DType::Bool => bytes.push(u8::from(small > 0)),
        }
    }
    bytes
}

/// The elements that `bytes` are.
pub fn values(dtype: DType, bytes: &[u8]) -> Vec<f64> {
    let value = |bytes: &[u8]| match dtype {
        DType::F64 => bytemuck::pod_read_unaligned::<f64>(bytes),
        DType::F32 => bytemuck::pod_read_unaligned::<f32>(bytes).into(),
        DType::F16 => bytemuck::pod_read_unaligned::<f16>(bytes).into(),
        DType::BF16 => bytemuck::pod_read_unaligned::<bf16>(bytes).into(),
        DType::I8 => bytemuck::pod_read_unaligned::<i8>(bytes).into(),
        DType::I16 => bytemuck::pod_read_unaligned::<i16>(bytes).into(),
        DType::U16 => bytemuck::pod_read_unaligned::<u16>(bytes).into(),
        DType::I32 => bytemuck::pod_read_unaligned::<i32>(bytes).into(),
        DType::U32 => bytemuck::pod_read_unaligned::<u32>(bytes).into(),
        DType::I64 => bytemuck::pod_read_unaligned::<i64>(bytes) as f64,
        DType::U64 => bytemuck::pod_read_unaligned::<u64>(bytes) as f64,
        DType::U8 | DType::Bool => bytes[0].into(),
    };
    bytes.chunks_exact(dtype.size()).map(value).collect()
}

fn plan(rng: &mut Rng, dtype: DType, shape: &[usize]) -> Plan {
    let layout = rng.layout(shape);
    Plan { dtype, layout }
}

fn copy(rng: &mut Rng) -> Op<Plan> {
    let shape = rng.shape(0, 4);
    let (from, to) = (rng.pick(&DType::ALL), rng.pick(&DType::ALL));
    Op::Copy {
        src: plan(rng, from, &shape),
        dst: plan(rng, to, &shape),
    }
}

fn map(rng: &mut Rng) -> Op<Plan> {
    let dtype = match rng.once_in(4) {
        true => rng.pick(&INTEGERS),
        false => rng.pick(&FLOATS),
    };
    let shape = rng.shape(0, 4);
    let count = rng.between(1, 3);
    let expr = Arc::new(expression(rng, dtype, count));
    Op::Map {
        inputs: (0..count)
            .map(|_| {
                let narrower = rng.broadcasting(&shape);
                plan(rng, dtype, &narrower)
            })
            .collect(),
        outputs: expr
            .outputs()
            .iter()
            .map(|&output| plan(rng, expr.dtype(output), &shape))
            .collect(),
        expr,
    }
}

/// An expression in which errors do not grow: few steps, and comparisons of inputs only.
fn expression(rng: &mut Rng, dtype: DType, inputs: usize) -> Expr {
    let mut expr = Expr::builder();
    let mut values: Vec<_> = (0..inputs).map(|_| expr.input(dtype).unwrap()).collect();
    let steps = match dtype {
        DType::F16 | DType::BF16 => 2,
        _ => 4,
    };
    let (unary, binary): (&[Unary], &[Binary]) = match dtype.is_float() {
        true => (
            &[
                Unary::Neg,
                Unary::Abs,
                Unary::Relu,
                Unary::Tanh,
                Unary::Sigmoid,
                Unary::Silu,
                Unary::Gelu,
            ],
            &[
                Binary::Add,
                Binary::Sub,
                Binary::Mul,
                Binary::Min,
                Binary::Max,
            ],
        ),
        false => (
            &[Unary::Not, Unary::Relu],
            &[Binary::Add, Binary::Sub, Binary::Mul, Binary::Xor],
        ),
    };
    for _ in 0..rng.between(1, steps) {
        let (x, y) = (rng.pick(&values), rng.pick(&values));
        let next = match rng.below(4) {
            0 => expr.unary(rng.pick(unary), x),
            1 => {
                let (a, b) = (values[0], values[inputs - 1]);
                let less = expr.compare(Compare::Lt, a, b).unwrap();
                expr.select(less, x, y)
            }
            _ => expr.binary(rng.pick(binary), x, y),
        };
        values.push(next.unwrap());
    }
    let last = values[values.len() - 1];
    let mut outputs = vec![last];
    if rng.once_in(4) {
        outputs.push(
            expr.compare(Compare::Ge, values[0], values[inputs - 1])
                .unwrap(),
        );
    }
    expr.finish(&outputs).unwrap()
}

fn reduce(rng: &mut Rng) -> Op<Plan> {
    use ReduceKind::*;
    let kind = rng.pick(&[Sum, Mean, Prod, Max, Min, ArgMax, ArgMin, Any, All]);
    let src = match kind {
        Any | All => DType::Bool,
        Mean => rng.pick(&FLOATS),
        // Of integers: long products of floats leave every range.
        Prod => rng.pick(&INTEGERS),
        _ if rng.once_in(3) => rng.pick(&INTEGERS),
        _ => rng.pick(&FLOATS),
    };
    let shape = rng.shape(1, 4);
    let is_one = matches!(kind, ArgMax | ArgMin);
    let mut axes: Vec<usize> = (0..shape.len()).filter(|_| rng.once_in(2)).collect();
    if is_one || axes.is_empty() {
        axes = vec![rng.below(shape.len())];
    }
    let mut reduced = shape.clone();
    axes.iter().for_each(|&axis| reduced[axis] = 1);
    let dst = if is_one { DType::I64 } else { src };
    Op::Reduce {
        kind,
        src: plan(rng, src, &shape),
        dst: plan(rng, dst, &reduced),
        axes: Axes::new(&axes).unwrap(),
    }
}

fn softmax(rng: &mut Rng) -> Op<Plan> {
    let dtype = rng.pick(&FLOATS);
    let shape = rng.shape(1, 4);
    Op::Softmax {
        src: plan(rng, dtype, &shape),
        dst: plan(rng, dtype, &shape),
        axis: rng.below(shape.len()),
        log: rng.once_in(2),
    }
}

fn norm(rng: &mut Rng) -> Op<Plan> {
    let dtype = rng.pick(&FLOATS);
    let shape = rng.shape(1, 4);
    let axis = rng.below(shape.len());
    let affine = |rng: &mut Rng| rng.once_in(2).then(|| plan(rng, dtype, &shape[axis..]));
    Op::Norm(Norm {
        kind: rng.pick(&[NormKind::Layer, NormKind::Rms]),
        src: plan(rng, dtype, &shape),
        dst: plan(rng, dtype, &shape),
        scale: affine(rng),
        bias: affine(rng),
        axis,
        epsilon: 1e-3,
    })
}

fn matmul(rng: &mut Rng) -> Op<Plan> {
    use Activation::*;
    let is_integer = rng.once_in(5);
    let (dtype, to) = match is_integer {
        true => (rng.pick(&[DType::I8, DType::U8]), DType::I32),
        false => {
            let dtype = rng.pick(&FLOATS);
            (dtype, dtype)
        }
    };
    let mut size = || match rng.once_in(4) {
        true => rng.between(33, 200),
        false => rng.between(1, 32),
    };
    let (m, n, k) = (size(), size(), size());
    let batch: Vec<usize> = (0..rng.below(3)).map(|_| rng.between(1, 4)).collect();
    let of = |rng: &mut Rng, rows, columns| {
        // One of them may lack the batch; if both did, the product would lack it, too.
        let batch = if rng.once_in(3) { &[][..] } else { &batch };
        [batch, &[rows, columns]].concat()
    };
    let a = [&batch[..], &[m, k]].concat();
    let (b, out) = (of(rng, k, n), [&batch[..], &[m, n]].concat());
    let bias = rng.broadcasting(&out);
    Op::MatMul(MatMul {
        a: plan(rng, dtype, &a),
        b: plan(rng, dtype, &b),
        bias: rng.once_in(2).then(|| plan(rng, to, &bias)),
        out: plan(rng, to, &out),
        activation: match is_integer {
            true => None,
            false => rng.pick(&[None, Relu, Gelu, GeluTanh, Silu, Sigmoid, Tanh]),
        },
        alpha: if is_integer || rng.once_in(2) {
            1.0
        } else {
            0.5
        },
    })
}
