//! Where the story takes place: a device, a pool on it, and the models that are run there.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use streampool::cuda::{CudaDevice, CudaOptions, Precision};
use streampool::host::{HostDevice, HostOptions};
use streampool::{Array, Device, Input, Outputs, Pool, Session, SessionOptions, Settings, Stream};

use crate::Result;
use crate::device::On;
use crate::inputs::{From, Given, refer};
use crate::machine::Machine;
use crate::models::Builtin;
use crate::text::file_name;
use crate::threads::together;

/// Threads that work at once at most, each on a stream of its own: all the worker streams there are.
pub const MOST_THREADS: usize = 31;

/// So many inputs that differ; threads beyond take them again.
const INPUTS: usize = 8;

/// The device, the models and the time there is.
pub struct Setting {
    /// The device that was asked for.
    pub on: On,
    /// A pool on it.
    pub pool: Pool,
    /// A model whose run is little more than the call, and one that computes: the user's, if there is one.
    pub subjects: [Subject; 2],
    /// About how long one figure is measured.
    pub slice: Duration,
}

impl Setting {
    /// The setting on a device, with the model of a file in place of the encoder.
    pub fn new(on: On, model: Option<&Path>, given: &[Given], slice: Duration) -> Result<Setting> {
        let pool = pool(device(on)?)?;
        let computing = match model {
            Some(path) => Subject::of_file(path, given, &pool)?,
            None => Subject::built_in(&Builtin::encoder(), &pool)?,
        };
        Ok(Setting {
            on,
            subjects: [Subject::built_in(&Builtin::linear(), &pool)?, computing],
            pool,
            slice,
        })
    }

    /// The machine.
    pub fn machine(&self) -> Machine {
        Machine::with(self.pool.device().properties())
    }

    /// The device and the models, and what they are.
    pub fn lines(&self) -> Vec<[&str; 2]> {
        let models = self
            .subjects
            .iter()
            .map(|subject| [&subject.name[..], &subject.what]);
        let device = ["device", &self.pool.device().properties().name];
        std::iter::once(device).chain(models).collect()
    }

    /// All of it for JSON.
    pub fn json(&self) -> Value {
        let model = |subject: &Subject| json!({ "name": subject.name, "what": subject.what });
        json!({
            "machine": self.machine(),
            "device": self.pool.device().properties().name,
            "models": self.subjects.iter().map(model).collect::<Vec<_>>(),
        })
    }
}

/// The device, set up the same whatever the environment says of its figures.
fn device(on: On) -> Result<Arc<dyn Device>> {
    Ok(match on {
        On::Host => HostDevice::new(HostOptions::default())?,
        On::Cuda => CudaDevice::new(CudaOptions::from_env()?.precision(Precision::Exact))?,
        On::Metal => on.pool()?.device().clone(),
    })
}

/// A pool with a stream for each thread and one for who starts them, whatever the environment says.
pub fn pool(device: Arc<dyn Device>) -> Result<Pool> {
    let settings = Settings::builder()
        .without_environment()
        .streams(MOST_THREADS + 1)
        .build()?;
    Ok(Pool::with_settings(device, settings)?)
}

/// Loads a model into a pool.
type Load = Box<dyn Fn(&Pool) -> Result<Session> + Sync>;

/// A model that is run.
pub struct Subject {
    /// Its name.
    pub name: String,
    /// What it is, in a few words.
    what: String,
    /// It on the device.
    pub session: Session,
    /// Inputs that differ, each for one run.
    inputs: Vec<Vec<Array>>,
    load: Load,
}

impl Subject {
    /// A model that the story brings along.
    fn built_in(model: &Builtin, pool: &Pool) -> Result<Subject> {
        let file = model.onnx()?;
        let load = move |pool: &Pool| {
            let options = SessionOptions::default();
            Ok(Session::from_bytes(pool, file.clone(), &options)?)
        };
        let (name, what) = (model.name().to_owned(), model.described());
        Subject::new(name, what, &[], Box::new(load), pool)
    }

    /// The user's model, and the shapes that its inputs are given.
    fn of_file(path: &Path, given: &[Given], pool: &Pool) -> Result<Subject> {
        let (name, what) = (file_name(path), path.display().to_string());
        let path = path.to_owned();
        let load = move |pool: &Pool| Ok(Session::load(pool, &path)?);
        Subject::new(name, what, given, Box::new(load), pool)
    }

    fn new(
        name: String,
        what: String,
        given: &[Given],
        load: Load,
        pool: &Pool,
    ) -> Result<Subject> {
        let session = load(pool)?;
        let inputs = (0..INPUTS)
            .map(|seed| From::Seed(seed as u64, given).inputs(session.inputs(), 0, pool));
        Ok(Subject {
            name,
            what,
            inputs: inputs.collect::<Result<_>>()?,
            session,
            load,
        })
    }

    /// It loaded once more, into another pool.
    pub fn again(&self, pool: &Pool) -> Result<Session> {
        (self.load)(pool)
    }

    /// The inputs of the thread, or the run, of this number.
    pub fn arrays(&self, number: usize) -> &[Array] {
        &self.inputs[number % INPUTS]
    }

    /// They as a session takes them.
    pub fn inputs(&self, number: usize) -> Vec<Input<'_>> {
        refer(self.arrays(number))
    }

    /// What a single thread gets for each of the inputs.
    pub fn alone(&self) -> Result<Vec<Outputs>> {
        let run = |number| Ok(self.session.run_positional(&self.inputs(number))?);
        (0..INPUTS).map(run).collect()
    }
}

/// Whether two runs gave the same, bit by bit; `expected` has an entry for each of the inputs.
pub fn same(outputs: &Outputs, expected: &[Outputs], number: usize) -> bool {
    outputs.iter().eq(expected[number % INPUTS].iter())
}

/// What `work` gives on each of so many threads, each with its own stream of `pool` and its own number. All have their stream
/// before any begins, and all have ended, streams returned, when this returns.
pub fn on_own_streams<T: Send>(
    pool: &Pool,
    threads: usize,
    work: impl Fn(usize, &Stream) -> streampool::Result<T> + Sync,
) -> Result<Vec<T>> {
    let own = |number| Ok((number, pool.current()?));
    let work = |(number, stream), _| Ok(work(number, stream)?);
    Ok(together(0..threads, own, || (), work)?.done)
}

/// The smallest of some figures.
pub fn least(figures: &[f64]) -> f64 {
    figures.iter().copied().fold(f64::INFINITY, f64::min)
}
