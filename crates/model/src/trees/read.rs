//! The lists by which a file describes trees.

use std::collections::HashMap;

use streampool_device::Trees;
use streampool_tensor::room::{copied, filled, room};
use streampool_tensor::{DType, Tensor};

use super::forest::{Child, Forest, Test, Together, Weight};
use crate::error::{NodeError, alike};
use crate::graph::Attribute;

/// The attributes of a node, which are taken out as they are read.
pub struct Lists<'a>(pub &'a mut Vec<(String, Attribute)>);

impl Lists<'_> {
    fn take(&mut self, name: &str) -> Option<Attribute> {
        let place = self.0.iter().position(|(other, _)| other == name)?;
        Some(self.0.swap_remove(place).1)
    }

    /// Of an attribute of another kind.
    fn wrong(name: &str, found: &Attribute, expected: &str) -> NodeError {
        NodeError::malformed(format_args!("attribute {name}"), found.kind(), expected)
    }

    /// Integers; none if they are left out.
    fn ints(&mut self, name: &str) -> Result<Vec<i64>, NodeError> {
        match self.take(name) {
            None => Ok(Vec::new()),
            Some(Attribute::Ints(values)) => Ok(values),
            Some(other) => Err(Self::wrong(name, &other, "integers")),
        }
    }

    fn strings(&mut self, name: &str) -> Result<Vec<String>, NodeError> {
        match self.take(name) {
            None => Ok(Vec::new()),
            Some(Attribute::Strings(values)) => Ok(values),
            Some(other) => Err(Self::wrong(name, &other, "strings")),
        }
    }

    fn tensor(&mut self, name: &str) -> Result<Option<Tensor>, NodeError> {
        match self.take(name) {
            None => Ok(None),
            Some(Attribute::Tensor(tensor)) => Ok(Some(tensor)),
            Some(other) => Err(Self::wrong(name, &other, "a tensor")),
        }
    }

    /// Floats, from a list or from a tensor, and whether these are wide.
    fn floats(&mut self, name: &str) -> Result<(Vec<f64>, bool), NodeError> {
        let tensor = format!("{name}_as_tensor");
        if let Some(tensor) = self.tensor(&tensor)? {
            return numbers(&tensor);
        }
        match self.take(name) {
            None => Ok((Vec::new(), false)),
            Some(Attribute::Floats(values)) => {
                let mut wide = room(values.len())?;
                wide.extend(values.iter().map(|&value| f64::from(value)));
                Ok((wide, false))
            }
            Some(other) => Err(Self::wrong(name, &other, "floats")),
        }
    }
}

fn numbers(tensor: &Tensor) -> Result<(Vec<f64>, bool), NodeError> {
    let wide = tensor.dtype() == DType::F64;
    Ok((tensor.to_dtype(DType::F64)?.to_vec::<f64>()?, wide))
}

/// A number of a feature or a target.
fn small(name: &str, value: i64) -> Result<u32, NodeError> {
    let small = u32::try_from(value).ok();
    let small = small.filter(|&value| (value as usize) < Trees::MOST);
    small.ok_or_else(|| {
        let what = format_args!("attribute {name}");
        NodeError::malformed(what, value, format!("0 to {}", Trees::MOST - 1))
    })
}

/// The bits of a test; `None` for a leaf.
fn bits(mode: &str) -> Result<Option<u32>, NodeError> {
    Ok(Some(match mode {
        "BRANCH_LEQ" => Trees::LESS | Trees::EQUAL,
        "BRANCH_LT" => Trees::LESS,
        "BRANCH_GTE" => Trees::GREATER | Trees::EQUAL,
        "BRANCH_GT" => Trees::GREATER,
        "BRANCH_EQ" => Trees::EQUAL,
        // NaN is not equal to anything.
        "BRANCH_NEQ" => Trees::LESS | Trees::GREATER | Trees::NAN,
        "LEAF" => return Ok(None),
        other => {
            return Err(NodeError::unsupported(format_args!(
                "nodes_modes {other:?}"
            )));
        }
    }))
}

/// With what a missing value does.
fn with_missing(bits: u32, tracks_true: Option<&i64>) -> u32 {
    match tracks_true {
        None | Some(0) => bits,
        Some(_) => bits | Trees::NAN,
    }
}

/// Trees whose nodes are numbered in each, and whose weights name them.
pub fn listed(lists: &mut Lists<'_>, kind: &str) -> Result<Forest, NodeError> {
    let trees = lists.ints("nodes_treeids")?;
    let count = trees.len();
    let nodes = lists.ints("nodes_nodeids")?;
    let features = lists.ints("nodes_featureids")?;
    let modes = lists.strings("nodes_modes")?;
    let children = [
        lists.ints("nodes_truenodeids")?,
        lists.ints("nodes_falsenodeids")?,
    ];
    let (values, wide) = lists.floats("nodes_values")?;
    for (name, length) in [
        ("nodes_nodeids", nodes.len()),
        ("nodes_featureids", features.len()),
        ("nodes_modes", modes.len()),
        ("nodes_truenodeids", children[0].len()),
        ("nodes_falsenodeids", children[1].len()),
        ("nodes_values", values.len()),
    ] {
        alike(name, length, count)?;
    }
    let missing = lists.ints("nodes_missing_value_tracks_true")?;
    if !missing.is_empty() {
        alike("nodes_missing_value_tracks_true", missing.len(), count)?;
    }
    let _ = (
        lists.take("nodes_hitrates"),
        lists.take("nodes_hitrates_as_tensor"),
    );

    let named = |at: usize| format!("node {} of tree {}", nodes[at], trees[at]);
    let mut places = HashMap::new();
    let mut kinds: Vec<Child> = room(count)?;
    let (mut tests, mut leaves) = (0, 0);
    for at in 0..count {
        if places.insert((trees[at], nodes[at]), at).is_some() {
            return Err(NodeError::malformed(
                named(at),
                "listed twice",
                "listed once",
            ));
        }
        let (next, kind): (&mut usize, fn(usize) -> Child) = match bits(&modes[at])? {
            Some(_) => (&mut tests, Child::Test),
            None => (&mut leaves, Child::Leaf),
        };
        kinds.push(kind(*next));
        *next += 1;
    }
    let mut is_child = filled(false, count)?;
    let (mut made, mut numbers) = (Vec::new(), Vec::new());
    for at in 0..count {
        let Some(bits) = bits(&modes[at])? else {
            continue;
        };
        let mut below = [Child::Leaf(0); 2];
        for (child, ids) in below.iter_mut().zip(&children) {
            let place = places.get(&(trees[at], ids[at])).copied().ok_or_else(|| {
                let got = format_args!("leading to node {}", ids[at]);
                NodeError::malformed(named(at), got, "leading to nodes of its tree")
            })?;
            is_child[place] = true;
            *child = kinds[place];
        }
        made.push(Test {
            feature: small("nodes_featureids", features[at])?,
            bits: with_missing(bits, missing.get(at)),
            values: vec![values[at]],
            children: below,
        });
        numbers.push((trees[at], nodes[at]));
    }
    // The root of a tree is the first node that no other leads to.
    let mut roots: Vec<Child> = Vec::new();
    let mut rooted = HashMap::new();
    for at in 0..count {
        let has = rooted.entry(trees[at]).or_insert(false);
        if !is_child[at] && !std::mem::replace(has, true) {
            roots.push(kinds[at]);
        }
    }
    if let Some((tree, _)) = rooted.iter().find(|(_, has)| !**has) {
        let what = format!("tree {tree}");
        return Err(NodeError::malformed(
            what,
            "without a root: its nodes lead to each other",
            "a tree",
        ));
    }

    let mut names = ["treeids", "nodeids", "ids"].map(|name| format!("{kind}_{name}"));
    let [of_trees, of_nodes, targets] = [
        lists.ints(&names[0])?,
        lists.ints(&names[1])?,
        lists.ints(&names[2])?,
    ];
    let (values, wide_weights) = lists.floats(&format!("{kind}_weights"))?;
    names[0] = format!("{kind}_weights");
    for (name, length) in [
        (&names[0], values.len()),
        (&names[1], of_nodes.len()),
        (&names[2], targets.len()),
    ] {
        alike(name, length, of_trees.len())?;
    }
    let mut each: Vec<(usize, Weight)> = room(of_trees.len())?;
    for at in 0..of_trees.len() {
        let found = places.get(&(of_trees[at], of_nodes[at]));
        let Some(Child::Leaf(leaf)) = found.map(|&place| kinds[place]) else {
            let what = format!(
                "the weight of node {} of tree {}",
                of_nodes[at], of_trees[at]
            );
            return Err(NodeError::malformed(
                what,
                "that of no leaf",
                "that of a leaf",
            ));
        };
        let target = small(&names[2], targets[at])?;
        each.push((
            leaf,
            Weight {
                target,
                value: values[at],
            },
        ));
    }
    each.sort_by_key(|(leaf, _)| *leaf);
    let mut ends = filled(0, leaves)?;
    for (leaf, _) in &each {
        ends[*leaf] += 1;
    }
    let mut end = 0;
    for count in &mut ends {
        end += *count;
        *count = end;
    }
    let how = match lists
        .0
        .iter()
        .find(|(name, _)| name == "aggregate_function")
    {
        Some((_, Attribute::String(how))) if how == "MIN" => Together::Min,
        Some((_, Attribute::String(how))) if how == "MAX" => Together::Max,
        _ => Together::Sum,
    };
    Ok(Forest {
        wide: wide || wide_weights,
        roots,
        tests: made,
        name: |forest, test| {
            let (tree, node) = forest.numbers[test];
            format!("node {node} of tree {tree}")
        },
        numbers,
        leaves: ends,
        weights: each.into_iter().map(|(_, weight)| weight).collect(),
        how,
    })
}

/// Trees whose tests and leaves are numbered all together.
pub fn tabled(lists: &mut Lists<'_>) -> Result<Forest, NodeError> {
    let missing =
        |name: &str| NodeError::malformed(format_args!("attribute {name}"), "left out", "a tensor");
    let splits = lists
        .tensor("nodes_splits")?
        .ok_or_else(|| missing("nodes_splits"))?;
    let (splits, wide) = numbers(&splits)?;
    let count = splits.len();
    let modes = lists
        .tensor("nodes_modes")?
        .ok_or_else(|| missing("nodes_modes"))?;
    let modes = modes.to_dtype(DType::I64)?.to_vec::<i64>()?;
    let features = lists.ints("nodes_featureids")?;
    let ids = [
        lists.ints("nodes_truenodeids")?,
        lists.ints("nodes_falsenodeids")?,
    ];
    let are_leaves = [
        lists.ints("nodes_trueleafs")?,
        lists.ints("nodes_falseleafs")?,
    ];
    for (name, length) in [
        ("nodes_modes", modes.len()),
        ("nodes_featureids", features.len()),
        ("nodes_truenodeids", ids[0].len()),
        ("nodes_falsenodeids", ids[1].len()),
        ("nodes_trueleafs", are_leaves[0].len()),
        ("nodes_falseleafs", are_leaves[1].len()),
    ] {
        alike(name, length, count)?;
    }
    let missing_values = lists.ints("nodes_missing_value_tracks_true")?;
    if !missing_values.is_empty() {
        alike(
            "nodes_missing_value_tracks_true",
            missing_values.len(),
            count,
        )?;
    }
    let _ = lists.take("nodes_hitrates");
    let weights = lists
        .tensor("leaf_weights")?
        .ok_or_else(|| missing("leaf_weights"))?;
    let (weights, _) = numbers(&weights)?;
    let targets = lists.ints("leaf_targetids")?;
    alike("leaf_targetids", targets.len(), weights.len())?;
    let members = match lists.tensor("membership_values")? {
        Some(tensor) => numbers(&tensor)?.0,
        None => Vec::new(),
    };
    let mut sets = members.split(|value| value.is_nan());

    let mut tests: Vec<Test> = room(count)?;
    for at in 0..count {
        let mut children = [Child::Leaf(0); 2];
        for ((child, ids), are_leaves) in children.iter_mut().zip(&ids).zip(&are_leaves) {
            let (found, most): (fn(usize) -> Child, usize) = match are_leaves[at] {
                0 => (Child::Test, count),
                _ => (Child::Leaf, weights.len()),
            };
            let id = usize::try_from(ids[at]).ok().filter(|&id| id < most);
            *child = found(id.ok_or_else(|| {
                let got = format_args!("leading to {}", ids[at]);
                NodeError::malformed(format_args!("node {at}"), got, "leading to what there is")
            })?);
        }
        let names = [
            "BRANCH_LEQ",
            "BRANCH_LT",
            "BRANCH_GTE",
            "BRANCH_GT",
            "BRANCH_EQ",
            "BRANCH_NEQ",
        ];
        let mode = usize::try_from(modes[at]).ok();
        let (passing, values) = match mode.and_then(|mode| names.get(mode)) {
            Some(name) => (bits(name)?.unwrap_or_default(), vec![splits[at]]),
            None if modes[at] == 6 => {
                let none = || {
                    NodeError::malformed(
                        "attribute membership_values",
                        "of fewer sets",
                        "one for each test of members",
                    )
                };
                (Trees::EQUAL, copied(sets.next().ok_or_else(none)?)?)
            }
            None => {
                return Err(NodeError::unsupported(format_args!(
                    "nodes_modes {}",
                    modes[at]
                )));
            }
        };
        // A set of one member is a test for it; of several, or none, none is like the others.
        tests.push(Test {
            feature: small("nodes_featureids", features[at])?,
            bits: with_missing(passing, missing_values.get(at)),
            values,
            children,
        });
    }
    let roots = lists.ints("tree_roots")?;
    let roots: Result<Vec<Child>, NodeError> = roots
        .into_iter()
        .map(|root| {
            let id = usize::try_from(root).ok().filter(|&id| id < count);
            let none =
                || NodeError::malformed("attribute tree_roots", root, "the number of a node");
            Ok(Child::Test(id.ok_or_else(none)?))
        })
        .collect();
    let mut each: Vec<Weight> = room(weights.len())?;
    for (&target, value) in targets.iter().zip(weights) {
        each.push(Weight {
            target: small("leaf_targetids", target)?,
            value,
        });
    }
    Ok(Forest {
        wide,
        roots: roots?,
        tests,
        name: |_, test| format!("node {test}"),
        numbers: Vec::new(),
        leaves: (1..=each.len()).collect(),
        weights: each,
        how: Together::Sum,
    })
}
