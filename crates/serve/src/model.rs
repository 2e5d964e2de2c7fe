//! One version of a model: a session behind a queue on each device, and what requests have to look like.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value as Json, json};
use streampool::batch::{Batch, Priority};
use streampool::model::{Dim, ValueInfo, ValueKind};
use streampool::{
    Array, BatchQueue, DType, DeviceSet, ForSession, Input, PerDevice, PlacedTicket, Request,
    Session,
};

use crate::config::{Config, Defaults};
use crate::error::{Error, Result};
use crate::figures::Figures;
use crate::port::Port;
use crate::quick::Quick;
use crate::shared_memory::Window;
use crate::strings;
#[cfg(feature = "text")]
use crate::text::Text;
use crate::traces::Span;
use crate::warm_up;

/// One version of a model, loaded.
pub struct Model {
    name: String,
    version: u64,
    inputs: Vec<Port>,
    outputs: Vec<Port>,
    config: Config,
    /// The most rows of a batch, if requests are batched. Otherwise each array has one more axis of size 1 in front, because a queue
    /// wants rows.
    batch: Option<usize>,
    /// The longest time that a request may take.
    request_time: Option<Duration>,
    queues: PerDevice<BatchQueue>,
    quick: Quick,
    figures: Arc<Figures>,
    attached: Vec<u64>,
    #[cfg(feature = "text")]
    text: Option<Text>,
}

/// What a request says beside its inputs.
#[derive(Debug, Clone, Default)]
pub struct Terms {
    /// When it is of no use any more.
    pub deadline: Option<Instant>,
    /// When it has waited too long. What becomes of it then is for the model to say.
    pub timeout: Option<Instant>,
    /// Which comes first: 1 is the highest, 0 says nothing.
    pub priority: u64,
    /// Who sends it.
    pub tenant: Option<Arc<str>>,
    /// The span of the request, if it is traced.
    pub span: Option<Arc<Span>>,
}

/// A place for an input of a request.
#[derive(Debug)]
pub struct Place {
    /// Which of the model's inputs it is.
    pub index: usize,
    /// Its type; of strings that of their places.
    pub dtype: DType,
    /// Whether its elements are strings.
    pub strings: bool,
    /// The shape that the array of the request has.
    pub shape: Vec<usize>,
    /// How many bytes it has, unless it is of strings.
    pub bytes: usize,
}

impl Place {
    /// Refuses another number of bytes.
    pub fn check(&self, name: &str, bytes: usize) -> Result<()> {
        match bytes == self.bytes || self.strings {
            true => Ok(()),
            false => Err(Error::invalid(format!(
                "input '{name}' has {bytes} bytes, expected {} for its shape",
                self.bytes
            ))),
        }
    }

    /// The input that these bytes are.
    pub fn array(&self, name: &str, bytes: &[u8]) -> Result<Array> {
        self.check(name, bytes.len())?;
        if self.strings {
            return strings::read(name, &self.shape, bytes);
        }
        Array::from_bytes(self.dtype, bytes, &self.shape)
            .map_err(|error| Error::invalid(format!("input '{name}': {error}")))
    }
}

/// An input in shared memory. Inputs of a request there may have so many bytes together, which counts against `room`.
pub fn shared(name: &str, place: &Place, window: &Window, room: &mut usize) -> Result<Array> {
    place.check(name, window.size())?;
    *room = room.checked_sub(window.size()).ok_or(Error::TooLarge {
        what: "what the request has in shared memory, with the body,",
        limit: *room,
        setting: "max_body",
    })?;
    place.array(name, &window.read()?)
}

impl Model {
    /// Loads a model, and runs it once where its inputs have no open sizes but the number of rows.
    pub fn load(
        devices: &DeviceSet,
        [folder, path]: [&Path; 2],
        (name, version): (&str, u64),
        config: Config,
        defaults: &Defaults,
        figures: Arc<Figures>,
    ) -> Result<Model, String> {
        let model = Model::made(
            devices,
            [folder, path],
            (name, version),
            config,
            defaults,
            figures,
        );
        // A thread that loads may live on for long: the streams that it took are needed by other models.
        for pool in devices.pools() {
            pool.release_current_stream();
        }
        model
    }

    fn made(
        devices: &DeviceSet,
        [folder, path]: [&Path; 2],
        (name, version): (&str, u64),
        config: Config,
        defaults: &Defaults,
        figures: Arc<Figures>,
    ) -> Result<Model, String> {
        let sessions = devices.each(|pool| Ok(Session::load(pool, path)?));
        let sessions = sessions.map_err(|error| error.to_string())?;
        let session = sessions.iter().next().ok_or("there is no device")?;
        let inputs = ports(session.inputs())?;
        let outputs = ports(session.outputs())?;
        config.check(name, &inputs, &outputs)?;
        let rows = match config.max_batch_size {
            Some(0) => None,
            Some(rows) => Some(rows),
            None => has_rows(session).then_some(defaults.max_batch_size),
        };
        let (capacity, each) = config.capacities(defaults.queue_capacity);
        let mut settings = BatchQueue::builder()
            .max_batch_size(rows.unwrap_or(1))
            .max_wait(config.max_wait.unwrap_or(defaults.max_wait))
            .capacity(capacity);
        for (priority, capacity) in Priority::ALL.into_iter().zip(each) {
            if let Some(capacity) = capacity.filter(|&capacity| capacity > 0) {
                settings = settings.capacity_of(priority, capacity);
            }
        }
        for (tenant, weight) in &defaults.weights {
            settings = settings.tenant(tenant, *weight);
        }
        #[cfg(feature = "text")]
        let text = Text::load(path, &inputs, &outputs)?.filter(|_| rows.is_some());
        #[cfg(feature = "text")]
        if let Some(text) = &text {
            let most = defaults.max_batch_tokens / text.max_length();
            settings = settings
                .max_batch_size(rows.unwrap_or(1).min(most).max(1))
                .padding(padding(text.edges(), &inputs, &outputs));
        }
        #[cfg(not(feature = "text"))]
        if path.parent().is_some_and(|folder| {
            folder.join("tokenizer.json").exists() || folder.join("../tokenizer.json").exists()
        }) {
            tracing::warn!(
                model = name,
                "its tokenizer is not used: this program was built without `--features text`"
            );
        }
        if let Some(instances) = config.instances.or(defaults.max_in_flight) {
            settings = settings.max_in_flight(instances);
        }
        let mut took = None;
        for session in sessions.iter() {
            let own = warm_up::one_row(session, &inputs, rows.is_some(), warm_up::TIME);
            took = took.max(Some(own.unwrap_or(Duration::MAX)));
            warm_up::all(&config.warm_ups, session, &inputs, rows, folder)?;
        }
        let queues = sessions.map(|session| {
            let settings = settings.clone();
            if rows.is_some() {
                return BatchQueue::for_session(session, settings);
            }
            let session = session.clone();
            Ok(settings.build(move |batch| run_alone(&session, &batch))?)
        });
        let queues = queues.map_err(|error| error.to_string())?;
        let attached = queues.iter().map(|queue| figures.attach(queue.clone()));
        Ok(Model {
            name: name.to_owned(),
            version,
            inputs,
            outputs,
            batch: rows,
            request_time: defaults.request_time,
            attached: attached.collect(),
            queues,
            quick: Quick::new(took),
            config,
            figures,
            #[cfg(feature = "text")]
            text,
        })
    }

    /// Its tokenizer and so on, if it is a model of text.
    #[cfg(feature = "text")]
    pub fn text(&self) -> Option<&Text> {
        self.text.as_ref()
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its version.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Its inputs.
    pub fn inputs(&self) -> &[Port] {
        &self.inputs
    }

    /// Its outputs.
    pub fn outputs(&self) -> &[Port] {
        &self.outputs
    }

    /// Its counters.
    pub fn figures(&self) -> &Arc<Figures> {
        &self.figures
    }

    /// Where an input of a request goes, if it is one that the model takes.
    pub fn place(&self, name: &str, datatype: &str, shape: &[i64]) -> Result<Place> {
        let index = self.inputs.iter().position(|port| port.name == name);
        let index = index.ok_or_else(|| {
            let model = &self.name;
            Error::invalid(format!(
                "unexpected inference input '{name}' for model '{model}'"
            ))
        })?;
        let port = &self.inputs[index];
        if datatype != port.datatype() {
            return Err(Error::invalid(format!(
                "inference input '{name}' data-type is '{datatype}', but model '{}' expects '{}'",
                self.name,
                port.datatype()
            )));
        }
        let fits = shape.len() == port.shape.len()
            && shape
                .iter()
                .zip(&port.shape)
                .all(|(&given, &size)| given >= 0 && (size < 0 || size == given));
        let sizes: Option<Vec<usize>> = shape
            .iter()
            .map(|&size| usize::try_from(size).ok())
            .collect();
        let (true, Some(mut sizes)) = (fits, sizes) else {
            return Err(Error::invalid(format!(
                "unexpected shape for input '{name}' for model '{}'. Expected {:?}, got {shape:?}",
                self.name, port.shape
            )));
        };
        let bytes = sizes
            .iter()
            .try_fold(port.dtype.size(), |all, &size| all.checked_mul(size));
        let bytes = bytes.ok_or_else(|| {
            Error::invalid(format!(
                "input '{name}' has the shape {shape:?}, which is too large"
            ))
        })?;
        if let (Some(most), Some(&rows)) = (
            self.config.max_batch_size.filter(|&most| most > 0),
            sizes.first(),
        ) && rows > most
        {
            return Err(Error::invalid(format!(
                "inference request batch-size must be <= {most} for '{}'",
                self.name
            )));
        }
        if self.batch.is_none() {
            sizes.insert(0, 1);
        }
        Ok(Place {
            index,
            dtype: port.dtype,
            strings: port.strings,
            shape: sizes,
            bytes,
        })
    }

    /// All inputs of a request in the model's order.
    pub fn in_order(&self, given: Vec<(usize, Array)>) -> Result<Vec<Array>> {
        let mut places: Vec<Option<Array>> = self.inputs.iter().map(|_| None).collect();
        let count = given.len();
        for (index, array) in given {
            let place = places.get_mut(index);
            if place.is_none_or(|place| place.replace(array).is_some()) {
                let name = &self.inputs[index].name;
                return Err(Error::invalid(format!("input '{name}' is given twice")));
            }
        }
        let missing = self
            .inputs
            .iter()
            .zip(&places)
            .filter(|(_, place)| place.is_none());
        let missing: Vec<&str> = missing.map(|(port, _)| &port.name[..]).collect();
        if !missing.is_empty() {
            return Err(Error::invalid(format!(
                "expected {} inputs but got {count} inputs for model '{}'. Missing: {missing:?}",
                self.inputs.len(),
                self.name
            )));
        }
        Ok(places.into_iter().flatten().collect())
    }

    /// Runs a request. If the future is dropped, the request is withdrawn.
    pub async fn run(&self, inputs: Vec<Array>, terms: &Terms) -> Result<Vec<Array>> {
        let bytes = inputs.iter().map(|input| input.bytes().len()).sum();
        let request = self.request(inputs, terms)?;
        if !self.quick.is(bytes) {
            return Ok(self.queues.submit(request)?.await?);
        }
        let begun = Instant::now();
        let ticket = self.queues.run_or_submit(request)?;
        if ticket.is_ready() {
            self.quick.took(begun.elapsed());
        }
        Ok(ticket.await?)
    }

    /// Puts a request into the queue. If the ticket is dropped, the request is withdrawn.
    pub fn submit(&self, inputs: Vec<Array>, terms: &Terms) -> Result<PlacedTicket> {
        Ok(self.queues.submit(self.request(inputs, terms)?)?)
    }

    fn request(&self, inputs: Vec<Array>, terms: &Terms) -> Result<Request> {
        let level = self.level(terms.priority)?;
        let mut request = Request::new(inputs).priority(self.config.priority(level));
        let policy = self.config.policy(level);
        let from_now = |time: Option<Duration>| Instant::now().checked_add(time?);
        // Of several times the earliest.
        let timeout = [terms.timeout, from_now(policy.timeout)];
        let timeout = timeout.into_iter().flatten().min();
        let (behind, expired) = match policy.delays {
            true => (timeout, None),
            false => (None, timeout),
        };
        if let Some(time) = behind {
            request = request.behind_from(time);
        }
        let deadline = [terms.deadline, from_now(self.request_time), expired];
        if let Some(deadline) = deadline.into_iter().flatten().min() {
            request = request.deadline(deadline);
        }
        if let Some(tenant) = &terms.tenant {
            request = request.tenant(&tenant[..]);
        }
        if let Some(traced) = terms.span.as_ref().and_then(|span| span.follow()) {
            request = request.traced(traced);
        }
        Ok(request)
    }

    /// The priority of a request that asks for this one; 0: it says none.
    fn level(&self, asked: u64) -> Result<u64> {
        let levels = self.config.levels();
        match asked {
            0 => Ok(self.config.default_level()),
            asked if asked <= levels => Ok(asked),
            asked => Err(Error::invalid(format!(
                "priority {asked} is above {levels}, the lowest of model '{}'",
                self.name
            ))),
        }
    }

    /// The shape of an output for the client.
    pub fn shape_of<'a>(&self, output: &'a Array) -> &'a [usize] {
        match self.batch {
            Some(_) => output.shape(),
            None => output.shape().get(1..).unwrap_or_default(),
        }
    }

    /// How many rows the client sees in an output: of a model without a batch there is one.
    pub fn rows_of(&self, output: &Array) -> usize {
        output.row_count()
    }

    /// Inputs, outputs and versions, as clients get them.
    pub fn metadata(&self, versions: &[String]) -> Json {
        let told = |ports: &[Port]| -> Vec<Json> {
            let each = ports.iter().map(
                |port| json!({"name": port.name, "datatype": port.datatype(), "shape": port.shape}),
            );
            each.collect()
        };
        json!({
            "name": self.name,
            "versions": versions,
            "platform": "onnxruntime_onnx",
            "inputs": told(&self.inputs),
            "outputs": told(&self.outputs),
        })
    }

    /// How it is served, as Triton's clients read it.
    pub fn config(&self) -> Json {
        let batch = self.batch.unwrap_or(0);
        let told = |ports: &[Port]| -> Vec<Json> {
            let each = ports.iter().map(|port| {
                let own = usize::from(batch > 0);
                json!({
                    "name": port.name,
                    "data_type": format!("TYPE_{}", port.configured()),
                    "dims": port.shape.get(own..).unwrap_or_default(),
                })
            });
            each.collect()
        };
        self.config
            .json(&self.name, batch, told(&self.inputs), told(&self.outputs))
    }

    /// The most rows of a batch; 0 if requests are not batched.
    pub fn max_batch_size(&self) -> usize {
        self.batch.unwrap_or(0)
    }
}

/// Nobody has a request in it any more.
impl Drop for Model {
    fn drop(&mut self) {
        for &number in &self.attached {
            self.figures.detach(number);
        }
    }
}

/// Padding for texts: along the second axis, of all inputs and of those outputs whose second size is open.
#[cfg(feature = "text")]
fn padding(edges: Vec<usize>, inputs: &[Port], outputs: &[Port]) -> streampool::batch::Padding {
    let inputs: Vec<usize> = (0..inputs.len()).collect();
    let outputs = outputs.iter().enumerate();
    let open = outputs.filter(|(_, port)| port.shape.len() > 2 && port.shape.get(1) == Some(&-1));
    let outputs: Vec<usize> = open.map(|(at, _)| at).collect();
    let padding = streampool::batch::Padding::to_edges(1, edges);
    padding.inputs(&inputs).outputs(&outputs)
}

fn ports(values: &[ValueInfo]) -> Result<Vec<Port>, String> {
    let port = |value: &ValueInfo| {
        let (ValueKind::Tensor, Some(dtype), Some(shape)) = (value.kind, value.dtype, &value.shape)
        else {
            return Err(format!(
                "{:?} is no tensor of a declared type and number of axes, so it cannot be served",
                value.name
            ));
        };
        let size = |dim: &Dim| match dim {
            Dim::Fixed(size) => i64::try_from(*size).unwrap_or(-1),
            Dim::Named(_) | Dim::Free => -1,
        };
        Ok(Port {
            name: value.name.clone(),
            dtype,
            strings: value.strings.is_some(),
            shape: shape.iter().map(size).collect(),
        })
    };
    values.iter().map(port).collect()
}

/// Whether the first axis of all inputs and outputs is open, and the same.
fn has_rows(session: &Session) -> bool {
    let firsts = session.inputs().iter().chain(session.outputs());
    let firsts = firsts.map(|value| value.shape.as_ref().and_then(|shape| shape.first()));
    let mut name = None;
    for first in firsts {
        match first {
            None | Some(Dim::Fixed(_)) => return false,
            Some(Dim::Free) => {}
            Some(Dim::Named(own)) => match &name {
                None => name = Some(own.clone()),
                Some(known) if known == own => {}
                Some(_) => return false,
            },
        }
    }
    !session.inputs().is_empty()
}

/// Runs a request whose arrays have one more axis than the model's inputs.
fn run_alone(session: &Session, batch: &Batch) -> Result<Batch, streampool::batch::Error> {
    let failed = |error: streampool::tensor::Error| streampool::batch::Error::failed(error);
    let own = batch.requests().flatten().map(|array| {
        let shape = array.shape().get(1..).unwrap_or_default();
        reshaped(array, shape).map_err(failed)
    });
    let own: Vec<Array> = own.collect::<Result<_, _>>()?;
    let inputs: Vec<Input<'_>> = own.iter().map(Input::from).collect();
    let options = streampool::RunOptions {
        deadline: batch.deadline(),
        ..Default::default()
    };
    let outputs = session.run_positional_with(&inputs, &options);
    let outputs = outputs.map_err(|error| match error {
        streampool::model::Error::Deadline => streampool::batch::Error::Expired,
        other => streampool::batch::Error::failed(other),
    })?;
    let outputs = outputs.into_arrays().into_iter().map(|array| {
        let shape: Vec<usize> = std::iter::once(1)
            .chain(array.shape().iter().copied())
            .collect();
        reshaped(&array, &shape).map_err(failed)
    });
    Batch::new(outputs.collect::<Result<_, _>>()?)
}

/// The same elements under another shape.
fn reshaped(array: &Array, shape: &[usize]) -> Result<Array, streampool::tensor::Error> {
    let reshaped = Array::from_bytes(array.dtype(), array.bytes(), shape)?;
    match array.list() {
        Some(list) => reshaped.with_list(list.clone()),
        None => Ok(reshaped),
    }
}

/// The deadline that a number of microseconds from now is; 0 says nothing.
pub fn deadline(micros: u64) -> Option<Instant> {
    match micros {
        0 => None,
        micros => Instant::now().checked_add(Duration::from_micros(micros)),
    }
}
