//! Inputs that need not be given: the model says what they are then. The model is planned with those as constants; for a
//! caller that gives some of them, it is rewritten once more, with these as inputs like others.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use streampool_device::lock::Mutex;

use super::counts::Statistics;
use super::options::SessionOptions;
use super::prepared::Prepared;
use super::weights::Weights;
use crate::error::Result;
use crate::graph::Graph;
use crate::ranks;

/// Of so many choices of inputs what they need is kept; the oldest goes first.
const MOST_CHOICES: usize = 8;

/// The inputs of a model that have values of their own.
pub struct OptionalInputs {
    /// As it was read.
    graph: Graph,
    weights: Arc<Weights>,
    options: SessionOptions,
    made: Mutex<VecDeque<Choice>>,
}

/// Which are given, by place, and the model for that.
type Choice = (Vec<usize>, Arc<Prepared>);

impl OptionalInputs {
    /// Those of a graph as it was read, if there are any.
    pub fn of(
        graph: &Graph,
        options: &SessionOptions,
        weights: &Arc<Weights>,
    ) -> Option<OptionalInputs> {
        if graph.defaults.is_empty() {
            return None;
        }
        Some(OptionalInputs {
            graph: graph.clone(),
            weights: weights.clone(),
            options: SessionOptions {
                // They are in the graph.
                weights: HashMap::new(),
                ..options.clone()
            },
            made: Mutex::new(ranks::OPTIONAL_INPUTS, VecDeque::new()),
        })
    }

    /// The model with those of these names as inputs that are given; `None` if no name is one of them.
    pub fn given<'n>(&self, names: impl Iterator<Item = &'n str>) -> Result<Option<Arc<Prepared>>> {
        let all = &self.graph.defaults;
        let place = |name: &str| all.iter().position(|(_, info)| info.name == name);
        let mut places: Vec<usize> = names.filter_map(place).collect();
        if places.is_empty() {
            return Ok(None);
        }
        places.sort_unstable();
        places.dedup();
        let find = |all: &VecDeque<Choice>| {
            let found = all.iter().find(|(other, _)| *other == places);
            found.map(|(_, model)| model.clone())
        };
        let found = find(&self.made.lock());
        if found.is_some() {
            return Ok(found);
        }
        let model = Arc::new(self.with_inputs(&places)?);
        let mut made = self.made.lock();
        // Who else made it meanwhile was first.
        if let Some(other) = find(&made) {
            return Ok(Some(other));
        }
        made.push_back((places.clone(), model.clone()));
        let oldest = (made.len() > MOST_CHOICES).then(|| made.pop_front());
        drop(made);
        drop(oldest);
        Ok(Some(model))
    }

    fn with_inputs(&self, places: &[usize]) -> Result<Prepared> {
        let mut graph = self.graph.clone();
        let defaults = std::mem::take(&mut graph.defaults);
        for &place in places {
            let (id, info) = &defaults[place];
            graph.constants.remove(id);
            graph.declare(*id, info.clone());
            graph.inputs.push(*id);
        }
        Prepared::new(graph, BTreeMap::new(), self.weights.clone(), &self.options)
    }

    /// What the models for callers that gave some of them did and hold.
    pub fn statistics(&self) -> Vec<Statistics> {
        let all: Vec<Arc<Prepared>> = self
            .made
            .lock()
            .iter()
            .map(|(_, one)| one.clone())
            .collect();
        all.iter().map(|model| model.statistics()).collect()
    }
}
