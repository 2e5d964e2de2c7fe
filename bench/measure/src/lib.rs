//! What processors and drivers can do by themselves: ours is measured beside it.
//!
//! `cargo run --release -p streampool-measure -- runtime` measures; `bench/README.md` has figures.

pub mod driver;
pub mod host;
