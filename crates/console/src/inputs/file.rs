//! Inputs from a `.npz` file.

use std::path::Path;

use streampool::model::ValueInfo;
use streampool::tensor::NpzFile;
use streampool::{Array, Pool};

use crate::Result;
use crate::text::list;

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
    let (shown, names) = (path.display(), list(ports.iter().map(|port| &port.name)));
    let is_port = |name: &str| ports.iter().any(|port| port.name == name);
    if let Some(other) = file.names().find(|name| !is_port(name)) {
        let why = format!("has an array `{other}`, but the inputs of the model are {names}");
        return Err(format!("{shown} {why}").into());
    }
    let has = |port: &ValueInfo| file.names().any(|name| name == port.name);
    if let Some(port) = ports.iter().find(|port| !has(port)) {
        let why = format!(
            "has no array `{}`: the inputs of the model are {names}",
            port.name
        );
        return Err(format!("{shown} {why}").into());
    }
    let array = |port: &ValueInfo| Ok(Array::of(&file.read(pool, &port.name)?)?);
    ports.iter().map(array).collect()
}
