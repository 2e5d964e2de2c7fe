//! A run: one program where the whole model is one part, else part after part.

use std::borrow::Cow;
use std::sync::Arc;

use streampool_runtime::{Buffer, Event, Program, Stamp, Stream};
use streampool_tensor::{Array, DType, Layout, Tensor};

use super::blame::is_of_another;
use super::compiled::{Compiled, Ends};
use super::input::Input;
use super::key::Key;
use super::lanes::Ready;
use super::pending::Pending;
use super::special::Places;
use super::turns::{Turn, Turns};
use super::under_way::Run;
use super::weights::Weights;
use super::{Inner, Outputs, RunOptions};
use crate::error::{Error, Fault, Result};
use crate::evaluate::{Place, Scope, Value, step};
use crate::graph::ValueId;
use crate::lower::{Output, Port};
use crate::trace::{Given, Kind};

/// The place of nodes that are computed by themselves.
struct Eager<'a>(&'a Weights);

impl Place for Eager<'_> {
    fn known(&self) -> &streampool_tensor::Pool {
        self.0.known()
    }

    fn work(&self) -> &streampool_tensor::Pool {
        self.0.work()
    }

    fn lift(&self, known: &Tensor) -> Result<Tensor, Fault> {
        self.0.lift(known)
    }
}

/// A value between two parts.
#[derive(Clone)]
enum Between {
    /// The same whatever is in the inputs.
    Known(Value),
    /// From the inputs.
    Made(Value),
}

/// What a part has made, by value.
type Outcomes = Vec<(ValueId, Between)>;

impl Inner {
    /// Host arrays in, host arrays out.
    pub fn run_arrays(&self, inputs: &[Input<'_>], options: &RunOptions) -> Result<Outputs> {
        self.run_and_read(inputs, options, |ready| self.read_outputs(ready), Ok)
    }

    /// As [`run_arrays`](Self::run_arrays), each output divided into so many rows at a time.
    pub fn run_divided(&self, inputs: &[Input<'_>], rows: &[usize]) -> Result<Vec<Vec<Array>>> {
        self.check_depends()?;
        let first = inputs.first().and_then(|input| input.shape().first());
        let share = Shares {
            rows,
            all: first.copied().unwrap_or_default(),
        };
        self.run_and_read(
            inputs,
            &RunOptions::default(),
            |ready| self.read_divided(ready, &share),
            |outputs| share.of(&outputs),
        )
    }

    /// Refuses to divide an output that has the same rows however many are asked for.
    fn check_depends(&self) -> Result<()> {
        let graph = self.parts.graph();
        let is_constant = |id: &&ValueId| graph.constants.contains_key(id);
        match graph.outputs.iter().find(is_constant) {
            None => Ok(()),
            Some(&id) => Err(Error::Output {
                name: graph.name(id).to_owned(),
                got: "the same whatever is given".to_owned(),
                expected: "rows along its first axis, one for each of the batch".to_owned(),
            }),
        }
    }

    /// A run, and what `read` finds in its program, or `convert` makes of outputs that it has.
    fn run_and_read<R>(
        &self,
        inputs: &[Input<'_>],
        options: &RunOptions,
        read: impl Fn(&mut Ready) -> Result<R>,
        convert: impl Fn(Outputs) -> Result<R>,
    ) -> Result<R> {
        options.check()?;
        let ran = self.pool().for_run(options.deadline, |stream| {
            self.by_itself(stream, options, || {
                self.run_and_read_on(stream, inputs, options, &read, &convert)
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
        options: &RunOptions,
        read: impl Fn(&mut Ready) -> Result<R>,
        convert: impl Fn(Outputs) -> Result<R>,
    ) -> Result<R> {
        let Some(mut ready) = self.ready(stream, inputs, Ends::Host, Some(options))? else {
            return convert(self.run_parts_to_arrays(stream, inputs, options)?);
        };
        let settled = ready.settle(options);
        let stamp = match settled.and_then(|()| self.start(stream, &mut ready, inputs)) {
            Ok(stamp) => stamp,
            Err(error) => {
                self.lanes.give(stream.index(), ready);
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
            self.lanes.give(stream.index(), ready);
        }
        outputs
    }

    /// An event behind what is encoded so far.
    fn event_on(&self, stream: &Stream) -> Result<Arc<Event>> {
        let event = self.pool().event()?;
        stream.record(&event)?;
        stream.flush()?;
        Ok(Arc::new(event))
    }

    /// As [`run_arrays`](Self::run_arrays), without waiting; or the run that has to be over first.
    pub fn submit_arrays(
        self: &Arc<Self>,
        inputs: &[Input<'_>],
    ) -> Result<std::result::Result<Pending, Arc<Run>>> {
        let stream = self.pool().current()?;
        if let Some(oldest) = self.under_way.in_the_way(stream) {
            return Ok(Err(oldest));
        }
        let options = RunOptions::default();
        let begun = self.by_itself(stream, &options, || {
            let Some(mut ready) = self.ready(stream, inputs, Ends::Host, None)? else {
                return Ok(None);
            };
            let stamp = self.start(stream, &mut ready, inputs)?;
            Ok(Some(Run::new(stream, ready, stamp, self.event_on(stream)?)))
        });
        let Some(run) = begun? else {
            let outputs = self.by_itself(stream, &options, || {
                self.run_parts_to_arrays(stream, inputs, &options)
            });
            return Ok(Ok(Pending::over(outputs)));
        };
        self.under_way.add(run.clone());
        Ok(Ok(Pending::begun(self.clone(), run)))
    }

    /// Sets a program to work once more on the inputs that it has.
    pub fn repeat(&self, stream: &Stream, ready: &Ready) -> Result<(Stamp, Arc<Event>)> {
        let stamp = self.replay(stream, ready, &[], &mut [])?;
        Ok((stamp, self.event_on(stream)?))
    }

    fn run_parts_to_arrays(
        &self,
        stream: &Stream,
        inputs: &[Input<'_>],
        options: &RunOptions,
    ) -> Result<Outputs> {
        let values = self.run_parts(stream, inputs, options)?;
        options.wait_ahead(stream)?;
        let arrays = values
            .iter()
            .map(|value| value.tensors().iter().map(Array::of).collect());
        Ok(self.outputs(arrays.collect::<Result<_, _>>()?))
    }

    /// Outputs stay where they are made.
    pub fn run_tensors(&self, inputs: &[Input<'_>]) -> Result<Vec<Value>> {
        let stream = self.pool().current()?;
        self.by_itself(stream, &RunOptions::default(), || {
            self.run_tensors_on(stream, inputs)
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
            self.lanes.give(stream.index(), ready);
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
    fn ready(
        &self,
        stream: &Stream,
        inputs: &[Input<'_>],
        ends: Ends,
        patient: Option<&RunOptions>,
    ) -> Result<Option<Ready>> {
        if self.has_parts() {
            return Ok(None);
        }
        let values = values(inputs, self.special.places())?;
        let fits = |key: &Key| {
            key.start == 0
                && key.given.len() == inputs.len()
                && key
                    .given
                    .iter()
                    .zip(inputs)
                    .enumerate()
                    .all(|(place, (part, input))| {
                        let bytes = values.iter().find(|(other, _)| *other == place);
                        let bytes = bytes.map(|(_, bytes)| &bytes[..]);
                        part.fits(input.dtype(), input.shape(), bytes)
                    })
        };
        if let Some(ready) = self.lanes.take(stream.index(), ends, fits) {
            return Ok(Some(ready));
        }
        loop {
            let special = self.special.places();
            let given = self.given(inputs, special)?;
            let key = Arc::new(Key::of(0, &given)?);
            let compiled = self.parts.plan(&key, &given, &self.weights)?;
            let Some(asked) = &compiled.ended else {
                if let Some(options) = patient {
                    options.check()?;
                }
                if let (Some(options), Some(turns)) = (patient, compiled.turns.clone()) {
                    let turn = self.turn(stream, &turns, options)?;
                    let shared = turn
                        .as_ref()
                        .and_then(|_| self.lanes.take_shared(ends, &key));
                    let ready = match shared {
                        Some(ready) => ready,
                        None => self.capture(stream, key, compiled, ends)?,
                    };
                    return Ok(Some(match turn {
                        Some(turn) => ready.in_turn(turn),
                        None => ready.for_once(),
                    }));
                }
                return Ok(Some(self.capture(stream, key, compiled, ends)?));
            };
            if !self.special.add(special, &asked.inputs, inputs) {
                self.note_parts();
                return Ok(None);
            }
        }
    }

    /// A turn; none for who has to do without. What comes too late is refused.
    fn turn(
        &self,
        stream: &Stream,
        turns: &Arc<Turns>,
        options: &RunOptions,
    ) -> Result<Option<Turn>> {
        let turn = turns.free().or_else(|| {
            self.counts.waited(stream.index());
            turns.next(options)
        });
        options.check()?;
        if turn.is_none() {
            self.counts.without_turn(stream.index());
        }
        Ok(turn)
    }

    fn capture(
        &self,
        stream: &Stream,
        key: Arc<Key>,
        compiled: Arc<Compiled>,
        ends: Ends,
    ) -> Result<Ready> {
        self.counts.captured(stream.index());
        let program = compiled.capture(self.pool(), stream, ends)?;
        Ok(Ready::new(key, ends, compiled, program))
    }

    /// Takes the inputs and sets a program to work on them.
    fn start(&self, stream: &Stream, ready: &mut Ready, inputs: &[Input<'_>]) -> Result<Stamp> {
        let plan = &ready.compiled.plan;
        let shared = shared(&mut ready.program)?;
        for (port, input) in plan.inputs.iter().zip(ready.key.bound(inputs)) {
            let room = &mut shared[port.offset..][..port.kind.bytes()];
            input.copy_to(room)?;
        }
        self.replay(stream, ready, &[], &mut [])
    }

    /// Where on its stream it ends.
    fn replay(
        &self,
        stream: &Stream,
        ready: &Ready,
        inputs: &[&Buffer],
        outputs: &mut [&mut Buffer],
    ) -> Result<Stamp> {
        let stamp = if self.replays.are_noted() {
            let stamps = stream.replay_each(&ready.program, inputs, outputs)?;
            self.replays.note(&stamps, &ready.compiled);
            stamps.last().copied().unwrap_or(stream.position())
        } else {
            stream.replay(&ready.program, inputs, outputs)?
        };
        self.counts.replayed(stream.index());
        Ok(stamp)
    }

    /// What a program that is done has made.
    pub fn read_outputs(&self, ready: &mut Ready) -> Result<Outputs> {
        let shared: &[u8] = shared(&mut ready.program)?;
        let read = |port: &Port| {
            let bytes = &shared[port.offset..][..port.kind.bytes()];
            Array::from_bytes(port.kind.dtype, bytes, &port.kind.shape)
        };
        let arrays = ready
            .compiled
            .plan
            .outputs
            .iter()
            .map(|(_, output)| match output {
                Output::Known(value) => value.tensors().iter().map(Array::of).collect(),
                Output::Tensor(port) => Ok(vec![read(port)?]),
                Output::Sequence(ports) => ports.iter().map(read).collect(),
            });
        Ok(self.outputs(arrays.collect::<Result<_, _>>()?))
    }

    /// The same, divided: each share is copied once, out of the program's memory.
    fn read_divided(&self, ready: &mut Ready, shares: &Shares<'_>) -> Result<Vec<Vec<Array>>> {
        let plan = &ready.compiled.plan;
        let mut left: Vec<(&Kind, &[u8])> = Vec::new();
        let shared: &[u8] = shared(&mut ready.program)?;
        for ((_, output), name) in plan.outputs.iter().zip(self.output_names.iter()) {
            let Output::Tensor(port) = output else {
                let outputs = self.read_outputs(ready)?;
                return shares.of(&outputs);
            };
            shares.check(name, port.kind.dtype, &port.kind.shape)?;
            left.push((&port.kind, &shared[port.offset..][..port.kind.bytes()]));
        }
        let each = shares.rows.iter().map(|&rows| {
            let own = |(kind, left): &mut (&Kind, &[u8])| {
                let mut shape = kind.shape.clone();
                let row = kind.bytes() / shape[0].max(1);
                shape[0] = rows;
                let (own, others) = left.split_at(rows * row);
                *left = others;
                Ok(Array::from_bytes(kind.dtype, own, &shape)?)
            };
            left.iter_mut().map(own).collect()
        });
        each.collect()
    }

    fn replay_device(&self, stream: &Stream, ready: &Ready, inputs: &[Tensor]) -> Result<Outcomes> {
        let plan = &ready.compiled.plan;
        let mut buffers: Vec<Buffer> = plan
            .output_ports()
            .map(|port| stream.allocate(port.kind.bytes()))
            .collect::<Result<_, _>>()?;
        let given: Vec<&Buffer> = inputs.iter().map(Tensor::buffer).collect();
        let mut made: Vec<&mut Buffer> = buffers.iter_mut().collect();
        self.replay(stream, ready, &given, &mut made)?;
        let mut buffers = plan.output_ports().zip(buffers).map(|(port, buffer)| {
            let layout =
                Layout::contiguous(&port.kind.shape).map_err(streampool_runtime::Error::from)?;
            Ok(Tensor::from_buffer(
                self.pool(),
                buffer,
                port.kind.dtype,
                layout,
            )?)
        });
        let mut next = || {
            buffers
                .next()
                .unwrap_or_else(|| Err(Error::Graph(Fault::unsupported("an output"))))
        };
        let outputs = plan.outputs.iter().map(|(id, output)| {
            let value = match output {
                Output::Known(value) => Between::Known(value.clone()),
                Output::Tensor(_) => Between::Made(Value::Tensor(next()?)),
                Output::Sequence(ports) => {
                    let tensors = ports.iter().map(|_| next()).collect::<Result<_>>()?;
                    Between::Made(Value::Sequence(tensors))
                }
            };
            Ok((*id, value))
        });
        outputs.collect()
    }

    /// Part after part, with the nodes between them.
    fn run_parts(
        &self,
        stream: &Stream,
        inputs: &[Input<'_>],
        options: &RunOptions,
    ) -> Result<Vec<Value>> {
        let graph = self.parts.graph();
        let mut values: Vec<Option<Between>> = vec![None; graph.value_count()];
        let special = self.special.places();
        for (place, (&id, input)) in graph.inputs.iter().zip(inputs).enumerate() {
            let value = match special.contains(place) {
                true => Between::Known(input.known(self.weights.known())?.into()),
                false => Between::Made(input.at_work(self.pool())?.into()),
            };
            values[id.index()] = Some(value);
        }
        let mut start = 0;
        loop {
            let (outputs, ended) = self.run_part(stream, start, &values)?;
            let Some(node) = ended else {
                return outputs
                    .into_iter()
                    .map(|(_, value)| self.finished(value))
                    .collect();
            };
            for (id, value) in outputs {
                values[id.index()] = Some(value);
            }
            // The node asks for values, and so waits.
            options.wait_ahead(stream)?;
            self.run_node(stream, node, &mut values)?;
            options.check()?;
            start = node + 1;
            // What nobody reads any more goes.
            let live = self.parts.live(start);
            for id in graph.ids() {
                if values[id.index()].is_some() && live.binary_search(&id).is_err() {
                    values[id.index()] = None;
                }
            }
        }
    }

    fn run_part(
        &self,
        stream: &Stream,
        start: usize,
        values: &[Option<Between>],
    ) -> Result<(Outcomes, Option<usize>)> {
        let mut given = Vec::new();
        let mut tensors = Vec::new();
        for &id in self.parts.live(start) {
            let one = match &values[id.index()] {
                None => continue,
                Some(Between::Made(Value::Tensor(tensor))) => {
                    tensors.push(tensor.dense()?);
                    Given::Input(Kind::of(tensor))
                }
                Some(Between::Made(value) | Between::Known(value)) => Given::Known(value.clone()),
            };
            given.push((id, one));
        }
        let key = Arc::new(Key::of(start, &given)?);
        let ready = match self
            .lanes
            .take(stream.index(), Ends::Device, |other| *other == *key)
        {
            Some(ready) => ready,
            None => {
                let compiled = self.parts.plan(&key, &given, &self.weights)?;
                self.capture(stream, key, compiled, Ends::Device)?
            }
        };
        let outputs = self.replay_device(stream, &ready, &tensors);
        let ended = ready.compiled.ended.as_ref().map(|asked| asked.node);
        self.lanes.give(stream.index(), ready);
        Ok((outputs?, ended))
    }

    fn run_node(
        &self,
        stream: &Stream,
        place: usize,
        values: &mut [Option<Between>],
    ) -> Result<()> {
        let graph = self.parts.graph();
        let node = &graph.nodes[place];
        let eager = Eager(&self.weights);
        let mut scope = Scope::new(graph, &eager);
        for id in node.reads() {
            if let Some(Between::Known(value) | Between::Made(value)) = &values[id.index()] {
                scope.set(id, value.clone());
            }
        }
        step(&mut scope, graph, node)?;
        for &id in node.outputs.iter().flatten() {
            values[id.index()] = scope.get(id).cloned().map(Between::Made);
        }
        self.counts.computed(stream.index());
        Ok(())
    }

    /// A value as a caller gets it: in the pool where the work is.
    fn finished(&self, value: Between) -> Result<Value> {
        let (Between::Known(value) | Between::Made(value)) = value;
        let moved = |tensor: &Tensor| self.weights.lift(tensor).map_err(Error::Graph);
        Ok(match value {
            Value::Tensor(tensor) => Value::Tensor(moved(&tensor)?),
            Value::Sequence(tensors) => {
                Value::Sequence(tensors.iter().map(moved).collect::<Result<_>>()?)
            }
            Value::Nothing => Value::Nothing,
        })
    }

    /// What is given to a plan that begins with the first node.
    fn given(&self, inputs: &[Input<'_>], special: Places) -> Result<Vec<(ValueId, Given)>> {
        let ids = &self.parts.graph().inputs;
        let given = ids
            .iter()
            .zip(inputs)
            .enumerate()
            .map(|(place, (&id, input))| {
                let given = match special.contains(place) {
                    true => Given::Known(input.known(self.weights.known())?.into()),
                    false => Given::Input(Kind {
                        dtype: input.dtype(),
                        shape: input.shape().to_vec(),
                    }),
                };
                Ok((id, given))
            });
        given.collect()
    }
}

/// How the rows of outputs are divided.
struct Shares<'a> {
    /// The rows of each share. Those behind them are nobody's.
    rows: &'a [usize],
    /// How many there are.
    all: usize,
}

impl Shares<'_> {
    fn check(&self, name: &str, dtype: DType, shape: &[usize]) -> Result<()> {
        let mut rows = self.rows.iter();
        let asked = rows.try_fold(0usize, |all, &rows| all.checked_add(rows));
        if shape.first() == Some(&self.all) && asked.is_some_and(|asked| asked <= self.all) {
            return Ok(());
        }
        Err(Error::Output {
            name: name.to_owned(),
            got: format!("{dtype} {shape:?}"),
            expected: format!(
                "{} rows along its first axis, one for each of the batch",
                self.all
            ),
        })
    }

    fn of(&self, outputs: &Outputs) -> Result<Vec<Vec<Array>>> {
        let named = outputs
            .iter()
            .flat_map(|(name, arrays)| arrays.iter().map(move |array| (name, array)));
        let arrays: Vec<&Array> = named
            .map(|(name, array)| {
                self.check(name, array.dtype(), array.shape())?;
                Ok(array)
            })
            .collect::<Result<_>>()?;
        let mut begin = 0;
        let each = self.rows.iter().map(|rows| {
            let own = begin..begin + rows;
            begin = own.end;
            arrays
                .iter()
                .map(|array| Ok(array.rows(own.clone())?))
                .collect()
        });
        each.collect()
    }
}

/// The bytes of the special inputs, by place. Tensors are waited for here, before a lock is held.
fn values<'a>(inputs: &'a [Input<'_>], special: Places) -> Result<Vec<(usize, Cow<'a, [u8]>)>> {
    let places = (0..inputs.len()).filter(|&place| special.contains(place));
    let values = places.map(|place| Ok((place, inputs[place].to_bytes()?)));
    values.collect()
}

/// The memory in which a program takes its inputs from the host and leaves its outputs, once no replay uses it.
fn shared(program: &mut Program) -> Result<&mut [u8]> {
    let shared = program.shared().next().transpose()?;
    Ok(shared.unwrap_or_default())
}
