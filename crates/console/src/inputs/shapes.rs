//! The shapes of inputs: what the model leaves open, its user says.

use std::collections::HashMap;

use streampool::model::{Dim, ValueInfo};

use crate::Result;
use crate::text::list;

/// The shape of an input, as its user gives it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Given {
    name: String,
    shape: Vec<usize>,
}

impl Given {
    /// The name of the input.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Reads `name=1,16`; nothing after the sign is the shape of a single value.
    pub fn parse(text: &str) -> Result<Given, String> {
        let expected = || "expected the name of an input and its sizes, such as x=1,16".to_owned();
        let (name, sizes) = text.rsplit_once('=').ok_or_else(expected)?;
        let sizes = sizes.trim_matches(['[', ']']);
        let size = |text: &str| text.trim().parse().map_err(|_| expected());
        let shape = match sizes.is_empty() {
            true => Ok(Vec::new()),
            false => sizes.split(',').map(size).collect(),
        };
        match name.is_empty() {
            true => Err(expected()),
            false => Ok(Given {
                name: name.to_owned(),
                shape: shape?,
            }),
        }
    }
}

/// The shape of each of `ports`. A size that has a name is the same wherever the name stands; one that is a batch is 1
/// where nobody says otherwise.
pub fn resolve(ports: &[ValueInfo], given: &[Given]) -> Result<Vec<Vec<usize>>> {
    let mut named: HashMap<&str, (usize, &str)> = HashMap::new();
    for (number, one) in given.iter().enumerate() {
        if given[..number].iter().any(|other| other.name == one.name) {
            return Err(format!("--shape {} is given twice", one.name).into());
        }
        bind(port(ports, &one.name)?, one, &mut named)?;
    }
    let shape = |port: &ValueInfo| match given.iter().find(|one| one.name == port.name) {
        Some(one) => Ok(one.shape.clone()),
        None => open(port, &named),
    };
    ports.iter().map(shape).collect()
}

fn port<'p>(ports: &'p [ValueInfo], name: &str) -> Result<&'p ValueInfo> {
    let found = ports.iter().find(|port| port.name == name);
    found.ok_or_else(|| {
        let names = list(ports.iter().map(|port| &port.name));
        format!("the model has no input `{name}`: it has {names}").into()
    })
}

/// Notes the sizes that have names, and refuses what does not fit.
fn bind<'p>(
    port: &'p ValueInfo,
    given: &Given,
    named: &mut HashMap<&'p str, (usize, &'p str)>,
) -> Result<()> {
    let Some(dims) = &port.shape else {
        return Ok(());
    };
    let fits = |(dim, size): (&Dim, &usize)| !matches!(dim, Dim::Fixed(fixed) if fixed != size);
    if dims.len() != given.shape.len() || !dims.iter().zip(&given.shape).all(fits) {
        let (name, shape) = (&given.name, &given.shape);
        let declared = list(dims);
        return Err(format!("--shape {name} is {shape:?}, but the input is [{declared}]").into());
    }
    for (dim, &size) in dims.iter().zip(&given.shape) {
        let Dim::Named(name) = dim else { continue };
        let (before, of) = *named.entry(name).or_insert((size, &port.name));
        if before != size {
            return Err(format!(
                "--shape makes `{name}` {before} in `{of}` and {size} in `{}`: it is one size",
                port.name
            )
            .into());
        }
    }
    Ok(())
}

/// The shape of an input of which nothing was said.
fn open(port: &ValueInfo, named: &HashMap<&str, (usize, &str)>) -> Result<Vec<usize>> {
    let Some(dims) = &port.shape else {
        return Err(format!(
            "the model does not say the shape of its input `{0}`: give it as --shape {0}=1,16",
            port.name
        )
        .into());
    };
    let size = |dim: &Dim| match dim {
        Dim::Fixed(size) => Some(*size),
        Dim::Named(name) => match named.get(&name[..]) {
            Some(&(size, _)) => Some(size),
            None => is_batch(name).then_some(1),
        },
        Dim::Free => None,
    };
    let sizes: Vec<Option<usize>> = dims.iter().map(size).collect();
    let told = |size: &Option<usize>| size.map_or("?".to_owned(), |size| size.to_string());
    sizes.iter().copied().collect::<Option<_>>().ok_or_else(|| {
        format!(
            "the input `{0}` is [{1}]: give its sizes as --shape {0}={2}, with a number in place of each ?",
            port.name,
            list(dims),
            sizes.iter().map(told).collect::<Vec<_>>().join(",")
        )
        .into()
    })
}

fn is_batch(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    name.contains("batch") || name == "n"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn port(name: &str, dims: &[Dim]) -> ValueInfo {
        ValueInfo {
            name: name.to_owned(),
            shape: Some(dims.to_vec()),
            ..ValueInfo::default()
        }
    }

    fn named(name: &str) -> Dim {
        Dim::Named(name.to_owned())
    }

    #[test]
    fn shapes_are_read() {
        let given = |name: &str, shape: &[usize]| Given {
            name: name.to_owned(),
            shape: shape.to_vec(),
        };
        assert_eq!(Given::parse("x=1,16"), Ok(given("x", &[1, 16])));
        assert_eq!(Given::parse("a=b=[2, 3]"), Ok(given("a=b", &[2, 3])));
        assert_eq!(Given::parse("sr="), Ok(given("sr", &[])));
        for wrong in ["x", "=1", "x=1,", "x=one", "x=-1"] {
            assert!(Given::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_is_open_is_asked_for_or_follows() {
        let ports = [
            port("ids", &[named("batch_size"), named("sequence")]),
            port("mask", &[named("batch_size"), named("sequence")]),
            port("state", &[Dim::Fixed(2), Dim::Fixed(4)]),
        ];
        let shapes = |given: &[&str]| {
            let given: Vec<Given> = given
                .iter()
                .map(|text| Given::parse(text).unwrap())
                .collect();
            resolve(&ports, &given).map_err(|error| error.to_string())
        };
        let all = vec![vec![3, 16], vec![3, 16], vec![2, 4]];
        assert_eq!(shapes(&["mask=3,16"]), Ok(all));
        for (given, part) in [
            (&[][..], "--shape ids=1,?"),
            (&["idz=1,2"], "it has ids, mask, state"),
            (&["ids=1"], "[batch_size, sequence]"),
            (&["ids=1,2", "state=2,5"], "[2, 4]"),
            (
                &["ids=1,2", "mask=1,3"],
                "`sequence` 2 in `ids` and 3 in `mask`",
            ),
            (&["ids=1,2", "ids=1,3"], "twice"),
        ] {
            let error = shapes(given).unwrap_err();
            assert!(error.contains(part), "{error}");
        }
    }
}
