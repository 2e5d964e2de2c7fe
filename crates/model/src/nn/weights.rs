//! Where parameters come from: names under prefixes, checked and brought to the device.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use streampool_tensor::{DType, Error, Generator, Pool, Result, SafeTensors, Tensor};

const OP: &str = "weights";

/// Tensors by name, for modules to take theirs from; or, for tests, the source of random ones.
///
/// Clones and those [`at`](Self::at) a prefix share what they take from, and what was taken.
#[derive(Clone)]
pub struct Weights {
    store: Arc<Store>,
    path: String,
    dtype: Option<DType>,
}

struct Store {
    source: Source,
    pool: Pool,
    /// For each name whether somebody took it.
    taken: BTreeMap<String, AtomicBool>,
}

enum Source {
    File(SafeTensors),
    Tensors(BTreeMap<String, Tensor>),
    Random(Generator),
}

impl Initial {
    /// As the parameters of a layer begin whose weight has this shape: it adds up as many inputs as there are in all axes but
    /// the first.
    pub(crate) fn of_weight(shape: &[usize]) -> Initial {
        let inputs: f64 = shape.iter().skip(1).map(|&size| size as f64).product();
        let bound = 1.0 / inputs.max(1.0).sqrt();
        Initial::Uniform { bound }
    }
}

/// How a parameter begins where weights are random.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Initial {
    /// Any number from `-bound` to `bound` is as likely as any other.
    Uniform {
        /// The largest there is.
        bound: f64,
    },
    /// Normally distributed around zero.
    Normal {
        /// The standard deviation.
        deviation: f64,
    },
    /// The same everywhere.
    Constant(f64),
}

impl Weights {
    /// Those of a safetensors file, each read to `pool` when it is asked for.
    pub fn open(path: impl AsRef<Path>, pool: &Pool) -> Result<Weights> {
        Ok(Weights::from_file(SafeTensors::open(path)?, pool))
    }

    /// Those of an open safetensors file, each read to `pool` when it is asked for.
    pub fn from_file(file: SafeTensors, pool: &Pool) -> Weights {
        let names = file.names().map(str::to_owned).collect();
        Weights::over(Source::File(file), names, pool)
    }

    /// These, each brought to `pool` when it is asked for. Of two under one name the later counts.
    pub fn from_tensors(
        tensors: impl IntoIterator<Item = (String, Tensor)>,
        pool: &Pool,
    ) -> Weights {
        let tensors: BTreeMap<_, _> = tensors.into_iter().collect();
        let names = tensors.keys().cloned().collect();
        Weights::over(Source::Tensors(tensors), names, pool)
    }

    /// Random ones, of whatever names and shapes are asked for, as `f32`. What is under a name depends on that name,
    /// the shape and the generator alone.
    pub fn random(generator: &Generator, pool: &Pool) -> Weights {
        Weights::over(Source::Random(generator.clone()), Vec::new(), pool)
    }

    fn over(source: Source, names: Vec<String>, pool: &Pool) -> Weights {
        let unused = |name| (name, AtomicBool::new(false));
        let store = Store {
            source,
            pool: pool.clone(),
            taken: names.into_iter().map(unused).collect(),
        };
        Weights {
            store: Arc::new(store),
            path: String::new(),
            dtype: None,
        }
    }

    /// Those below `part`: a name or a number, which a dot parts from what comes after it.
    pub fn at(&self, part: impl Display) -> Weights {
        Weights {
            path: self.full(part),
            ..self.clone()
        }
    }

    /// The same, in another float type: each is converted on the device after it was read.
    pub fn with_dtype(&self, dtype: DType) -> Result<Weights> {
        if !dtype.is_float() {
            return Err(Error::dtype(OP, "dtype", dtype, "a float type"));
        }
        Ok(Weights {
            dtype: Some(dtype),
            ..self.clone()
        })
    }

    /// The pool they are brought to.
    pub fn pool(&self) -> &Pool {
        &self.store.pool
    }

    /// The prefix of all names, without the dot behind it.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Whether there is one of this name. Random ones are always there.
    pub fn has(&self, name: &str) -> bool {
        let random = matches!(self.store.source, Source::Random(_));
        random || self.store.taken.contains_key(&self.full(name))
    }

    /// The shape of the one of this name, without taking it; `None` if there is none, or if they are random.
    pub fn shape(&self, name: &str) -> Option<&[usize]> {
        let name = self.full(name);
        match &self.store.source {
            Source::File(file) => file.shape(&name),
            Source::Tensors(tensors) => Some(tensors.get(&name)?.shape()),
            Source::Random(_) => None,
        }
    }

    /// The floats of this name and shape. Random ones are spread as those of a layer that adds up as many inputs as
    /// there are in all axes but the first.
    pub fn tensor(&self, name: &str, shape: &[usize]) -> Result<Tensor> {
        self.tensor_from(name, shape, Initial::of_weight(shape))
    }

    /// The floats of this name and shape, and how they begin if they are random.
    pub fn tensor_from(&self, name: &str, shape: &[usize], initial: Initial) -> Result<Tensor> {
        if let Source::Random(generator) = &self.store.source {
            return self.drawn(generator, name, shape, initial);
        }
        if let Some(stored) = self.shape(name)
            && stored != shape
        {
            return Err(self.unfit(name, format_args!("of shape {stored:?}"), shape));
        }
        let tensor = self.raw(name)?;
        if !tensor.dtype().is_float() {
            return Err(self.unfit(name, format_args!("of type {}", tensor.dtype()), shape));
        }
        tensor.to_dtype(self.dtype.unwrap_or(tensor.dtype()))
    }

    /// What is under this name as it is, whatever its shape and type. There is nothing like it among random ones.
    pub fn raw(&self, name: &str) -> Result<Tensor> {
        let full = self.full(name);
        let Some(taken) = self.store.taken.get(&full) else {
            return Err(self.missing(&full));
        };
        let tensor = match &self.store.source {
            Source::File(file) => file.read(&self.store.pool, &full)?,
            Source::Tensors(tensors) => match tensors.get(&full) {
                Some(tensor) => tensor.to(&self.store.pool)?,
                None => return Err(self.missing(&full)),
            },
            Source::Random(_) => return Err(self.missing(&full)),
        };
        taken.store(true, Ordering::Relaxed);
        Ok(tensor)
    }

    /// The names below this prefix, in full and sorted; none, if they are random.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.below().map(|(name, _)| name)
    }

    /// The names below this prefix that nobody took so far, in full and sorted.
    pub fn unused(&self) -> Vec<&str> {
        self.below()
            .filter(|(_, taken)| !taken.load(Ordering::Relaxed))
            .map(|(name, _)| name)
            .collect()
    }

    fn below(&self) -> impl Iterator<Item = (&str, &AtomicBool)> {
        let below = |name: &str| {
            let rest = name.strip_prefix(&self.path);
            rest.is_some_and(|rest| self.path.is_empty() || rest.starts_with('.'))
        };
        let names = self.store.taken.iter();
        names
            .map(|(name, taken)| (name.as_str(), taken))
            .filter(move |(name, _)| below(name))
    }

    fn full(&self, name: impl Display) -> String {
        match self.path.as_str() {
            "" => name.to_string(),
            path => format!("{path}.{name}"),
        }
    }

    fn drawn(
        &self,
        generator: &Generator,
        name: &str,
        shape: &[usize],
        initial: Initial,
    ) -> Result<Tensor> {
        let pool = &self.store.pool;
        let dtype = self.dtype.unwrap_or(DType::F32);
        let mut generator = generator.fork(number_of(&self.full(name)));
        match initial {
            Initial::Uniform { bound } => generator.uniform(pool, shape, -bound, bound, dtype),
            Initial::Normal { deviation } => generator.normal(pool, shape, 0.0, deviation, dtype),
            Initial::Constant(value) => Tensor::full(pool, shape, value, dtype),
        }
    }

    #[cold]
    fn unfit(&self, name: &str, got: impl Display, shape: &[usize]) -> Error {
        let got = format!("`{}` {got}", self.full(name));
        let expected = format!("floats of shape {shape:?}");
        Error::parameter(OP, "tensor", got, expected)
    }

    #[cold]
    fn missing(&self, full: &str) -> Error {
        let names = &self.store.taken;
        let near = nearest(full, names.keys().map(String::as_str));
        let such = match &near[..] {
            [] => String::new(),
            near => format!(", such as `{}`", near.join("`, `")),
        };
        let expected = match names.len() {
            0 => "none: the file has no tensors".to_owned(),
            count => format!("one of {count} names{such}"),
        };
        Error::parameter(OP, "name", format_args!("`{full}`"), expected)
    }
}

/// A number for each name, by which random tensors differ (FNV-1a).
fn number_of(name: &str) -> u64 {
    name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// So many names are told that somebody may have meant.
const NEAREST: usize = 3;

/// The few of `names` that are nearest to `name`, the nearest first.
fn nearest<'n>(name: &str, names: impl Iterator<Item = &'n str>) -> Vec<&'n str> {
    let mut known: Vec<_> = names.map(|known| (distance(name, known), known)).collect();
    known.sort_unstable();
    known.truncate(NEAREST);
    known.into_iter().map(|(_, known)| known).collect()
}

/// How many bytes have to be put in, taken out or changed to make one of the other.
fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.bytes().enumerate() {
        let mut left = i + 1;
        let mut diagonal = std::mem::replace(&mut row[0], left);
        for (above, y) in row[1..].iter_mut().zip(b.bytes()) {
            let changed = diagonal + usize::from(x != y);
            diagonal = *above;
            left = changed.min(left + 1).min(diagonal + 1);
            *above = left;
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_counted() {
        for (a, b, expected) in [
            ("", "", 0),
            ("", "abc", 3),
            ("abc", "", 3),
            ("kitten", "sitting", 3),
            ("weight", "wieght", 2),
            ("bias", "bias", 0),
        ] {
            assert_eq!(distance(a, b), expected, "{a} to {b}");
        }
    }

    #[test]
    fn the_nearest_come_first() {
        let names = ["decoder.weight", "encoder.bias", "encoder.weight", "x"];
        assert_eq!(
            nearest("encoder.wieght", names.into_iter()),
            ["encoder.weight", "decoder.weight", "encoder.bias"]
        );
    }
}
