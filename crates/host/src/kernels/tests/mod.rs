//! Every kernel against a plain reference, over random shapes, strides and types.

mod elementwise;
mod matmul;
mod reductions;
mod tensor;
