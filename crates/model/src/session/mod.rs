//! Sessions: a model loaded once, run from any number of threads.

mod between;
mod blame;
mod compiled;
mod counts;
mod defaults;
mod divide;
mod figures;
mod input;
mod key;
mod lanes;
mod ledger;
mod making;
mod options;
mod outputs;
mod parts;
mod pending;
mod profile;
mod run;
mod special;
mod turns;
mod under_way;
mod weights;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use smallvec::{SmallVec, smallvec};
use streampool_runtime::Settings;
use streampool_tensor::{Pool, Tensor};

pub use counts::Statistics;
pub use input::{Input, Rows};
pub use options::{RunOptions, SessionOptions};
pub use outputs::Outputs;
use outputs::{Arrays, Made};
pub use pending::Pending;
pub use profile::{NodeTime, Profiled, Recording};
pub use streampool_tensor::Array;

use crate::check::check_operators;
use crate::error::{Error, Result};
use crate::graph::{Dim, Graph, ValueId, ValueInfo};
use crate::onnx::{self, Model};
use crate::passes;
use counts::Counts;
use defaults::Defaults;
use lanes::Lanes;
use parts::Parts;
use profile::Replays;
use special::Special;
use under_way::UnderWay;
use weights::Weights;

/// A model, ready to run from any thread. Cheap to clone; clones are the same session.
#[derive(Clone)]
pub struct Session(Arc<Inner>);

/// The inputs of a run, in the model's order.
type InferAll<'a> = SmallVec<[Input<'a>; 4]>;

struct Inner {
    inputs: Vec<ValueInfo>,
    outputs: Vec<ValueInfo>,
    /// The names of these, as each run gives them on.
    output_names: Arc<[String]>,
    metadata: BTreeMap<String, String>,
    parts: Parts,
    weights: Arc<Weights>,
    /// What need not be given.
    defaults: Option<Defaults>,
    lanes: Lanes,
    under_way: UnderWay,
    special: Special,
    has_parts: AtomicBool,
    counts: Counts,
    replays: Replays,
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
        Session::loaded(pool, options, |known| {
            onnx::read_with(path, data_folder, known)
        })
    }

    /// As [`load_with`](Self::load_with), from the bytes of a file. What it keeps in files of its own cannot be found.
    pub fn from_bytes(
        pool: &Pool,
        bytes: impl Into<Bytes>,
        options: &SessionOptions,
    ) -> Result<Session> {
        let bytes = bytes.into();
        Session::loaded(pool, options, |known| {
            onnx::read_bytes(bytes.clone(), known)
        })
    }

    /// A session of what `read` makes in the pool of what is known. It does not matter what else the stream was given.
    fn loaded(
        pool: &Pool,
        options: &SessionOptions,
        read: impl Fn(&Pool) -> Result<Model>,
    ) -> Result<Session> {
        let known = known_pool(pool)?;
        let stream = known.current()?;
        blame::by_itself(stream, &RunOptions::default(), || {
            let begin = stream.position();
            let session = Session::of_model(pool, known.clone(), read(&known)?, options)?;
            // Weights are there, or it is said now.
            stream.wait_between(begin, stream.position(), None)?;
            Ok(session)
        })
    }

    fn of_model(
        pool: &Pool,
        known: Pool,
        model: Model,
        options: &SessionOptions,
    ) -> Result<Session> {
        let mut graph = model.graph;
        check_operators(&graph)?;
        let defaults = Defaults::of(&graph, options);
        graph.defaults.clear();
        let weights = Arc::new(Weights::new(known, pool.clone()));
        let inner = Inner::new(graph, model.metadata, weights, options)?;
        Ok(Session(Arc::new(Inner { defaults, ..inner })))
    }

    /// Whether a run takes these inputs, in the model's order: as many as it has, of types and shapes that fit. So a server can
    /// refuse a request before it waits.
    pub fn check(&self, inputs: &[Input<'_>]) -> Result<()> {
        self.0.check_all(inputs)
    }

    /// What it is given, in order.
    pub fn inputs(&self) -> &[ValueInfo] {
        &self.0.inputs
    }

    /// What it may be given besides, by name: the model has values for these. Each choice of them that is given is planned by
    /// itself.
    pub fn optional_inputs(&self) -> &[ValueInfo] {
        match &self.0.defaults {
            Some(defaults) => &defaults.ports,
            None => &[],
        }
    }

    /// The session for callers that give these of the [optional inputs](Self::optional_inputs), too: they are inputs behind the others, for
    /// calls that take inputs in order. What is not named is what the model says.
    pub fn taking<'n>(&self, names: impl IntoIterator<Item = &'n str>) -> Result<Session> {
        let names: Vec<&str> = names.into_iter().collect();
        let is_default = |name: &str| self.optional_inputs().iter().any(|port| port.name == name);
        if let Some(other) = names.iter().find(|name| !is_default(name)) {
            return Err(self.0.no_such_input(other));
        }
        let inner = match &self.0.defaults {
            Some(defaults) => defaults.given(names.into_iter(), &self.0.weights)?,
            None => None,
        };
        Ok(Session(inner.unwrap_or_else(|| self.0.clone())))
    }

    /// What it gives, in order.
    pub fn outputs(&self) -> &[ValueInfo] {
        &self.0.outputs
    }

    /// What it gives, with sizes said by those of the inputs, as far as they can be found out: for that the model is traced
    /// several times.
    pub fn infer_output_shapes(&self) -> Vec<ValueInfo> {
        let graph = self.0.parts.graph();
        let shapes = graph.shapes(self.0.weights.known());
        let port = |&id: &ValueId| shapes.complete(id, graph.value(id));
        graph.outputs.iter().map(port).collect()
    }

    /// What the model says of itself beyond that, by keys.
    pub fn metadata(&self) -> &BTreeMap<String, String> {
        &self.0.metadata
    }

    /// The pool it runs in.
    pub fn pool(&self) -> &Pool {
        self.0.pool()
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
        self.with_inputs(inputs, |inner, inputs| match options.urgent {
            true => {
                let stream = inner.pool().urgent()?;
                inner
                    .pool()
                    .with_stream(stream, || inner.run_arrays(inputs, options))?
            }
            false => inner.run_arrays(inputs, options),
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
        self.with_inputs(inputs, |inner, inputs| {
            loop {
                match inner.submit_arrays(inputs)? {
                    Ok(pending) => return Ok(pending),
                    Err(oldest) => oldest.settle(inner),
                }
            }
        })
    }

    /// As [`submit`](Self::submit); fails with [`Busy`](Error::Busy) when as many runs are under way as may be.
    pub fn try_submit<'a, N, I>(&self, inputs: impl IntoIterator<Item = (N, I)>) -> Result<Pending>
    where
        N: AsRef<str>,
        I: Into<Input<'a>>,
    {
        self.with_inputs(inputs, |inner, inputs| {
            let limit = inner.under_way.most();
            let submitted = inner.submit_arrays(inputs)?;
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
            let submitted = self.with_inputs(named, |inner, inputs| {
                let submitted = inner.submit_arrays(inputs)?;
                Ok(submitted.map_err(|oldest| (inner.clone(), oldest)))
            });
            match submitted? {
                Ok(pending) => return Ok(pending),
                Err((inner, oldest)) => {
                    std::future::poll_fn(|context| {
                        match oldest.is_over() || oldest.wake(context.waker()) {
                            true => std::task::Poll::Ready(()),
                            false => std::task::Poll::Pending,
                        }
                    })
                    .await;
                    oldest.settle(&inner);
                }
            }
        }
    }

    /// Calls `run` with inputs in order, and with the model that takes them.
    fn with_inputs<'a, N, I, T>(
        &self,
        inputs: impl IntoIterator<Item = (N, I)>,
        run: impl FnOnce(&Arc<Inner>, &[Input<'a>]) -> Result<T>,
    ) -> Result<T>
    where
        N: AsRef<str>,
        I: Into<Input<'a>>,
    {
        let inputs = inputs.into_iter().map(|(name, input)| (name, input.into()));
        let Some(defaults) = &self.0.defaults else {
            return run(&self.0, &self.0.in_order(inputs)?);
        };
        let inputs: Vec<(N, Input<'a>)> = inputs.collect();
        let names = inputs.iter().map(|(name, _)| name.as_ref());
        let other = defaults.given(names, &self.0.weights)?;
        let inner = other.as_ref().unwrap_or(&self.0);
        run(inner, &inner.in_order(inputs.into_iter())?)
    }

    /// Makes what runs with inputs of these shapes need, so that the first of them takes no longer than others: the shapes
    /// are in the order of [`inputs`](Self::inputs), whose types the model has to declare. Call it on each thread that will
    /// run, or leave it to their first runs: the plan is shared, the programs are not.
    pub fn warm_up(&self, shapes: &[&[usize]]) -> Result<()> {
        let arrays = self.0.inputs.iter().zip(shapes).map(|(port, shape)| {
            let dtype = port
                .dtype
                .ok_or_else(|| Error::input(&port.name, "of no declared type", "declared"))?;
            Ok(Array::zeros(dtype, shape)?)
        });
        let arrays: Vec<Array> = arrays.collect::<Result<_>>()?;
        let inputs: Vec<Input<'_>> = arrays.iter().map(Input::from).collect();
        self.run_positional(&inputs)?;
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
        self.0.check_all(inputs)?;
        self.0.run_arrays(inputs, options)
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
        self.0.check_all(inputs)?;
        self.0.run_batch(inputs, rows, options)
    }

    /// Runs the model on the calling thread's current stream; the outputs stay on the device, in the order of
    /// [`outputs`](Self::outputs), and are not waited for.
    pub fn run_to_tensors(&self, inputs: &[Input<'_>]) -> Result<Vec<Tensor>> {
        self.0.check_all(inputs)?;
        let values = self.0.run_tensors(inputs)?;
        let tensors = values.iter().map(|value| value.tensor().cloned());
        tensors.collect::<Result<_, _>>().map_err(Error::Graph)
    }

    /// What it did and holds.
    pub fn statistics(&self) -> Statistics {
        let others = self.0.defaults.iter().flat_map(Defaults::statistics);
        others.fold(self.0.statistics(), Statistics::and)
    }
}

/// The pool of what is known: on the host.
fn known_pool(pool: &Pool) -> Result<Pool> {
    use streampool_device::DeviceKind;
    use streampool_host::{HostDevice, HostOptions};
    if pool.device().properties().kind == DeviceKind::Host {
        return Ok(pool.clone());
    }
    let device =
        HostDevice::new(HostOptions::default()).map_err(streampool_runtime::Error::from)?;
    // What is made for a model counts in its pool's limit, wherever it lies.
    let settings = Settings::builder().memory_limit(pool.settings().memory_limit);
    let settings = settings.build().map_err(streampool_runtime::Error::from)?;
    Ok(Pool::with_settings(device, settings)?)
}

impl Inner {
    /// A model in a graph whose operators are all there.
    fn new(
        mut graph: Graph,
        metadata: BTreeMap<String, String>,
        weights: Arc<Weights>,
        options: &SessionOptions,
    ) -> Result<Inner> {
        let rewritten = match options.simplify {
            true => passes::simplify(&mut graph, weights.known())?,
            false => passes::Report::default(),
        };
        if let Some(precision) = options.precision {
            passes::shorten(&mut graph, precision)?;
        }
        let port = |&id: &ValueId| graph.value(id).clone();
        let name = |&id: &ValueId| graph.name(id).to_owned();
        Ok(Inner {
            inputs: graph.inputs.iter().map(port).collect(),
            outputs: graph.outputs.iter().map(port).collect(),
            output_names: graph.outputs.iter().map(name).collect(),
            metadata,
            parts: Parts::new(graph, rewritten.fusions),
            weights,
            defaults: None,
            lanes: Lanes::new(options.program_memory),
            under_way: UnderWay::new(options),
            special: Special::new(),
            has_parts: AtomicBool::new(false),
            counts: Counts::new(),
            replays: Replays::new(),
        })
    }

    fn statistics(&self) -> Statistics {
        let (programs, program_bytes) = self.lanes.held();
        Statistics {
            plans: self.parts.count(),
            programs,
            program_bytes: program_bytes + self.parts.bytes(),
            evicted: self.lanes.evicted(),
            ..self.counts.statistics()
        }
    }

    fn pool(&self) -> &Pool {
        self.weights.work()
    }

    fn has_parts(&self) -> bool {
        self.has_parts.load(Ordering::Relaxed)
    }

    fn note_parts(&self) {
        self.has_parts.store(true, Ordering::Relaxed);
    }

    fn in_order<'a, N: AsRef<str>>(
        &self,
        given: impl Iterator<Item = (N, Input<'a>)>,
    ) -> Result<InferAll<'a>> {
        let mut inputs: SmallVec<[Option<Input<'a>>; 4]> = smallvec![None; self.inputs.len()];
        for (name, input) in given {
            let name = name.as_ref();
            let place = self.inputs.iter().position(|port| port.name == name);
            let place = place.ok_or_else(|| self.no_such_input(name))?;
            if inputs[place].replace(input).is_some() {
                return Err(Error::input(name, "given twice", "given once"));
            }
        }
        let all: Option<InferAll<'a>> = inputs.iter().copied().collect();
        let all = all.ok_or_else(|| {
            let missing = inputs.iter().position(Option::is_none).unwrap_or(0);
            self.missing(missing)
        })?;
        self.check_all(&all)?;
        Ok(all)
    }

    fn check_all(&self, inputs: &[Input<'_>]) -> Result<()> {
        if inputs.len() > self.inputs.len() {
            return Err(self.no_such_input(&format!("number {}", self.inputs.len())));
        }
        if inputs.len() < self.inputs.len() {
            return Err(self.missing(inputs.len()));
        }
        for (port, input) in self.inputs.iter().zip(inputs) {
            port.check(*input)?;
            self.check_pool(&port.name, *input)?;
        }
        Ok(())
    }

    fn check_pool(&self, name: &str, input: Input<'_>) -> Result<()> {
        let Input::Tensor(tensor) = input else {
            return Ok(());
        };
        let here = self.pool();
        if tensor.pool().is_same(here) {
            return Ok(());
        }
        let got = format!("in another pool, on {}", tensor.device());
        let expected = format!(
            "in the session's, on {}: move it there with `to`",
            here.device().properties().name
        );
        Err(Error::input(name, got, expected))
    }

    fn missing(&self, place: usize) -> Error {
        let port = &self.inputs[place];
        Error::input(&port.name, "not given", port.described())
    }

    fn no_such_input(&self, name: &str) -> Error {
        let defaults = self.defaults.iter().flat_map(|defaults| &defaults.ports);
        let all = self.inputs.iter().chain(defaults);
        let names: Vec<&str> = all.map(|port| &port.name[..]).collect();
        Error::input(
            name,
            "no input of the model",
            match &names[..] {
                [] => "none: the model has no inputs".to_owned(),
                names => format!("one of {}", names.join(", ")),
            },
        )
    }

    fn outputs(&self, arrays: Made) -> Outputs {
        Outputs {
            names: self.output_names.clone(),
            arrays,
        }
    }
}

impl ValueInfo {
    fn check(&self, input: Input<'_>) -> Result<()> {
        let fits =
            |(dim, &size): (&Dim, &usize)| !matches!(dim, Dim::Fixed(fixed) if *fixed != size);
        let dtype = self.dtype.is_none_or(|dtype| dtype == input.dtype());
        let shape = self.shape.as_ref().is_none_or(|shape| {
            shape.len() == input.shape().len() && shape.iter().zip(input.shape()).all(fits)
        });
        if dtype && shape {
            return Ok(());
        }
        let got = format!("{} {:?}", input.dtype(), input.shape());
        Err(Error::input(&self.name, got, self.described()))
    }

    /// What fits, for messages.
    fn described(&self) -> String {
        let dtype = self
            .dtype
            .map_or("a tensor".to_owned(), |dtype| dtype.to_string());
        match &self.shape {
            None => dtype,
            Some(shape) => {
                let sizes: Vec<String> = shape.iter().map(Dim::to_string).collect();
                format!("{dtype} [{}]", sizes.join(", "))
            }
        }
    }
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session")
            .field("device", &self.pool().device().properties().name)
            .field("inputs", &self.0.inputs)
            .field("outputs", &self.0.outputs)
            .finish_non_exhaustive()
    }
}
