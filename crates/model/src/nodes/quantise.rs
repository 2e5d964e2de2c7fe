//! Numbers in fewer bits, and products of those.

use streampool_tensor::{Activation, ConvOptions, DType, Other, Scalar, Tensor};

use super::call::{Call, Operator, Outputs, resolve};
use super::conv::{convolved, convolved_with};
use crate::error::NodeError;
use crate::onnx;

pub fn operator(op: &str) -> Option<Operator> {
    Some(match op {
        "QuantizeLinear" => quantize,
        "DequantizeLinear" => dequantize,
        "DynamicQuantizeLinear" => dynamic_quantize,
        "MatMulInteger" => |call| {
            let left = (call.input(0)?, call.optional(2)?);
            Ok(vec![integer_product(call, left, (1, 3))?])
        },
        "ConvInteger" => |call| {
            Ok(vec![
                integer_conv(call, (0, 2), (1, 3))?.to_dtype(DType::I32)?,
            ])
        },
        "QLinearMatMul" => qlinear_matmul,
        "QLinearConv" => qlinear_conv,
        _ => return None,
    })
}

/// `values` of one axis, seen so that they lie along `axis` of `rank`; a single one fits anywhere.
pub fn along(values: &Tensor, axis: usize, rank: usize) -> Result<Tensor, NodeError> {
    if values.elem_count() == 1 {
        return Ok(values.reshape::<usize>(&[])?);
    }
    let mut shape = vec![1; rank];
    if let Some(size) = shape.get_mut(axis) {
        *size = values.elem_count();
    }
    Ok(values.reshape(&shape)?)
}

/// One factor of a product of integers.
struct Factor {
    /// As `i8`: what is `u8` less 128.
    values: Tensor,
    /// What is to be taken from each value, as `i32`, if it is not zero.
    zero: Option<Tensor>,
    /// The sums of the values over the axis that the product sums over, as `i32`.
    sums: Tensor,
}

impl Factor {
    /// `summed` is the axis that the product sums over, `other` the other one of a matrix. Both tensors are in one place.
    fn new(
        x: &Tensor,
        zero: Option<&Tensor>,
        [summed, other]: [isize; 2],
    ) -> Result<Factor, NodeError> {
        let (values, moved) = match x.dtype() {
            DType::I8 => (x.clone(), 0),
            DType::U8 => (x.bitwise_xor(128)?.bit_cast(DType::I8)?, 128),
            other => return Err(NodeError::unsupported(format_args!("a product of {other}"))),
        };
        let zero = match zero {
            Some(zero) => {
                let zero = match zero.rank() {
                    0 | 1 => along(zero, resolve(other, x.rank())?, x.rank())?,
                    _ => zero.clone(),
                };
                Some(zero.to_dtype(DType::I32)?.sub(moved)?)
            }
            None if moved == 0 => None,
            None => Some(Tensor::full(x.pool(), &[], -moved, DType::I32)?),
        };
        let sums = values.to_dtype(DType::I32)?.sum(&[summed], true)?;
        Ok(Factor { values, zero, sums })
    }

    /// As [`new`](Self::new) of inputs; what is known of them is computed once.
    fn of(
        call: &Call<'_>,
        (place, zero): (usize, usize),
        axes: [isize; 2],
    ) -> Result<Factor, NodeError> {
        let [Some(x), zero] = call.beside([place, zero])? else {
            return Err(NodeError::malformed(
                format_args!("input {place}"),
                "left out",
                "a tensor",
            ));
        };
        let mut factor = Factor::new(x, zero, axes)?;
        if let Some(zero) = factor.zero.take_if(|zero| zero.pool() == call.known_pool()) {
            let values = zero.to_vec::<i32>()?;
            factor.zero = values.iter().any(|&value| value != 0).then_some(zero);
        }
        Ok(Factor {
            values: call.lift(&factor.values)?,
            zero: factor.zero.map(|zero| call.lift(&zero)).transpose()?,
            sums: call.lift(&factor.sums)?,
        })
    }
}

/// The product of integer matrices, each less its zero point, exactly, as `i32`: of `left` and its zero point, and of the
/// inputs `right`.
pub fn integer_product(
    call: &Call<'_>,
    (left, zero): (&Tensor, Option<&Tensor>),
    right: (usize, usize),
) -> Result<Tensor, NodeError> {
    if left.rank() < 2 || call.given(right.0)?.rank() < 2 {
        // Of a vector there is little to multiply.
        let a = less_zero(left, zero, -1)?;
        let b = less_zero(call.input(right.0)?, call.optional(right.1)?, -1)?;
        return Ok(a.matmul(&b)?.to_dtype(DType::I32)?);
    }
    let a = Factor::new(left, zero, [-1, -2])?;
    let b = Factor::of(call, right, [-2, -1])?;
    let mut product = a.values.matmul(&b.values)?;
    if let Some(zero) = &a.zero {
        product = product.sub(&b.sums.mul(zero)?)?;
    }
    if let Some(zero) = &b.zero {
        product = product.sub(&a.sums.mul(zero)?)?;
    }
    if let (Some(first), Some(second)) = (&a.zero, &b.zero) {
        let count = i64::try_from(left.dim(-1)?).unwrap_or(i64::MAX);
        product = product.add(&first.mul(second)?.mul(count)?)?;
    }
    Ok(product)
}

/// A tensor less its zero point, in `f64`, where sums of products of bytes are exact.
fn less_zero(x: &Tensor, zero: Option<&Tensor>, axis: isize) -> Result<Tensor, NodeError> {
    less_zero_as(x, zero, axis, DType::F64)
}

fn less_zero_as(
    x: &Tensor,
    zero: Option<&Tensor>,
    axis: isize,
    dtype: DType,
) -> Result<Tensor, NodeError> {
    let wide = x.to_dtype(dtype)?;
    let Some(zero) = zero else {
        return Ok(wide);
    };
    let zero = match zero.rank() {
        0 | 1 => along(zero, resolve(axis, x.rank())?, x.rank())?,
        _ => zero.clone(),
    };
    Ok(wide.sub(&zero.to_dtype(dtype)?)?)
}

/// The convolution of integers, each less its zero point, exactly, as floats or `i32`: of inputs and their zero points.
fn integer_conv(
    call: &Call<'_>,
    x: (usize, usize),
    weight: (usize, usize),
) -> Result<Tensor, NodeError> {
    if let Some(sums) = conv_as_bytes(call, x, weight)? {
        return Ok(sums);
    }
    let window: usize = call.given(weight.0)?.shape().iter().skip(1).product();
    // As long as sums are below 2^24, `f32` is exact.
    let dtype = if window <= (1 << 24) / (255 * 255) {
        DType::F32
    } else {
        DType::F64
    };
    let operand = |(place, zero): (usize, usize), axis| -> Result<Tensor, NodeError> {
        let [Some(values), zero] = call.beside([place, zero])? else {
            return Err(NodeError::malformed(
                format_args!("input {place}"),
                "left out",
                "a tensor",
            ));
        };
        call.lift(&less_zero_as(values, zero, axis, dtype)?)
    };
    convolved(call, &operand(x, 1)?, &operand(weight, 0)?, None)
}

/// As [`integer_conv`] on a device that takes bytes without sign and weights with one, if all that is known is so.
fn conv_as_bytes(
    call: &Call<'_>,
    (x, zero): (usize, usize),
    (weight, weight_zero): (usize, usize),
) -> Result<Option<Tensor>, NodeError> {
    let (x, weight) = (call.input(x)?, call.given(weight)?);
    let is_of_bytes = [x.dtype(), weight.dtype()] == [DType::U8, DType::I8];
    if !takes_bytes(call) || !is_of_bytes || !(3..=4).contains(&x.rank()) {
        return Ok(None);
    }
    let zero_point = match call.number(zero)? {
        Some(zero) => zero.to_i64() as u8,
        None if !call.has_input(zero) => 0,
        None => return Ok(None),
    };
    if call.has_input(weight_zero) {
        let zeros = call.given(weight_zero)?;
        let zeros = (zeros.pool() == call.known_pool()).then(|| zeros.to_vec::<i8>());
        if !zeros
            .transpose()?
            .is_some_and(|zeros| zeros.iter().all(|&zero| zero == 0))
        {
            return Ok(None);
        }
    }
    let options = ConvOptions {
        zero_point,
        ..ConvOptions::default()
    };
    let sums = convolved_with(call, x, &call.lift(weight)?, &options)?;
    Ok(Some(sums))
}

/// Whether the device has convolutions of bytes.
fn takes_bytes(call: &Call<'_>) -> bool {
    let wanted = call.pool().device().channels_last();
    wanted.dtypes.contains(&DType::U8)
}

fn qlinear_matmul(call: &Call<'_>) -> Outputs {
    let left = (call.input(0)?, call.optional(2)?);
    let product = integer_product(call, left, (3, 5))?.to_dtype(DType::F64)?;
    let scale = |place: usize, axis: isize| -> Result<Tensor, NodeError> {
        let (scale, rank) = (call.input(place)?, product.rank());
        let scale = match scale.rank() {
            0 | 1 if rank > 1 => along(scale, resolve(axis, rank)?, rank)?,
            _ => scale.clone(),
        };
        Ok(scale.to_dtype(DType::F64)?)
    };
    let product = product.mul(&scale(1, -2)?)?.mul(&scale(4, -1)?)?;
    requantized(call, &product, 6)
}

fn qlinear_conv(call: &Call<'_>) -> Outputs {
    let mut sums = integer_conv(call, (0, 2), (3, 5))?.to_dtype(DType::F64)?;
    let rank = sums.rank();
    if let Some(bias) = call.optional(8)? {
        sums = sums.add(&along(bias, 1, rank)?.to_dtype(DType::F64)?)?;
    }
    let scale = call
        .input(1)?
        .to_dtype(DType::F64)?
        .mul(&call.input(4)?.to_dtype(DType::F64)?)?;
    requantized(call, &sums.mul(&along(&scale, 1, rank)?)?, 6)
}

/// A result in the scale and with the zero point of inputs `scale` and the one after it.
fn requantized(call: &Call<'_>, y: &Tensor, scale: usize) -> Outputs {
    let (scale, zero) = (call.input(scale)?, call.input(scale + 1)?);
    let scale = along(scale, 0, 0)?.to_dtype(y.dtype())?;
    Ok(vec![rounded(
        &y.div(&scale)?,
        &along(zero, 0, 0)?,
        zero.dtype(),
    )?])
}

/// The nearest integers, plus the zero point, in the range of `dtype`.
pub fn rounded(scaled: &Tensor, zero: &Tensor, dtype: DType) -> Result<Tensor, NodeError> {
    rounded_from(scaled, Amount::Each(zero.to_dtype(DType::F32)?), dtype)
}

/// As [`rounded`], with a zero point of `f32`.
fn rounded_from(scaled: &Tensor, zero: Amount, dtype: DType) -> Result<Tensor, NodeError> {
    if !matches!(dtype, DType::I8 | DType::U8 | DType::I16 | DType::U16) {
        return Err(NodeError::unsupported(format_args!("a quantised {dtype}")));
    }
    let moved = scaled.round()?.to_dtype(DType::F32)?.add(&zero)?;
    // Beyond the range it is what is nearest.
    Ok(moved.to_dtype(dtype)?)
}

/// A scale or a zero point.
enum Amount {
    /// One that is known when the model is loaded: part of the elementwise op.
    One(Scalar),
    /// Some, spread over the elements that share them.
    Each(Tensor),
}

impl<'a> From<&'a Amount> for Other<'a> {
    fn from(amount: &'a Amount) -> Self {
        match amount {
            Amount::One(number) => (*number).into(),
            Amount::Each(tensor) => tensor.into(),
        }
    }
}

impl Amount {
    /// The scales or zero points of an input for the elements of `x`, in the type in which they are used.
    fn of(call: &Call<'_>, place: usize, x: &Tensor, dtype: DType) -> Result<Amount, NodeError> {
        match call.number(place)?.filter(|_| !call.has("block_size")) {
            Some(number) => Ok(Amount::One(number)),
            None => Ok(Amount::Each(
                spread(call, call.input(place)?, x)?.to_dtype(dtype)?,
            )),
        }
    }
}

/// Scales or zero points, spread over the elements of `x` that share them.
fn spread(call: &Call<'_>, values: &Tensor, x: &Tensor) -> Result<Tensor, NodeError> {
    let block = call.size_or("block_size", 0)?;
    if values.elem_count() == 1 && block == 0 {
        return along(values, 0, 0);
    }
    let axis = resolve(call.axis_or("axis", 1)?, x.rank())?;
    if block == 0 {
        return along(values, axis, x.rank());
    }
    let (size, count) = (x.shape()[axis], values.dim(axis as isize)?);
    if count != size.div_ceil(block) {
        let expected = format!("{}, for blocks of {block} of {size}", size.div_ceil(block));
        return Err(NodeError::malformed(
            "the number of scales",
            count,
            expected,
        ));
    }
    // More than there are would be cut off.
    let blocks = values.repeat_interleave(block.min(size), axis as isize)?;
    Ok(blocks.narrow(axis as isize, 0, x.shape()[axis])?)
}

/// The type of floats that an attribute names; zero is none.
fn float_named(call: &Call<'_>, name: &str) -> Result<Option<DType>, NodeError> {
    let named = call.attr_int(name)?.filter(|&code| code != 0);
    match named.map(onnx::dtype).transpose()? {
        Some(dtype) if !dtype.is_float() => {
            let what = format_args!("attribute {name}");
            Err(NodeError::malformed(what, dtype, "a type of floats"))
        }
        named => Ok(named),
    }
}

fn quantize(call: &Call<'_>) -> Outputs {
    float_named(call, "precision")?;
    let scale = call.input(1)?;
    // Integers are quantised as floats.
    let x = &match call.input(0)? {
        x if x.dtype().is_float() => x.clone(),
        x => x.to_dtype(scale.dtype())?,
    };
    let zero = call.optional(2)?;
    if let Some(small) = call.attr_small("output_dtype")? {
        let zero = zero.map(|zero| spread(call, zero, x)).transpose()?;
        let scale = spread(call, scale, x)?.to_dtype(x.dtype())?;
        let is_saturated = call.int_or("saturate", 1)? != 0;
        let y = small.quantised(&x.div(&scale)?, zero.as_ref(), is_saturated)?;
        return Ok(vec![y]);
    }
    let named = call.attr_dtype("output_dtype")?;
    let dtype = zero.map(Tensor::dtype).or(named).unwrap_or(DType::U8);
    let zero = match zero {
        Some(_) => Amount::of(call, 2, x, DType::F32)?,
        None => Amount::One(Scalar::Int(0)),
    };
    let scale = Amount::of(call, 1, x, x.dtype())?;
    Ok(vec![rounded_from(&x.div(&scale)?, zero, dtype)?])
}

fn dequantize(call: &Call<'_>) -> Outputs {
    let dtype = float_named(call, "output_dtype")?;
    let dtype = dtype.map_or_else(|| Ok(call.input(1)?.dtype()), Ok::<_, NodeError>)?;
    Ok(vec![dequantized(call)?.to_dtype(dtype)?])
}

/// The first input as the `f32` that it stands for, by the two after it.
fn dequantized(call: &Call<'_>) -> Result<Tensor, NodeError> {
    let x = call.input(0)?;
    let mut whole = x.to_dtype(DType::F32)?;
    if call.has_input(2) {
        whole = whole.sub(&Amount::of(call, 2, x, DType::F32)?)?;
    }
    Ok(whole.mul(&Amount::of(call, 1, x, DType::F32)?)?)
}

/// A convolution of bytes, as the floats that they stand for: of the input with its scale and zero point, and weights with the scales of
/// their channels. It is quantised if there are a scale and a zero point for that.
pub fn conv_of_bytes(call: &Call<'_>) -> Outputs {
    of_bytes(call, false)
}

/// As [`conv_of_bytes`], a product with a matrix.
pub fn linear_of_bytes(call: &Call<'_>) -> Outputs {
    of_bytes(call, true)
}

fn of_bytes(call: &Call<'_>, is_linear: bool) -> Outputs {
    let [Some(weight), Some(scales), bias] = call.beside([3, 4, 5])? else {
        return Err(NodeError::malformed("the weights", "left out", "a tensor"));
    };
    let weight = &match is_linear && !call.flag_or("transB", false)? {
        true => weight.transpose(0, 1)?,
        false => weight.clone(),
    };
    let quantised_by = call.number(6)?;
    let is_known =
        weight.pool() == call.known_pool() && quantised_by.is_some() == call.has_input(6);
    let made = weight.dim(0)?;
    let (Some(scale), Some(zero), true) = (
        call.number(1)?,
        call.number(2)?,
        takes_bytes(call) && is_known,
    ) else {
        let scales = along(scales, 0, weight.rank())?;
        let weight = call.lift(&weight.to_dtype(DType::F32)?.mul(&scales)?)?;
        let (x, bias) = (
            dequantized(call)?,
            bias.map(|bias| call.lift(bias)).transpose()?,
        );
        let y = match is_linear {
            true => x.matmul_with(
                &weight.transpose(0, 1)?,
                bias.as_ref(),
                Activation::None,
                1.0,
            )?,
            false => convolved(call, &x, &weight, bias.as_ref())?,
        };
        return Ok(vec![match call.has_input(7) {
            true => finished(call, &y.div(&Amount::of(call, 6, &y, DType::F32)?)?)?,
            false => y,
        }]);
    };
    let given = call.input(0)?;
    // A row is a picture of one place.
    let (x, weight) = &match is_linear {
        true => {
            let read = given.dim(-1)?;
            let rows = given.elem_count() / read.max(1);
            (
                given.reshape(&[rows, read, 1, 1])?,
                weight.unsqueeze(2)?.unsqueeze(3)?,
            )
        }
        false => (given.clone(), weight.clone()),
    };
    let mut options = ConvOptions {
        zero_point: zero.to_i64() as u8,
        ..ConvOptions::default()
    };
    let mut times = along(scales, 0, 1)?.mul(scale)?;
    let mut more = bias.cloned();
    if let Some(scale) = quantised_by {
        times = times.div(scale)?;
        more = more.map(|bias| bias.div(scale)).transpose()?;
    }
    let for_each = |values: &Tensor| call.lift(&values.broadcast_to(&[made])?.contiguous()?);
    let times = for_each(&times)?;
    let more = more.as_ref().map(for_each).transpose()?;
    let weight = call.lift(weight)?;
    let byte = match call.number(7)? {
        Some(zero) if call.given(7)?.dtype() == DType::U8 => Some(zero.to_i64() as u8),
        _ => None,
    };
    let y = match byte {
        Some(zero_point) => {
            options.bias = more.as_ref();
            options.to_bytes = Some((&times, zero_point));
            convolved_with(call, x, &weight, &options)?
        }
        None => {
            let sums = convolved_with(call, x, &weight, &options)?.to_dtype(DType::F32)?;
            let mut y = sums.mul(&along(&times, 1, weight.rank())?)?;
            if let Some(more) = &more {
                y = y.add(&along(more, 1, weight.rank())?)?;
            }
            match quantised_by {
                Some(_) => finished(call, &y)?,
                None => y,
            }
        }
    };
    Ok(vec![match (is_linear, given.shape()) {
        (true, [leading @ .., _]) => y.reshape(&[leading, &[made]].concat())?,
        _ => y,
    }])
}

/// The results of a convolution of bytes, over their scale, as bytes.
fn finished(call: &Call<'_>, scaled: &Tensor) -> Result<Tensor, NodeError> {
    let zero = Amount::of(call, 7, scaled, DType::F32)?;
    rounded_from(scaled, zero, call.given(7)?.dtype())
}

/// What is quantised and dequantised by the same scale and zero point.
pub fn round_to_bytes(call: &Call<'_>) -> Outputs {
    let x = call.input(0)?.to_dtype(DType::F32)?;
    let scaled = x.div(&Amount::of(call, 1, &x, DType::F32)?)?;
    Ok(vec![whole_and_back(call, &scaled, 1)?])
}

/// The numbers that bytes of a zero point have in place of these, times the scale of the input at `place`, which comes before that point.
fn whole_and_back(call: &Call<'_>, scaled: &Tensor, place: usize) -> Result<Tensor, NodeError> {
    let (low, high) = match call.given(place + 1)?.dtype() {
        DType::I8 => (i8::MIN.into(), i8::MAX.into()),
        DType::U8 => (0, u8::MAX.into()),
        other => return Err(NodeError::unsupported(format_args!("bytes of {other}"))),
    };
    let whole = scaled.round()?;
    let zero = Amount::of(call, place + 1, scaled, DType::F32)?;
    let kept = match &zero {
        Amount::One(zero) => {
            let bound = |bound: i64| (bound - zero.to_i64()) as f64;
            whole.clamp(bound(low), bound(high))?
        }
        Amount::Each(_) => whole
            .add(&zero)?
            .clamp(low as f64, high as f64)?
            .sub(&zero)?,
    };
    Ok(kept.mul(&Amount::of(call, place, scaled, DType::F32)?)?)
}

fn dynamic_quantize(call: &Call<'_>) -> Outputs {
    let (y, scale, zero) = dynamic(call.input(0)?)?;
    Ok(vec![y, scale, zero])
}

/// Floats as bytes over the range that they have, with the scale and the zero point.
pub fn dynamic(x: &Tensor) -> Result<(Tensor, Tensor, Tensor), NodeError> {
    let (low, high) = (
        x.min(&[], false)?.minimum(0.0)?,
        x.max(&[], false)?.maximum(0.0)?,
    );
    let scale = high.sub(&low)?.div(255.0)?;
    // Where all is zero, so is the scale, and any other serves.
    let divisor = scale.eq(0.0)?.where_cond(&scale.full_like(1.0)?, &scale)?;
    let none = Tensor::zeros(x.pool(), &[], DType::U8)?;
    let zero = rounded(&low.neg()?.div(&divisor)?, &none, DType::U8)?;
    let y = rounded(&x.div(&divisor)?, &zero, DType::U8)?;
    Ok((y, divisor, zero))
}
