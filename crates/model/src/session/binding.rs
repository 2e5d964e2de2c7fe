//! Bindings: outputs of a run stay on the device and are inputs of the next one, as the cache of a decoder is.

use std::collections::BTreeMap;
use std::sync::Arc;

use streampool_tensor::{Array, Tensor};

use super::Session;
use super::carried_runs::{Source, lost};
use super::carry::Carry;
use super::input::Input;
use super::options::RunOptions;
use super::outputs::Outputs;
use super::prepared::Prepared;
use crate::error::{Error, Result};
use crate::graph::{Dim, ValueInfo, ValueKind};

/// A session with inputs that stay from run to run: values that were [set](Self::set), and outputs that are
/// [carried](Self::carry) to the next run without leaving the device. Each thread has one of its own, which is one sequence
/// of runs; the session is shared.
///
/// An output that is its input with a part of it changed, as a cache of a fixed size is, is made in the memory of that input.
/// Any other output gets memory of its own, and what the input was is let go.
///
/// ```no_run
/// # use streampool_model::{Array, Result, Session};
/// # fn generate(session: &Session, mut token: i64) -> Result<()> {
/// let mut binding = session.bind();
/// binding.carry_caches()?; // `present…` is the next `past…`
/// binding.set_zeros(&[("batch_size", 1), ("past_sequence_length", 0)])?;
/// for _ in 0..100 {
///     let outputs = binding.run([("input_ids", &Array::new(&[token], &[1, 1])?)])?;
///     token = outputs["logits"].values::<f32>()?.len() as i64; // choose the next one
/// }
/// # Ok(())
/// # }
/// ```
pub struct Binding {
    session: Session,
    carried: Vec<Carried>,
    held: BTreeMap<String, Held>,
}

/// An output, and the input of the next run that it is.
struct Carried {
    output: usize,
    input: String,
}

/// What an input is where a run does not say.
enum Held {
    Set(Tensor),
    Made(Tensor),
    Lost,
}

impl Session {
    /// A binding in which nothing is set and nothing carried.
    pub fn bind(&self) -> Binding {
        Binding {
            session: self.clone(),
            carried: Vec::new(),
            held: BTreeMap::new(),
        }
    }

    /// The model for callers that give these inputs.
    fn model_for<'n>(&self, names: impl Iterator<Item = &'n str>) -> Result<Arc<Prepared>> {
        let other = match &self.optional {
            Some(optional) => optional.given(names)?,
            None => None,
        };
        Ok(other.unwrap_or_else(|| self.model.clone()))
    }

    fn input_info(&self, name: &str) -> Result<&ValueInfo> {
        let mut all = self.inputs().iter().chain(self.optional_inputs());
        let info = all.find(|info| info.name == name);
        info.ok_or_else(|| self.model.no_such_input(name))
    }
}

impl Binding {
    /// The session.
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// Makes this output of each run this input of the next. Runs return it no more.
    pub fn carry(&mut self, output: &str, input: &str) -> Result<()> {
        let outputs = self.session.outputs();
        let refused = |got: String, expected: String| Error::Output {
            name: output.to_owned(),
            got,
            expected,
        };
        let Some(place) = outputs.iter().position(|info| info.name == output) else {
            let names: Vec<&str> = outputs.iter().map(|info| &*info.name).collect();
            let expected = format!("one of {}", names.join(", "));
            return Err(refused("no output of the model".to_owned(), expected));
        };
        let (made, taken) = (&outputs[place], self.session.input_info(input)?);
        if made.kind != ValueKind::Tensor {
            return Err(refused("no tensor".to_owned(), "a tensor".to_owned()));
        }
        if made.strings.is_some() {
            return Err(refused("strings".to_owned(), "numbers".to_owned()));
        }
        if !fits(made, taken) {
            let got = format!("what input {input:?} cannot be");
            let expected = format!("{:?} {:?}", taken.dtype, taken.shape);
            return Err(refused(got, expected));
        }
        if let Some(other) = self.carried.iter().find(|other| other.output == place) {
            let got = format!("carried to input {:?} already", other.input);
            return Err(refused(got, "carried to one input".to_owned()));
        }
        if let Some(other) = self.carried.iter().find(|other| other.input == input) {
            let other = &outputs[other.output].name;
            let got = format!("what output {other:?} is carried to already");
            return Err(Error::input(input, got, "carried to from one output"));
        }
        self.carried.push(Carried {
            output: place,
            input: input.to_owned(),
        });
        Ok(())
    }

    /// Carries each output `present…` to the input `past…`, as exporters of decoders name them; says how many there are. After
    /// `present` or `present_key_values`, and `past` or `past_key_values`, the names are the same.
    pub fn carry_caches(&mut self) -> Result<usize> {
        fn behind<'n>(name: &'n str, prefixes: [&str; 2]) -> Option<&'n str> {
            prefixes.iter().find_map(|prefix| name.strip_prefix(prefix))
        }
        let session = self.session.clone();
        let past = |info: &ValueInfo, rest: &str| {
            behind(&info.name, ["past_key_values", "past"]) == Some(rest)
        };
        let mut count = 0;
        for output in session.outputs() {
            let Some(rest) = behind(&output.name, ["present_key_values", "present"]) else {
                continue;
            };
            let mut inputs = session.inputs().iter().chain(session.optional_inputs());
            if let Some(input) = inputs.find(|info| past(info, rest)) {
                self.carry(&output.name, &input.name)?;
                count += 1;
            }
        }
        Ok(count)
    }

    /// Makes an input this in each run that does not say otherwise; a carried one until the next run.
    pub fn set<'a>(&mut self, input: &str, value: impl Into<Input<'a>>) -> Result<()> {
        let value = value.into();
        let info = self.session.input_info(input)?;
        self.session.model.check_one(info, value)?;
        refuse_strings(input, value)?;
        let tensor = value.at_work(self.session.pool())?;
        self.held.insert(input.to_owned(), Held::Set(tensor));
        Ok(())
    }

    /// Sets each carried input to zeros. Its shape is what the model declares, with these sizes for axes that have names: a past
    /// of length 0 for a cache that grows, and of as many places as there may ever be for one of a fixed size.
    pub fn set_zeros(&mut self, sizes: &[(&str, usize)]) -> Result<()> {
        let inputs: Vec<String> = (self.carried.iter())
            .map(|carried| carried.input.clone())
            .collect();
        for input in inputs {
            let info = self.session.input_info(&input)?;
            let unknown = |got: String, expected: &str| Error::input(&input, got, expected);
            let (Some(dtype), Some(shape)) = (info.dtype, &info.shape) else {
                let expected = "of a type and shape that the model declares: use `set`";
                return Err(unknown("of no declared type or shape".to_owned(), expected));
            };
            let size = |dim: &Dim| match dim {
                Dim::Fixed(size) => Ok(*size),
                Dim::Named(name) => {
                    let named = sizes.iter().find(|(other, _)| other == name);
                    named.map(|(_, size)| *size).ok_or_else(|| {
                        unknown(format!("of an unknown size {name:?}"), "given that size")
                    })
                }
                Dim::Free => Err(unknown(
                    "of a size without a name".to_owned(),
                    "of sizes with names: use `set`",
                )),
            };
            let shape: Vec<usize> = shape.iter().map(size).collect::<Result<_>>()?;
            self.set(&input, &Array::zeros(dtype, &shape)?)?;
        }
        Ok(())
    }

    /// What an input is in the next run that does not say otherwise, on the device. As long as anybody has a clone of it, runs
    /// change a copy.
    pub fn get(&self, input: &str) -> Option<&Tensor> {
        match self.held.get(input)? {
            Held::Set(tensor) | Held::Made(tensor) => Some(tensor),
            Held::Lost => None,
        }
    }

    /// Forgets all that was set or carried so far; what is carried where stays.
    pub fn clear(&mut self) {
        self.held.clear();
    }

    /// Runs the model with these inputs and those that it has, and waits. What comes back are the outputs that are not carried,
    /// on the host.
    ///
    /// After an error the inputs are as before, but for those that the run was changing in place: these have to be set again.
    pub fn run<'a, N, I>(&mut self, inputs: impl IntoIterator<Item = (N, I)>) -> Result<Outputs>
    where
        N: AsRef<str>,
        I: Into<Input<'a>>,
    {
        self.run_with(inputs, &RunOptions::default())
    }

    /// As [`run`](Self::run), with options. It is never more urgent than others.
    pub fn run_with<'a, N, I>(
        &mut self,
        inputs: impl IntoIterator<Item = (N, I)>,
        options: &RunOptions,
    ) -> Result<Outputs>
    where
        N: AsRef<str>,
        I: Into<Input<'a>>,
    {
        let inputs = inputs.into_iter().map(|(name, input)| (name, input.into()));
        let given: Vec<(N, Input<'a>)> = inputs.collect();
        for (name, input) in &given {
            refuse_strings(name.as_ref(), *input)?;
        }
        let is_given = |name: &str| given.iter().any(|(other, _)| other.as_ref() == name);
        let mut all: Vec<(&str, Input<'_>)> = Vec::new();
        for (name, held) in &self.held {
            match held {
                _ if is_given(name) => {}
                Held::Set(tensor) | Held::Made(tensor) => all.push((name, Input::Tensor(tensor))),
                Held::Lost => return Err(lost(name)),
            }
        }
        all.extend(given.iter().map(|(name, input)| (name.as_ref(), *input)));
        let model = (self.session).model_for(all.iter().map(|(name, _)| *name))?;
        model.in_order(all.into_iter())?;
        let place = |name: &str| model.inputs.iter().position(|info| info.name == name);
        let carried = self.carried.iter().map(|carried| {
            Some(Carry {
                output: carried.output,
                input: place(&carried.input)?,
            })
        });
        let carried: Option<Vec<Carry>> = carried.collect();
        let carried = carried.ok_or_else(|| {
            let missing = self.carried.iter().find(|one| place(&one.input).is_none());
            let name = missing.map_or("", |one| &*one.input);
            Error::input(name, "not given", "set before the first run")
        })?;
        let mut sources: Vec<Source<'_>> = Vec::new();
        for info in &model.inputs {
            let own = given.iter().find(|(name, _)| name.as_ref() == info.name);
            sources.push(match own {
                Some((_, input)) => Source::Given(*input),
                None => match self.held.remove(&info.name) {
                    Some(Held::Set(tensor)) => Source::Set(tensor),
                    Some(Held::Made(tensor)) => Source::Made(tensor),
                    Some(Held::Lost) | None => Source::Lost,
                },
            });
        }
        let made = model.run_carried(&mut sources, &carried, options);
        for (info, source) in model.inputs.iter().zip(sources) {
            let held = match source {
                Source::Given(_) => continue,
                Source::Set(tensor) => Held::Set(tensor),
                Source::Made(tensor) => Held::Made(tensor),
                Source::Lost => Held::Lost,
            };
            self.held.insert(info.name.clone(), held);
        }
        let made = made?;
        for (carry, tensor) in made.carried {
            let name = &model.inputs[carry.input].name;
            self.held.insert(name.clone(), Held::Made(tensor));
        }
        let is_carried = |place| carried.iter().any(|carry| carry.output == place);
        Ok(model.outputs(made.arrays)?.without(is_carried))
    }
}

/// What a binding holds are tensors, which know no strings.
fn refuse_strings(name: &str, input: Input<'_>) -> Result<()> {
    match input.is_strings() {
        true => Err(Error::input(
            name,
            "strings",
            "numbers: give strings to `run` of the session",
        )),
        false => Ok(()),
    }
}

/// Whether what is made may be what is taken, as far as the model says.
fn fits(made: &ValueInfo, taken: &ValueInfo) -> bool {
    let dtype = made.dtype.zip(taken.dtype).is_none_or(|(a, b)| a == b);
    let is_other =
        |(a, b): (&Dim, &Dim)| matches!((a, b), (Dim::Fixed(a), Dim::Fixed(b)) if a != b);
    let shape = (made.shape.as_ref().zip(taken.shape.as_ref()))
        .is_none_or(|(a, b)| a.len() == b.len() && !a.iter().zip(b).any(is_other));
    dtype && shape
}

impl std::fmt::Debug for Binding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let outputs = self.session.outputs();
        let carried = self.carried.iter();
        let carried = carried.map(|one| (&*outputs[one.output].name, &*one.input));
        f.debug_struct("Binding")
            .field("session", &self.session)
            .field("carried", &carried.collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}
