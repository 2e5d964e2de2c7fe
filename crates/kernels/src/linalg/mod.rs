//! Factorisations and solves of many matrices at a time.
//!
//! A matrix that fits into shared memory is factorised by one group. A larger one is cut into panels of [`SIDE`]
//! columns: one group factorises a panel, many solve for what is beside it and subtract the product from the rest.

mod kernel;
mod matrix;
mod plan;

pub use kernel::Linalg;

pub(crate) use plan::linalg;
