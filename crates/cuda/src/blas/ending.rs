//! What follows the sum of products: what the library applies itself, and what a kernel of ours does after it.

use std::sync::Arc;

use streampool_device::{
    Activation, Binary, DType, Expr, ExprBuilder, MatMul, Op, Result, Unary, Value, View,
};
use streampool_kernels::scratch;

use super::key::Ending;

/// The most bytes of scratch memory that a result waits in for what follows.
const MOST_WAITING: usize = 64 << 20;

/// A way to execute a product.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Way {
    /// What the library applies.
    pub ending: Ending,
    /// Whether its result waits in scratch memory for the rest; else it goes to the op's own place.
    pub waits: bool,
}

/// The ways to execute `op`, the best first; the same one may come twice. `fits` tells whether the library
/// can add its bias.
pub(super) fn ways(op: &MatMul, fits: bool) -> [Way; 3] {
    // Of doubles the library only makes products.
    let helps = op.out.dtype() != DType::F64;
    let bias = helps && fits && op.bias.is_some();
    let applies = helps && Ending::is_known(op.activation) && bias == op.bias.is_some();
    let activation = match applies {
        true => op.activation,
        false => Activation::None,
    };
    let only_bias = Ending {
        bias,
        ..Ending::PLAIN
    };
    [Ending { bias, activation }, only_bias, Ending::PLAIN].map(|ending| {
        let waits = overflows_between(op, ending)
            || blurs_between(op, ending) && waiting_room(op).is_some();
        Way {
            ending: if waits { Ending::PLAIN } else { ending },
            waits,
        }
    })
}

impl Way {
    /// Where the library's result goes; `None` if it would have to wait in too much scratch memory.
    pub fn target(&self, op: &MatMul) -> Option<View> {
        match self.waits {
            true => waiting_room(op),
            false => Some(op.out),
        }
    }

    /// Whether nothing is left to do after the library.
    pub fn is_all_of(&self, op: &MatMul) -> bool {
        !self.waits
            && self.ending.bias == op.bias.is_some()
            && self.ending.activation == op.activation
    }
}

/// Whether a sum beyond the range of the result's type could become one within by the bias that is left to add. `bf16`
/// has the range of `f32`. No activation brings a sum back that is beyond the range on the side where it grows.
fn overflows_between(op: &MatMul, ending: Ending) -> bool {
    op.out.dtype() == DType::F16 && op.bias.is_some() != ending.bias
}

/// Whether the activation that is left makes more of the rounding of its argument than of its own. It waits for it where
/// there is room; where there is not, it is rounded twice, as `bf16` is.
fn blurs_between(op: &MatMul, ending: Ending) -> bool {
    use Activation::{Gelu, GeluTanh, HardSwish, Silu};
    op.out.dtype() == DType::F16
        && ending.activation != op.activation
        && matches!(op.activation, Gelu | GeluTanh | HardSwish | Silu)
}

/// Room for the whole result as `f32` in scratch memory.
fn waiting_room(op: &MatMul) -> Option<View> {
    scratch::in_scratch(0, DType::F32, op.out.shape())
        .filter(|room| room.span().bytes <= MOST_WAITING)
}

/// What is left to do after the library put its part into `target`.
pub(super) fn rest(op: &MatMul, way: &Way, target: &View) -> Result<Op> {
    let bias = op.bias.filter(|_| !way.ending.bias);
    let activation = match way.ending.activation == op.activation {
        true => Activation::None,
        false => op.activation,
    };
    after_product(target, bias, activation, &op.out)
}

/// `out = activation(sum + bias)`, the bias broadcast.
pub(crate) fn after_product(
    sum: &View,
    bias: Option<View>,
    activation: Activation,
    out: &View,
) -> Result<Op> {
    let stored = out.dtype();
    let computed = match stored {
        DType::F64 => DType::F64,
        _ => DType::F32,
    };
    let mut expr = Expr::builder();
    let element = expr.input(sum.dtype())?;
    let mut value = expr.cast(element, computed)?;
    if bias.is_some() {
        let bias = expr.input(stored)?;
        let bias = expr.cast(bias, computed)?;
        value = expr.binary(Binary::Add, value, bias)?;
    }
    let value = activated(&mut expr, activation, value, computed)?;
    let value = expr.cast(value, stored)?;
    Ok(Op::Map {
        expr: Arc::new(expr.finish(&[value])?),
        inputs: std::iter::once(*sum).chain(bias).collect(),
        outputs: vec![*out],
    })
}

/// The activation of a value of this type.
fn activated(
    expr: &mut ExprBuilder,
    activation: Activation,
    value: Value,
    dtype: DType,
) -> Result<Value> {
    let function = match activation {
        Activation::None => return Ok(value),
        Activation::Relu => Unary::Relu,
        Activation::Gelu => Unary::Gelu,
        Activation::GeluTanh => Unary::GeluTanh,
        Activation::Silu => Unary::Silu,
        Activation::Sigmoid => Unary::Sigmoid,
        Activation::Tanh => Unary::Tanh,
        Activation::HardSwish => {
            let mut gate = value;
            for (function, number) in [
                (Binary::Mul, 1.0 / 6.0),
                (Binary::Add, 0.5),
                (Binary::Max, 0.0),
                (Binary::Min, 1.0),
            ] {
                let number = expr.constant(number, dtype)?;
                gate = expr.binary(function, gate, number)?;
            }
            return expr.binary(Binary::Mul, value, gate);
        }
    };
    expr.unary(function, value)
}

#[cfg(test)]
mod tests {
    use streampool_device::{Layout, Span};
    use streampool_kernels::scratch::SCRATCH;

    use super::*;

    fn product(dtype: DType, bias: bool, activation: Activation, rows: usize) -> MatMul {
        let view = |handle: u64, shape: &[usize]| {
            let span = Span {
                handle,
                offset: 0,
                bytes: 1 << 40,
            };
            View::new(span, dtype, Layout::contiguous(shape).unwrap()).unwrap()
        };
        MatMul {
            a: view(1, &[rows, 32]),
            b: view(2, &[32, 1024]),
            out: view(3, &[rows, 1024]),
            bias: bias.then(|| view(4, &[1024])),
            activation,
            alpha: 1.0,
        }
    }

    fn endings(op: &MatMul, fits: bool) -> [(bool, Activation); 3] {
        ways(op, fits).map(|way| (way.ending.bias, way.ending.activation))
    }

    fn left(op: &MatMul, way: &Way) -> Op {
        let rest = rest(op, way, &way.target(op).unwrap()).unwrap();
        rest.validate().unwrap();
        rest
    }

    #[test]
    fn what_the_library_knows_is_left_to_it() {
        use Activation::{GeluTanh, None, Relu};
        for activation in [Relu, GeluTanh] {
            let op = product(DType::F32, true, activation, 64);
            let expected = [(true, activation), (true, None), (false, None)];
            assert_eq!(endings(&op, true), expected);
            assert!(ways(&op, true)[0].is_all_of(&op));
            assert!(!ways(&op, true)[1].is_all_of(&op));
        }
        let op = product(DType::F32, false, None, 64);
        assert_eq!(endings(&op, false), [(false, None); 3]);
    }

    #[test]
    fn an_activation_comes_after_the_bias() {
        let op = product(DType::F32, true, Activation::Relu, 64);
        assert_eq!(endings(&op, false), [(false, Activation::None); 3]);
    }

    #[test]
    fn doubles_are_only_multiplied() {
        let op = product(DType::F64, true, Activation::Relu, 64);
        assert_eq!(endings(&op, true), [(false, Activation::None); 3]);
    }

    #[test]
    fn what_is_left_is_done_in_place_and_is_valid() {
        for dtype in [DType::F32, DType::BF16, DType::F64] {
            for bias in [false, true] {
                let op = product(dtype, bias, Activation::Silu, 64);
                let way = ways(&op, false)[2];
                assert!(!way.is_all_of(&op));
                let Op::Map {
                    inputs, outputs, ..
                } = left(&op, &way)
                else {
                    panic!("it is not a map")
                };
                assert_eq!((inputs[0], outputs[0]), (op.out, op.out));
                assert_eq!(inputs.len(), 1 + usize::from(bias));
            }
        }
    }

    #[test]
    fn sums_beyond_half_precision_wait_in_scratch_memory() {
        let waits = |activation, bias, fits| {
            let op = product(DType::F16, bias, activation, 64);
            let best = ways(&op, fits)[0];
            let stored = best.target(&op).unwrap().span().handle;
            assert_eq!(stored == SCRATCH, best.waits);
            assert!(best.is_all_of(&op) || matches!(left(&op, &best), Op::Map { .. }));
            best.waits
        };
        assert!(waits(Activation::Silu, false, false));
        assert!(waits(Activation::Gelu, true, true));
        assert!(waits(Activation::None, true, false));
        assert!(!waits(Activation::Sigmoid, false, false));
        assert!(!waits(Activation::None, true, true));
        let large = product(DType::F16, true, Activation::Silu, 1 << 20);
        assert_eq!(ways(&large, false)[0].target(&large), None);
        assert!(!ways(&large, true)[0].waits && ways(&large, true)[0].ending.bias);
    }
}
