//! Inputs from a `.npz` file.

use std::path::Path;

use streampool::model::ValueInfo;
use streampool::tensor::NpzFile;
use streampool::{Array, Pool};

use crate::Result;

/// Those of `ports` that the file has an array for, by name.
pub fn among<'p>(path: &Path, ports: &'p [ValueInfo]) -> Result<Vec<&'p str>> {
    let file = NpzFile::open(path)?;
    let has = |name: &str| file.names().any(|other| other == name);
    let names = ports.iter().map(|port| &port.name[..]);
    Ok(names.filter(|name| has(name)).collect())
}

/// The arrays of the names of `ports`, and no others.
pub fn read(path: &Path, ports: &[ValueInfo], pool: &Pool) -> Result<Vec<Array>> {
    let mut file = NpzFile::open(path)?;
    let has: Vec<String> = file.names().map(str::to_owned).collect();
    let names = || {
        ports
            .iter()
            .map(|port| &port.name[..])
            .collect::<Vec<_>>()
            .join(", ")
    };
    if let Some(other) = has
        .iter()
        .find(|name| ports.iter().all(|port| port.name != **name))
    {
        return Err(format!(
            "{} has an array `{other}`, but the inputs of the model are {}",
            path.display(),
            names()
        )
        .into());
    }
    if let Some(port) = ports.iter().find(|port| !has.contains(&port.name)) {
        return Err(format!(
            "{} has no array `{}`: the inputs of the model are {}",
            path.display(),
            port.name,
            names()
        )
        .into());
    }
    let array = |port: &ValueInfo| Ok(Array::of(&file.read(pool, &port.name)?)?);
    ports.iter().map(array).collect()
}
