//! From the messages of a file, which name values, to graphs, which number them.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use streampool_tensor::Tensor;

use super::functions::{Call, Function, Functions};
use super::old;
use super::opsets::{Opsets, normal};
use super::proto::{AttributeProto, FunctionProto, GraphProto, NodeProto, TensorProto};
use super::scopes::{Context, Named, Scopes};
use super::small::Small;
use super::small_flow::{self, Held};
use super::sparse;
use super::tensors::Importer;
use super::types;
use crate::error::{Error, NodeError, Result};
use crate::graph::{Attribute, Domain, Graph, Node, Operator, ValueId, ValueInfo};
use crate::strings::Strings;
use crate::trees;

/// From this version of the format on, constants that are listed as inputs are what these are unless they are given;
/// before, all had to be listed.
const DEFAULTS_FROM: i64 = 4;

/// Operators that make values of their attribute `value`.
const MAKING: [&str; 2] = ["Constant", "ConstantOfShape"];

/// How much of a call's name is told before the names of its nodes.
const LONGEST_PREFIX: usize = 128;

/// Builds the graphs of one model.
pub struct Builder<'a> {
    pub(super) importer: Importer<'a>,
    pub(super) scopes: Scopes<'a>,
    pub(super) functions: Functions<'a>,
    pub(super) strings: Strings,
    /// Values that are held in a wider type than they are of.
    small: Held,
    /// What pairs scores with classes: the scores, the classes, and whether these are strings.
    pairs: Vec<(ValueId, Tensor, bool)>,
    /// Of inputs of pairs: the values, and the keys.
    keys: HashMap<ValueId, ValueId>,
    /// Operators of domains that are not known, and the nodes.
    foreign: BTreeMap<String, Vec<String>>,
}

impl<'a> Builder<'a> {
    pub fn new(importer: Importer<'a>, functions: &'a [FunctionProto]) -> Result<Builder<'a>> {
        Ok(Builder {
            importer,
            scopes: Scopes::default(),
            functions: Functions::new(functions)?,
            strings: Strings::default(),
            small: Held::new(),
            pairs: Vec::new(),
            keys: HashMap::new(),
            foreign: BTreeMap::new(),
        })
    }

    /// The graph of a model that is written for these versions of operators, in this version of the format.
    pub fn model(mut self, proto: &'a GraphProto, opsets: Opsets, format: i64) -> Result<Graph> {
        let context = Context {
            opsets,
            prefix: String::new(),
            attributes: HashMap::new(),
            function: None,
        };
        let mut graph = self.graph(proto, Some(context))?;
        self.importer.all_are_taken()?;
        if format >= DEFAULTS_FROM {
            graph.defaults = defaults(proto, &graph);
        }
        if self.foreign.is_empty() {
            small_flow::settle(&mut graph, std::mem::take(&mut self.small))?;
            self.name_classes(&mut graph);
            self.strings.settle(&mut graph)?;
            return Ok(graph);
        }
        let each = self
            .foreign
            .iter()
            .map(|(op, nodes)| format!("{op} (at {})", nodes.join(", ")));
        let what = format!(
            "what other domains call {}",
            each.collect::<Vec<_>>().join("; ")
        );
        Err(Error::Graph(NodeError::unsupported(what)))
    }

    /// A graph: with a context the outermost, without one inside a node.
    pub(super) fn graph(
        &mut self,
        proto: &'a GraphProto,
        context: Option<Context<'a>>,
    ) -> Result<Graph> {
        self.scopes.enter_graph(context).map_err(Error::Graph)?;
        for sparse in &proto.sparse_initializers {
            let name = sparse.values.as_ref().map_or("", |values| &values.name);
            let tensor = sparse::dense(&mut self.importer, sparse);
            let tensor = tensor.map_err(|fault| fault.of_value(name))?;
            let id = self
                .scopes
                .declare(name, types::of_constant(name, &tensor))?;
            self.scopes.graph().constants.insert(id, tensor);
        }
        for tensor in &proto.initializers {
            self.constant(tensor)?;
        }
        // Older models list constants as inputs, too.
        let constants: HashSet<&str> = proto
            .initializers
            .iter()
            .map(|tensor| &tensor.name[..])
            .collect();
        for input in proto
            .inputs
            .iter()
            .filter(|input| !constants.contains(&input.name[..]))
        {
            if let Some([values, keys]) = types::declared_pairs(input)? {
                let values = self.scopes.declare(&input.name, values)?;
                let graph = self.scopes.graph();
                let keys = graph.add_value(keys);
                graph.inputs.extend([values, keys]);
                self.keys.insert(values, keys);
                continue;
            }
            let info = types::declared_input(input)?;
            let id = self.scopes.declare(&input.name, info.clone())?;
            let graph = self.scopes.graph();
            match types::small(input) {
                None => graph.inputs.push(id),
                // What is given may be other numbers than the type has.
                Some(small) => {
                    let given = graph.add_value(info);
                    graph.inputs.push(given);
                    graph.nodes.push(small.cast(&input.name, given, id));
                }
            }
        }
        self.outputs_of(&proto.nodes, &infos(proto)?)?;
        for node in &proto.nodes {
            self.node(node)?;
        }
        for output in &proto.outputs {
            let id = self.scopes.resolve(&output.name).map_err(Error::Graph)?;
            let left_out =
                || NodeError::malformed("the output", "an input that a call leaves out", "a value");
            let id = id.ok_or_else(|| left_out().of_value(&output.name))?;
            self.scopes.graph().outputs.push(id);
        }
        let mut graph = self.scopes.leave_graph();
        graph.sort().map_err(Error::Graph)?;
        Ok(graph)
    }

    fn constant(&mut self, proto: &'a TensorProto) -> Result<()> {
        if proto.element == TensorProto::STRING {
            return self.strings_constant(proto);
        }
        let small = Small::of(proto.element);
        let tensor = match small {
            Some(_) => self.importer.small(proto)?,
            None => self.importer.tensor(proto)?,
        };
        let info = types::of_constant(&proto.name, &tensor);
        let mut id = self.scopes.declare(&proto.name, info.clone())?;
        if let Some(small) = small {
            if self.scopes.is_outermost() {
                self.small.insert(id, small);
            } else {
                // A cast to its own type tells it.
                let graph = self.scopes.graph();
                let wide = graph.add_value(info);
                graph.nodes.push(small.cast(&proto.name, wide, id));
                id = wide;
            }
        }
        self.scopes.graph().constants.insert(id, tensor);
        Ok(())
    }

    /// A constant of strings.
    fn strings_constant(&mut self, proto: &'a TensorProto) -> Result<()> {
        let failed = |fault: NodeError| fault.of_value(&proto.name);
        let tensor = self
            .importer
            .of_strings(proto, &mut self.strings)
            .map_err(failed)?;
        let mut info = types::of_constant(&proto.name, &tensor);
        info.strings = Some(Arc::default());
        let id = self.scopes.declare(&proto.name, info)?;
        self.scopes.graph().constants.insert(id, tensor);
        Ok(())
    }

    /// Gives each output of scores that the file pairs with classes an output of these classes beside it.
    fn name_classes(&mut self, graph: &mut Graph) {
        for (scores, classes, are_strings) in std::mem::take(&mut self.pairs) {
            if !graph.outputs.contains(&scores) {
                continue;
            }
            let name = format!("{}.classes", graph.name(scores));
            let mut info = types::of_constant(&name, &classes);
            info.strings = are_strings.then(Arc::default);
            let id = graph.add_value(info);
            graph.constants.insert(id, classes);
            graph.outputs.push(id);
        }
    }

    /// What operators of `ai.onnx.ml` say in strings or in lists, as they are evaluated.
    fn prepare(
        &mut self,
        proto: &NodeProto,
        (inputs, outputs): (&mut Vec<Option<ValueId>>, &[Option<ValueId>]),
        attributes: &mut Vec<(String, Attribute)>,
    ) -> Result<(), NodeError> {
        let lists = [
            ("keys_tensor", "keys_strings"),
            ("values_tensor", "values_strings"),
            ("default_tensor", "default_string"),
        ];
        for (tensor, list) in lists {
            let of_strings = |given: &&AttributeProto| {
                given.name == tensor
                    && given
                        .tensor
                        .as_ref()
                        .is_some_and(|tensor| tensor.element == TensorProto::STRING)
            };
            if proto.attributes.iter().find(of_strings).is_none() {
                continue;
            }
            for (name, attribute) in attributes.iter_mut().filter(|(name, _)| name == tensor) {
                let Attribute::Tensor(places) = attribute else {
                    continue;
                };
                let places = places.to_vec::<i64>()?;
                *attribute = match (tensor, &places[..]) {
                    ("default_tensor", &[place]) => Attribute::Int(place),
                    _ => Attribute::Ints(places),
                };
                list.clone_into(name);
            }
        }
        self.strings.replace(&proto.op, attributes);
        let has = |name: &str| attributes.iter().any(|(other, _)| other == name);
        let pool = self.importer.pool();
        if proto.op == "ZipMap" && self.scopes.is_outermost() {
            let classes = attributes
                .iter()
                .find_map(|(_, attribute)| match attribute {
                    Attribute::Ints(classes) => Some(classes),
                    _ => None,
                });
            if let (Some(classes), Some(&Some(scores))) = (classes, outputs.first()) {
                let classes = Tensor::from_slice(pool, classes, &[classes.len()])?;
                self.pairs
                    .push((scores, classes, has("classlabels_strings")));
            }
        }
        if proto.op == "DictVectorizer" && self.scopes.is_outermost() {
            let keys = inputs.first().copied().flatten();
            inputs.push(keys.and_then(|values| self.keys.get(&values).copied()));
        }
        if let Some(records) = trees::plant(&proto.op, attributes, pool)? {
            let graph = self.scopes.graph();
            let id = graph.add_value(types::of_constant("trees", &records));
            graph.constants.insert(id, records);
            inputs.truncate(1);
            inputs.push(Some(id));
        }
        Ok(())
    }

    /// A constant of strings that a node makes.
    fn strings_of_node(
        &mut self,
        proto: &NodeProto,
        outputs: &[Option<ValueId>],
        attributes: &mut [(String, Attribute)],
    ) -> Result<(), NodeError> {
        let mut found = proto.attributes.iter().any(|given| {
            given.name == "value"
                && given
                    .tensor
                    .as_ref()
                    .is_some_and(|tensor| tensor.element == TensorProto::STRING)
        });
        for (name, attribute) in attributes {
            *attribute = match attribute {
                Attribute::String(string) => {
                    "value_int".clone_into(name);
                    Attribute::Int(self.strings.place(string))
                }
                Attribute::Strings(strings) => {
                    "value_ints".clone_into(name);
                    Attribute::Ints(
                        strings
                            .iter()
                            .map(|string| self.strings.place(string))
                            .collect(),
                    )
                }
                _ => continue,
            };
            found = true;
        }
        if let Some(id) = outputs.first().copied().flatten() {
            let graph = self.scopes.graph();
            let mut info = graph.value(id).clone();
            if !found && info.strings.is_some() {
                let what = format_args!("output {:?}", info.name);
                let expected = "strings, as it is declared";
                return Err(NodeError::malformed(what, "numbers", expected));
            }
            info.strings = found.then(Arc::default);
            graph.declare(id, info);
        }
        Ok(())
    }

    /// Declares what these nodes make, so that any of them may read it.
    fn outputs_of(
        &mut self,
        nodes: &'a [NodeProto],
        infos: &HashMap<&str, ValueInfo>,
    ) -> Result<()> {
        let names = nodes.iter().flat_map(|node| &node.outputs);
        for name in names.filter(|name| !name.is_empty()) {
            let info = infos
                .get(&name[..])
                .cloned()
                .unwrap_or_else(|| ValueInfo::named(name));
            self.scopes.declare(name, info)?;
        }
        Ok(())
    }

    /// Adds a node, or the body of the function that it calls, to the innermost graph.
    fn node(&mut self, proto: &'a NodeProto) -> Result<()> {
        let context = self.scopes.context();
        let name = match &proto.name[..] {
            "" => proto
                .outputs
                .iter()
                .find(|name| !name.is_empty())
                .unwrap_or(&proto.op),
            name => name,
        };
        let name = format!("{}{name}", context.prefix);
        let op = qualified(proto);
        let failed = |fault: NodeError| fault.of_node(&name, &op);
        if proto.op.is_empty() {
            return Err(failed(NodeError::malformed(
                "the operator",
                "empty",
                "a name",
            )));
        }
        let mut inputs = self.ids(&proto.inputs).map_err(failed)?;
        let mut outputs = self.ids(&proto.outputs).map_err(failed)?;
        let held =
            (proto.attributes.iter()).find_map(|given| Small::of(given.tensor.as_ref()?.element));
        if held.is_some() && !(is_onnx(proto) && MAKING.contains(&&proto.op[..])) {
            let what = "an attribute of less than 8 bits, or of 8-bit floats,";
            return Err(failed(NodeError::unsupported(what)));
        }
        let mut attributes = self.attributes(&proto.attributes).map_err(failed)?;
        if let Some(function) = self.functions.called_by(proto) {
            let call = Call {
                name: &name,
                inputs,
                outputs,
                attributes,
            };
            return self.inline(function, call).map_err(failed);
        }
        let (domain, version) = match context.opsets.find(&proto.domain) {
            Ok(found) => found,
            Err(NodeError::Unsupported(_)) => {
                self.foreign
                    .entry(op)
                    .or_default()
                    .push(format!("{name:?}"));
                return Ok(());
            }
            Err(fault) => return Err(failed(fault)),
        };
        if domain == Domain::Ml {
            let values = (&mut inputs, &outputs[..]);
            self.prepare(proto, values, &mut attributes)
                .map_err(failed)?;
        } else if domain == Domain::Onnx && proto.op == "Constant" {
            self.strings_of_node(proto, &outputs, &mut attributes)
                .map_err(failed)?;
        } else if domain == Domain::Onnx && proto.op == "TfIdfVectorizer" {
            self.strings.replace(&proto.op, &mut attributes);
        } else if domain == Domain::Onnx && version <= old::LAST {
            old::renew(&proto.op, version, &mut attributes).map_err(failed)?;
        }
        let operator = Operator {
            domain,
            name: proto.op.clone(),
            version,
        };
        if let (Some(small), Some(Some(made))) = (held, outputs.first_mut()) {
            // A cast to its own type tells it.
            let graph = self.scopes.graph();
            let wide = graph.add_value(ValueInfo::named(&name));
            graph.nodes.push(small.cast(&name, wide, *made));
            *made = wide;
        }
        self.scopes.graph().nodes.push(Node {
            name,
            operator,
            inputs,
            outputs,
            attributes,
        });
        Ok(())
    }

    /// Puts the nodes of a function in the place of a call.
    fn inline(&mut self, function: Function<'a>, call: Call<'_>) -> Result<(), NodeError> {
        let Function { proto, bytes } = function;
        if self.scopes.is_inside(proto) {
            return Err(NodeError::malformed(
                "the function",
                "one that calls itself",
                "one that does not",
            ));
        }
        self.functions.take(bytes)?;
        fits("inputs", call.inputs.len(), proto.inputs.len())?;
        fits("outputs", call.outputs.len(), proto.outputs.len())?;
        let opsets = Opsets::read(&proto.opsets).map_err(Box::new)?;
        let identity = opsets.find("").map(|(_, version)| version);
        let given: HashSet<&str> = call.attributes.iter().map(|(name, _)| &name[..]).collect();
        let defaults = proto
            .defaults
            .iter()
            .filter(|default| !given.contains(&default.name[..]));
        let mut attributes = Vec::new();
        for default in defaults {
            attributes.extend(self.attributes(std::slice::from_ref(default))?);
        }
        attributes.extend(call.attributes);
        let context = Context {
            opsets,
            prefix: prefix(call.name),
            attributes: attributes.into_iter().collect(),
            function: Some(proto),
        };
        let given = call.inputs.into_iter().chain(std::iter::repeat(None));
        let mut names = HashMap::with_capacity(proto.inputs.len());
        for (name, id) in proto.inputs.iter().zip(given) {
            let named = id.map_or(Named::LeftOut, Named::Value);
            if names.insert(&name[..], named).is_some() {
                return Err(NodeError::malformed(
                    format_args!("input {name:?}"),
                    "there twice",
                    "there once",
                ));
            }
        }
        self.scopes.enter_body(names, context)?;
        self.outputs_of(&proto.nodes, &HashMap::new())
            .map_err(Box::new)?;
        for node in &proto.nodes {
            self.node(node).map_err(Box::new)?;
        }
        for (name, output) in proto.outputs.iter().zip(call.outputs) {
            let Some(output) = output else { continue };
            let made = self.scopes.resolve(name)?;
            let version = match &identity {
                Ok(version) => *version,
                // A body that uses none of ONNX's operators does not say their version.
                Err(_) => 13,
            };
            self.scopes.graph().nodes.push(Node {
                name: format!("{}/{name}", call.name),
                operator: Operator::onnx("Identity", version),
                inputs: vec![made],
                outputs: vec![Some(output)],
                attributes: Vec::new(),
            });
        }
        self.scopes.leave_body();
        Ok(())
    }

    /// The values of these names; those that are left out have none.
    fn ids(&mut self, names: &'a [String]) -> Result<Vec<Option<ValueId>>, NodeError> {
        let id = |name: &'a String| match name.is_empty() {
            true => Ok(None),
            false => self.scopes.resolve(name),
        };
        names.iter().map(id).collect()
    }
}

/// The constants that are listed as inputs.
fn defaults(proto: &GraphProto, graph: &Graph) -> Vec<(ValueId, ValueInfo)> {
    let constants = graph.constants.keys().map(|&id| (graph.name(id), id));
    let constants: HashMap<&str, ValueId> = constants.collect();
    let listed = proto.inputs.iter().filter_map(|input| {
        let id = *constants.get(&input.name[..])?;
        Some((id, types::noted(input)))
    });
    listed.collect()
}

/// What is declared of what the nodes of a graph make.
fn infos(proto: &GraphProto) -> Result<HashMap<&str, ValueInfo>> {
    let mut infos: HashMap<&str, ValueInfo> = HashMap::new();
    for value in &proto.values {
        infos.insert(&value.name, types::noted(value));
    }
    for output in &proto.outputs {
        infos.insert(&output.name, types::declared(output)?);
    }
    Ok(infos)
}

/// Whether an operator is one of ONNX.
fn is_onnx(proto: &NodeProto) -> bool {
    normal(&proto.domain).is_empty()
}

/// An operator as messages name it.
fn qualified(proto: &NodeProto) -> String {
    match normal(&proto.domain) {
        "" => proto.op.clone(),
        domain => format!("{domain}.{}", proto.op),
    }
}

/// What comes before the names of the nodes of a call.
fn prefix(call: &str) -> String {
    let start = call.ceil_char_boundary(call.len().saturating_sub(LONGEST_PREFIX));
    format!("{}/", &call[start..])
}

fn fits(what: &str, given: usize, most: usize) -> Result<(), NodeError> {
    match given <= most {
        true => Ok(()),
        false => Err(NodeError::malformed(
            format_args!("the number of {what}"),
            given,
            format_args!("at most {most}, as the function has"),
        )),
    }
}
