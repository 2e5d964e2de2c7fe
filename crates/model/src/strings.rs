//! Strings: a model has one list of all that it names, and a tensor of strings is one of their numbers, `i64`: their places in this
//! list, and behind it those of the strings that a [run](crate::words) meets besides.
//!
//! So strings are found, chosen, compared and moved as numbers are, on any device. What looks into them is computed on the host. Which values are strings is found out once, when a
//! model is read; what would take them for numbers is refused then.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use streampool_tensor::Tensor;

use crate::error::{Error, NodeError};
use crate::graph::{Attribute, Domain, Graph, Node, Operator, ValueId};
use crate::words::Named;

/// The attribute that says of an operator that what it makes are strings.
const GIVES: &str = "gives_strings";

/// The strings of a model, each once.
#[derive(Default)]
pub struct Strings {
    list: Vec<String>,
    places: HashMap<String, i64>,
    /// Constants that are strings.
    pub constants: HashSet<ValueId>,
}

impl Strings {
    /// The place of a string, which may be a new one.
    pub fn place(&mut self, string: &str) -> i64 {
        if let Some(&place) = self.places.get(string) {
            return place;
        }
        let place = self.list.len() as i64;
        self.list.push(string.to_owned());
        self.places.insert(string.to_owned(), place);
        place
    }

    /// Puts places for the strings that an operator of `ai.onnx.ml` looks for, or makes.
    pub fn replace(&mut self, op: &str, attributes: &mut Vec<(String, Attribute)>) {
        let mut gives = false;
        for (name, attribute) in attributes.iter_mut() {
            let known = match &name[..] {
                "classlabels_strings" | "values_strings" => {
                    gives |= op != "ZipMap";
                    true
                }
                "default_string" => true,
                "keys_strings" | "cats_strings" | "classes_strings" | "pool_strings"
                | "string_vocabulary" => true,
                _ => false,
            };
            match attribute {
                Attribute::Strings(strings) if known => {
                    let places = strings.iter().map(|string| self.place(string)).collect();
                    *attribute = Attribute::Ints(places);
                }
                Attribute::String(string) if known => {
                    *attribute = Attribute::Int(self.place(string))
                }
                _ => {}
            }
        }
        let has = |name: &str| attributes.iter().any(|(other, _)| other == name);
        // What is missing is called this.
        if matches!(op, "LabelEncoder" | "CategoryMapper") && !has("default_string") {
            let place = self.place("_Unused");
            attributes.push(("default_string".to_owned(), Attribute::Int(place)));
        }
        if gives {
            attributes.push((GIVES.to_owned(), Attribute::Int(1)));
        }
    }

    /// Finds out which values of a graph are strings, and refuses what would take them for numbers. The inputs and outputs are
    /// told what their strings are.
    pub fn settle(self, graph: &mut Graph) -> Result<(), Error> {
        let list: Arc<[String]> = self.list.into();
        let mut strings = self.constants.clone();
        strings.extend(
            graph
                .inputs
                .iter()
                .copied()
                .filter(|&id| graph.value(id).strings.is_some()),
        );
        // Those that the model need not name.
        let mut open: HashSet<ValueId> = strings.difference(&self.constants).copied().collect();
        let mut looks = false;
        for node in &mut graph.nodes {
            let refused = |node: &Node, what: &str| {
                NodeError::unsupported(what).of_node(&node.name, node.operator.to_string())
            };
            let given: Vec<bool> = node
                .inputs
                .iter()
                .flatten()
                .map(|id| strings.contains(id))
                .collect();
            let read = node.reads().any(|id| strings.contains(&id));
            let makes = made(node, &given, read).map_err(|what| refused(node, what))?;
            looks |= node.is_among(LOOKING);
            if makes {
                let all = node.is("Split");
                let most = if all { node.outputs.len() } else { 1 };
                let made: Vec<ValueId> =
                    node.outputs.iter().take(most).flatten().copied().collect();
                let moves = node.operator.domain == Domain::Onnx || node.is_among(MOVING);
                let is_new = node.is_among(LOOKING);
                if is_new || moves && node.reads().any(|id| open.contains(&id)) {
                    open.extend(&made);
                }
                strings.extend(made);
            }
        }
        let values = graph.inputs.iter().chain(&graph.outputs).copied();
        for id in values.collect::<Vec<_>>() {
            let mut info = graph.value(id).clone();
            let declared = info.strings.is_some();
            info.strings = strings.contains(&id).then(|| list.clone());
            if declared && info.strings.is_none() {
                let what =
                    NodeError::malformed("the value", "numbers", "strings, as it is declared");
                return Err(what.of_value(&info.name));
            }
            graph.declare(id, info);
        }
        if looks || !strings.is_empty() {
            let is_open = graph.outputs.iter().any(|id| open.contains(id));
            graph.words = Some(Arc::new(Named::new(list, is_open)));
        }
        Ok(())
    }
}

/// What moves elements without looking at them.
const MOVING: &str = "Identity Reshape Squeeze Unsqueeze Flatten Transpose Gather GatherElements GatherND Slice Expand Tile \
    Split Compress ReverseSequence ArrayFeatureExtractor";

/// What looks into strings, or makes some.
const LOOKING: &str = "StringNormalizer StringConcat StringSplit RegexFullMatch TfIdfVectorizer Tokenizer MurmurHash3 ReadNumbers \
    WriteNumbers";

/// What puts some elements in the place of others without looking at them: which inputs are those.
fn chosen(node: &Node) -> Option<[usize; 2]> {
    let combines = node.string("reduction", "none") != "none";
    match (node.operator.domain, &node.operator.name[..]) {
        (Domain::Onnx, "Where") => Some([1, 2]),
        (Domain::Onnx, "Scatter" | "ScatterElements" | "ScatterND") if !combines => Some([0, 2]),
        _ => None,
    }
}

/// Whether a node makes strings of what it is given; or why it cannot.
fn made(node: &mut Node, given: &[bool], read: bool) -> Result<bool, &'static str> {
    if let (Some([one, other]), true) = (chosen(node), read) {
        let are = |place: &usize| given.get(*place) == Some(&true);
        let count = given.iter().filter(|&&is| is).count();
        return match are(&one) && are(&other) && count == 2 {
            true => Ok(true),
            false => Err("strings beside numbers"),
        };
    }
    let first = given.first() == Some(&true);
    let only_first = given.iter().skip(1).all(|is| !is);
    let takes = |name: &str| node.attribute(name).is_some();
    match (node.operator.domain, &node.operator.name[..]) {
        (Domain::Onnx, "Cast") if node.int("to", 0) == 8 => {
            match first {
                true => node.operator.name = "Identity".to_owned(),
                false => node.operator = Operator::fused("WriteNumbers"),
            }
            node.attributes.clear();
            Ok(true)
        }
        (Domain::Onnx, "Cast") if first => {
            node.operator = Operator::fused("ReadNumbers");
            Ok(false)
        }
        (Domain::Onnx, "Equal") if given == [true, true] => Ok(false),
        (Domain::Onnx, "StringNormalizer" | "StringConcat" | "StringSplit")
        | (Domain::Microsoft, "Tokenizer") => match given.iter().all(|&is| is) {
            true => Ok(true),
            false => Err("numbers, where it takes strings,"),
        },
        (Domain::Onnx, "RegexFullMatch") if first => Ok(false),
        (Domain::Onnx, "RegexFullMatch") => Err("numbers, where it takes strings,"),
        (Domain::Microsoft, "MurmurHash3") => {
            if first {
                node.set("of_strings", 1);
            }
            Ok(false)
        }
        (Domain::Ml, "DictVectorizer") if given == [false, takes("string_vocabulary")] => Ok(false),
        (Domain::Onnx, "TfIdfVectorizer") if first == takes("pool_strings") => Ok(false),
        (Domain::Onnx, "Concat") if given.iter().all(|&is| is) => Ok(first),
        (Domain::Onnx, "Shape" | "Size") => Ok(false),
        (Domain::Onnx | Domain::Ml, _) if node.is_among(MOVING) && only_first => Ok(first),
        (Domain::Ml, "OneHotEncoder") if first == takes("cats_strings") => Ok(false),
        (Domain::Ml, "LabelEncoder") if node.attribute("classes_strings").is_some() => {
            node.set(GIVES, i64::from(!first));
            Ok(!first)
        }
        (Domain::Ml, "CategoryMapper") => {
            node.set(GIVES, i64::from(!first));
            Ok(!first)
        }
        (Domain::Ml, "LabelEncoder") if first == takes("keys_strings") => {
            Ok(node.int(GIVES, 0) != 0)
        }
        (Domain::Ml, "OneHotEncoder" | "LabelEncoder") if first => {
            Err("strings, where it knows numbers,")
        }
        (Domain::Ml, "OneHotEncoder" | "LabelEncoder") => Err("numbers, where it knows strings,"),
        _ if read => Err("an input of strings"),
        _ => Ok(node.int(GIVES, 0) != 0),
    }
}

/// The places of strings, as a tensor.
pub fn tensor(
    strings: &mut Strings,
    given: &[impl AsRef<[u8]>],
    shape: &[usize],
    pool: &streampool_tensor::Pool,
) -> Result<Tensor, NodeError> {
    let count = shape
        .iter()
        .try_fold(1usize, |all, &size| all.checked_mul(size));
    if count != Some(given.len()) {
        let got = format_args!("{} strings", given.len());
        return Err(NodeError::malformed(
            "the data",
            got,
            format!("as many as {shape:?} has"),
        ));
    }
    let mut places = streampool_tensor::room::room(given.len())?;
    places.extend(
        given
            .iter()
            .map(|string| strings.place(&String::from_utf8_lossy(string.as_ref()))),
    );
    Ok(Tensor::from_slice(pool, &places, shape)?)
}
