//! Whether an op's operands fit together: the check every device makes at its door.

use crate::aliases::groups_apart;
use crate::check::{
    axis_of, broadcasts, dtype, float, invalid, require, same_view, shape, single, steps, writable,
};
use crate::{
    Access, Axes, DType, Dims, Expr, MAX_RANK, MatMul, Norm, Op, OpKind, ReduceKind, Result, Span,
    View,
};

impl Op<View> {
    /// Checks shapes, types and parameters; the error names the argument and what would be right.
    ///
    /// Devices call it at the start of [`Queue::encode`](crate::Queue::encode); kernels rely on it.
    pub fn validate(&self) -> Result<()> {
        self.check_operands()?;
        self.check_aliases()
    }

    fn check_operands(&self) -> Result<()> {
        let kind = self.kind();
        match self {
            Op::Nop => Ok(()),
            Op::Copy { src, dst } => {
                writable(kind, "dst", dst)?;
                shape(kind, "dst", dst.shape(), src.shape())
            }
            Op::Fill { dst, .. } => writable(kind, "dst", dst),
            Op::Iota { dst, .. } => {
                writable(kind, "dst", dst)?;
                require(
                    kind,
                    "dst",
                    dst.dtype() != DType::Bool,
                    dst.dtype(),
                    "a number type",
                )
            }
            Op::Map {
                expr,
                inputs,
                outputs,
            } => map(expr, inputs, outputs),
            Op::Reduce {
                kind: reduce,
                src,
                dst,
                axes,
            } => self::reduce(*reduce, src, dst, *axes),
            Op::Softmax { src, dst, axis, .. } => {
                writable(kind, "dst", dst)?;
                float(kind, "src", src)?;
                same_view(kind, "dst", dst, src)?;
                axis_of(kind, *axis, src)
            }
            Op::Norm(op) => norm(op),
            Op::MatMul(op) => matmul(op),
            Op::Attention(op) => op.check(),
            Op::Conv(op) => op.check(),
            Op::Pool(op) => op.check(),
            Op::Resize(op) => op.check(),
            Op::Regions(op) => op.check(),
            Op::Gather(op) => op.check(),
            Op::Scatter(op) => op.check(),
            Op::Scan(op) => op.check(),
            Op::Sort(op) => op.check(),
            Op::Random(op) => op.check(),
            Op::Rnn(op) => op.check(),
            Op::Linalg(op) => op.check(),
            Op::Histogram(op) => op.check(),
            Op::NonZero(op) => op.check(),
            Op::Trees(op) => op.check(),
        }
    }

    /// Calls `f` with each operand's name, how it is touched, and the operand.
    pub fn for_each_operand<'a>(&'a self, mut f: impl FnMut(&'static str, Access, &'a View)) {
        use Access::{Read, Write};
        match self {
            Op::Copy { src, dst } | Op::Reduce { src, dst, .. } | Op::Softmax { src, dst, .. } => {
                f("src", Read, src);
                f("dst", Write, dst);
            }
            Op::Fill { dst, .. } | Op::Iota { dst, .. } => f("dst", Write, dst),
            Op::Map {
                inputs, outputs, ..
            } => {
                inputs.iter().for_each(|input| f("input", Read, input));
                outputs.iter().for_each(|output| f("output", Write, output));
            }
            Op::Norm(op) => {
                f("src", Read, &op.src);
                op.added.iter().for_each(|added| f("added", Read, added));
                op.sum.iter().for_each(|sum| f("sum", Write, sum));
                op.scale.iter().for_each(|scale| f("scale", Read, scale));
                op.bias.iter().for_each(|bias| f("bias", Read, bias));
                f("dst", Write, &op.dst);
            }
            Op::MatMul(op) => {
                f("a", Read, &op.a);
                f("b", Read, &op.b);
                op.bias.iter().for_each(|bias| f("bias", Read, bias));
                f("out", Write, &op.out);
            }
            _ => {
                let named = self.try_map(|argument, access, operand| {
                    f(argument, access, operand);
                    Ok::<(), std::convert::Infallible>(())
                });
                debug_assert!(named.is_ok());
            }
        }
    }

    /// Checks that no operand that is written shares memory with another, save as [`Op`] allows.
    fn check_aliases(&self) -> Result<()> {
        if let Op::Map {
            expr,
            inputs,
            outputs,
        } = self
            && outputs.len() > expr.outputs().len()
        {
            return groups_apart(expr, inputs, outputs);
        }
        let in_place = |argument| match self {
            Op::Map { .. } | Op::Softmax { .. } | Op::Norm(_) => true,
            Op::Scatter(_) => argument == "src",
            _ => false,
        };
        let mut outcome = Ok(());
        self.for_each_operand(|argument, access, written| {
            if access == Access::Read {
                return;
            }
            self.for_each_operand(|other_argument, other_access, other| {
                let allowed =
                    in_place(other_argument) && other_access == Access::Read && other == written;
                if !std::ptr::eq(written, other) && overlap(written, other) && !allowed {
                    outcome = Err(invalid(
                        self.kind(),
                        argument,
                        format_args!("in memory that {other_argument} is in, too"),
                        "in memory of its own",
                    ));
                }
            });
        });
        outcome
    }
}

fn overlap(a: &View, b: &View) -> bool {
    let meet = |a: Span, b: Span| {
        let (begin, end) = (a.offset.max(b.offset), a.end().min(b.end()));
        a.handle == b.handle && (begin as u128) < end
    };
    // Mostly each has a span of its own, and what it reaches of that does not matter.
    meet(a.span(), b.span()) && matches!((a.reach(), b.reach()), (Some(a), Some(b)) if meet(a, b))
}

fn map(expr: &Expr, inputs: &[View], outputs: &[View]) -> Result<()> {
    let op = OpKind::Map;
    let (reads, writes) = (expr.inputs().len(), expr.outputs().len());
    let groups = outputs.len() / writes;
    require(
        op,
        "outputs",
        groups > 0 && outputs.len() == groups * writes,
        outputs.len(),
        format_args!("{writes} operands, or a multiple of that"),
    )?;
    require(
        op,
        "inputs",
        inputs.len() == groups * reads,
        inputs.len(),
        format_args!("{} operands", groups * reads),
    )?;
    for (group, outputs) in outputs.chunks_exact(writes).enumerate() {
        let target = &outputs[0];
        for (output, &value) in outputs.iter().zip(expr.outputs()) {
            writable(op, "output", output)?;
            shape(op, "output", output.shape(), target.shape())?;
            dtype(op, "output", output.dtype(), expr.dtype(value))?;
        }
        for (input, &wanted) in inputs[group * reads..].iter().zip(expr.inputs()) {
            dtype(op, "input", input.dtype(), wanted)?;
            broadcasts(op, "input", input, target.shape())?;
        }
    }
    Ok(())
}

fn reduce(kind: ReduceKind, src: &View, dst: &View, axes: Axes) -> Result<()> {
    let op = OpKind::Reduce;
    writable(op, "dst", dst)?;
    for axis in axes.iter() {
        axis_of(op, axis, src)?;
    }
    let mut expected = Dims::new(src.shape())?;
    for axis in axes.iter() {
        expected[axis] = 1;
    }
    shape(op, "dst", dst.shape(), &expected)?;
    let reduced: usize = axes.iter().map(|axis| src.shape()[axis]).product();
    let source = src.dtype();
    let (fits, wanted) = match kind {
        ReduceKind::Mean => (source.is_float(), "a float type"),
        ReduceKind::Any | ReduceKind::All => (source == DType::Bool, "bool"),
        _ => (source != DType::Bool, "a number type"),
    };
    require(op, "src", fits, format_args!("of type {source}"), wanted)?;
    match kind {
        ReduceKind::ArgMax | ReduceKind::ArgMin => {
            let count = axes.iter().count();
            require(
                op,
                "axes",
                count == 1,
                format_args!("{count} axes"),
                "one axis",
            )?;
            dtype(op, "dst", dst.dtype(), DType::I64)?;
        }
        _ => dtype(op, "dst", dst.dtype(), source)?,
    }
    let needs_one = matches!(
        kind,
        ReduceKind::Max | ReduceKind::Min | ReduceKind::ArgMax | ReduceKind::ArgMin
    );
    require(
        op,
        "src",
        !(needs_one && reduced == 0 && dst.layout().elements() > 0),
        format_args!("of shape {:?}, with nothing to reduce", src.shape()),
        "at least one element along the axes",
    )
}

fn norm(op: &Norm) -> Result<()> {
    let kind = OpKind::Norm;
    writable(kind, "dst", &op.dst)?;
    float(kind, "src", &op.src)?;
    same_view(kind, "dst", &op.dst, &op.src)?;
    axis_of(kind, op.axis, &op.src)?;
    for (argument, view) in [("added", &op.added), ("sum", &op.sum)] {
        let Some(view) = view else { continue };
        same_view(kind, argument, view, &op.src)?;
        let (strides, wanted) = (view.layout().strides(), op.src.layout().strides());
        require(
            kind,
            argument,
            strides == wanted,
            format_args!("with strides {strides:?}"),
            format_args!("{wanted:?}, as `src` has"),
        )?;
    }
    if let Some(sum) = &op.sum {
        writable(kind, "sum", sum)?;
    }
    let normalised = &op.src.shape()[op.axis..];
    for (argument, operand) in [("scale", &op.scale), ("bias", &op.bias)] {
        if let Some(operand) = operand {
            shape(kind, argument, operand.shape(), normalised)?;
            dtype(kind, argument, operand.dtype(), op.src.dtype())?;
        }
    }
    require(
        kind,
        "epsilon",
        op.epsilon >= 0.0 && op.epsilon.is_finite(),
        op.epsilon,
        "finite and not negative",
    )
}

fn matmul(op: &MatMul) -> Result<()> {
    let kind = OpKind::MatMul;
    writable(kind, "out", &op.out)?;
    let expected = match op.a.dtype() {
        DType::I8 | DType::U8 => DType::I32,
        other if !other.is_float() => {
            return Err(invalid(
                kind,
                "a",
                format_args!("of type {}", op.a.dtype()),
                "a float type, i8 or u8",
            ));
        }
        float => float,
    };
    dtype(kind, "b", op.b.dtype(), op.a.dtype())?;
    dtype(kind, "out", op.out.dtype(), expected)?;
    for (argument, view) in [("a", &op.a), ("b", &op.b), ("out", &op.out)] {
        let rank = view.layout().rank();
        require(
            kind,
            argument,
            rank >= 2,
            format_args!("of rank {rank}"),
            "at least rank 2",
        )?;
    }
    let (a_batch, a) = op.a.shape().split_at(op.a.shape().len() - 2);
    let (b_batch, b) = op.b.shape().split_at(op.b.shape().len() - 2);
    if a[1] != b[0] {
        return Err(invalid(
            kind,
            "b",
            format_args!("of shape {:?}", op.b.shape()),
            format_args!("{} rows, as many as a {:?} has columns", a[1], op.a.shape()),
        ));
    }
    let rank = a_batch.len().max(b_batch.len());
    let mut product = Dims::new(&[1; MAX_RANK][..rank + 2])?;
    for shape in [a_batch, b_batch] {
        for (size, &wanted) in product[rank - shape.len()..].iter_mut().zip(shape) {
            if *size != wanted && *size != 1 && wanted != 1 {
                return Err(invalid(
                    kind,
                    "b",
                    format_args!("of shape {:?}", op.b.shape()),
                    format_args!(
                        "leading dimensions that broadcast with those of {:?}",
                        op.a.shape()
                    ),
                ));
            }
            if *size == 1 {
                *size = wanted;
            }
        }
    }
    product[rank..].copy_from_slice(&[a[0], b[1]]);
    shape(kind, "out", op.out.shape(), &product)?;
    steps(kind, "a", [op.out.layout().elements(), a[1]])?;
    if let Some(bias) = &op.bias {
        dtype(kind, "bias", bias.dtype(), op.out.dtype())?;
        broadcasts(kind, "bias", bias, op.out.shape())?;
    }
    single(kind, "alpha", op.alpha, op.a.dtype())?;
    let epilogue = op.activation != crate::Activation::None || op.alpha != 1.0;
    require(
        kind,
        "activation",
        !(expected == DType::I32 && epilogue),
        format_args!("{:?} with alpha {}", op.activation, op.alpha),
        "none, and alpha 1, for an integer product",
    )
}
