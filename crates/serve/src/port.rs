//! An input or output of a model, as clients know it.

use streampool::DType;

use crate::datatype;

/// An input or output.
#[derive(Debug, Clone)]
pub struct Port {
    /// Its name.
    pub name: String,
    /// Its type; of strings that of their places.
    pub dtype: DType,
    /// Whether its elements are strings.
    pub strings: bool,
    /// Its sizes, -1 for an open one.
    pub shape: Vec<i64>,
}

impl Port {
    /// The protocol's name of its type.
    pub fn datatype(&self) -> &'static str {
        match self.strings {
            true => datatype::BYTES,
            false => datatype::name(self.dtype),
        }
    }

    /// The name of its type in a model's configuration, without `TYPE_`.
    pub fn configured(&self) -> &'static str {
        match self.strings {
            true => "STRING",
            false => datatype::name(self.dtype),
        }
    }

    /// The number of its type in a model's configuration.
    pub fn number(&self) -> i32 {
        match self.strings {
            true => datatype::STRING,
            false => datatype::number(self.dtype),
        }
    }
}
