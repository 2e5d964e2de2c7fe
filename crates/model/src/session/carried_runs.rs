//! Runs whose outputs are inputs of the next run, and are made where those lie if they can be.

use streampool_device::{Layout, Op};
use streampool_runtime::{Buffer, Stream};
use streampool_tensor::{Array, Pool, Tensor};

use super::blame::by_itself;
use super::carry::Carry;
use super::compiled::Ends;
use super::input::Input;
use super::options::RunOptions;
use super::outputs::{AllArrays, Arrays};
use super::part_runs::Outcomes;
use super::prepared::Prepared;
use super::programs::Ready;
use crate::error::{Error, NodeError, Result};
use crate::lower::{InPlace, Port};
use crate::nodes::Value;
use crate::trace::TensorKind;

/// What an input of a run is.
pub enum Source<'a> {
    /// What the caller gives.
    Given(Input<'a>),
    /// What the caller gave for all runs.
    Set(Tensor),
    /// What an earlier run made.
    Made(Tensor),
    /// What an earlier run made, until one that was changing it failed.
    Lost,
}

/// The error of an input that was lost.
pub fn lost(name: &str) -> Error {
    let got = "lost, because a run that changed it in place failed";
    Error::input(name, got, "set again")
}

impl Source<'_> {
    /// It as a run takes it.
    pub fn input(&self, name: &str) -> Result<Input<'_>> {
        match self {
            Source::Given(input) => Ok(*input),
            Source::Set(tensor) | Source::Made(tensor) => Ok(Input::Tensor(tensor)),
            Source::Lost => Err(lost(name)),
        }
    }

    /// Its memory, which is lost here; or that of a copy, if anybody else has it, too, or it lies otherwise.
    fn take(
        &mut self,
        pool: &Pool,
        stream: &Stream,
        name: &str,
        bytes: usize,
        layout: Layout,
    ) -> Result<Buffer> {
        *self = match std::mem::replace(self, Source::Lost) {
            Source::Made(tensor)
                if *tensor.layout() == layout && tensor.buffer().bytes() >= bytes =>
            {
                match tensor.into_buffer() {
                    Ok(buffer) => return Ok(buffer),
                    Err(shared) => Source::Made(*shared),
                }
            }
            other => other,
        };
        let input = self.input(name)?;
        let mut buffer = stream.allocate(bytes)?;
        if layout.elements() == 0 {
            return Ok(buffer);
        }
        let uploaded;
        let tensor = match input {
            Input::Tensor(tensor) => tensor,
            values => {
                uploaded = values.at_work(pool)?;
                &uploaded
            }
        };
        stream.encode(Op::Copy {
            src: tensor.operand()?,
            dst: buffer.write_as(tensor.dtype(), layout)?,
        })?;
        Ok(buffer)
    }
}

/// It was made for a plan, and so can be.
fn no_layout() -> Error {
    Error::Graph(NodeError::unsupported("so large an output"))
}

/// What a run made: each output that is carried, by its place, and the arrays of the others, none for those.
pub struct Made {
    pub carried: Vec<(Carry, Tensor)>,
    pub arrays: AllArrays,
}

impl Prepared {
    /// A run, after which `sources` are what is left for the next. Those in whose place an output was made are lost.
    pub fn run_carried(
        &self,
        sources: &mut [Source<'_>],
        carried: &[Carry],
        options: &RunOptions,
    ) -> Result<Made> {
        streampool_device::span!("run");
        options.check()?;
        let ran = self.spend(options, || {
            self.pool().for_run(options.deadline, |stream| {
                by_itself(stream, options, || {
                    let values = self.carried_values(stream, sources, carried, options)?;
                    self.made(stream, values, carried, options)
                })
            })
        });
        match ran {
            Err(streampool_runtime::Error::Deadline) => Err(Error::Deadline),
            ran => ran?,
        }
    }

    fn carried_values(
        &self,
        stream: &Stream,
        sources: &mut [Source<'_>],
        carried: &[Carry],
        options: &RunOptions,
    ) -> Result<Vec<Value>> {
        let named = self.inputs.iter().zip(&*sources);
        let inputs = named.map(|(port, source)| source.input(&port.name));
        let inputs: Vec<Input<'_>> = inputs.collect::<Result<_>>()?;
        let ready = self.ready_for(stream, &inputs, Ends::Carried, None, carried)?;
        let Some(ready) = ready else {
            return self.run_parts(stream, &inputs, options);
        };
        drop(inputs);
        let outcomes = self.replay_carried(stream, &ready, sources);
        self.give(stream, ready);
        let values = outcomes?.into_iter();
        values.map(|(_, value)| self.finished(value)).collect()
    }

    fn replay_carried(
        &self,
        stream: &Stream,
        ready: &Ready,
        sources: &mut [Source<'_>],
    ) -> Result<Outcomes> {
        let plan = &ready.compiled.plan;
        let is_new = |port: &&Port| ready.in_place.iter().all(|one| one.made != port.offset);
        let mut new: Vec<Buffer> = (plan.output_ports().filter(is_new))
            .map(|port| stream.allocate(port.kind.bytes()))
            .collect::<Result<_, _>>()?;
        // In the order of the inputs: those that are read, and those that are changed.
        let (mut read, mut changed) = (Vec::new(), Vec::new());
        for (place, (source, info)) in sources.iter().zip(&self.inputs).enumerate() {
            let Some(bound) = ready.key.bound_place(place) else {
                continue;
            };
            match ready.in_place.iter().find(|one| one.input == bound) {
                Some(one) => changed.push((place, one)),
                None => read.push(source.input(&info.name)?.at_work(self.pool())?),
            }
        }
        let mut taken: Vec<Buffer> = Vec::new();
        for &(place, one) in &changed {
            let kind = &plan.inputs[one.input].kind;
            let layout = one.layout(kind).ok_or_else(no_layout)?;
            let (source, name) = (&mut sources[place], &self.inputs[place].name);
            match source.take(self.pool(), stream, name, one.bytes(kind), layout) {
                Ok(buffer) => taken.push(buffer),
                Err(error) => {
                    // Nothing was changed yet.
                    for (&(place, one), buffer) in changed.iter().zip(taken) {
                        let kind = &plan.inputs[one.input].kind;
                        sources[place] = Source::Made(self.in_place(one, kind, buffer)?);
                    }
                    return Err(error);
                }
            }
        }
        let given: Vec<_> = read.iter().map(Tensor::buffer).collect();
        let mut bound: Vec<&mut Buffer> = taken.iter_mut().chain(&mut new).collect();
        self.replay(stream, ready, &given, &mut bound)?;
        let mut taken: Vec<_> = (changed.into_iter().zip(taken))
            .map(|((_, one), buffer)| (one, Some(buffer)))
            .collect();
        let mut new = new.into_iter();
        self.outcomes(plan, |port| {
            let one = taken.iter_mut().find(|(one, _)| one.made == port.offset);
            match one.and_then(|(one, buffer)| Some((one, buffer.take()?))) {
                Some((one, buffer)) => self.in_place(one, &port.kind, buffer),
                None => self.next(port, &mut new),
            }
        })
    }

    /// What lies in a buffer in which an output is made where an input lies.
    fn in_place(&self, one: &InPlace, kind: &TensorKind, buffer: Buffer) -> Result<Tensor> {
        let layout = one.layout(kind).ok_or_else(no_layout)?;
        Ok(Tensor::from_buffer(
            self.pool(),
            buffer,
            kind.dtype,
            layout,
        )?)
    }

    /// What a run has made, once that is sure.
    fn made(
        &self,
        stream: &Stream,
        values: Vec<Value>,
        carried: &[Carry],
        options: &RunOptions,
    ) -> Result<Made> {
        options.wait_ahead(stream)?;
        let mut made = Made {
            carried: Vec::new(),
            arrays: AllArrays::new(),
        };
        for (place, value) in values.iter().enumerate() {
            let Some(&carry) = carried.iter().find(|carry| carry.output == place) else {
                let arrays = value.tensors().iter().map(Array::of);
                made.arrays.push(arrays.collect::<Result<Arrays, _>>()?);
                continue;
            };
            let tensor = value.tensor().map_err(Error::Graph)?.clone();
            made.carried.push((carry, tensor));
            made.arrays.push(Arrays::new());
        }
        if made.arrays.iter().all(Arrays::is_empty) {
            // Nobody read anything, and so nothing was waited for.
            options.wait_until(stream, stream.position())?;
        }
        Ok(made)
    }
}
