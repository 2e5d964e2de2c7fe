//! Models: ONNX files in, many threads out.

mod check;
mod error;
mod evaluate;
pub mod graph;
pub mod inspect;
mod lower;

pub mod nn;
mod nodes;
pub mod onnx;
pub mod passes;
mod ranks;
mod session;
#[doc(hidden)]
pub mod testing;
mod trace;

pub use error::{Error, Fault, Result, UnsupportedOperator};
pub use session::{
    Array, Input, Outputs, Pending, Port, RunOptions, Session, SessionOptions, Statistics,
};
