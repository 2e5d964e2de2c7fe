//! The text of kernels, executed on the CPU.

mod attention;
mod blocks;
mod constants;
mod conv;
mod groups;
mod index;
mod linalg;
mod metal;
mod ops;
mod order;
mod random;
mod rnn;
mod spatial;
mod split;
mod tally;
mod trees;
