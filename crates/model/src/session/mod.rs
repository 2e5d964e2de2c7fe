//! Sessions: a model loaded once, run from any number of threads.

mod binding;
mod blame;
mod by_value;
mod carried_runs;
mod carry;
mod compiled;
mod counts;
mod divide;
mod external;
mod figures;
mod input;
mod key;
mod ledger;
mod make_once;
mod optional_inputs;
mod options;
mod outputs;
mod part_runs;
mod pending;
mod plans;
mod prepared;
mod profile;
mod programs;
mod run;
mod turns;
mod under_way;
mod weights;

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::{Arc, Weak};
use std::time::Instant;

use bytes::Bytes;
use streampool_device::lock::Mutex;
use streampool_device::{DeviceKind, Process};
use streampool_host::{HostDevice, HostOptions};
use streampool_runtime::Settings;
use streampool_tensor::{Pool, Tensor};

pub use binding::Binding;
pub use counts::Statistics;
pub use external::OutputMemory;
pub use input::{Input, Rows};
pub use options::{RunOptions, SessionOptions};
pub use outputs::Outputs;
pub use pending::Pending;
pub use profile::{NodeTime, Profiled, Recording};
pub use streampool_tensor::Array;

use crate::check::check_operators;
use crate::error::{Error, Result};
use crate::graph::{ValueId, ValueInfo};
use crate::onnx::{self, Model};
use crate::ranks;
use optional_inputs::OptionalInputs;
use prepared::Prepared;
use weights::Weights;

/// A model, ready to run from any thread. Cheap to clone; clones are the same session.
#[derive(Clone)]
pub struct Session {
    model: Arc<Prepared>,
    /// What need not be given.
    optional: Option<Arc<OptionalInputs>>,
}

impl Session {
    /// Loads an ONNX file, to be run on the device of `pool`. It is read, not mapped: what others do to it afterwards changes
    /// nothing.
    pub fn load(pool: &Pool, path: impl AsRef<Path>) -> Result<Session> {
        Session::load_with(pool, path, &SessionOptions::default())
    }

    /// As [`load`](Self::load), with options.
    pub fn load_with(
        pool: &Pool,
        path: impl AsRef<Path>,
        options: &SessionOptions,
    ) -> Result<Session> {
        let (path, data_folder) = (path.as_ref(), options.data_folder.as_deref());
        Session::loaded(pool, options, |known, given| {
            onnx::read_with(path, data_folder, given, known)
        })
    }

    /// As [`load_with`](Self::load_with), from the bytes of a file. What it keeps in files of its own cannot be found.
    pub fn from_bytes(
        pool: &Pool,
        bytes: impl Into<Bytes>,
        options: &SessionOptions,
    ) -> Result<Session> {
        let bytes = bytes.into();
        Session::loaded(pool, options, |known, given| {
            onnx::read_bytes_with(bytes.clone(), given, known)
        })
    }

    /// A session of what `read` makes in the pool of what is known, of weights there that were given. It does not matter what else
    /// the stream was given.
    fn loaded(
        pool: &Pool,
        options: &SessionOptions,
        read: impl Fn(&Pool, &HashMap<String, Tensor>) -> Result<Model>,
    ) -> Result<Session> {
        let known = known_pool(pool)?;
        let stream = known.current()?;
        blame::by_itself(stream, &RunOptions::default(), || {
            let begin = stream.position();
            let weights = Weights::new(known.clone(), pool.clone());
            let given = options.weights.iter();
            let given = given.map(|(name, tensor)| Ok((name.clone(), weights.share(tensor)?)));
            let model = read(&known, &given.collect::<Result<_>>()?)?;
            let session = Session::of_model(model, Arc::new(weights), options)?;
            // Weights are there, or it is said now.
            stream.wait_between(begin, stream.position(), None)?;
            Ok(session)
        })
    }

    fn of_model(model: Model, weights: Arc<Weights>, options: &SessionOptions) -> Result<Session> {
        check_operators(&model.graph)?;
        let optional = OptionalInputs::of(&model.graph, options, &weights);
        let model = Prepared::new(model.graph, model.metadata, weights, options)?;
        model.weights.drop_unused();
        Ok(Session {
            model: Arc::new(model),
            optional: optional.map(Arc::new),
        })
    }

    /// Whether a run takes these inputs, in the model's order: as many as it has, of types and shapes that fit. So a server can
    /// refuse a request before it waits.
    pub fn check(&self, inputs: &[Input<'_>]) -> Result<()> {
        self.model.check_all(inputs)
    }

    /// What it is given, in order.
    pub fn inputs(&self) -> &[ValueInfo] {
        &self.model.inputs
    }

    /// What it may be given besides, by name: the model has values for these. Each choice of them that is given is planned by
    /// itself.
    pub fn optional_inputs(&self) -> &[ValueInfo] {
        &self.model.optional
    }

    /// The session for callers that give these of the [optional inputs](Self::optional_inputs), too: they are inputs behind the others, for
    /// calls that take inputs in order. What is not named is what the model says.
    pub fn taking<'n>(&self, names: impl IntoIterator<Item = &'n str>) -> Result<Session> {
        let names: Vec<&str> = names.into_iter().collect();
        let is_default = |name: &str| self.optional_inputs().iter().any(|port| port.name == name);
        if let Some(other) = names.iter().find(|name| !is_default(name)) {
            return Err(self.model.no_such_input(other));
        }
        let model = match &self.optional {
            Some(optional) => optional.given(names.into_iter())?,
            None => None,
        };
        Ok(match model {
            Some(model) => Session {
                model,
                optional: None,
            },
            None => self.clone(),
        })
    }

    /// What it gives, in order.
    pub fn outputs(&self) -> &[ValueInfo] {
        &self.model.outputs
    }

    /// What it gives, with sizes said by those of the inputs, as far as they can be found out: for that the model is traced
    /// several times.
    pub fn infer_output_shapes(&self) -> Vec<ValueInfo> {
        let graph = self.model.plans.graph();
        let shapes = graph.shapes(self.model.weights.known());
        let port = |&id: &ValueId| shapes.complete(id, graph.value(id));
        graph.outputs.iter().map(port).collect()
    }

    /// What the model says of itself beyond that, by keys.
    pub fn metadata(&self) -> &BTreeMap<String, String> {
        &self.model.metadata
    }

    /// The pool it runs in.
    pub fn pool(&self) -> &Pool {
        self.model.pool()
    }

    /// Runs the model, and waits for the outputs. The stream is one [for the run](Pool::for_run): where threads are more than
    /// streams, they get one in the order of coming.
    ///
    /// A run answers for its own values. After a fault of its own, such as an index out of range, its stream is recovered;
    /// if it was not executed because another run on its stream failed, it is made again.
    pub fn run<'a, N, I>(&self, inputs: impl IntoIterator<Item = (N, I)>) -> Result<Outputs>
    where
        N: AsRef<str>,
        I: Into<Input<'a>>,
    {
        self.run_with(inputs, &RunOptions::default())
    }

    /// As [`run`](Self::run), with options.
    pub fn run_with<'a, N, I>(
        &self,
        inputs: impl IntoIterator<Item = (N, I)>,
        options: &RunOptions,
    ) -> Result<Outputs>
    where
        N: AsRef<str>,
        I: Into<Input<'a>>,
    {
        self.with_inputs(inputs, |model, inputs| {
            options.on_stream(model.pool(), || model.run_arrays(inputs, options))
        })
    }

    /// Starts a run on the calling thread's current stream, and does not wait for it. The inputs are taken before this
    /// returns. A model whose shapes depend on data is run to its end.
    ///
    /// Any number of runs may be pending. When [`max_in_flight`](SessionOptions::max_in_flight) of them are under way on the stream,
    /// this waits for the oldest; [`try_submit`](Self::try_submit) fails, and [`submit_when_room`](Self::submit_when_room)
    /// waits without blocking a thread.
    pub fn submit<'a, N, I>(&self, inputs: impl IntoIterator<Item = (N, I)>) -> Result<Pending>
    where
        N: AsRef<str>,
        I: Into<Input<'a>>,
    {
        self.submit_with(inputs, &RunOptions::default())
    }

    /// As [`submit`](Self::submit), with options. By its deadline a run is begun or fails; how long to wait for one that is
    /// begun, its waiter decides.
    pub fn submit_with<'a, N, I>(
        &self,
        inputs: impl IntoIterator<Item = (N, I)>,
        options: &RunOptions,
    ) -> Result<Pending>
    where
        N: AsRef<str>,
        I: Into<Input<'a>>,
    {
        self.with_inputs(inputs, |model, inputs| {
            options.on_stream(model.pool(), || {
                loop {
                    let oldest = match model.submit_arrays(inputs, options)? {
                        Ok(pending) => return Ok(pending),
                        Err(oldest) => oldest,
                    };
                    if let Some((_, event)) = oldest.event() {
                        options.wait_for_event(&event)?;
                    }
                    model.settle(&oldest);
                }
            })
        })
    }

    /// As [`submit`](Self::submit); fails with [`Busy`](Error::Busy) when as many runs are under way as may be.
    pub fn try_submit<'a, N, I>(&self, inputs: impl IntoIterator<Item = (N, I)>) -> Result<Pending>
    where
        N: AsRef<str>,
        I: Into<Input<'a>>,
    {
        self.try_submit_with(inputs, &RunOptions::default())
    }

    /// As [`try_submit`](Self::try_submit), with options, as [`submit_with`](Self::submit_with) takes them.
    pub fn try_submit_with<'a, N, I>(
        &self,
        inputs: impl IntoIterator<Item = (N, I)>,
        options: &RunOptions,
    ) -> Result<Pending>
    where
        N: AsRef<str>,
        I: Into<Input<'a>>,
    {
        self.with_inputs(inputs, |model, inputs| {
            let limit = model.under_way.most();
            let submit = || model.submit_arrays(inputs, options);
            let submitted = options.on_stream(model.pool(), submit)?;
            submitted.map_err(|_oldest| Error::Busy { limit })
        })
    }

    /// As [`submit`](Self::submit), without blocking a thread: it waits as a future until there is room. The stream is that
    /// of the thread that polls it.
    pub async fn submit_when_room<'a, N, I>(
        &self,
        inputs: impl IntoIterator<Item = (N, I)>,
    ) -> Result<Pending>
    where
        N: AsRef<str>,
        I: Into<Input<'a>>,
    {
        let inputs = inputs.into_iter().map(|(name, input)| (name, input.into()));
        let inputs: Vec<(N, Input<'a>)> = inputs.collect();
        loop {
            let named = inputs.iter().map(|(name, input)| (name.as_ref(), *input));
            let submitted = self.with_inputs(named, |model, inputs| {
                let submitted = model.submit_arrays(inputs, &RunOptions::default())?;
                Ok(submitted.map_err(|oldest| (model.clone(), oldest)))
            });
            match submitted? {
                Ok(pending) => return Ok(pending),
                Err((model, oldest)) => {
                    std::future::poll_fn(|context| {
                        match oldest.is_over() || oldest.wake(context.waker()) {
                            true => std::task::Poll::Ready(()),
                            false => std::task::Poll::Pending,
                        }
                    })
                    .await;
                    model.settle(&oldest);
                }
            }
        }
    }

    /// Calls `run` with inputs in order, and with the model that takes them.
    fn with_inputs<'a, N, I, T>(
        &self,
        inputs: impl IntoIterator<Item = (N, I)>,
        run: impl FnOnce(&Arc<Prepared>, &[Input<'_>]) -> Result<T>,
    ) -> Result<T>
    where
        N: AsRef<str>,
        I: Into<Input<'a>>,
    {
        let inputs = inputs.into_iter().map(|(name, input)| (name, input.into()));
        let Some(optional) = &self.optional else {
            let (model, inputs) = (&self.model, self.model.in_order(inputs)?);
            return model.with_words(&inputs, |inputs| run(model, inputs));
        };
        let inputs: Vec<(N, Input<'a>)> = inputs.collect();
        let other = optional.given(inputs.iter().map(|(name, _)| name.as_ref()))?;
        let model = other.as_ref().unwrap_or(&self.model);
        let inputs = model.in_order(inputs.into_iter())?;
        model.with_words(&inputs, |inputs| run(model, inputs))
    }

    /// Makes what runs with inputs of these shapes need, so that the first of them takes no longer than others: the shapes
    /// are in the order of [`inputs`](Self::inputs), whose types the model has to declare. Call it on each thread that will
    /// run, or leave it to their first runs: the plan is shared, the programs are not.
    pub fn warm_up(&self, shapes: &[&[usize]]) -> Result<()> {
        let arrays = self.model.inputs.iter().zip(shapes).map(|(port, shape)| {
            let dtype = port
                .dtype
                .ok_or_else(|| Error::input(&port.name, "of no declared type", "declared"))?;
            Ok(Array::zeros(dtype, shape)?)
        });
        let arrays: Vec<Array> = arrays.collect::<Result<_>>()?;
        let inputs: Vec<Input<'_>> = arrays.iter().map(Input::from).collect();
        self.run_positional(&inputs)?;
        // There a graph is made for what runs again.
        if self.pool().device().properties().kind == DeviceKind::Cuda {
            self.run_positional(&inputs)?;
        }
        Ok(())
    }

    /// As [`run`](Self::run), with the inputs in the order of [`inputs`](Self::inputs).
    pub fn run_positional(&self, inputs: &[Input<'_>]) -> Result<Outputs> {
        self.run_positional_with(inputs, &RunOptions::default())
    }

    /// As [`run_positional`](Self::run_positional), with options.
    pub fn run_positional_with(
        &self,
        inputs: &[Input<'_>],
        options: &RunOptions,
    ) -> Result<Outputs> {
        self.model.check_all(inputs)?;
        self.model
            .with_words(inputs, |inputs| self.model.run_arrays(inputs, options))
    }

    /// As [`run_positional`](Self::run_positional), for a batch: the rows of each output along its first axis are divided among so
    /// many requests, of so many rows each, and rows behind these left out. What comes back are the outputs of each request.
    pub fn run_batch(&self, inputs: &[Input<'_>], rows: &[usize]) -> Result<Vec<Vec<Array>>> {
        self.run_batch_with(inputs, rows, &RunOptions::default())
    }

    /// As [`run_batch`](Self::run_batch), with options.
    pub fn run_batch_with(
        &self,
        inputs: &[Input<'_>],
        rows: &[usize],
        options: &RunOptions,
    ) -> Result<Vec<Vec<Array>>> {
        self.model.check_all(inputs)?;
        self.model
            .with_words(inputs, |inputs| self.model.run_batch(inputs, rows, options))
    }

    /// Runs the model on the calling thread's current stream; the outputs stay on the device, in the order of
    /// [`outputs`](Self::outputs), and are not waited for.
    pub fn run_to_tensors(&self, inputs: &[Input<'_>]) -> Result<Vec<Tensor>> {
        self.model.check_all(inputs)?;
        self.model.check_closed()?;
        let values = self
            .model
            .with_words(inputs, |inputs| self.model.run_tensors(inputs))?;
        let tensors = values.iter().map(|value| value.tensor().cloned());
        tensors.collect::<Result<_, _>>().map_err(Error::Graph)
    }

    /// What it did and holds.
    pub fn statistics(&self) -> Statistics {
        let others = self
            .optional
            .iter()
            .flat_map(|optional| optional.statistics());
        others.fold(self.model.statistics(), Statistics::and)
    }

    /// Records everything that the pool does from now on, at most `capacity` ops, and which of it is for which node of
    /// this session's model. A GPU then takes longer: CUDA makes a new graph for each run, which notes the time of each kernel, and
    /// Metal runs op by op.
    pub fn profile(&self, capacity: usize) -> Result<Recording> {
        Recording::begin(
            self.pool(),
            capacity,
            &self.model.replays,
            &self.model.plans,
        )
    }
}

/// The pool of what is known: on the host.
fn known_pool(pool: &Pool) -> Result<Pool> {
    if pool.device().properties().kind == DeviceKind::Host {
        return Ok(pool.clone());
    }
    // What is made for a model counts in its pool's limit, wherever it lies.
    let settings = Settings::builder().memory_limit(pool.settings().memory_limit);
    let settings = settings.build().map_err(streampool_runtime::Error::from)?;
    Ok(Pool::with_settings(shared_host()?, settings)?)
}

/// The host device of sessions on other devices. They share it: its threads take longer to start than a small model to load.
fn shared_host() -> Result<Arc<HostDevice>> {
    static SHARED: Mutex<Option<(Process, Weak<HostDevice>)>> = Mutex::new(ranks::KNOWN, None);
    // Who comes while another starts its threads has one alone. In a fork, the other may hold the lock for ever.
    let mut shared = SHARED.lock_by(Instant::now());
    if let Some((process, device)) = shared.as_deref().and_then(Option::as_ref)
        && process.is_current()
        && let Some(device) = device.upgrade()
    {
        return Ok(device);
    }
    let options = HostOptions::default().threads(2);
    let device = HostDevice::new(options).map_err(streampool_runtime::Error::from)?;
    if let Some(shared) = &mut shared {
        **shared = Some((Process::current(), Arc::downgrade(&device)));
    }
    Ok(device)
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session")
            .field("device", &self.pool().device().properties().name)
            .field("inputs", &self.model.inputs)
            .field("outputs", &self.model.outputs)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_share_a_host_device_as_long_as_one_has_it() {
        let device = shared_host().expect("two threads start");
        assert!(Arc::ptr_eq(&device, &shared_host().expect("it is there")));
        let gone = Arc::downgrade(&device);
        drop(device);
        assert!(gone.upgrade().is_none(), "it is kept for nobody");
        shared_host().expect("two threads start");
    }
}
