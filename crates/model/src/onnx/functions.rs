//! Operators that a model defines by others: the nodes of their bodies take the place of each call.

use std::collections::HashMap;

use prost::Message;

use super::opsets::normal;
use super::proto::{FunctionProto, NodeProto};
use crate::error::{Error, NodeError, Result};
use crate::graph::{Attribute, ValueId};

/// How many bytes of bodies may take the places of calls: functions that call each other grow fast.
const MOST_BYTES: usize = 16 << 20;

/// The functions of a model.
pub struct Functions<'a> {
    all: HashMap<Key<'a>, Function<'a>>,
    left: usize,
}

/// Domain, name and overload.
type Key<'a> = (&'a str, &'a str, &'a str);

/// A function and how many bytes it takes in the file.
#[derive(Clone, Copy)]
pub struct Function<'a> {
    pub proto: &'a FunctionProto,
    pub bytes: usize,
}

/// A node that calls a function.
pub struct Call<'c> {
    pub name: &'c str,
    pub inputs: Vec<Option<ValueId>>,
    pub outputs: Vec<Option<ValueId>>,
    pub attributes: Vec<(String, Attribute)>,
}

impl<'a> Functions<'a> {
    pub fn new(protos: &'a [FunctionProto]) -> Result<Functions<'a>> {
        let mut all = HashMap::with_capacity(protos.len());
        for proto in protos {
            let key = (normal(&proto.domain), &proto.name[..], &proto.overload[..]);
            let bytes = proto.encoded_len();
            if all.insert(key, Function { proto, bytes }).is_some() {
                let what = format!("function {:?} of domain {:?}", proto.name, proto.domain);
                return Err(Error::file(what, "defined twice", "defined once"));
            }
        }
        Ok(Functions {
            all,
            left: MOST_BYTES,
        })
    }

    /// The function that a node calls, if it calls one.
    pub fn called_by(&self, node: &NodeProto) -> Option<Function<'a>> {
        let key = (normal(&node.domain), &node.op[..], &node.overload[..]);
        self.all.get(&key).copied()
    }

    /// Counts what a call adds to the model.
    pub fn take(&mut self, bytes: usize) -> Result<(), NodeError> {
        let left = self.left.checked_sub(bytes).ok_or_else(|| {
            let what = "all that the model's functions come to";
            NodeError::malformed(what, format!("more than {MOST_BYTES} bytes"), "less")
        })?;
        self.left = left;
        Ok(())
    }
}
