//! The shapes of requests: sets that the user gives, each with some numbers of rows.

use streampool::model::Dim;
use streampool::model::ValueInfo;

use crate::Result;
use crate::inputs::{Given, resolve};

/// The shape of each input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shapes {
    /// In the order of the inputs.
    pub each: Vec<Vec<usize>>,
    /// The size of axis 0, where it is the same for all inputs that have axes; otherwise 1.
    pub rows: usize,
}

impl Shapes {
    fn new(each: Vec<Vec<usize>>) -> Shapes {
        let mut sizes = each.iter().filter_map(|shape| shape.first().copied());
        let first = sizes.next().unwrap_or(1);
        let rows = if sizes.all(|size| size == first) {
            first
        } else {
            1
        };
        Shapes { each, rows }
    }

    /// They as `--shape` takes them, such as `ids=8,16 mask=8,16`.
    pub fn told(&self, ports: &[ValueInfo]) -> String {
        let one = |(port, shape): (&ValueInfo, &Vec<usize>)| {
            let sizes: Vec<String> = shape.iter().map(usize::to_string).collect();
            format!("{}={}", port.name, sizes.join(","))
        };
        let all: Vec<String> = ports.iter().zip(&self.each).map(one).collect();
        all.join(" ")
    }
}

/// What is measured of each set: the shapes as they are, or with each number of rows.
pub fn sets(ports: &[ValueInfo], given: &[Given], batches: &[usize]) -> Result<Vec<Vec<Shapes>>> {
    let set = |given: &[Given]| {
        let each = resolve(ports, given)?;
        match batches {
            [] => Ok(vec![Shapes::new(each)]),
            _ => batches
                .iter()
                .map(|&rows| with_rows(ports, &each, rows))
                .collect(),
        }
    };
    split(given).into_iter().map(set).collect()
}

/// An input that is named again begins the next set.
fn split(given: &[Given]) -> Vec<&[Given]> {
    let mut sets = Vec::new();
    let mut begin = 0;
    for (place, one) in given.iter().enumerate() {
        if given[begin..place]
            .iter()
            .any(|other| other.name() == one.name())
        {
            sets.push(&given[begin..place]);
            begin = place;
        }
    }
    sets.push(&given[begin..]);
    sets
}

fn with_rows(ports: &[ValueInfo], each: &[Vec<usize>], rows: usize) -> Result<Shapes> {
    let one = |(port, shape): (&ValueInfo, &Vec<usize>)| {
        let name = &port.name;
        let declared = port.shape.as_ref().and_then(|dims| dims.first());
        let mut shape = shape.clone();
        match (shape.first_mut(), declared) {
            (None, _) => Err(format!(
                "the input `{name}` is a single value, so requests cannot be batched on axis 0: leave --batch out"
            )),
            (_, Some(Dim::Fixed(size))) if *size != rows => Err(format!(
                "axis 0 of the input `{name}` is always {size}, so it cannot have {rows} rows: leave --batch out, or \
                 export the model with a free batch axis"
            )),
            (Some(first), _) => {
                *first = rows;
                Ok(shape)
            }
        }
    };
    let each = ports.iter().zip(each).map(one);
    Ok(Shapes::new(each.collect::<Result<_, String>>()?))
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

    fn ports() -> [ValueInfo; 2] {
        let named = |name: &str| Dim::Named(name.to_owned());
        ["ids", "mask"].map(|name| port(name, &[named("batch"), named("length")]))
    }

    fn told(given: &[&str], batches: &[usize]) -> Vec<Vec<String>> {
        let given: Vec<Given> = given
            .iter()
            .map(|text| Given::parse(text).unwrap())
            .collect();
        let sets = sets(&ports(), &given, batches).unwrap();
        let told = |set: &Vec<Shapes>| set.iter().map(|shapes| shapes.told(&ports())).collect();
        sets.iter().map(told).collect()
    }

    #[test]
    fn an_input_that_is_named_again_begins_a_set() {
        assert_eq!(told(&["ids=3,16"], &[]), [["ids=3,16 mask=3,16"]]);
        assert_eq!(
            told(&["ids=1,16", "mask=1,16", "ids=1,128"], &[]),
            [["ids=1,16 mask=1,16"], ["ids=1,128 mask=1,128"]]
        );
    }

    #[test]
    fn each_set_has_each_number_of_rows() {
        assert_eq!(
            told(&["ids=1,16", "ids=1,32"], &[1, 8]),
            [
                ["ids=1,16 mask=1,16", "ids=8,16 mask=8,16"],
                ["ids=1,32 mask=1,32", "ids=8,32 mask=8,32"]
            ]
        );
    }

    #[test]
    fn rows_are_counted_where_all_inputs_have_as_many() {
        let rows = |each: &[&[usize]]| Shapes::new(each.iter().map(|e| e.to_vec()).collect()).rows;
        assert_eq!(rows(&[&[8, 16], &[], &[8]]), 8);
        assert_eq!(rows(&[&[8, 16], &[2, 8]]), 1);
        assert_eq!(rows(&[&[]]), 1);
    }

    #[test]
    fn what_cannot_be_batched_is_refused() {
        let refused = |dims: &[Dim]| {
            let ports = [port("x", dims)];
            let error = sets(&ports, &[], &[4]).unwrap_err().to_string();
            assert!(
                error.contains("`x`") && error.contains("leave --batch out"),
                "{error}"
            );
        };
        refused(&[]);
        refused(&[Dim::Fixed(1), Dim::Fixed(3)]);
        let fits = sets(&[port("x", &[Dim::Fixed(4)])], &[], &[4]).unwrap();
        assert_eq!(fits[0][0].rows, 4);
    }
}
