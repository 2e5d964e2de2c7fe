//! The model that a path names.

use serde::Deserialize;

/// A model, and its version if the path has one.
#[derive(Deserialize)]
pub struct Named {
    pub name: String,
    pub version: Option<String>,
}
