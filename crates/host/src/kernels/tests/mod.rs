//! Every kernel against a plain reference, over random shapes, strides and types.

mod amx;
mod attention;
mod conv;
mod elementwise;
mod index;
mod linalg;
mod matmul;
mod order;
mod random;
mod reductions;
mod rnn;
mod tally;
mod tensor;
