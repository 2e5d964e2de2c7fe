//! Ensembles of trees as files have them, made into the records of an op once, when a model is read.
//!
//! Nothing is believed of the file: numbers of nodes are looked up, a node is reached from one place only, and all lists are as
//! long as the first.

mod forest;
mod planted;
mod read;

use streampool_device::Trees;
use streampool_tensor::{Pool, Tensor};

use crate::error::NodeError;
use crate::graph::Attribute;
use read::Lists;

/// The names of the attributes that say what records are.
pub const TREES: &str = "planted_trees";
/// How many tests lie one below the other.
pub const DEPTH: &str = "planted_depth";
/// What tests ask: zero for at most, one for below, two for what their bits say.
pub const TEST: &str = "planted_test";
/// As many features are asked for.
pub const FEATURES: &str = "planted_features";
/// Whether no weight is negative.
pub const POSITIVE: &str = "planted_positive";
/// Whether values are `f64`.
pub const WIDE: &str = "planted_wide";
/// The one target of all weights, or minus one where there are several.
pub const TARGET: &str = "planted_target";

/// Takes what describes the trees out of the attributes of an operator for trees, and says instead what the records are, which it
/// gives. `None` if the operator is another.
pub fn plant(
    op: &str,
    attributes: &mut Vec<(String, Attribute)>,
    pool: &Pool,
) -> Result<Option<Tensor>, NodeError> {
    if let Some((name, _)) = attributes
        .iter()
        .find(|(name, _)| name.starts_with("planted_"))
    {
        let what = format!("attribute {name:?}");
        return Err(NodeError::malformed(what, "given", "one of the operator's"));
    }
    let mut lists = Lists(attributes);
    let forest = match op {
        "TreeEnsembleClassifier" => read::listed(&mut lists, "class")?,
        "TreeEnsembleRegressor" => read::listed(&mut lists, "target")?,
        "TreeEnsemble" => read::tabled(&mut lists)?,
        _ => return Ok(None),
    };
    let planted = planted::planted(&forest)?;
    for (name, value) in [
        (TREES, forest.roots.len() as i64),
        (DEPTH, planted.depth as i64),
        (TEST, planted.test),
        (FEATURES, i64::from(planted.features)),
        (
            POSITIVE,
            i64::from(forest.weights.iter().all(|weight| weight.value >= 0.0)),
        ),
        (TARGET, forest.only_target()),
        (WIDE, i64::from(forest.wide)),
    ] {
        attributes.push((name.to_owned(), Attribute::Int(value)));
    }
    let words: &[i32] = bytemuck::cast_slice(planted.records.as_flattened());
    let tensor = Tensor::from_slice(pool, words, &[planted.records.len(), 4])?;
    Ok(Some(tensor))
}

/// Records whose values are `f32`, with `f64` instead.
pub fn widened(records: &Tensor) -> Result<Tensor, NodeError> {
    let mut words = records.to_vec::<i32>()?;
    let (all, _) = words.as_chunks_mut::<4>();
    for record in all
        .iter_mut()
        .filter(|record| record[0] as u32 & Trees::LIST == 0)
    {
        let value = f64::from(f32::from_bits(record[2] as u32)).to_bits();
        (record[2], record[3]) = (value as i32, (value >> 32) as i32);
    }
    Ok(Tensor::from_slice(records.pool(), &words, records.shape())?)
}
