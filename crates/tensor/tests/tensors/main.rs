//! Tensors, their views, their files and what is computed with them.

mod boxes;
mod chains;
#[path = "../common/mod.rs"]
mod common;
mod composed;
mod concurrent;
mod display;
mod dlpack;
mod elementwise;
mod files;
mod fourier;
mod multi;
mod ndarray;
mod quirks;
mod reduce;
mod shapes;
mod subnormal;
mod threads;
mod values;
mod views;
