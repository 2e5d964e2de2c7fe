//! Runs of a model in parts: part after part, with the nodes between them, which ask for values, computed by themselves.

use std::sync::Arc;

use streampool_runtime::Stream;
use streampool_tensor::{Array, Tensor};

use super::compiled::Ends;
use super::counts::Count;
use super::input::Input;
use super::key::{Key, Values, values as values_of};
use super::options::RunOptions;
use super::outputs::Outputs;
use super::prepared::Prepared;
use super::programs::Ready;
use super::weights::Weights;
use crate::error::{Error, NodeError, Result};
use crate::evaluate::{Scope, step};
use crate::graph::ValueId;
use crate::nodes::{Pools, Value};
use crate::trace::{Given, TensorKind};

/// The place of nodes that are computed by themselves.
struct Eager<'a>(&'a Weights);

impl Pools for Eager<'_> {
    fn known(&self) -> &streampool_tensor::Pool {
        self.0.known()
    }

    fn work(&self) -> &streampool_tensor::Pool {
        self.0.work()
    }

    fn lift(&self, known: &Tensor) -> Result<Tensor, NodeError> {
        self.0.lift(known)
    }
}

/// A value between two parts.
#[derive(Clone)]
pub enum PartValue {
    /// The same whatever is in the inputs.
    Known(Value),
    /// From the inputs.
    Made(Value),
}

/// What a part has made, by value.
pub type Outcomes = Vec<(ValueId, PartValue)>;

impl Prepared {
    /// Host arrays in, host arrays out.
    pub fn run_parts_to_arrays(
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
        self.outputs(arrays.collect::<Result<_, _>>()?)
    }

    /// Part after part, with the nodes between them.
    pub fn run_parts(
        &self,
        stream: &Stream,
        inputs: &[Input<'_>],
        options: &RunOptions,
    ) -> Result<Vec<Value>> {
        self.counts.add(stream.index(), Count::Runs);
        let graph = self.plans.graph();
        let mut values: Vec<Option<PartValue>> = vec![None; graph.value_count()];
        let by_value = self.by_value.places(inputs);
        let key_values = values_of(inputs, by_value)?;
        for (place, (&id, input)) in graph.inputs.iter().zip(inputs).enumerate() {
            let value = match by_value.contains(place) {
                true => PartValue::Known(input.known(self.weights.known())?.into()),
                false => PartValue::Made(input.at_work(self.pool())?.into()),
            };
            values[id.index()] = Some(value);
        }
        let begin = stream.position();
        let (mut start, mut last_node) = (0, begin);
        loop {
            let (outputs, ended) = self.run_part(stream, start, &values, &key_values)?;
            let Some(node) = ended else {
                // Only what programs do is left to whoever reads the outputs: a fault of a node is told here.
                options.wait_between(stream, begin, last_node)?;
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
            last_node = stream.position();
            options.check()?;
            start = node + 1;
            // What nobody reads any more goes.
            let live = self.plans.live(start);
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
        values: &[Option<PartValue>],
        by_value: &Values<'_>,
    ) -> Result<(Outcomes, Option<usize>)> {
        let mut given = Vec::new();
        let mut tensors = Vec::new();
        for &id in self.plans.live(start) {
            let one = match &values[id.index()] {
                None => continue,
                Some(PartValue::Made(Value::Tensor(tensor))) => {
                    tensors.push(self.as_input(tensor)?);
                    Given::Input(TensorKind::of(tensor))
                }
                Some(PartValue::Made(Value::Sequence(several))) => {
                    for tensor in several {
                        tensors.push(self.as_input(tensor)?);
                    }
                    Given::Inputs(several.iter().map(TensorKind::of).collect())
                }
                Some(PartValue::Made(Value::Nothing)) => Given::Known(Value::Nothing),
                Some(PartValue::Known(value)) => Given::Known(value.clone()),
            };
            given.push((id, one));
        }
        let key = Arc::new(Key::of(start, &given)?);
        let is_for = |ready: &Ready| *ready.key == *key;
        let ready = self
            .programs
            .take(stream.index(), Ends::Device, key.hash, is_for);
        let ready = match ready {
            Some(ready) => ready,
            None => {
                let compiled = self.plan(&key, &given, by_value)?;
                self.capture(stream, key, compiled, Ends::Device, &[])?
            }
        };
        let outputs = self.replay_device(stream, &ready, &tensors);
        let ended = ready.compiled.ended.as_ref().map(|asked| asked.node);
        self.give(stream, ready);
        Ok((outputs?, ended))
    }

    /// A tensor where a program reads it.
    fn as_input(&self, tensor: &Tensor) -> Result<Tensor> {
        let lifted = self.weights.lift(tensor).map_err(Error::Graph)?;
        Ok(lifted.dense()?)
    }

    fn run_node(
        &self,
        stream: &Stream,
        place: usize,
        values: &mut [Option<PartValue>],
    ) -> Result<()> {
        let graph = self.plans.graph();
        let node = &graph.nodes[place];
        let eager = Eager(&self.weights);
        let mut scope = Scope::new(graph, &eager);
        for id in node.reads() {
            if let Some(PartValue::Known(value) | PartValue::Made(value)) = &values[id.index()] {
                scope.set(id, value.clone());
            }
        }
        step(&mut scope, graph, node)?;
        for &id in node.outputs.iter().flatten() {
            values[id.index()] = scope.get(id).cloned().map(PartValue::Made);
        }
        self.counts.add(stream.index(), Count::NodesAlone);
        Ok(())
    }

    /// A value as a caller gets it: in the pool where the work is.
    pub fn finished(&self, value: PartValue) -> Result<Value> {
        let (PartValue::Known(value) | PartValue::Made(value)) = value;
        let moved = |tensor: &Tensor| self.weights.lift(tensor).map_err(Error::Graph);
        Ok(match value {
            Value::Tensor(tensor) => Value::Tensor(moved(&tensor)?),
            Value::Sequence(tensors) => {
                Value::Sequence(tensors.iter().map(moved).collect::<Result<_>>()?)
            }
            Value::Nothing => Value::Nothing,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use streampool_tensor::{Array, DType};

    use crate::onnx::writer::Graph;
    use crate::session::{Input, Session, SessionOptions};

    #[test]
    fn a_part_is_not_taken_for_the_whole() {
        let model = Graph::default()
            .input("x", DType::F32, "n")
            .node("Neg x = negative", &[])
            .node("NonZero negative = places", &[])
            .node("Gather negative places = y", &[])
            .outputs("y")
            .model(&[("", 18)]);
        let pool = crate::testing::host_pool();
        let session = Session::from_bytes(&pool, model, &SessionOptions::default()).unwrap();
        let x = Array::new(&[0f32, 2.0], &[2]).unwrap();
        for _ in 0..3 {
            let outputs = session.run_to_tensors(&[Input::from(&x)]).unwrap();
            assert_eq!(outputs.len(), 1);
            assert_eq!(outputs[0].to_vec::<f32>().unwrap(), [-2.0]);
            // As for a thread that asked a moment before another found out.
            session.model.has_parts.store(false, Ordering::Relaxed);
        }
    }
}
