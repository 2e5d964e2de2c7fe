//! Single nodes, against numbers that others computed, or that follow from the operator's words.

mod contradictions;
mod edges;
mod few_bits;
mod fused;
mod known;
mod microsoft;
mod microsoft_experts;
mod microsoft_layers;
mod microsoft_steps;
mod packed;
mod types;
mod versions;
mod windowed;

use streampool_tensor::{DType, Element, Pool, Tensor};

use crate::graph::{Attribute, Domain, Graph, Node, Operator, ValueInfo};
use crate::testing::{Value, evaluate_eagerly};

/// Values on no pool yet.
type Given = Box<dyn Fn(&Pool) -> Tensor>;

/// A shape, and the numbers of that shape.
type Expected = Option<(Vec<usize>, Vec<f64>)>;

fn pool() -> Pool {
    crate::testing::host_pool()
}

fn given<T: Element>(shape: &[usize], values: &[T]) -> Option<Given> {
    let (shape, values) = (shape.to_vec(), values.to_vec());
    Some(Box::new(move |pool| {
        Tensor::from_slice(pool, &values, &shape).expect("as many values as the shape has")
    }))
}

/// Values that a number of the place and the seed makes.
fn made<T: Element>(shape: &[usize], value: impl Fn(usize) -> T) -> Option<Given> {
    let values: Vec<T> = (0..shape.iter().product()).map(value).collect();
    given(shape, &values)
}

fn floats(shape: &[usize], seed: usize) -> Option<Given> {
    made(shape, |place| {
        ((place * 7 + seed * 5) % 13) as f32 / 4.0 - 1.5
    })
}

fn positive(shape: &[usize], seed: usize) -> Option<Given> {
    made(shape, |place| {
        ((place * 5 + seed * 3) % 11 + 1) as f32 / 8.0
    })
}

fn byte(place: usize, seed: usize) -> u8 {
    ((place * 37 + seed * 11) % 256) as u8
}

fn bytes(shape: &[usize], seed: usize) -> Option<Given> {
    made(shape, |place| byte(place, seed))
}

fn signed(shape: &[usize], seed: usize) -> Option<Given> {
    made(shape, |place| (byte(place, seed) ^ 128).cast_signed())
}

fn expected(shape: &[usize], values: &[f64]) -> Expected {
    Some((shape.to_vec(), values.to_vec()))
}

/// A node under test.
struct One {
    operator: Operator,
    attributes: Vec<(String, Attribute)>,
}

fn one(domain: Domain, name: &str, version: i64) -> One {
    let operator = Operator {
        domain,
        name: name.to_owned(),
        version,
    };
    One {
        operator,
        attributes: Vec::new(),
    }
}

fn onnx(name: &str, version: i64) -> One {
    one(Domain::Onnx, name, version)
}

fn microsoft(name: &str) -> One {
    one(Domain::Microsoft, name, 1)
}

fn fused(name: &str) -> One {
    one(Domain::Fused, name, 1)
}

impl One {
    fn with(mut self, name: &str, attribute: Attribute) -> One {
        self.attributes.push((name.to_owned(), attribute));
        self
    }

    fn int(self, name: &str, value: i64) -> One {
        self.with(name, Attribute::Int(value))
    }

    fn float(self, name: &str, value: f32) -> One {
        self.with(name, Attribute::Float(value))
    }

    fn string(self, name: &str, value: &str) -> One {
        self.with(name, Attribute::String(value.to_owned()))
    }

    fn ints(self, name: &str, values: &[i64]) -> One {
        self.with(name, Attribute::Ints(values.to_vec()))
    }

    fn floats(self, name: &str, values: &[f32]) -> One {
        self.with(name, Attribute::Floats(values.to_vec()))
    }

    /// Says why these inputs, all known, are refused, if they are.
    fn fails(self, inputs: &[Option<Given>]) -> Option<String> {
        self.refusal(inputs, 1)
    }

    fn refused(self, inputs: &[Option<Given>], outputs: usize) -> String {
        self.refusal(inputs, outputs).expect("a refusal")
    }

    fn refusal(self, inputs: &[Option<Given>], outputs: usize) -> Option<String> {
        let there: Vec<bool> = inputs.iter().map(Option::is_some).collect();
        let graph = self.graph(&there, &vec![true; outputs]);
        let pool = pool();
        let inputs = inputs.iter().flatten();
        let inputs: Vec<_> = inputs
            .map(|given| Some(Value::Tensor(given(&pool))))
            .collect();
        let made = evaluate_eagerly(&graph, (&pool, &pool), &inputs);
        // Faults of the device, too, as of an index.
        let read = |values: Vec<Value>| -> streampool_tensor::Result<()> {
            for value in &values {
                let tensor = value.tensor().expect("a tensor");
                tensor.to_dtype(DType::F64)?.to_vec::<f64>()?;
            }
            Ok(())
        };
        match made {
            Ok(values) => read(values).err().map(|error| error.to_string()),
            Err(error) => Some(error.to_string()),
        }
    }

    /// A graph of the node alone, with these inputs there and these outputs asked for.
    fn graph(self, inputs: &[bool], outputs: &[bool]) -> Graph {
        let mut graph = Graph::default();
        let mut values = |there: &[bool]| -> Vec<_> {
            let value = |there: &bool| there.then(|| graph.add_value(ValueInfo::default()));
            there.iter().map(value).collect()
        };
        let (inputs, outputs) = (values(inputs), values(outputs));
        graph.inputs = inputs.iter().flatten().copied().collect();
        graph.outputs = outputs.iter().flatten().copied().collect();
        graph.nodes.push(Node {
            name: "the node".to_owned(),
            operator: self.operator,
            inputs,
            outputs,
            attributes: self.attributes,
        });
        graph
    }

    /// Compares with what is expected: with all inputs in one pool, and with each in turn the only one that is not
    /// known.
    fn check(self, inputs: &[Option<Given>], outputs: &[Expected]) {
        let there: Vec<bool> = inputs.iter().map(Option::is_some).collect();
        let asked: Vec<bool> = outputs.iter().map(Option::is_some).collect();
        let graph = self.graph(&there, &asked);
        let (known, work) = (pool(), pool());
        let inputs: Vec<&Given> = inputs.iter().flatten().collect();
        for unknown in 0..=inputs.len() {
            let value = |(place, given): (usize, &&Given)| {
                let pool = if place == unknown { &work } else { &known };
                Some(Value::Tensor(given(pool)))
            };
            let inputs: Vec<_> = inputs.iter().enumerate().map(value).collect();
            let got = evaluate_eagerly(&graph, (&known, &work), &inputs);
            let got = got.unwrap_or_else(|error| panic!("input {unknown} unknown: {error}"));
            assert_eq!(got.len(), outputs.iter().flatten().count());
            for (got, expected) in got.iter().zip(outputs.iter().flatten()) {
                compare(got, expected, unknown);
            }
        }
    }
}

fn compare(got: &Value, (shape, values): &(Vec<usize>, Vec<f64>), unknown: usize) {
    let got = got.tensor().expect("a tensor");
    assert_eq!(got.shape(), shape, "input {unknown} unknown");
    let got = got.to_dtype(DType::F64).and_then(|got| got.to_vec::<f64>());
    let got = got.expect("numbers");
    for (place, (got, expected)) in got.iter().zip(values).enumerate() {
        let near = (got - expected).abs() <= 2e-4 * expected.abs().max(1.0);
        assert!(
            near || got == expected || got.is_nan() && expected.is_nan(),
            "input {unknown} unknown: element {place} is {got}, expected {expected}"
        );
    }
}
