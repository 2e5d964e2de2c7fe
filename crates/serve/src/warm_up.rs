//! Runs of a model before it serves: what `model_warmup` of `config.pbtxt` asks for.

use std::ops::RangeInclusive;
use std::path::Path;
use std::time::{Duration, Instant};

use streampool::{Array, Input, RunOptions, Session};

use crate::name::is_name;
use crate::pbtxt::{Message, Value, message, number, text, word};
use crate::port::Port;
use crate::strings;

/// What all runs for `model_warmup` on one device may take together, and as long those of [`one_row`]: whoever loads a model waits for them.
pub const TIME: Duration = Duration::from_secs(60);

/// A request is made at most so often.
const MOST_RUNS: usize = 1000;

/// The strings of an input have at most so many bytes, with their lengths.
const MOST_OF_STRINGS: usize = 64 << 20;

/// The numbers of an input have at most so many bytes.
const MOST_OF_NUMBERS: usize = 1 << 30;

/// A request that is made up.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct WarmUp {
    name: String,
    /// Rows, if requests are batched.
    rows: usize,
    count: usize,
    inputs: Vec<Sample>,
}

/// An input of it.
#[derive(Debug, Clone, Default, PartialEq)]
struct Sample {
    name: String,
    datatype: String,
    dims: Vec<usize>,
    /// Whether it is said what it holds.
    has_data: bool,
    /// Where its bytes are; without a file they are zeros.
    file: Option<String>,
}

impl WarmUp {
    /// Reads a `model_warmup`.
    pub fn read(fields: &Message) -> Result<WarmUp, String> {
        let mut warm_up = WarmUp::default();
        for (name, value) in &fields.0 {
            match &name[..] {
                "name" => warm_up.name = text(value)?,
                "batch_size" => warm_up.rows = number(value)?,
                "count" => warm_up.count = at_most(MOST_RUNS, name, number(value)?)?,
                "inputs" => warm_up.inputs.push(Sample::read(message(value)?)?),
                _ => return Err(format!("{name} is not supported")),
            }
        }
        Ok(warm_up)
    }

    /// Runs it.
    fn run(
        &self,
        session: &Session,
        ports: &[Port],
        most: Option<usize>,
        folder: &Path,
        options: &RunOptions,
    ) -> Result<(), String> {
        let failed = |why: String| format!("model_warmup {:?}: {why}", self.name);
        if let Some(other) = self.inputs.iter().find(|sample| {
            let port = ports.iter().find(|port| port.name == sample.name);
            port.is_none_or(|port| port.configured() != sample.datatype)
        }) {
            return Err(failed(format!(
                "the model has no input {:?} of the type {:?}",
                other.name, other.datatype
            )));
        }
        at_most(most.unwrap_or(1), "batch_size", self.rows).map_err(failed)?;
        let arrays = ports.iter().map(|port| {
            let sample = self.inputs.iter().find(|sample| sample.name == port.name);
            let sample = sample
                .ok_or_else(|| format!("the entry lacks the model's input {:?}", port.name))?;
            let rows = most.map(|_| self.rows.max(1));
            sample.array(port, rows, folder)
        });
        let arrays: Vec<Array> = arrays.collect::<Result<_, _>>().map_err(failed)?;
        let inputs: Vec<Input<'_>> = arrays.iter().map(Input::from).collect();
        for _ in 0..self.count.max(1) {
            let ran = session.run_positional_with(&inputs, options);
            ran.map_err(|error| failed(error.to_string()))?;
        }
        Ok(())
    }
}

/// Runs all of a model on one device. If requests are batched, `most` rows are a batch; `folder` is the model's own.
pub fn all(
    warm_ups: &[WarmUp],
    session: &Session,
    ports: &[Port],
    most: Option<usize>,
    folder: &Path,
) -> Result<(), String> {
    let options = RunOptions::within(TIME);
    let mut each = warm_ups.iter();
    each.try_for_each(|one| one.run(session, ports, most, folder, &options))
}

impl Sample {
    fn read(entry: &Message) -> Result<Sample, String> {
        let mut sample = Sample::default();
        for (name, value) in &entry.0 {
            match (&name[..], value) {
                ("key", value) => sample.name = text(value)?,
                ("value", Value::Message(fields)) => {
                    for (name, value) in &fields.0 {
                        sample.field(name, value)?;
                    }
                }
                _ => return Err(format!("inputs: {name} is not supported")),
            }
        }
        Ok(sample)
    }

    fn field(&mut self, name: &str, value: &Value) -> Result<(), String> {
        match name {
            "data_type" => {
                let name = word(value)?;
                self.datatype = name.strip_prefix("TYPE_").unwrap_or(name).to_owned();
            }
            "dims" => self.dims.push(number(value)?),
            // How long a run takes does not depend on its numbers.
            "zero_data" | "random_data" if word(value)? == "true" => self.data(None)?,
            "input_data_file" => self.data(Some(text(value)?))?,
            _ => return Err(format!("inputs: {name} is not supported")),
        }
        Ok(())
    }

    fn data(&mut self, file: Option<String>) -> Result<(), String> {
        if std::mem::replace(&mut self.has_data, true) {
            return Err(
                "inputs: only one of zero_data, random_data, input_data_file is allowed".to_owned(),
            );
        }
        if let Some(file) = file.as_ref().filter(|file| !is_name(file)) {
            return Err(format!(
                "inputs: input_data_file {file:?} is not the name of a file in the folder warmup"
            ));
        }
        self.file = file;
        Ok(())
    }

    fn array(&self, port: &Port, rows: Option<usize>, folder: &Path) -> Result<Array, String> {
        let shape: Vec<usize> = rows.into_iter().chain(self.dims.iter().copied()).collect();
        let wrong = |why: String| format!("input {:?}: {why}", port.name);
        // The length of a string has four bytes.
        let (each, most) = match port.strings {
            true => (4, MOST_OF_STRINGS),
            false => (port.dtype.size(), MOST_OF_NUMBERS),
        };
        let size = shape.iter().try_fold(each, |all, &n| all.checked_mul(n));
        let size = size.filter(|&size| size <= most).ok_or_else(|| {
            let why = format!("the shape {shape:?} is too large: at most {most} bytes are allowed");
            wrong(why)
        })?;
        let bytes = match &self.file {
            None if port.strings => vec_of_zeros(size).map_err(wrong)?,
            None => {
                return Array::zeros(port.dtype, &shape).map_err(|error| wrong(error.to_string()));
            }
            Some(file) => {
                let most = if port.strings { MOST_OF_STRINGS } else { size };
                let bytes = read(folder, file, size as u64..=most as u64);
                bytes.map_err(|why| wrong(format!("the file {file:?} {why}")))?
            }
        };
        if port.strings {
            return strings::read(&port.name, &shape, &bytes).map_err(|error| error.to_string());
        }
        Array::from_bytes(port.dtype, &bytes, &shape).map_err(|error| wrong(error.to_string()))
    }
}

fn at_most(most: usize, what: &str, number: usize) -> Result<usize, String> {
    match number <= most {
        true => Ok(number),
        false => Err(format!("{what} is {number}, expected at most {most}")),
    }
}

fn vec_of_zeros(size: usize) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let room = bytes.try_reserve_exact(size);
    room.map_err(|error| error.to_string())?;
    bytes.resize(size, 0);
    Ok(bytes)
}

/// A file of so many bytes below the model's folder: no link, which may lead out of it, and no pipe or device, which may have no end.
fn read(folder: &Path, file: &str, sizes: RangeInclusive<u64>) -> Result<Vec<u8>, String> {
    let folder = folder.join("warmup");
    let path = folder.join(file);
    let found = |path: &Path| {
        std::fs::symlink_metadata(path).map_err(|error| format!("in {}: {error}", folder.display()))
    };
    let is_folder = found(&folder)?.is_dir();
    let data = found(&path)?;
    if !is_folder || !data.is_file() {
        return Err("is not a plain file in a plain folder".to_owned());
    }
    let size = data.len();
    if !sizes.contains(&size) {
        let (least, most) = sizes.into_inner();
        return Err(match least == most {
            true => format!("has {size} bytes, expected {most} for its shape"),
            false => format!("has {size} bytes, expected {least} to {most} for its shape"),
        });
    }
    std::fs::read(&path).map_err(|error| format!("cannot be read: {error}"))
}

/// Makes plan and program for one row, where its size is known, and says how long a run takes then. All runs together take no longer than
/// `time`. What fails here fails with the first request, too, and is told then.
pub fn one_row(
    session: &Session,
    inputs: &[Port],
    batched: bool,
    time: Duration,
) -> Option<Duration> {
    let zeros = |port: &Port| {
        let sizes = port.shape.iter().enumerate();
        let sizes = sizes.map(|(axis, &size)| match size {
            -1 if axis == 0 && batched => Some(1),
            size => usize::try_from(size).ok(),
        });
        let shape: Vec<usize> = sizes.collect::<Option<_>>()?;
        Some(Array::zeros(port.dtype, &shape))
    };
    let arrays: Option<Vec<_>> = inputs.iter().map(zeros).collect();
    let arrays: Result<Vec<Array>, _> = arrays?.into_iter().collect();
    let failed = |error: &dyn std::fmt::Display| tracing::warn!(%error, "the first run failed");
    let arrays = arrays.inspect_err(|error| failed(error)).ok()?;
    let inputs: Vec<Input<'_>> = arrays.iter().map(Input::from).collect();
    let options = RunOptions::within(time);
    let timed = || {
        let begun = Instant::now();
        let ran = session.run_positional_with(&inputs, &options);
        ran.map(|_| begun.elapsed())
    };
    let took = timed().and_then(|mut took| {
        // The first makes the plan, and the operating system may disturb one of the others.
        for _ in 0..3 {
            let next = timed()?;
            took = took.min(next);
            if next > Duration::from_millis(10) {
                break;
            }
        }
        Ok(took)
    });
    took.inspect_err(|error| failed(error)).ok()
}

#[cfg(test)]
mod tests {
    use streampool::model::onnx::writer::Graph;
    use streampool::{DType, SessionOptions};

    use super::*;

    fn port(strings: bool) -> Port {
        Port {
            name: "x".to_owned(),
            dtype: DType::F32,
            strings,
            shape: vec![-1],
        }
    }

    #[test]
    fn runs_end_in_their_time() {
        let graph = Graph::new()
            .input("x", DType::F32, "batch")
            .node("Identity x = y", &[])
            .output("y", DType::F32, "batch");
        let pool = streampool::host_pool().unwrap();
        let session =
            Session::from_bytes(&pool, graph.model(&[("", 18)]), &SessionOptions::default())
                .unwrap();
        let fields = crate::pbtxt::read(
            "count: 1000 inputs { key: 'x' value { data_type: TYPE_FP32 zero_data: true } }",
        );
        let warm_up = WarmUp::read(&fields.unwrap()).unwrap();
        let run = |time| {
            let options = RunOptions::within(time);
            warm_up.run(&session, &[port(false)], Some(1), Path::new(""), &options)
        };
        run(TIME).unwrap();
        let late = run(Duration::ZERO).unwrap_err();
        assert!(late.contains("deadline"), "{late}");
    }

    #[test]
    fn a_model_that_takes_too_long_holds_up_nobody() {
        let mut graph = Graph::new()
            .input("x", DType::F32, "4096 1024")
            .constant("w", &Array::zeros(DType::F32, &[1024, 1024]).unwrap());
        let mut last = "x".to_owned();
        for layer in 0..100 {
            graph = graph.node(&format!("MatMul {last} w = h{layer}"), &[]);
            last = format!("h{layer}");
        }
        let graph =
            graph
                .node(&format!("Identity {last} = y"), &[])
                .output("y", DType::F32, "4096 1024");
        let pool = streampool::host_pool().unwrap();
        let session =
            Session::from_bytes(&pool, graph.model(&[("", 18)]), &SessionOptions::default())
                .unwrap();
        let port = Port {
            shape: vec![4096, 1024],
            ..port(false)
        };
        let begun = Instant::now();
        let took = one_row(&session, &[port], false, Duration::from_millis(50));
        assert_eq!(took, None);
        // All of it would be 860 GFLOP.
        assert!(begun.elapsed() < Duration::from_secs(20));
    }

    #[test]
    fn numbers_and_strings_have_an_end() {
        let folder = std::env::temp_dir().join(format!("streampool-warmup-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("warmup")).unwrap();
        let file = std::fs::File::create(folder.join("warmup/many")).unwrap();
        let mut sample = Sample {
            dims: vec![455_555_555],
            ..Sample::default()
        };
        let error = sample.array(&port(false), Some(5), &folder).unwrap_err();
        assert!(error.contains("at most 1073741824 bytes"), "{error}");
        sample.dims = vec![2];
        sample.data(Some("many".to_owned())).unwrap();
        for (size, why) in [
            (8, None),
            (7, Some("has 7 bytes, expected 8 to 67108864")),
            (MOST_OF_STRINGS as u64 + 1, Some("has 67108865 bytes")),
        ] {
            file.set_len(size).unwrap();
            let error = sample.array(&port(true), None, &folder).err();
            let told = error.as_deref().unwrap_or_default();
            assert!(told.contains(why.unwrap_or_default()), "{told}");
            assert_eq!(error.is_some(), why.is_some());
        }
        std::fs::remove_dir_all(&folder).unwrap();
        sample.file = None;
        sample.dims = vec![MOST_OF_STRINGS / 4 + 1];
        let error = sample.array(&port(true), None, &folder).unwrap_err();
        assert!(error.contains("too large"), "{error}");
    }
}
