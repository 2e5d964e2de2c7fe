//! One node as its operator sees it: inputs, attributes, and the errors when they are not as they should be.

use std::cell::{Cell, OnceCell};
use std::rc::Rc;

use streampool_tensor::room::copied;
use streampool_tensor::{DType, Generator, Pool, Scalar, Tensor};

use super::value::{Value, Values};
use crate::error::NodeError;
use crate::graph::{Attribute, Domain, Graph, Node};
use crate::words::{self, OfRun};
use crate::{onnx, seeds};

/// What most operators make: tensors, in order.
pub type Outputs = Result<Vec<Tensor>, NodeError>;

/// What an operator of tensors makes.
pub type TensorResult = streampool_tensor::Result<Tensor>;

/// What computes a node that makes tensors.
pub type Operator = fn(&Call<'_>) -> Outputs;

/// What computes a node that may make other values.
pub type ValuesOperator = fn(&Call<'_>) -> Values;

/// Where values come to be.
pub trait Pools {
    /// The pool of what is known.
    fn known(&self) -> &Pool;

    /// The pool where the work is.
    fn work(&self) -> &Pool;

    /// What is known, as the work reads it.
    fn lift(&self, known: &Tensor) -> Result<Tensor, NodeError>;

    /// Told before a node makes what is another in each run, such as random numbers; refuses where what is made is kept for several
    /// runs.
    fn fresh(&self) -> Result<(), NodeError> {
        Ok(())
    }

    /// Told how many nodes of graphs inside a node are about to be evaluated; refuses where that is to be done elsewhere.
    fn repeats(&self, _nodes: usize) -> Result<(), NodeError> {
        Ok(())
    }

    /// Told before a graph of so many nodes inside a node is evaluated; refuses where that is to be done elsewhere.
    fn enter(&self, _nodes: usize) -> Result<(), NodeError> {
        Ok(())
    }
}

/// The results of a graph inside a node, for these inputs. The number is another one for each node and time.
pub type Inner<'a> = &'a dyn Fn(&Graph, Vec<Value>, u64) -> Values;

/// A node with the values of its inputs.
pub struct Call<'a> {
    node: &'a Node,
    inputs: Vec<Input>,
    pools: &'a dyn Pools,
    /// Which of the graphs inside nodes it is in, and which time that is evaluated: zero for the whole model.
    turn: u64,
    inner: Inner<'a>,
    pool: &'a Pool,
    /// How often a graph inside the node was evaluated.
    rounds: Cell<u64>,
}

struct Input {
    value: Option<Value>,
    /// The tensor, where it is known and the work is elsewhere.
    lifted: OnceCell<Tensor>,
}

impl<'a> Call<'a> {
    /// The node with these inputs; `inner` evaluates the graphs inside it.
    pub fn new(
        node: &'a Node,
        inputs: Vec<Option<Value>>,
        pools: &'a dyn Pools,
        turn: u64,
        inner: Inner<'a>,
    ) -> Self {
        let known = pools.known();
        let tensors = inputs.iter().flatten().flat_map(Value::tensors);
        let all_known = tensors.into_iter().all(|tensor| tensor.pool() == known);
        let inputs = inputs.into_iter().map(|value| Input {
            value,
            lifted: OnceCell::new(),
        });
        Call {
            node,
            inputs: inputs.collect(),
            pools,
            turn,
            inner,
            rounds: Cell::new(0),
            pool: if all_known { known } else { pools.work() },
        }
    }

    /// The name of the operator.
    pub fn op(&self) -> &'a str {
        &self.node.operator.name
    }

    /// Whose operator it is.
    pub fn domain(&self) -> Domain {
        self.node.operator.domain
    }

    /// The version of the operators.
    pub fn opset(&self) -> i64 {
        self.node.operator.version
    }

    /// Where it is computed.
    pub fn pool(&self) -> &'a Pool {
        self.pool
    }

    /// The pool of what is known, for what depends on shapes alone.
    pub fn known_pool(&self) -> &'a Pool {
        self.pools.known()
    }

    /// How many inputs there are, those that are left out included.
    pub fn input_count(&self) -> usize {
        self.inputs.len()
    }

    /// The results of a graph inside the node, for these inputs.
    pub fn inner(&self, graph: &Graph, inputs: Vec<Value>) -> Values {
        let round = self.rounds.replace(self.rounds.get() + 1);
        let turn = self.sequence(None).fork(round).seed();
        (self.inner)(graph, inputs, turn)
    }

    /// Told before the first round of so many of a graph inside the node.
    pub fn repeats(&self, graph: &Graph, rounds: usize) -> Result<(), NodeError> {
        self.pools
            .repeats(graph.nodes.len().max(1).saturating_mul(rounds))
    }

    /// The random numbers of this seed, or of the node's own if there is none; others in each round of a node around.
    pub fn sequence(&self, seed: Option<u64>) -> Generator {
        match seed {
            Some(seed) => self.in_turn(Generator::new(seed)),
            None => self.own_sequence(0),
        }
    }

    /// Those of this node among the numbers of a seed.
    fn own_sequence(&self, seed: u64) -> Generator {
        let all = Generator::new(seed);
        let own = self.node.outputs.iter().flatten().next();
        self.in_turn(own.map_or_else(|| all.clone(), |own| all.fork(own.index() as u64)))
    }

    fn in_turn(&self, generator: Generator) -> Generator {
        match self.turn {
            0 => generator,
            turn => generator.fork(turn),
        }
    }

    /// The random numbers of the node in this run, and where they are made. Outside of runs they are always the same.
    pub fn fresh_sequence(&self) -> Result<(Generator, &'a Pool), NodeError> {
        let Some(seed) = seeds::current() else {
            return Ok((self.sequence(None), self.pool));
        };
        self.pools.fresh()?;
        Ok((self.own_sequence(seed), self.pools.work()))
    }

    /// The strings of the run, and where tensors of their numbers are made.
    pub fn words(&self) -> Result<(Rc<OfRun>, &'a Pool), NodeError> {
        self.pools.fresh()?;
        let words = words::current();
        let words = words.ok_or_else(|| NodeError::unsupported("strings outside of a run"))?;
        Ok((words, self.pools.work()))
    }

    /// An input of whatever kind, as it was made.
    pub fn value(&self, place: usize) -> Result<&Value, NodeError> {
        self.optional_value(place).ok_or_else(|| left_out(place))
    }

    /// An input of whatever kind that may be left out, as it was made.
    pub fn optional_value(&self, place: usize) -> Option<&Value> {
        self.inputs.get(place)?.value.as_ref()
    }

    /// Whether that input is there.
    pub fn has_input(&self, place: usize) -> bool {
        self.optional_value(place).is_some()
    }

    /// The tensor of an input as it was made: where it is known, in the pool of what is known.
    pub fn given(&self, place: usize) -> Result<&Tensor, NodeError> {
        self.value(place)?.tensor()
    }

    /// How many outputs are asked for, at most.
    pub fn wanted(&self) -> usize {
        self.node.outputs.len()
    }

    /// Whether that output is asked for.
    pub fn wants(&self, place: usize) -> bool {
        self.node.outputs.get(place).is_some_and(Option::is_some)
    }

    /// An input that has to be there.
    pub fn input(&self, place: usize) -> Result<&Tensor, NodeError> {
        self.optional(place)?.ok_or_else(|| left_out(place))
    }

    /// An input that may be left out.
    pub fn optional(&self, place: usize) -> Result<Option<&Tensor>, NodeError> {
        let Some(input) = self.inputs.get(place) else {
            return Ok(None);
        };
        let Some(value) = &input.value else {
            return Ok(None);
        };
        let tensor = value.tensor()?;
        if tensor.pool() == self.pool {
            return Ok(Some(tensor));
        }
        if let Some(lifted) = input.lifted.get() {
            return Ok(Some(lifted));
        }
        let lifted = self.lift(tensor)?;
        Ok(Some(input.lifted.get_or_init(|| lifted)))
    }

    /// As many numbers from zero on, where the node is computed; they are made but once.
    pub fn counted(&self, count: usize, dtype: DType) -> Result<Tensor, NodeError> {
        let known = Tensor::arange(self.known_pool(), 0, count as i64, 1, dtype)?;
        self.lift(&known)
    }

    /// A number without axes, where the node is computed.
    pub fn constant(&self, value: impl Into<Scalar>, dtype: DType) -> Result<Tensor, NodeError> {
        self.lift(&Tensor::full(self.known_pool(), &[], value, dtype)?)
    }

    /// Inputs that may be left out: where they were made, if that is where known values are, otherwise where the node is
    /// computed.
    pub fn beside<const N: usize>(
        &self,
        places: [usize; N],
    ) -> Result<[Option<&Tensor>; N], NodeError> {
        let mut found = [None; N];
        for (found, &place) in found.iter_mut().zip(&places) {
            *found = self.present(place)?;
        }
        if found
            .iter()
            .flatten()
            .all(|tensor| tensor.pool() == self.known_pool())
        {
            return Ok(found);
        }
        for (found, &place) in found.iter_mut().zip(&places) {
            *found = self.optional(place)?;
        }
        Ok(found)
    }

    /// A tensor where the node is computed.
    pub fn lift(&self, tensor: &Tensor) -> Result<Tensor, NodeError> {
        match tensor.pool() == self.pool {
            true => Ok(tensor.clone()),
            false => self.pools.lift(tensor),
        }
    }

    /// A tensor in this pool, which is one of the two.
    pub fn in_pool(&self, tensor: &Tensor, pool: &Pool) -> Result<Tensor, NodeError> {
        match tensor.pool() == pool {
            true => Ok(tensor.clone()),
            false => self.pools.lift(tensor),
        }
    }

    /// Tensors wherever they were made, as they are in one place: where they are all known, there.
    pub fn together(&self, tensors: &[Tensor]) -> Result<Vec<Tensor>, NodeError> {
        let (known, work) = (self.known_pool(), self.pools.work());
        if tensors.iter().all(|tensor| tensor.pool() == known) {
            return Ok(copied(tensors)?);
        }
        let lifted = tensors.iter().map(|tensor| match tensor.pool() == work {
            true => Ok(tensor.clone()),
            false => self.pools.lift(tensor),
        });
        lifted.collect()
    }

    /// The number of an input that is known, has one element, and meets others that are not known; `None` where one of
    /// these does not hold.
    pub fn number(&self, place: usize) -> Result<Option<Scalar>, NodeError> {
        let Some(tensor) = self.present(place)? else {
            return Ok(None);
        };
        // Numbers are told as signed.
        if tensor.pool() == self.pool || tensor.elem_count() != 1 || tensor.dtype() == DType::U64 {
            return Ok(None);
        }
        scalar(tensor).map(Some)
    }

    /// All inputs, which have to be there, and at least one.
    pub fn all(&self) -> Result<Vec<&Tensor>, NodeError> {
        (0..self.inputs.len().max(1))
            .map(|place| self.input(place))
            .collect()
    }

    /// The integers of an input that has to be there.
    pub fn ints(&self, place: usize) -> Result<Vec<i64>, NodeError> {
        integers(self.given(place)?)
    }

    /// The integers of an input that may be left out.
    pub fn optional_ints(&self, place: usize) -> Result<Option<Vec<i64>>, NodeError> {
        self.present(place)?.map(integers).transpose()
    }

    /// The one integer of an input that has to be there.
    pub fn int(&self, place: usize) -> Result<i64, NodeError> {
        Ok(self.given(place)?.to_dtype(DType::I64)?.item::<i64>()?)
    }

    /// The one integer of an input that may be left out.
    pub fn optional_int(&self, place: usize) -> Result<Option<i64>, NodeError> {
        match self.has_input(place) {
            true => self.int(place).map(Some),
            false => Ok(None),
        }
    }

    /// The sizes that an input lists.
    pub fn input_sizes(&self, place: usize) -> Result<Vec<usize>, NodeError> {
        let listed = self.ints(place)?.into_iter();
        listed.map(|value| size("a size", value)).collect()
    }

    /// The numbers of an input that may be left out.
    pub fn optional_floats(&self, place: usize) -> Result<Option<Vec<f64>>, NodeError> {
        let Some(tensor) = self.present(place)? else {
            return Ok(None);
        };
        Ok(Some(tensor.to_dtype(DType::F64)?.to_vec::<f64>()?))
    }

    /// The one number of an input that may be left out.
    pub fn optional_float(&self, place: usize) -> Result<Option<f64>, NodeError> {
        let Some(tensor) = self.present(place)? else {
            return Ok(None);
        };
        Ok(Some(tensor.to_dtype(DType::F64)?.item::<f64>()?))
    }

    /// The tensor of an input that may be left out, as it was made.
    fn present(&self, place: usize) -> Result<Option<&Tensor>, NodeError> {
        self.optional_value(place).map(Value::tensor).transpose()
    }

    /// An attribute, as `read` takes it, which says no where it is of another kind than `expected`.
    fn attribute<T>(
        &self,
        name: &str,
        expected: &str,
        read: impl FnOnce(&'a Attribute) -> Option<T>,
    ) -> Result<Option<T>, NodeError> {
        let Some(found) = self.node.attribute(name) else {
            return Ok(None);
        };
        let wrong =
            || NodeError::malformed(format_args!("attribute {name}"), found.kind(), expected);
        read(found).map(Some).ok_or_else(wrong)
    }

    /// Whether there is an attribute of this name.
    pub fn has(&self, name: &str) -> bool {
        self.node.attribute(name).is_some()
    }

    /// An integer attribute, if it is there.
    pub fn attr_int(&self, name: &str) -> Result<Option<i64>, NodeError> {
        self.attribute(name, "an integer", |found| match found {
            Attribute::Int(value) => Some(*value),
            _ => None,
        })
    }

    /// An integer attribute, or what it is when left out.
    pub fn int_or(&self, name: &str, default: i64) -> Result<i64, NodeError> {
        Ok(self.attr_int(name)?.unwrap_or(default))
    }

    /// An axis, or another number that may be negative.
    pub fn axis_or(&self, name: &str, default: i64) -> Result<isize, NodeError> {
        Ok(self.int_or(name, default)? as isize)
    }

    /// A truth value, or what it is when left out. Of other numbers some take all for true and some for false.
    pub fn flag_or(&self, name: &str, default: bool) -> Result<bool, NodeError> {
        match self.attr_int(name)? {
            None => Ok(default),
            Some(0) => Ok(false),
            Some(1) => Ok(true),
            Some(other) => Err(NodeError::malformed(
                format_args!("attribute {name}"),
                other,
                "0 or 1",
            )),
        }
    }

    /// A size, or what it is when left out.
    pub fn size_or(&self, name: &str, default: usize) -> Result<usize, NodeError> {
        match self.attr_int(name)? {
            Some(value) => size(name, value),
            None => Ok(default),
        }
    }

    /// A float attribute, if it is there.
    pub fn attr_float(&self, name: &str) -> Result<Option<f64>, NodeError> {
        self.attribute(name, "a float", |found| match found {
            Attribute::Float(value) => Some(f64::from(*value)),
            _ => None,
        })
    }

    /// A float attribute, or what it is when left out.
    pub fn float_or(&self, name: &str, default: f64) -> Result<f64, NodeError> {
        Ok(self.attr_float(name)?.unwrap_or(default))
    }

    /// Integers, if they are there.
    pub fn attr_ints(&self, name: &str) -> Result<Option<&'a [i64]>, NodeError> {
        self.attribute(name, "integers", |found| match found {
            Attribute::Ints(values) => Some(&values[..]),
            _ => None,
        })
    }

    /// Floats, if they are there.
    pub fn attr_floats(&self, name: &str) -> Result<Option<&'a [f32]>, NodeError> {
        self.attribute(name, "floats", |found| match found {
            Attribute::Floats(values) => Some(&values[..]),
            _ => None,
        })
    }

    /// Sizes; none if they are left out.
    pub fn sizes(&self, name: &str) -> Result<Vec<usize>, NodeError> {
        let found = self.attr_ints(name)?.unwrap_or(&[]);
        found.iter().map(|&value| size(name, value)).collect()
    }

    /// A string, or what it is when left out.
    pub fn string_or(&self, name: &str, default: &'a str) -> Result<&'a str, NodeError> {
        let found = self.attribute(name, "a string", |found| match found {
            Attribute::String(value) => Some(&value[..]),
            _ => None,
        })?;
        Ok(found.unwrap_or(default))
    }

    /// Strings; none if they are left out.
    pub fn attr_strings(&self, name: &str) -> Result<Vec<&'a str>, NodeError> {
        let found = self.attribute(name, "strings", |found| match found {
            Attribute::Strings(values) => Some(values.iter().map(String::as_str).collect()),
            _ => None,
        })?;
        Ok(found.unwrap_or_default())
    }

    /// A tensor, if it is there: in the pool of what is known.
    pub fn attr_tensor(&self, name: &str) -> Result<Option<&'a Tensor>, NodeError> {
        self.attribute(name, "a tensor", |found| match found {
            Attribute::Tensor(tensor) => Some(tensor),
            _ => None,
        })
    }

    /// A graph inside the node.
    pub fn attr_graph(&self, name: &str) -> Result<&'a Graph, NodeError> {
        let found = self.attribute(name, "a graph", |found| match found {
            Attribute::Graph(graph) => Some(&**graph),
            _ => None,
        })?;
        found.ok_or_else(|| {
            NodeError::malformed(format_args!("attribute {name}"), "left out", "a graph")
        })
    }

    /// An element type, if it is there.
    pub fn attr_dtype(&self, name: &str) -> Result<Option<DType>, NodeError> {
        self.attr_int(name)?.map(onnx::dtype).transpose()
    }

    /// The type of less than eight bits, or of 8-bit floats, that an attribute names, if it names one.
    pub fn attr_small(&self, name: &str) -> Result<Option<onnx::Small>, NodeError> {
        let named = self
            .attr_int(name)?
            .and_then(|code| i32::try_from(code).ok());
        Ok(named.and_then(onnx::Small::of))
    }

    /// The integers that older versions have as an attribute and newer ones as an input.
    pub fn ints_of(&self, name: &str, place: usize) -> Result<Option<Vec<i64>>, NodeError> {
        match self.attr_ints(name)? {
            Some(found) => Ok(Some(copied(found)?)),
            None => self.optional_ints(place),
        }
    }

    /// The axes that older versions have as an attribute and newer ones as an input.
    pub fn axes_of(&self, place: usize) -> Result<Option<Vec<isize>>, NodeError> {
        let found = self.ints_of("axes", place)?;
        Ok(found.map(|axes| axes.into_iter().map(|axis| axis as isize).collect()))
    }

    /// A value of an attribute that is not known.
    pub fn unknown(&self, name: &str, value: impl std::fmt::Display) -> NodeError {
        NodeError::unsupported(format_args!("{name} {value:?}", value = value.to_string()))
    }
}

fn left_out(place: usize) -> NodeError {
    NodeError::malformed(format_args!("input {place}"), "left out", "a tensor")
}

/// The values of a tensor of integers.
fn integers(tensor: &Tensor) -> Result<Vec<i64>, NodeError> {
    Ok(tensor.to_dtype(DType::I64)?.to_vec::<i64>()?)
}

/// The value of a tensor of one element.
pub fn scalar(tensor: &Tensor) -> Result<Scalar, NodeError> {
    Ok(match tensor.dtype() {
        dtype if dtype.is_float() => tensor.to_dtype(DType::F64)?.item::<f64>()?.into(),
        DType::Bool => tensor.item::<bool>()?.into(),
        _ => tensor.to_dtype(DType::I64)?.item::<i64>()?.into(),
    })
}

/// The type in which several numbers of a type are added.
pub fn wider(dtype: DType) -> DType {
    match dtype {
        DType::F16 | DType::BF16 => DType::F32,
        other => other,
    }
}

/// The most parts that a node is computed in one by one.
const MOST_PARTS: usize = 1 << 20;

/// A number of parts that a list can hold.
pub fn parts(what: &str, count: usize) -> Result<usize, NodeError> {
    match count <= MOST_PARTS {
        true => Ok(count),
        false => Err(NodeError::malformed(
            what,
            count,
            format!("at most {MOST_PARTS}"),
        )),
    }
}

/// A number that has to be a size.
pub fn size(what: &str, value: i64) -> Result<usize, NodeError> {
    usize::try_from(value).map_err(|_| NodeError::malformed(what, value, "not negative"))
}

/// An axis as it counts from the front.
pub fn resolve(axis: isize, rank: usize) -> Result<usize, NodeError> {
    let resolved = if axis < 0 { axis + rank as isize } else { axis };
    match usize::try_from(resolved) {
        Ok(resolved) if resolved < rank => Ok(resolved),
        _ => Err(NodeError::malformed(
            "an axis",
            axis,
            match rank {
                0 => "none: a scalar has no axes".to_owned(),
                _ => format!("-{rank} to {}", rank - 1),
            },
        )),
    }
}
