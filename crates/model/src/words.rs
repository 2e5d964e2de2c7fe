//! The strings of a model and of its runs: each has a number, which stands for it in tensors.
//!
//! A model numbers those that it names. A run goes on with those that it meets besides, and forgets them when it is over.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use streampool_tensor::room::{collected, filled};
use streampool_tensor::{Array, Error, Result};

/// The strings that a model names.
#[derive(Default)]
pub struct Named {
    /// By their numbers.
    pub list: Arc<[String]>,
    numbers: HashMap<String, i64>,
    /// Whether an output may be a string that the model does not name.
    pub is_open: bool,
}

impl Named {
    pub fn new(list: Arc<[String]>, is_open: bool) -> Named {
        let numbers = list.iter().cloned().zip(0..).collect();
        Named {
            list,
            numbers,
            is_open,
        }
    }
}

/// The most bytes of the strings that one run makes.
const MOST_BYTES: usize = 1 << 28;

/// The strings of a run.
pub struct OfRun {
    model: Arc<Named>,
    met: RefCell<Met>,
}

/// Those that the model does not name.
#[derive(Default)]
struct Met {
    list: Vec<Arc<str>>,
    numbers: HashMap<Arc<str>, i64>,
    bytes: usize,
}

impl OfRun {
    pub fn new(model: Arc<Named>) -> OfRun {
        OfRun {
            model,
            met: RefCell::default(),
        }
    }

    /// The number of a string.
    pub fn number(&self, string: &str) -> Result<i64> {
        if let Some(&number) = self.model.numbers.get(string) {
            return Ok(number);
        }
        let met = &mut *self.met.borrow_mut();
        if let Some(&number) = met.numbers.get(string) {
            return Ok(number);
        }
        met.bytes = met.bytes.saturating_add(string.len());
        let is_room = met.bytes <= MOST_BYTES && met.list.try_reserve(1).is_ok();
        if !is_room || met.numbers.try_reserve(1).is_err() {
            return Err(Error::Array {
                got: format!("{} bytes of strings in one run", met.bytes),
                expected: format!("at most {MOST_BYTES}, and as many as there is memory for"),
            });
        }
        let number = (self.model.list.len() + met.list.len()) as i64;
        let string: Arc<str> = string.into();
        met.list.push(string.clone());
        met.numbers.insert(string, number);
        Ok(number)
    }

    /// What `read` makes of the string of a number; what has none is empty.
    pub fn read<R>(&self, number: i64, read: impl FnOnce(&str) -> R) -> R {
        let Ok(number) = usize::try_from(number) else {
            return read("");
        };
        if let Some(string) = self.model.list.get(number) {
            return read(string);
        }
        let string = self
            .met
            .borrow()
            .list
            .get(number - self.model.list.len())
            .cloned();
        read(string.as_deref().unwrap_or(""))
    }

    /// An array of strings as their numbers.
    pub fn numbered(&self, strings: &Array) -> Result<Array> {
        let (places, shape) = (strings.values::<i64>()?, strings.shape());
        let Some(list) = strings.list() else {
            return Ok(strings.clone());
        };
        if Arc::ptr_eq(list, &self.model.list) {
            return Array::new(places, shape);
        }
        // A part of an array may have the list of all.
        let mut numbers = filled(-1i64, list.len())?;
        let each = places.iter().map(|&place| {
            let number = &mut numbers[place as usize];
            if *number < 0 {
                *number = self.number(&list[place as usize])?;
            }
            Ok::<_, Error>(*number)
        });
        Array::new(&collected(each)?, shape)
    }

    /// An array of numbers as their strings.
    pub fn named(&self, numbers: Array) -> Result<Array> {
        let values = numbers.values::<i64>()?;
        let known = 0..self.model.list.len() as i64;
        if values.iter().all(|number| known.contains(number)) {
            return numbers.with_list(self.model.list.clone());
        }
        let (mut list, mut places) = (Vec::new(), HashMap::new());
        let each = values.iter().map(|&number| {
            Ok::<_, Error>(*places.entry(number).or_insert_with(|| {
                list.push(self.read(number, str::to_owned));
                list.len() as i64 - 1
            }))
        });
        let own = collected(each)?;
        Array::new(&own, numbers.shape())?.with_list(list.into())
    }
}

thread_local! {
    /// Those of the run that this thread computes.
    static CURRENT: RefCell<Option<Rc<OfRun>>> = const { RefCell::new(None) };
}

/// The strings of the run that this thread computes, if its model has any.
pub fn current() -> Option<Rc<OfRun>> {
    CURRENT.with_borrow(Clone::clone)
}

/// Does work that belongs to the run of these strings.
pub fn with<R>(words: Rc<OfRun>, work: impl FnOnce() -> R) -> R {
    struct Before(Option<Rc<OfRun>>);
    impl Drop for Before {
        fn drop(&mut self) {
            CURRENT.set(self.0.take());
        }
    }
    let _before = Before(CURRENT.replace(Some(words)));
    work()
}

/// Does the work of a run of a model: with the strings that were given to it, or with none yet.
pub fn of_run<R>(model: Option<&Arc<Named>>, work: impl FnOnce() -> R) -> R {
    let Some(model) = model else {
        return work();
    };
    match current() {
        Some(words) if Arc::ptr_eq(&words.model, model) => work(),
        _ => with(Rc::new(OfRun::new(model.clone())), work),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model() -> Arc<Named> {
        let list = ["red", "green"].map(str::to_owned);
        Arc::new(Named::new(list.into(), true))
    }

    #[test]
    fn strings_that_a_model_does_not_name_have_numbers_until_the_run_is_over() {
        let words = OfRun::new(model());
        let given = ["blue", "green", "blue", "grey", "red"];
        let given = Array::from_strings(&given, &[5]).unwrap();
        let numbers = words.numbered(&given).unwrap();
        assert_eq!(numbers.values::<i64>().unwrap(), [2, 1, 2, 3, 0]);
        assert_eq!(words.named(numbers).unwrap(), given);
        let part = words.numbered(&given.rows(3..4).unwrap()).unwrap();
        assert_eq!(part.values::<i64>().unwrap(), [3]);
        let known = words.named(Array::new(&[1i64, 0], &[2]).unwrap()).unwrap();
        assert!(Arc::ptr_eq(known.list().unwrap(), &words.model.list));
        let unknown = Array::new(&[-1i64, 1, 99], &[3]).unwrap();
        let unknown = words.named(unknown).unwrap();
        assert_eq!(unknown.as_strings().unwrap(), ["", "green", ""]);
    }

    #[test]
    fn a_run_inside_another_has_strings_of_its_own() {
        let (one, two) = (model(), model());
        let number = |string: &str| current().map(|words| words.number(string).unwrap());
        assert_eq!(number("blue"), None);
        of_run(Some(&one), || {
            assert_eq!(number("blue"), Some(2));
            of_run(Some(&one), || assert_eq!(number("grey"), Some(3)));
            of_run(Some(&two), || assert_eq!(number("grey"), Some(2)));
            of_run(None, || assert_eq!(number("blue"), Some(2)));
        });
        assert!(current().is_none());
    }
}
