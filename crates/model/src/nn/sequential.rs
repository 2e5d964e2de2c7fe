//! One module after another.

use streampool_tensor::{Result, Tensor};

use super::module::{Module, Parts};

/// Modules, each of which is given what the one before it made.
#[derive(Default)]
pub struct Sequential {
    modules: Vec<Box<dyn Module>>,
}

impl Sequential {
    /// None so far: it gives what it is given.
    pub fn new() -> Sequential {
        Sequential::default()
    }

    /// The same, and then another module, or a function of a tensor.
    pub fn with(mut self, module: impl Module + 'static) -> Sequential {
        self.modules.push(Box::new(module));
        self
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.modules.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.modules.is_empty()
    }
}

impl Module for Sequential {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let mut modules = self.modules.iter();
        modules.try_fold(x.clone(), |x, module| module.forward(&x))
    }

    fn parameters(&self) -> Result<Vec<(String, Tensor)>> {
        let mut modules = self.modules.iter().enumerate();
        let all = modules.try_fold(Parts::new(), |parts, (place, module)| {
            parts.with(&place.to_string(), module.as_ref())
        });
        Ok(all?.into_parameters())
    }
}

impl FromIterator<Box<dyn Module>> for Sequential {
    fn from_iter<I: IntoIterator<Item = Box<dyn Module>>>(modules: I) -> Sequential {
        Sequential {
            modules: modules.into_iter().collect(),
        }
    }
}
