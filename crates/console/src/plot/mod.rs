//! Drawings of figures, as SVG for files and pages, and in characters for a terminal.

mod bars;
mod lines;
mod range;
mod svg;
mod terminal;

pub use bars::{Bars, Group};
pub use lines::{Axis, Plot, Series};
pub use range::Scale;
