//! Arrays of strings: the places of their elements in a list.

use std::sync::Arc;

use super::Array;
use crate::room::room;
use crate::{Error, Result};

impl Array {
    /// These strings under a shape of as many elements.
    pub fn from_strings(strings: &[impl AsRef<str>], shape: &[usize]) -> Result<Array> {
        let mut list = room(strings.len())?;
        list.extend(strings.iter().map(|string| string.as_ref().to_owned()));
        let mut places = room(strings.len())?;
        places.extend(0..strings.len() as i64);
        Array::new(&places, shape)?.with_list(list.into())
    }

    /// The strings at these places of a list: an array of `i64`, each of them below the length of the list.
    pub fn with_list(mut self, list: Arc<[String]>) -> Result<Array> {
        let is_place = |&place: &i64| usize::try_from(place).is_ok_and(|place| place < list.len());
        if let Some(other) = self.values::<i64>()?.iter().find(|place| !is_place(place)) {
            return Err(Error::Array {
                got: format!("place {other}"),
                expected: format!("places in a list of {} strings", list.len()),
            });
        }
        self.list = Some(list);
        Ok(self)
    }

    /// Whether its elements are strings.
    pub fn is_strings(&self) -> bool {
        self.list.is_some()
    }

    /// Its strings, row-major; `None` if its elements are numbers.
    pub fn as_strings(&self) -> Option<Vec<&str>> {
        let list = self.list.as_ref()?;
        let places = self.values::<i64>().ok()?.iter();
        let strings = places.map(|&place| list.get(place as usize).map_or("", String::as_str));
        Some(strings.collect())
    }

    /// What the elements are places in, if they are strings: several places may stand for the same string.
    pub fn list(&self) -> Option<&Arc<[String]>> {
        self.list.as_ref()
    }

    /// What its elements are, for messages.
    pub(super) fn kind(&self) -> &'static str {
        match self.list {
            Some(_) => "strings",
            None => self.dtype.name(),
        }
    }

    /// With a list in which there is an empty string, at the place that is told, if these are strings.
    pub(super) fn with_empty(&self) -> Option<(Arc<[String]>, i64)> {
        let list = self.list.as_ref()?;
        if let Some(place) = list.iter().position(String::is_empty) {
            return Some((list.clone(), place as i64));
        }
        let longer = list.iter().cloned().chain([String::new()]).collect();
        Some((longer, list.len() as i64))
    }

    /// One list for the strings of all of these, and what is added to the places of each.
    pub(super) fn joined_list(parts: &[&Array]) -> Option<(Arc<[String]>, Vec<i64>)> {
        let first = parts.first()?.list.as_ref()?;
        let lists = || parts.iter().filter_map(|part| part.list.as_ref());
        if lists().all(|list| Arc::ptr_eq(list, first)) {
            return Some((first.clone(), parts.iter().map(|_| 0).collect()));
        }
        let mut begin = 0;
        let begins = lists().map(|list| {
            let own = begin;
            begin += list.len() as i64;
            own
        });
        let begins = begins.collect();
        Some((
            lists().flat_map(|list| list.iter().cloned()).collect(),
            begins,
        ))
    }
}

impl PartialEq for Array {
    fn eq(&self, other: &Array) -> bool {
        if (self.dtype, &self.shape) != (other.dtype, &other.shape) {
            return false;
        }
        match (&self.list, &other.list) {
            (None, None) => self.bytes() == other.bytes(),
            (Some(one), Some(two)) if Arc::ptr_eq(one, two) => self.bytes() == other.bytes(),
            _ => self.is_strings() && self.as_strings() == other.as_strings(),
        }
    }
}

#[cfg(test)]
mod tests {
    use streampool_runtime::DType;

    use super::*;

    #[test]
    fn strings_come_back_and_are_equal_wherever_their_list_has_them() {
        let words = Array::from_strings(&["red", "", "grün", "red"], &[2, 2]).unwrap();
        assert_eq!(words.as_strings().unwrap(), ["red", "", "grün", "red"]);
        assert_eq!((words.shape(), words.dtype()), (&[2, 2][..], DType::I64));
        let list: Arc<[String]> = ["grün", "red", ""].map(str::to_owned).into();
        let places = Array::new(&[1i64, 2, 0, 1], &[2, 2]).unwrap();
        assert_eq!(places.as_strings(), None);
        assert_ne!(words, places);
        let other = places.with_list(list.clone()).unwrap();
        assert_eq!(words, other);
        assert_ne!(
            words,
            Array::from_strings(&["red", "", "blau", "red"], &[2, 2]).unwrap()
        );
        assert!(format!("{other:?}").contains("strings"));
        for wrong in [-1, 3] {
            let places = Array::new(&[wrong], &[1]).unwrap();
            assert!(places.with_list(list.clone()).is_err(), "{wrong}");
        }
        let numbers = Array::new(&[0f32], &[1]).unwrap();
        assert!(numbers.with_list(list).is_err());
        assert!(Array::from_strings(&["a"], &[2]).is_err());
    }

    #[test]
    fn rows_of_strings_are_taken_out_joined_and_filled_up_with_empty_ones() {
        let whole = Array::from_strings(&["a", "b", "c", "d"], &[2, 2]).unwrap();
        let (one, two) = (whole.rows(0..1).unwrap(), whole.rows(1..2).unwrap());
        assert_eq!(two.as_strings().unwrap(), ["c", "d"]);
        assert_eq!(Array::join(&[&one, &two]).unwrap(), whole);
        let other = Array::from_strings(&["e", "a"], &[1, 2]).unwrap();
        let joined = Array::join(&[&two, &other, &one]).unwrap();
        assert_eq!(joined.as_strings().unwrap(), ["c", "d", "e", "a", "a", "b"]);
        let long = whole.filled_up(1, 3).unwrap();
        assert_eq!(long.as_strings().unwrap(), ["a", "b", "", "c", "d", ""]);
        assert_eq!(long.cut_to(1, 2).unwrap(), whole);
        let numbers = Array::new(&[1i64, 2], &[1, 2]).unwrap();
        let told = Array::join(&[&one, &numbers]).unwrap_err().to_string();
        assert!(told.contains("strings"), "{told}");
    }
}
