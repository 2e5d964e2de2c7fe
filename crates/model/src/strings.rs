//! Strings: a model has one list of all that it names, and a tensor of strings is one of their numbers, `i64`: their places in this
//! list, and behind it those of the strings that a [run](crate::words) meets besides.
//!
//! So strings are found, chosen, compared and moved as numbers are, on any device. What looks into them is computed on the host. Which
//! values are strings is found out once, when a model is read; what would take them for numbers is refused then.

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

    /// Finds out which values of a graph, and of those inside its nodes, are strings, and refuses what would take them for
    /// numbers. The inputs and outputs are told what their strings are.
    pub fn settle(self, graph: &mut Graph) -> Result<(), Error> {
        let list: Arc<[String]> = self.list.into();
        let given = graph.inputs.iter().copied();
        let given: HashSet<ValueId> = given
            .filter(|&id| graph.value(id).strings.is_some())
            .collect();
        // The model need not name those that are given.
        let found = found(graph, given.clone(), given)?;
        let values = graph.inputs.iter().chain(&graph.outputs).copied();
        for id in values.collect::<Vec<_>>() {
            let mut info = graph.value(id).clone();
            let declared = info.strings.is_some();
            info.strings = found.strings.contains(&id).then(|| list.clone());
            if declared && info.strings.is_none() {
                let what =
                    NodeError::malformed("the value", "numbers", "strings, as it is declared");
                return Err(what.of_value(&info.name));
            }
            graph.declare(id, info);
        }
        if found.any {
            let is_open = graph.outputs.iter().any(|id| found.open.contains(id));
            graph.words = Some(Arc::new(Named::new(list, is_open)));
        }
        Ok(())
    }
}

/// Which values of a graph are strings.
struct Found {
    strings: HashSet<ValueId>,
    /// Those that the model need not name.
    open: HashSet<ValueId>,
    /// Whether there are any in it or in graphs inside its nodes, or what looks into some.
    any: bool,
    /// Whether there is what makes others of them.
    looks: bool,
}

/// Finds them in a graph whose `strings` among inputs and captures are known, and which of these the model need not name.
fn found(
    graph: &mut Graph,
    mut strings: HashSet<ValueId>,
    mut open: HashSet<ValueId>,
) -> Result<Found, Error> {
    let made_by_nodes = graph.nodes.iter().filter(|node| node.is("Constant"));
    let constants = made_by_nodes.flat_map(|node| node.outputs.iter().flatten());
    let constants = constants.chain(graph.constants.keys()).copied();
    strings.extend(constants.filter(|&id| graph.value(id).strings.is_some()));
    let (mut any, mut looks) = (!strings.is_empty(), false);
    for node in &mut graph.nodes {
        let refused = |node: &Node, what: &str| {
            NodeError::unsupported(what).of_node(&node.name, node.operator.to_string())
        };
        let given: Vec<bool> = node
            .inputs
            .iter()
            .map(|id| id.is_some_and(|id| strings.contains(&id)))
            .collect();
        let is_open = node.reads().any(|id| open.contains(&id));
        if node.graphs().next().is_some() {
            let inside = inside(node, &given, &strings, is_open)?;
            (any, looks) = (any | inside.any, looks | inside.looks);
            let made = inside.made.map_err(|what| refused(node, what))?;
            let each = node.outputs.iter().zip(made);
            let made = each.filter_map(|(id, is)| id.filter(|_| is));
            let made: Vec<ValueId> = made.collect();
            if is_open || inside.looks {
                open.extend(&made);
            }
            strings.extend(made);
            continue;
        }
        let read = given.contains(&true);
        let present = node.inputs.iter().zip(&given);
        let present: Vec<bool> = present.filter_map(|(id, &is)| id.map(|_| is)).collect();
        let makes = made(node, &present, read).map_err(|what| refused(node, what))?;
        looks |= node.is_among(LOOKING);
        any |= makes;
        if makes {
            let all = node.is("Split");
            let most = if all { node.outputs.len() } else { 1 };
            let made: Vec<ValueId> = node.outputs.iter().take(most).flatten().copied().collect();
            let moves = node.operator.domain == Domain::Onnx || node.is_among(MOVING);
            if node.is_among(LOOKING) || moves && is_open {
                open.extend(&made);
            }
            strings.extend(made);
        }
    }
    Ok(Found {
        any: any | looks,
        strings,
        open,
        looks,
    })
}

/// What is found inside a node.
struct Inside {
    /// Which of its outputs are strings; or why that cannot be.
    made: Result<Vec<bool>, &'static str>,
    any: bool,
    looks: bool,
}

/// Finds them in the graphs inside a node, some of whose inputs are `given` strings.
fn inside(
    node: &mut Node,
    given: &[bool],
    around: &HashSet<ValueId>,
    is_open: bool,
) -> Result<Inside, Error> {
    let (name, version) = (node.operator.name.clone(), node.operator.version);
    let numbers = match &name[..] {
        "If" => 1,
        "Loop" => 2,
        _ => 0,
    };
    if given.iter().take(numbers).any(|&is| is) {
        let refused = NodeError::unsupported("an input of strings");
        return Err(refused.of_node(&node.name, node.operator.to_string()));
    }
    // What its graphs are given: in a loop a number and a truth first, and to both branches of a choice nothing.
    let (given, first) = match &name[..] {
        "If" => (&[][..], 0),
        "Loop" => (given, 1),
        "Scan" if version < 9 => (given.get(1..).unwrap_or(&[]), 0),
        _ => (given, 0),
    };
    let mut all = Inside {
        made: Ok(Vec::new()),
        any: false,
        looks: false,
    };
    let mut sides: Vec<Vec<bool>> = Vec::new();
    for (_, attribute) in &mut node.attributes {
        let Attribute::Graph(graph) = attribute else {
            continue;
        };
        let inputs = graph.inputs.iter().copied().zip(given);
        let inputs = inputs.filter_map(|(id, &is)| is.then_some(id));
        let captures = graph.captures.iter();
        let captures = captures.filter(|capture| around.contains(&capture.around));
        let strings: HashSet<ValueId> = inputs.chain(captures.map(|one| one.here)).collect();
        let open = if is_open {
            strings.clone()
        } else {
            HashSet::new()
        };
        let found = found(graph, strings, open)?;
        let outputs = graph.outputs.iter().skip(first);
        sides.push(outputs.map(|id| found.strings.contains(id)).collect());
        (all.any, all.looks) = (all.any | found.any, all.looks | found.looks);
    }
    // What goes round in a loop stays what it is.
    let made = sides.pop().unwrap_or_default();
    let carried = match &name[..] {
        "Loop" => given.get(2..).unwrap_or(&[]),
        "Scan" => {
            let scanned = usize::try_from(node.int("num_scan_inputs", 1)).unwrap_or(0);
            &given[..given.len().saturating_sub(scanned)]
        }
        _ => &[],
    };
    let same = carried.iter().zip(&made).all(|(one, other)| one == other);
    let alike =
        |other: &Vec<bool>| *other == made || !other.contains(&true) && !made.contains(&true);
    all.made = match same && sides.iter().all(alike) {
        true => Ok(made),
        false => Err("strings beside numbers"),
    };
    Ok(all)
}

/// What moves elements without looking at them.
const MOVING: &str = "Identity Reshape Squeeze Unsqueeze Flatten Transpose Gather GatherElements GatherND Slice Expand Tile \
    Split Compress ReverseSequence ArrayFeatureExtractor Optional OptionalGetElement";

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
        (Domain::Onnx, "Shape" | "Size" | "OptionalHasElement") => Ok(false),
        (Domain::Onnx | Domain::Ml | Domain::Microsoft, _)
            if node.is_among(MOVING) && only_first =>
        {
            Ok(first)
        }
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
