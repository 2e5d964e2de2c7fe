//! What is run on several devices, and how fast a crowd of threads runs it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::fairness::mlp;
use crate::latencies::{Latencies, again_and_again};
use crate::{Failure, Result, threads};
use serde::Serialize;
use streampool::{Array, DeviceSet, Input, PerDevice, Pool, Session, SessionOptions, Tensor};
use streampool_console::inputs::made;

/// A model, and how it is run.
pub struct Workload {
    pub name: &'static str,
    model: Model,
    shape: Vec<usize>,
    /// Threads for each device.
    pub threads: usize,
    /// Whether inputs and outputs stay on the device.
    resident: bool,
}

/// Where a model is.
enum Model {
    Bytes(Vec<u8>),
    File(PathBuf),
}

/// How fast threads run it. Times are in seconds.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Pace {
    pub per_second: f64,
    pub p50: f64,
    pub p99: f64,
}

impl Workload {
    /// An MLP of four layers, one row at a time.
    pub fn mlp(threads: usize) -> Result<Workload> {
        Ok(Workload {
            name: "mlp",
            model: Model::Bytes(mlp::onnx()?),
            shape: vec![1, mlp::INPUTS],
            threads,
            resident: false,
        })
    }

    /// Those there are models for: the MLP, and an encoder of `f16` if the folder has `half.onnx`.
    pub fn all(folder: Option<&Path>, threads: usize) -> Result<Vec<Workload>> {
        let mut all = vec![Workload::mlp(threads)?];
        if let Some(folder) = folder {
            let path = folder.join("half.onnx");
            for (name, rows, threads, resident) in [
                ("encoder, batch 1", 1, threads, false),
                ("encoder, batch 256", 256, 2, true),
            ] {
                all.push(Workload {
                    name,
                    model: Model::File(path.clone()),
                    shape: vec![rows, 128, 384],
                    threads,
                    resident,
                });
            }
        }
        Ok(all)
    }

    /// The model on each device.
    pub fn load(&self, set: &DeviceSet) -> Result<PerDevice<Session>> {
        let load = |pool: &Pool| {
            Ok(match &self.model {
                Model::Bytes(bytes) => {
                    Session::from_bytes(pool, bytes.clone(), &SessionOptions::default())?
                }
                // Its weights lie beside it.
                Model::File(path) => Session::load(pool, path)?,
            })
        };
        Ok(set.each(load)?)
    }

    /// An input for it.
    fn input(&self, session: &Session) -> Result<Array> {
        let first = session.inputs().first().ok_or("the model has no input")?;
        let ports = std::slice::from_ref(first);
        Ok(made(ports, std::slice::from_ref(&self.shape), 11, session.pool())?.remove(0))
    }

    /// Whether every device gives the same bits.
    pub fn same_bits(&self, sessions: &PerDevice<Session>) -> Result<bool> {
        let mut first: Option<Vec<Array>> = None;
        for session in sessions.iter() {
            let input = self.input(session)?;
            let outputs = session.run([("x", &input)])?.into_arrays();
            let expected = first.get_or_insert_with(|| outputs.clone());
            let same = outputs
                .iter()
                .map(Array::bytes)
                .eq(expected.iter().map(Array::bytes));
            if !same {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// How fast so many threads run it, each again and again. `ready` is called when all have run it for a while.
    pub fn pace(
        &self,
        sessions: &PerDevice<Session>,
        threads: usize,
        time: Duration,
        ready: impl FnOnce(),
    ) -> Result<Pace> {
        let any = sessions.iter().next().ok_or("there is no device")?;
        let input = self.input(any)?;
        let together = threads::together(
            0..threads,
            |_| {
                let own = match self.resident {
                    false => Own::Host(sessions, &input),
                    true => Own::on_device(sessions, &input)?,
                };
                // Programs are captured for each stream, whichever thread is on it.
                again_and_again(time / 2, || own.run())?;
                Ok(own)
            },
            ready,
            |own, begin| {
                let times = again_and_again(time, || own.run())?;
                Ok::<_, Failure>((times, begin.elapsed()))
            },
        )?;
        let mut per_second = 0.0;
        let mut all = Vec::new();
        for (times, took) in together.done {
            per_second += times.len() as f64 / took.as_secs_f64();
            all.extend(times);
        }
        let times = Latencies::new(all);
        Ok(Pace {
            per_second,
            p50: times.at(0.5).as_secs_f64(),
            p99: times.at(0.99).as_secs_f64(),
        })
    }
}

/// What one thread runs, and where.
enum Own<'a> {
    /// Anywhere, with inputs and outputs on the host.
    Host(&'a PerDevice<Session>, &'a Array),
    /// Where its input is.
    Device(streampool::Placed<Session>, Tensor),
}

impl Own<'_> {
    fn on_device<'a>(sessions: &'a PerDevice<Session>, input: &Array) -> Result<Own<'a>> {
        let place = sessions.take()?;
        let tensor = input.tensor(place.pool())?;
        Ok(Own::Device(place, tensor))
    }

    fn run(&self) -> Result<()> {
        match self {
            Own::Host(sessions, input) => drop(sessions.run([("x", *input)])?),
            Own::Device(place, tensor) => {
                let outputs = place.run_to_tensors(&[Input::Tensor(tensor)])?;
                outputs.iter().try_for_each(Tensor::synchronize)?;
            }
        }
        Ok(())
    }
}
