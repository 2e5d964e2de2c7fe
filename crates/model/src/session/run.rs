//! A run: one program where the whole model is one part, else part after part.

use std::sync::Arc;

use smallvec::SmallVec;
use streampool_device::DeviceKind;
use streampool_runtime::{Budget, Buffer, Event, Program, Stamp, Stream};
use streampool_tensor::{Array, Layout, Tensor};

use super::blame::{by_itself, is_of_another};
use super::by_value::InputSet;
use super::carry::{Carry, is_carried};
use super::compiled::{Compiled, Ends};
use super::counts::Count;
use super::input::Input;
use super::key::{Key, Values, values};
use super::options::RunOptions;
use super::outputs::{AllArrays, Arrays, Outputs};
use super::part_runs::{Outcomes, PartValue};
use super::prepared::Prepared;
use super::programs::{Bound, Ready};
use super::turns::{Turn, Turns};
use crate::error::{Error, NodeError, Result};
use crate::graph::ValueId;
use crate::lower::{InPlace, Output, Plan, Port};
use crate::nodes::Value;
use crate::trace::{Given, TensorKind};

impl Prepared {
    /// Host arrays in, host arrays out.
    pub fn run_arrays(&self, inputs: &[Input<'_>], options: &RunOptions) -> Result<Outputs> {
        let read = |ready: &mut Ready| self.read_outputs(ready);
        self.run_and_read(inputs, self.array_ends(), options, read, Ok)
    }

    /// Where arrays of the host are for a program.
    pub fn array_ends(&self) -> Ends {
        match self.pool().device().properties().kind {
            DeviceKind::Host => Ends::Lent,
            _ => Ends::Host,
        }
    }

    /// A run, and what `read` finds in its program, or `convert` makes of outputs that it has.
    pub fn run_and_read<R>(
        &self,
        inputs: &[Input<'_>],
        ends: Ends,
        options: &RunOptions,
        read: impl Fn(&mut Ready) -> Result<R>,
        convert: impl Fn(Outputs) -> Result<R>,
    ) -> Result<R> {
        streampool_device::span!("run");
        options.check()?;
        let ran = self.spend(options, || {
            self.pool().for_run(options.deadline, |stream| {
                by_itself(stream, options, || {
                    self.run_and_read_on(stream, inputs, ends, options, &read, &convert)
                })
            })
        });
        match ran {
            Err(streampool_runtime::Error::Deadline) => Err(Error::Deadline),
            ran => ran?,
        }
    }

    fn run_and_read_on<R>(
        &self,
        stream: &Stream,
        inputs: &[Input<'_>],
        ends: Ends,
        options: &RunOptions,
        read: impl Fn(&mut Ready) -> Result<R>,
        convert: impl Fn(Outputs) -> Result<R>,
    ) -> Result<R> {
        let Some(mut ready) = self.ready(stream, inputs, ends, Some(options))? else {
            return convert(self.run_parts_to_arrays(stream, inputs, options)?);
        };
        let settled = ready.settle(options);
        let stamp = match settled.and_then(|()| self.start(stream, &mut ready, inputs)) {
            Ok(stamp) => stamp,
            Err(error) => {
                self.give(stream, ready);
                return Err(error);
            }
        };
        let waited = options.wait_until(stream, stamp);
        // After a deadline it is still at work, and who takes it next waits before writing its inputs.
        if let Err(Error::Deadline) = waited
            && let Ok(event) = self.event_on(stream)
        {
            ready.under_way(event);
        }
        let outputs = waited.and_then(|()| read(&mut ready));
        // After a fault of its own nobody knows what it left behind.
        let is_good = match &outputs {
            Ok(_) | Err(Error::Deadline) => true,
            Err(error) => is_of_another(stream, error, stamp),
        };
        if is_good {
            self.give(stream, ready);
        }
        outputs
    }

    /// An event behind what is encoded so far.
    pub fn event_on(&self, stream: &Stream) -> Result<Arc<Event>> {
        let event = self.pool().event()?;
        stream.record(&event)?;
        stream.flush()?;
        Ok(Arc::new(event))
    }

    /// Outputs stay where they are made.
    pub fn run_tensors(&self, inputs: &[Input<'_>]) -> Result<Vec<Value>> {
        let stream = self.pool().current()?;
        let options = RunOptions::default();
        self.spend(&options, || {
            by_itself(stream, &options, || self.run_tensors_on(stream, inputs))
        })
    }

    fn run_tensors_on(&self, stream: &Stream, inputs: &[Input<'_>]) -> Result<Vec<Value>> {
        if let Some(ready) = self.ready(stream, inputs, Ends::Device, None)? {
            let inputs = ready
                .key
                .bound(inputs)
                .map(|input| input.at_work(self.pool()));
            let inputs = inputs.collect::<Result<Vec<_>>>()?;
            let result = self.replay_device(stream, &ready, &inputs);
            self.give(stream, ready);
            let outputs = result?;
            return outputs
                .into_iter()
                .map(|(_, value)| self.finished(value))
                .collect();
        }
        self.run_parts(stream, inputs, &RunOptions::default())
    }

    /// A program for all of the model; `None` if it has parts. Who is `patient` waits for one of those that threads share,
    /// and gives it back before it waits for anybody.
    pub fn ready(
        &self,
        stream: &Stream,
        inputs: &[Input<'_>],
        ends: Ends,
        patient: Option<&RunOptions>,
    ) -> Result<Option<Ready>> {
        self.ready_for(stream, inputs, ends, patient, &[])
    }

    /// The same, where these outputs are the next run's inputs, and so may be made where those lie.
    pub fn ready_for(
        &self,
        stream: &Stream,
        inputs: &[Input<'_>],
        ends: Ends,
        patient: Option<&RunOptions>,
        carried: &[Carry],
    ) -> Result<Option<Ready>> {
        if self.has_parts() {
            return Ok(None);
        }
        self.counts.add(stream.index(), Count::Runs);
        loop {
            let by_value = self.by_value.places(inputs);
            let values = values(inputs, by_value)?;
            let is_for = |ready: &Ready| {
                let mut in_place = ready.in_place.iter();
                ready.compiled.ended.is_none()
                    && ready.key.is_for(inputs, &values)
                    && (ends == Ends::Host
                        || in_place.all(|one| is_carried(one, &ready.key, carried)))
            };
            let hash = Key::hash_of(inputs, &values);
            if let Some(ready) = self.programs.take(stream.index(), ends, hash, is_for) {
                return Ok(Some(ready));
            }
            let given = self.given(inputs, by_value)?;
            let key = Arc::new(Key::of(0, &given)?);
            let compiled = self.plan(&key, &given, &values)?;
            let Some(asked) = &compiled.ended else {
                if let Some(options) = patient {
                    options.check()?;
                }
                if let (Some(options), Some(turns)) = (patient, compiled.turns.clone()) {
                    let turn = self.turn(stream, &turns, options)?;
                    let shared = turn
                        .as_ref()
                        .and_then(|_| self.programs.take_shared(ends, &key));
                    let ready = match shared {
                        Some(ready) => ready,
                        None => self.capture(stream, key, compiled, ends, carried)?,
                    };
                    return Ok(Some(match turn {
                        Some(turn) => ready.in_turn(turn),
                        None => ready.for_once(),
                    }));
                }
                return Ok(Some(self.capture(stream, key, compiled, ends, carried)?));
            };
            if !self.by_value.add(by_value, &asked.inputs, inputs) {
                self.note_parts();
                return Ok(None);
            }
        }
    }

    /// The plan of a key, for what is given; `values` are those of inputs that it is made for.
    pub fn plan(
        &self,
        key: &Arc<Key>,
        given: &[(ValueId, Given)],
        values: &Values<'_>,
    ) -> Result<Arc<Compiled>> {
        let (compiled, is_new) = self.plans.plan(key, given, &self.weights)?;
        if is_new {
            if key.start == 0 {
                self.by_value.planned(values, self.counts.sum(Count::Runs));
            }
            self.forget_plans();
        }
        Ok(compiled)
    }

    /// Puts a program back for who comes next.
    pub fn give(&self, stream: &Stream, ready: Ready) {
        self.programs
            .give(stream.index(), ready, || self.plans.bytes());
        self.forget_plans();
    }

    /// The oldest plans go while these take too much. For the rest programs make room.
    fn forget_plans(&self) {
        while self.programs.leave_no_room(self.plans.bytes()) && self.plans.forget_oldest() {}
    }

    /// A turn; none for who has to do without. What comes too late is refused.
    fn turn(
        &self,
        stream: &Stream,
        turns: &Arc<Turns>,
        options: &RunOptions,
    ) -> Result<Option<Turn>> {
        let turn = turns.free().or_else(|| {
            self.counts.add(stream.index(), Count::TurnsWaited);
            turns.next(options)
        });
        options.check()?;
        if turn.is_none() {
            self.counts.add(stream.index(), Count::RunsWithoutTurn);
        }
        Ok(turn)
    }

    pub fn capture(
        &self,
        stream: &Stream,
        key: Arc<Key>,
        compiled: Arc<Compiled>,
        ends: Ends,
        carried: &[Carry],
    ) -> Result<Ready> {
        streampool_device::span!("capture", stream = stream.index());
        self.counts.add(stream.index(), Count::Captures);
        let possible = compiled.in_place.iter().copied();
        let in_place = possible.filter(|one| is_carried(one, &key, carried));
        let in_place: Vec<InPlace> = in_place.collect();
        let program = compiled
            .capture(self.pool(), stream, ends, &in_place)
            .map_err(|error| self.of_largest(error, &compiled))?;
        Ok(Ready::new(key, ends, compiled, program).with_in_place(in_place))
    }

    /// Where there is no memory for a program: the node that takes most of it.
    #[cold]
    fn of_largest(&self, error: Error, compiled: &Compiled) -> Error {
        let Error::Runtime(error @ streampool_runtime::Error::OutOfMemory { .. }) = error else {
            return error;
        };
        let Some((bytes, node)) = compiled.plan.largest() else {
            return Error::Runtime(error);
        };
        match self.plans.graph().nodes.get(node) {
            Some(node) => NodeError::NoMemory { bytes, error }.of_node(&node.name, &node.operator),
            None => Error::Runtime(error),
        }
    }

    /// Takes the inputs and sets a program to work on them.
    pub fn start(&self, stream: &Stream, ready: &mut Ready, inputs: &[Input<'_>]) -> Result<Stamp> {
        let (compiled, ends) = (ready.compiled.clone(), ready.ends);
        let shared = shared(&mut ready.program)?;
        let mut bound = Bound::default();
        for (port, input) in compiled.plan.inputs.iter().zip(ready.key.bound(inputs)) {
            if compiled.binds(ends, port) {
                bound.inputs.push(input.at_work(self.pool())?);
            } else {
                input.copy_to(&mut shared[port.offset..][..port.kind.bytes()])?;
            }
        }
        for port in compiled.plan.output_ports() {
            if compiled.binds(ends, port) {
                bound.made.push(stream.allocate(port.kind.bytes())?);
            }
        }
        ready.bound = bound;
        self.replay_bound(stream, ready)
    }

    /// Sets a program to work once more on the inputs that it has.
    pub fn replay_bound(&self, stream: &Stream, ready: &mut Ready) -> Result<Stamp> {
        let mut bound = std::mem::take(&mut ready.bound);
        let given: SmallVec<[&Buffer; 4]> = bound.inputs.iter().map(Tensor::buffer).collect();
        let mut made: SmallVec<[&mut Buffer; 4]> = bound.made.iter_mut().collect();
        let stamp = self.replay(stream, ready, &given, &mut made);
        drop((given, made));
        ready.bound = bound;
        stamp
    }

    /// Where on its stream it ends.
    pub fn replay(
        &self,
        stream: &Stream,
        ready: &Ready,
        inputs: &[&Buffer],
        outputs: &mut [&mut Buffer],
    ) -> Result<Stamp> {
        Budget::take_work(ready.compiled.plan.work)?;
        let stamp = if self.replays.are_noted() {
            let stamps = stream.replay_each(&ready.program, inputs, outputs)?;
            self.replays.note(&stamps, ready);
            stamps.last().copied().unwrap_or(stream.position())
        } else {
            stream.replay(&ready.program, inputs, outputs)?
        };
        self.counts.add(stream.index(), Count::Replays);
        Ok(stamp)
    }

    /// What a program that is done has made.
    pub fn read_outputs(&self, ready: &mut Ready) -> Result<Outputs> {
        let (compiled, ends) = (&ready.compiled, ready.ends);
        let bound = |port: &&Port| compiled.binds(ends, port);
        let mut made = std::mem::take(&mut ready.bound.made).into_iter();
        // Who reads them again finds them.
        for port in compiled.plan.output_ports().filter(bound).take(made.len()) {
            ready.bound.outputs.push(self.next(port, &mut made)?);
        }
        let mut bound_outputs = ready.bound.outputs.iter();
        let shared: &[u8] = shared(&mut ready.program)?;
        let mut read = |port: &Port| match bound(&port).then(|| bound_outputs.next()).flatten() {
            Some(output) => Array::of(output),
            None => {
                let bytes = &shared[port.offset..][..port.kind.bytes()];
                Array::from_bytes(port.kind.dtype, bytes, &port.kind.shape)
            }
        };
        let outputs = &compiled.plan.outputs;
        let mut arrays = AllArrays::with_capacity(outputs.len());
        for (_, output) in outputs {
            let made: streampool_tensor::Result<Arrays> = match output {
                Output::Known(value) => value.tensors().iter().map(Array::of).collect(),
                Output::Tensor(port) => std::iter::once(read(port)).collect(),
                Output::Sequence(ports) => ports.iter().map(&mut read).collect(),
            };
            arrays.push(made?);
        }
        self.outputs(arrays)
    }

    pub fn replay_device(
        &self,
        stream: &Stream,
        ready: &Ready,
        inputs: &[Tensor],
    ) -> Result<Outcomes> {
        let plan = &ready.compiled.plan;
        let mut buffers: Vec<Buffer> = plan
            .output_ports()
            .map(|port| stream.allocate(port.kind.bytes()))
            .collect::<Result<_, _>>()?;
        let given: Vec<&Buffer> = inputs.iter().map(Tensor::buffer).collect();
        let mut made: Vec<&mut Buffer> = buffers.iter_mut().collect();
        self.replay(stream, ready, &given, &mut made)?;
        let mut buffers = buffers.into_iter();
        self.outcomes(plan, |port| self.next(port, &mut buffers))
    }

    /// The output for which the next buffer was bound.
    pub fn next(&self, port: &Port, buffers: &mut impl Iterator<Item = Buffer>) -> Result<Tensor> {
        let buffer = buffers.next();
        let buffer = buffer.ok_or_else(|| Error::Graph(NodeError::unsupported("an output")))?;
        let layout =
            Layout::contiguous(&port.kind.shape).map_err(streampool_runtime::Error::from)?;
        let tensor = Tensor::from_buffer(self.pool(), buffer, port.kind.dtype, layout);
        Ok(tensor?)
    }

    /// What a replay has made; `made` gives each output in turn.
    pub fn outcomes(
        &self,
        plan: &Plan,
        mut made: impl FnMut(&Port) -> Result<Tensor>,
    ) -> Result<Outcomes> {
        let outputs = plan.outputs.iter().map(|(id, output)| {
            let value = match output {
                Output::Known(value) => PartValue::Known(value.clone()),
                Output::Tensor(port) => PartValue::Made(Value::Tensor(made(port)?)),
                Output::Sequence(ports) => {
                    let tensors = ports.iter().map(&mut made).collect::<Result<_>>()?;
                    PartValue::Made(Value::Sequence(tensors))
                }
            };
            Ok((*id, value))
        });
        outputs.collect()
    }

    /// What is given to a plan that begins with the first node.
    fn given(&self, inputs: &[Input<'_>], by_value: InputSet) -> Result<Vec<(ValueId, Given)>> {
        let ids = &self.plans.graph().inputs;
        let given = ids
            .iter()
            .zip(inputs)
            .enumerate()
            .map(|(place, (&id, input))| {
                let given = match by_value.contains(place) {
                    true => Given::Known(input.known(self.weights.known())?.into()),
                    false => Given::Input(TensorKind {
                        dtype: input.dtype(),
                        shape: input.shape().to_vec(),
                    }),
                };
                Ok((id, given))
            });
        given.collect()
    }
}

/// The memory in which a program takes its inputs from the host and leaves its outputs, once no replay uses it.
pub fn shared(program: &mut Program) -> Result<&mut [u8]> {
    let shared = program.shared().next().transpose()?;
    Ok(shared.unwrap_or_default())
}
