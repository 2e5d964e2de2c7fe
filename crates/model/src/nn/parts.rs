//! The parameters of a module of several parts, with the names of these.

use streampool_tensor::{Result, Tensor};

use super::Module;

/// The parameters of parts, as they are listed.
#[derive(Debug, Default)]
pub struct Parts(Vec<(String, Tensor)>);

impl Parts {
    /// None so far.
    pub fn new() -> Parts {
        Parts::default()
    }

    /// Also those of a part of this name.
    pub fn with(mut self, name: &str, part: &(impl Part + ?Sized)) -> Result<Parts> {
        part.add_to(name, &mut self)?;
        Ok(self)
    }

    /// All of them.
    pub fn into_parameters(self) -> Vec<(String, Tensor)> {
        self.0
    }
}

/// A part of a module that may have parameters: a tensor, a module, or several.
pub trait Part {
    /// Adds its parameters to the others. `name` is what its module calls it.
    fn add_to(&self, name: &str, parts: &mut Parts) -> Result<()>;
}

impl Part for Tensor {
    fn add_to(&self, name: &str, parts: &mut Parts) -> Result<()> {
        parts.0.push((name.to_owned(), self.clone()));
        Ok(())
    }
}

/// What comes after the name of the part is the part's own name for it.
impl<M: Module + ?Sized> Part for M {
    fn add_to(&self, name: &str, parts: &mut Parts) -> Result<()> {
        let named = |(own, tensor)| (format!("{name}.{own}"), tensor);
        parts.0.extend(self.parameters()?.into_iter().map(named));
        Ok(())
    }
}

impl<P: Part> Part for Option<P> {
    fn add_to(&self, name: &str, parts: &mut Parts) -> Result<()> {
        self.iter().try_for_each(|part| part.add_to(name, parts))
    }
}

/// Each is called by its number.
impl<P: Part> Part for Vec<P> {
    fn add_to(&self, name: &str, parts: &mut Parts) -> Result<()> {
        let mut each = self.iter().enumerate();
        each.try_for_each(|(place, part)| part.add_to(&format!("{name}.{place}"), parts))
    }
}

/// Writes [`parameters`](Module::parameters) of a module, inside its `impl Module`: those of these fields, each of which is a
/// tensor, a module, or an `Option` or `Vec` of such. Fields that are not listed have none.
#[macro_export]
macro_rules! parameters {
    ($($field:ident),* $(,)?) => {
        fn parameters(
            &self,
        ) -> ::std::result::Result<
            ::std::vec::Vec<(::std::string::String, $crate::nn::Tensor)>,
            $crate::nn::Error,
        > {
            let parts = $crate::nn::Parts::new();
            $(let parts = parts.with(::std::stringify!($field), &self.$field)?;)*
            ::std::result::Result::Ok(parts.into_parameters())
        }
    };
}
