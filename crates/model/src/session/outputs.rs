//! What a run gave.

use std::sync::Arc;

use smallvec::SmallVec;
use streampool_tensor::Array;

/// What a run gave, on the host.
#[derive(Debug, Clone)]
pub struct Outputs {
    pub(super) names: Arc<[String]>,
    pub(super) arrays: AllArrays,
}

/// The arrays of each output. Those of a model of one output lie in place.
pub(super) type AllArrays = SmallVec<[Arrays; 1]>;

/// The arrays of one output: one, if it is no sequence.
pub(super) type Arrays = SmallVec<[Array; 1]>;

impl Outputs {
    /// The output of this name; of a sequence, its first element.
    pub fn get(&self, name: &str) -> Option<&Array> {
        self.sequence(name)?.first()
    }

    /// All arrays of the output of this name: one, if it is no sequence.
    pub fn sequence(&self, name: &str) -> Option<&[Array]> {
        let place = self.names.iter().position(|other| other == name)?;
        self.arrays.get(place).map(Arrays::as_slice)
    }

    /// The strings of the output of this name, row-major, if it is one of strings: those of [its array](Array::as_strings).
    pub fn strings(&self, name: &str) -> Option<Vec<&str>> {
        self.get(name)?.as_strings()
    }

    /// Names and arrays, in the model's order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &[Array])> {
        let names = self.names.iter().map(String::as_str);
        names.zip(self.arrays.iter().map(Arrays::as_slice))
    }

    /// The arrays of all outputs, in the model's order.
    pub fn into_arrays(self) -> Vec<Array> {
        self.arrays.into_iter().flatten().collect()
    }

    /// The arrays of each output, in the model's order: one, if it is no sequence.
    pub fn into_sequences(self) -> impl Iterator<Item = impl ExactSizeIterator<Item = Array>> {
        self.arrays.into_iter().map(Arrays::into_iter)
    }

    /// All but those of some places.
    pub(super) fn without(self, is_out: impl Fn(usize) -> bool) -> Outputs {
        let left = (0..self.names.len()).filter(|&place| !is_out(place));
        let places: SmallVec<[usize; 4]> = left.collect();
        Outputs {
            names: places
                .iter()
                .map(|&place| self.names[place].clone())
                .collect(),
            arrays: (self.arrays.into_iter().enumerate())
                .filter_map(|(place, arrays)| places.contains(&place).then_some(arrays))
                .collect(),
        }
    }

    /// The output of this place.
    pub fn at(&self, place: usize) -> Option<&Array> {
        self.arrays.get(place)?.first()
    }
}

/// The output of this name, where the model is known to have it: [`get`](Outputs::get) asks whether it has.
impl std::ops::Index<&str> for Outputs {
    type Output = Array;

    /// # Panics
    /// If there is no such output, or it is an empty sequence.
    fn index(&self, name: &str) -> &Array {
        self.get(name)
            .unwrap_or_else(|| panic!("no output {name:?}, of {:?}", self.names))
    }
}
