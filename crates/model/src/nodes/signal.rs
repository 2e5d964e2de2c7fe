//! Signals: windows, frequencies, and bands of those.

use streampool_tensor::{DType, Fourier, Tensor};

use super::call::{Call, Operator, Outputs, resolve, size};
use crate::error::NodeError;

pub fn operator(op: &str) -> Option<Operator> {
    Some(match op {
        "HannWindow" => |call| window(call, &[0.5, -0.5]),
        "HammingWindow" => |call| window(call, &[25.0 / 46.0, -21.0 / 46.0]),
        "BlackmanWindow" => |call| window(call, &[0.42, -0.5, 0.08]),
        "DFT" => dft,
        "STFT" => stft,
        "MelWeightMatrix" => mel_weights,
        _ => return None,
    })
}

/// A sum of cosines, each of one more period, with these weights.
fn window(call: &Call<'_>, weights: &[f64]) -> Outputs {
    let count = size("size", call.int(0)?)?;
    let dtype = call.attr_dtype("output_datatype")?.unwrap_or(DType::F32);
    let period = match call.flag_or("periodic", true)? {
        true => count,
        false => count.saturating_sub(1),
    };
    let step = std::f64::consts::TAU / period.max(1) as f64;
    let places = Tensor::arange(call.pool(), 0, count as i64, 1, DType::F64)?;
    let mut sum = places.full_like(0.0)?;
    for (periods, &weight) in weights.iter().enumerate() {
        let wave = places.mul(step * periods as f64)?.cos()?;
        sum = sum.add(&wave.mul(weight)?)?;
    }
    Ok(vec![sum.to_dtype(dtype)?])
}

fn dft(call: &Call<'_>) -> Outputs {
    let x = call.input(0)?;
    // The axis is an attribute before version 20.
    let axis = match (call.attr_int("axis")?, call.optional_int(2)?) {
        (Some(axis), _) | (None, Some(axis)) => axis,
        (None, None) if call.opset() < 20 => 1,
        (None, None) => -2,
    };
    let axis = resolve(axis as isize, x.rank())?;
    let length = call.optional_int(1)?;
    let length = length
        .map(|length| size("dft_length", length))
        .transpose()?;
    let (inverse, onesided) = (
        call.flag_or("inverse", false)?,
        call.flag_or("onesided", false)?,
    );
    let own = x.shape()[axis];
    if onesided && !inverse && x.shape().last() == Some(&2) {
        let (got, expected) = ("of complex numbers", "of real ones, where onesided is 1");
        return Err(NodeError::malformed("the input", got, expected));
    }
    // What a transform needs depends on its length alone: it is made but once.
    let (pool, dtype) = (call.known_pool(), x.dtype());
    let fourier = match (inverse, onesided) {
        (true, true) => {
            let length = length.unwrap_or(2 * own.saturating_sub(1));
            Fourier::inverse_real(pool, dtype, length)?
        }
        (true, false) => Fourier::inverse(pool, dtype, length.unwrap_or(own))?,
        (false, half) => {
            let length = length.unwrap_or(own);
            let kept = if half { length / 2 + 1 } else { length };
            Fourier::forward(pool, dtype, length, kept)?
        }
    };
    let fourier = fourier.moved(|constant| call.lift(constant))?;
    Ok(vec![fourier.apply(x, axis as isize)?])
}

/// The frequencies of pieces of `[batch, length]` or `[batch, length, 1 or 2]`: `[batch, pieces, frequencies, 2]`.
fn stft(call: &Call<'_>) -> Outputs {
    let (x, step) = (call.input(0)?, size("frame_step", call.int(1)?)?.max(1));
    let x = match x.rank() {
        2 => x.unsqueeze(2)?,
        _ => x.clone(),
    };
    let window = call.optional(2)?;
    let length = match (call.optional_int(3)?, window) {
        (Some(length), _) => size("frame_length", length)?,
        (None, Some(window)) => window.elem_count(),
        (None, None) => x.dim(1)?,
    };
    if length > x.dim(1)? {
        let expected = format!("at most {}", x.dim(1)?);
        return Err(NodeError::malformed("frame_length", length, expected));
    }
    let mut framed = x.frames(1, length, step)?;
    if let Some(window) = window {
        framed = framed.mul(&window.reshape(&[length, 1])?)?;
    }
    let kept = if call.flag_or("onesided", true)? {
        length / 2 + 1
    } else {
        length
    };
    let fourier = Fourier::forward(call.known_pool(), x.dtype(), length, kept)?;
    let fourier = fourier.moved(|constant| call.lift(constant))?;
    Ok(vec![fourier.apply(&framed, 2)?])
}

/// How much each frequency counts in each band of the mel scale: triangles that overlap by half.
fn mel_weights(call: &Call<'_>) -> Outputs {
    let (bands, length) = (
        size("num_mel_bins", call.int(0)?)?,
        size("dft_length", call.int(1)?)?,
    );
    let rate = call.int(2)? as f64;
    let edge = |place| Ok(call.optional_float(place)?.unwrap_or(0.0));
    let (low, high): (Result<f64, NodeError>, _) = (edge(3), edge(4));
    let mel = |hertz: f64| 2595.0 * (1.0 + hertz / 700.0).log10();
    let (low, high) = (mel(low?), mel(high?));
    // The frequencies where triangles begin, peak and end.
    let step = (high - low) / (bands as f64 + 2.0);
    // More than can be counted are more than can be had.
    let ends = (bands as i64).saturating_add(2);
    let points = Tensor::arange(call.pool(), 0, ends, 1, DType::F64)?;
    let hertz = points
        .mul(step)?
        .add(low)?
        .mul(std::f64::consts::LN_10 / 2595.0)?
        .expm1()?
        .mul(700.0)?;
    let points = hertz.mul(length as f64 + 1.0)?.div(rate)?.floor()?;
    let point = |first: usize| points.narrow(0, first, bands);
    let (begin, peak, end) = (point(0)?, point(1)?, point(2)?);
    let bins =
        Tensor::arange(call.pool(), 0, length as i64 / 2 + 1, 1, DType::F64)?.unsqueeze(1)?;
    let rising = bins.sub(&begin)?.div(&peak.sub(&begin)?.maximum(1.0)?)?;
    let falling = bins.sub(&end)?.div(&peak.sub(&end)?.minimum(-1.0)?)?;
    let at_peak = bins.eq(&peak)?;
    let sides = bins
        .lt(&peak)?
        .where_cond(&rising, &falling)?
        .clamp(0.0, 1.0)?;
    let weights = at_peak.where_cond(1.0, &sides)?;
    let dtype = call.attr_dtype("output_datatype")?.unwrap_or(DType::F32);
    Ok(vec![weights.to_dtype(dtype)?])
}
