//! A model that is ready to run for one choice of its optional inputs: its plans, its programs, and what runs count.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use smallvec::{SmallVec, smallvec};
use streampool_tensor::{Array, Pool};

use super::by_value::ByValue;
use super::counts::{Counts, Statistics};
use super::input::Input;
use super::options::{RunOptions, SessionOptions};
use super::outputs::{AllArrays, Outputs};
use super::plans::Plans;
use super::profile::Replays;
use super::programs::Programs;
use super::under_way::UnderWay;
use super::weights::Weights;
use crate::error::{Error, Result};
use crate::graph::{Dim, Graph, ValueId, ValueInfo};
use crate::words::{self, Named, OfRun};
use crate::{passes, seeds};

/// A model for callers that give just these inputs.
pub struct Prepared {
    pub inputs: Vec<ValueInfo>,
    pub outputs: Vec<ValueInfo>,
    /// What may be given besides.
    pub optional: Vec<ValueInfo>,
    /// The names of the outputs, as each run gives them on.
    pub output_names: Arc<[String]>,
    /// The strings that it names, if any of its values are strings.
    pub words: Option<Arc<Named>>,
    pub metadata: BTreeMap<String, String>,
    pub plans: Arc<Plans>,
    pub weights: Arc<Weights>,
    pub programs: Programs,
    pub under_way: UnderWay,
    pub by_value: ByValue,
    pub has_parts: AtomicBool,
    pub counts: Counts,
    pub replays: Arc<Replays>,
    /// What random operators begin with in runs that say nothing.
    pub seed: Option<u64>,
}

/// The inputs of a run, in the model's order.
type OrderedInputs<'a> = SmallVec<[Input<'a>; 4]>;

impl Prepared {
    /// A model in a graph whose operators are all there.
    pub fn new(
        mut graph: Graph,
        metadata: BTreeMap<String, String>,
        weights: Arc<Weights>,
        options: &SessionOptions,
    ) -> Result<Prepared> {
        let optional = std::mem::take(&mut graph.defaults).into_iter();
        let rewritten = match options.simplify {
            true => passes::simplify(&mut graph, weights.known())?,
            false => passes::Report::default(),
        };
        if let Some(precision) = options.precision {
            passes::shorten(&mut graph, precision)?;
        }
        let port = |&id: &ValueId| graph.value(id).clone();
        let name = |&id: &ValueId| graph.name(id).to_owned();
        Ok(Prepared {
            inputs: graph.inputs.iter().map(port).collect(),
            outputs: graph.outputs.iter().map(port).collect(),
            output_names: graph.outputs.iter().map(name).collect(),
            words: graph.words.clone(),
            metadata,
            optional: optional.map(|(_, info)| info).collect(),
            plans: Arc::new(Plans::new(graph, rewritten.fusions)),
            weights,
            programs: Programs::new(options.program_memory),
            under_way: UnderWay::new(options),
            by_value: ByValue::new(),
            has_parts: AtomicBool::new(false),
            counts: Counts::new(),
            replays: Arc::new(Replays::new()),
            seed: options.seed,
        })
    }

    pub fn statistics(&self) -> Statistics {
        let (programs, program_bytes) = self.programs.held();
        Statistics {
            plans: self.plans.count(),
            programs,
            program_bytes: program_bytes + self.plans.bytes(),
            evicted: self.programs.evicted(),
            ..self.counts.statistics()
        }
    }

    pub fn pool(&self) -> &Pool {
        self.weights.work()
    }

    /// Does the work of a run: within its budget, with its seed, and with strings of its own.
    pub fn spend<R>(&self, options: &RunOptions, work: impl FnOnce() -> R) -> R {
        let budget = options.budget(self.pool());
        seeds::with(options.seed.or(self.seed), || {
            words::of_run(self.words.as_ref(), || budget.spend(work))
        })
    }

    /// Does a run whose inputs may be strings: with their numbers in their places.
    pub fn with_words<R>(
        &self,
        inputs: &[Input<'_>],
        run: impl FnOnce(&[Input<'_>]) -> Result<R>,
    ) -> Result<R> {
        let Some(model) = &self.words else {
            return run(inputs);
        };
        if !inputs.iter().any(Input::is_strings) {
            return run(inputs);
        }
        let words = Rc::new(OfRun::new(model.clone()));
        let numbers = inputs.iter().map(|input| input.numbered(&words));
        let numbers: Vec<Option<Array>> = numbers.collect::<Result<_>>()?;
        let inputs = inputs.iter().zip(&numbers);
        let inputs: Vec<Input<'_>> = inputs
            .map(|(input, numbers)| numbers.as_ref().map_or(*input, Input::Array))
            .collect();
        words::with(words, || run(&inputs))
    }

    /// Refuses what cannot tell of strings that the model does not name: their numbers mean nothing when the run is over.
    pub fn check_closed(&self) -> Result<()> {
        match &self.words {
            Some(words) if words.is_open => {
                let strings = self.outputs.iter().find(|port| port.strings.is_some());
                Err(Error::Output {
                    name: strings.map_or_else(String::new, |port| port.name.clone()),
                    got: "strings that the model does not name".to_owned(),
                    expected: "numbers, as tensors are: `run` gives arrays".to_owned(),
                })
            }
            _ => Ok(()),
        }
    }

    /// An array of an output as a caller gets it: strings as such.
    pub fn named(&self, place: usize, array: Array) -> Result<Array> {
        let (Some(model), Some(port)) = (&self.words, self.outputs.get(place)) else {
            return Ok(array);
        };
        if port.strings.is_none() {
            return Ok(array);
        }
        let named = match words::current() {
            Some(words) => words.named(array),
            None => OfRun::new(model.clone()).named(array),
        };
        Ok(named?)
    }

    pub fn has_parts(&self) -> bool {
        self.has_parts.load(Ordering::Relaxed)
    }

    pub fn note_parts(&self) {
        self.has_parts.store(true, Ordering::Relaxed);
    }

    pub fn in_order<'a, N: AsRef<str>>(
        &self,
        given: impl Iterator<Item = (N, Input<'a>)>,
    ) -> Result<OrderedInputs<'a>> {
        let mut inputs: SmallVec<[Option<Input<'a>>; 4]> = smallvec![None; self.inputs.len()];
        for (name, input) in given {
            let name = name.as_ref();
            let place = self.inputs.iter().position(|port| port.name == name);
            let place = place.ok_or_else(|| self.no_such_input(name))?;
            if inputs[place].replace(input).is_some() {
                return Err(Error::input(name, "given twice", "given once"));
            }
        }
        let all: Option<OrderedInputs<'a>> = inputs.iter().copied().collect();
        let all = all.ok_or_else(|| {
            let missing = inputs.iter().position(Option::is_none).unwrap_or(0);
            self.missing(missing)
        })?;
        self.check_all(&all)?;
        Ok(all)
    }

    pub fn check_all(&self, inputs: &[Input<'_>]) -> Result<()> {
        if inputs.len() > self.inputs.len() {
            return Err(self.no_such_input(&format!("number {}", self.inputs.len())));
        }
        if inputs.len() < self.inputs.len() {
            return Err(self.missing(inputs.len()));
        }
        for (port, input) in self.inputs.iter().zip(inputs) {
            self.check_one(port, *input)?;
        }
        Ok(())
    }

    pub fn check_one(&self, port: &ValueInfo, input: Input<'_>) -> Result<()> {
        port.check(input)?;
        self.check_pool(&port.name, input)
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

    pub fn no_such_input(&self, name: &str) -> Error {
        let all = self.inputs.iter().chain(&self.optional);
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

    pub fn outputs(&self, mut arrays: AllArrays) -> Result<Outputs> {
        if self.words.is_some() {
            for (place, arrays) in arrays.iter_mut().enumerate() {
                for array in arrays {
                    *array = self.named(place, array.clone())?;
                }
            }
        }
        Ok(Outputs {
            names: self.output_names.clone(),
            arrays,
        })
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
        let is_strings = input.is_strings();
        let kind = self.strings.is_some() || !is_strings;
        if dtype && shape && kind {
            return Ok(());
        }
        let dtype = input.dtype();
        let kind = if is_strings { "strings" } else { dtype.name() };
        let got = format!("{kind} {:?}", input.shape());
        Err(Error::input(&self.name, got, self.described()))
    }

    /// What fits, for messages.
    fn described(&self) -> String {
        let dtype = match (&self.strings, self.dtype) {
            (Some(_), _) => "strings".to_owned(),
            (None, Some(dtype)) => dtype.to_string(),
            (None, None) => "a tensor".to_owned(),
        };
        match &self.shape {
            None => dtype,
            Some(shape) => {
                let sizes: Vec<String> = shape.iter().map(Dim::to_string).collect();
                format!("{dtype} [{}]", sizes.join(", "))
            }
        }
    }
}
