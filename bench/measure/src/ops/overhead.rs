//! What a call costs the thread that makes it: tensors so small that nothing else counts.

use std::time::Instant;

use streampool::{Tensor, tensor};

use super::case::{Call, Stage};
use crate::Result;
use crate::figure::{Figure, Goal, Measurement, Unit};
use crate::noise::Noise;

/// Calls between two waits: not so many that the driver, which queues about a thousand, makes the last ones wait for
/// the GPU.
const CALLS: u32 = 500;

/// The most nanoseconds that a call on a GPU may take.
const MOST: f64 = 4_000.0;

/// Calls without waiting: a sum, a layer, a normalisation.
pub fn measurements(stage: &Stage) -> Result<Vec<Measurement>> {
    let mut noise = Noise::new(15);
    let mut input =
        |shape: &[usize]| -> Result<Tensor> { Ok(stage.input(&mut noise, shape, 1.0)?.tensor) };
    let (a, b) = (input(&[1024])?, input(&[1024])?);
    let x = input(&[4, 256])?;
    let (weight, bias) = (input(&[128, 256])?, input(&[128])?);
    let (rows, scale, shift) = (x.clone(), input(&[256])?, input(&[256])?);
    Ok(vec![
        measurement(stage, "add", "add 1024 elements", move || a.add(&b)),
        measurement(stage, "linear", "linear 256 to 128, 4 rows", move || {
            x.linear(&weight, Some(&bias))
        }),
        measurement(stage, "layer_norm", "layer_norm 4 x 256", move || {
            rows.layer_norm(-1, Some(&scale), Some(&shift), 1e-5)
        }),
    ])
}

fn measurement(
    stage: &Stage,
    key: &'static str,
    what: &'static str,
    call: impl Fn() -> tensor::Result<Tensor> + 'static,
) -> Measurement {
    let figure = Figure {
        key,
        what,
        unit: Unit::Nanoseconds,
        goal: (!stage.is_host()).then_some(Goal::AtMost(MOST)),
    };
    let (pool, call): (_, Call) = (stage.pool.clone(), Box::new(call));
    Measurement::new(figure, move |_| {
        let stream = pool.current()?;
        let begin = Instant::now();
        for _ in 0..CALLS {
            call()?;
        }
        let took = begin.elapsed();
        stream.synchronize()?;
        Ok(took.as_nanos() as f64 / f64::from(CALLS))
    })
}
