//! Eight models, mixed by all threads over all devices.

use std::time::Duration;

use serde::Serialize;
use streampool::{Array, DeviceSet, PerDevice, Pool, Session, SessionOptions};

use crate::fairness::mlp;
use crate::latencies::again_and_again;
use crate::noise::Noise;
use crate::{Result, threads};

/// The width of each model's middle.
const WIDTHS: [usize; 8] = [64, 96, 128, 256, 384, 512, 768, 1024];

/// What became of it.
#[derive(Debug, Serialize)]
pub struct Mixed {
    pub models: usize,
    pub threads: usize,
    pub runs: usize,
    /// Runs whose bits were not those of the first device alone.
    pub wrong: usize,
    /// How many runs began on each device.
    pub begun: Vec<u64>,
}

/// Has so many threads run all models in turn, and compares every result.
pub fn measure(set: &DeviceSet, threads: usize, time: Duration) -> Result<Mixed> {
    let mut models: Vec<PerDevice<Session>> = Vec::new();
    for width in WIDTHS {
        let model = mlp::onnx_of(&[mlp::INPUTS, width, width, 64])?;
        let options = SessionOptions::default();
        let load = |pool: &Pool| Ok(Session::from_bytes(pool, model.clone(), &options)?);
        models.push(set.each(load)?);
    }
    let mut inputs = Vec::new();
    for seed in 0..4 {
        inputs.push(Array::new(
            &Noise::new(seed).normal(mlp::INPUTS),
            &[1, mlp::INPUTS],
        )?);
    }
    let mut expected: Vec<Vec<Array>> = Vec::new();
    for model in &models {
        let first = model.iter().next().ok_or("there is no device")?;
        let each = inputs
            .iter()
            .map(|x| Ok(first.run([("x", x)])?.into_arrays().remove(0)));
        expected.push(each.collect::<Result<_>>()?);
    }
    let before: Vec<u64> = set.status().iter().map(|device| device.begun).collect();
    let work = |thread: usize, _| {
        let (mut turn, mut wrong) = (thread, 0);
        let times = again_and_again(time, || -> Result<()> {
            let (model, input) = (turn % models.len(), turn / models.len() % inputs.len());
            let outputs = models[model].run([("x", &inputs[input])])?.into_arrays();
            wrong += usize::from(outputs[0].bytes() != expected[model][input].bytes());
            turn += 1;
            Ok(())
        })?;
        Ok((times.len(), wrong))
    };
    let done = threads::together(0..threads, Ok, || (), work)?.done;
    let after = set.status().into_iter().map(|device| device.begun);
    Ok(Mixed {
        models: models.len(),
        threads,
        runs: done.iter().map(|(runs, _)| runs).sum(),
        wrong: done.iter().map(|(_, wrong)| wrong).sum(),
        begun: after
            .zip(before)
            .map(|(after, before)| after - before)
            .collect(),
    })
}
