//! One node of a graph, as its operator sees it: inputs, attributes, and the errors when they are not as they should be.

use streampool_tensor::{DType, Pool, Tensor};

use crate::error::Fault;
use crate::graph::Scope;
use crate::proto::{Attribute, Graph, NodeProto, TensorProto};
use crate::tensors;

/// What an operator makes: its outputs, in order.
pub type Outputs = Result<Vec<Tensor>, Fault>;

/// A node with the values of its inputs.
pub struct Node<'a> {
    pub(crate) proto: &'a NodeProto,
    pub(crate) inputs: Vec<Option<Tensor>>,
    pub(crate) scope: &'a Scope<'a>,
}

impl<'a> Node<'a> {
    /// The name of the operator.
    pub fn op(&self) -> &'a str {
        &self.proto.op
    }

    /// The version of the operators.
    pub fn opset(&self) -> i64 {
        self.scope.opset
    }

    /// Where it is computed.
    pub fn pool(&self) -> &'a Pool {
        self.scope.pool
    }

    /// How many outputs are asked for, at most.
    pub fn wanted(&self) -> usize {
        self.proto.outputs.len()
    }

    /// Whether that output is asked for.
    pub fn wants(&self, place: usize) -> bool {
        self.proto
            .outputs
            .get(place)
            .is_some_and(|name| !name.is_empty())
    }

    /// An input that has to be there.
    pub fn input(&self, place: usize) -> Result<&Tensor, Fault> {
        let missing = || Fault::malformed(format_args!("input {place}"), "left out", "a tensor");
        self.optional(place).ok_or_else(missing)
    }

    /// An input that may be left out.
    pub fn optional(&self, place: usize) -> Option<&Tensor> {
        self.inputs.get(place)?.as_ref()
    }

    /// All inputs, which have to be there, and at least one.
    pub fn all(&self) -> Result<Vec<&Tensor>, Fault> {
        (0..self.inputs.len().max(1))
            .map(|place| self.input(place))
            .collect()
    }

    /// The integers of an input that has to be there.
    pub fn ints(&self, place: usize) -> Result<Vec<i64>, Fault> {
        integers(self.input(place)?)
    }

    /// The integers of an input that may be left out.
    pub fn optional_ints(&self, place: usize) -> Result<Option<Vec<i64>>, Fault> {
        self.optional(place).map(integers).transpose()
    }

    /// The one integer of an input that has to be there.
    pub fn int(&self, place: usize) -> Result<i64, Fault> {
        Ok(self.input(place)?.to_dtype(DType::I64)?.item::<i64>()?)
    }

    /// The numbers of an input that may be left out.
    pub fn optional_floats(&self, place: usize) -> Result<Option<Vec<f64>>, Fault> {
        let Some(tensor) = self.optional(place) else {
            return Ok(None);
        };
        Ok(Some(tensor.to_dtype(DType::F64)?.to_vec::<f64>()?))
    }

    /// The one number of an input that may be left out.
    pub fn optional_float(&self, place: usize) -> Result<Option<f64>, Fault> {
        let Some(tensor) = self.optional(place) else {
            return Ok(None);
        };
        Ok(Some(tensor.to_dtype(DType::F64)?.item::<f64>()?))
    }

    fn attribute(&self, name: &str, kind: i32) -> Result<Option<&'a Attribute>, Fault> {
        let Some(found) = self
            .proto
            .attributes
            .iter()
            .find(|other| other.name == name)
        else {
            return Ok(None);
        };
        if found.kind != kind {
            let what = format!("attribute {name}");
            let (got, expected) = (format!("of kind {}", found.kind), format!("of kind {kind}"));
            return Err(Fault::malformed(what, got, expected));
        }
        Ok(Some(found))
    }

    /// Whether there is an attribute of this name.
    pub fn has(&self, name: &str) -> bool {
        self.proto.attributes.iter().any(|other| other.name == name)
    }

    /// An integer attribute, if it is there.
    pub fn attr_int(&self, name: &str) -> Result<Option<i64>, Fault> {
        Ok(self.attribute(name, Attribute::INT)?.map(|found| found.int))
    }

    /// An integer attribute, or what it is when left out.
    pub fn int_or(&self, name: &str, default: i64) -> Result<i64, Fault> {
        Ok(self.attr_int(name)?.unwrap_or(default))
    }

    /// An axis, or another number that may be negative.
    pub fn axis_or(&self, name: &str, default: i64) -> Result<isize, Fault> {
        Ok(self.int_or(name, default)? as isize)
    }

    /// A truth value, or what it is when left out.
    pub fn flag_or(&self, name: &str, default: bool) -> Result<bool, Fault> {
        Ok(self.attr_int(name)?.map_or(default, |value| value != 0))
    }

    /// A size, or what it is when left out.
    pub fn size_or(&self, name: &str, default: usize) -> Result<usize, Fault> {
        match self.attr_int(name)? {
            Some(value) => size(name, value),
            None => Ok(default),
        }
    }

    /// A float attribute, if it is there.
    pub fn attr_float(&self, name: &str) -> Result<Option<f64>, Fault> {
        let found = self.attribute(name, Attribute::FLOAT)?;
        Ok(found.map(|found| f64::from(found.float)))
    }

    /// A float attribute, or what it is when left out.
    pub fn float_or(&self, name: &str, default: f64) -> Result<f64, Fault> {
        Ok(self.attr_float(name)?.unwrap_or(default))
    }

    /// Integers, if they are there.
    pub fn attr_ints(&self, name: &str) -> Result<Option<&'a [i64]>, Fault> {
        Ok(self
            .attribute(name, Attribute::INTS)?
            .map(|found| &found.ints[..]))
    }

    /// Floats, if they are there.
    pub fn attr_floats(&self, name: &str) -> Result<Option<&'a [f32]>, Fault> {
        Ok(self
            .attribute(name, Attribute::FLOATS)?
            .map(|found| &found.floats[..]))
    }

    /// Sizes; none if they are left out.
    pub fn sizes(&self, name: &str) -> Result<Vec<usize>, Fault> {
        let found = self.attr_ints(name)?.unwrap_or(&[]);
        found.iter().map(|&value| size(name, value)).collect()
    }

    /// A string, or what it is when left out.
    pub fn string_or(&self, name: &str, default: &'a str) -> Result<&'a str, Fault> {
        let Some(found) = self.attribute(name, Attribute::STRING)? else {
            return Ok(default);
        };
        std::str::from_utf8(&found.string).map_err(|_| {
            Fault::malformed(format_args!("attribute {name}"), "not UTF-8", "a string")
        })
    }

    /// Strings; none if they are left out.
    pub fn attr_strings(&self, name: &str) -> Result<Vec<&'a str>, Fault> {
        let Some(found) = self.attribute(name, Attribute::STRINGS)? else {
            return Ok(Vec::new());
        };
        let texts = found.strings.iter().map(|bytes| std::str::from_utf8(bytes));
        texts
            .collect::<Result<_, _>>()
            .map_err(|_| Fault::malformed(format_args!("attribute {name}"), "not UTF-8", "strings"))
    }

    /// A tensor, if it is there.
    pub fn attr_tensor(&self, name: &str) -> Result<Option<&'a TensorProto>, Fault> {
        let found = self.attribute(name, Attribute::TENSOR)?;
        Ok(found.and_then(|found| found.tensor.as_ref()))
    }

    /// A graph inside the node.
    pub fn attr_graph(&self, name: &str) -> Result<&'a Graph, Fault> {
        let found = self.attribute(name, Attribute::GRAPH)?;
        found.and_then(|found| found.graph.as_ref()).ok_or_else(|| {
            Fault::malformed(format_args!("attribute {name}"), "left out", "a graph")
        })
    }

    /// An element type, if it is there.
    pub fn attr_dtype(&self, name: &str) -> Result<Option<DType>, Fault> {
        self.attr_int(name)?.map(tensors::dtype).transpose()
    }

    /// The integers that older versions have as an attribute and newer ones as an input.
    pub fn ints_of(&self, name: &str, place: usize) -> Result<Option<Vec<i64>>, Fault> {
        match self.attr_ints(name)? {
            Some(found) => Ok(Some(found.to_vec())),
            None => self.optional_ints(place),
        }
    }

    /// The axes that older versions have as an attribute and newer ones as an input.
    pub fn axes_of(&self, place: usize) -> Result<Option<Vec<isize>>, Fault> {
        let found = self.ints_of("axes", place)?;
        Ok(found.map(|axes| axes.into_iter().map(|axis| axis as isize).collect()))
    }

    /// A value of an attribute that is not known.
    pub fn unknown(&self, name: &str, value: impl std::fmt::Display) -> Fault {
        Fault::unsupported(format_args!("{name} {value:?}", value = value.to_string()))
    }
}

/// The values of a tensor of integers.
pub fn integers(tensor: &Tensor) -> Result<Vec<i64>, Fault> {
    Ok(tensor.to_dtype(DType::I64)?.to_vec::<i64>()?)
}

/// A number that has to be a size.
pub fn size(what: &str, value: i64) -> Result<usize, Fault> {
    usize::try_from(value).map_err(|_| Fault::malformed(what, value, "not negative"))
}

/// An axis as it counts from the front.
pub fn resolve(axis: isize, rank: usize) -> Result<usize, Fault> {
    let resolved = if axis < 0 { axis + rank as isize } else { axis };
    match usize::try_from(resolved) {
        Ok(resolved) if resolved < rank => Ok(resolved),
        _ => Err(Fault::malformed(
            "an axis",
            axis,
            format_args!("one of {rank}"),
        )),
    }
}
