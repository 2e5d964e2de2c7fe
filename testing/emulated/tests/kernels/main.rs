//! The text of kernels, executed on the CPU. Kernels whose threads wait for each other switch stacks behind a sanitizer's
//! back: their tests are not there under one.

#[cfg(not(any(sanitize_address, sanitize_thread)))]
mod attention;
mod blocks;
#[cfg(not(any(sanitize_address, sanitize_thread)))]
mod constants;
mod conv;
#[cfg(not(any(sanitize_address, sanitize_thread)))]
mod groups;
#[cfg(not(any(sanitize_address, sanitize_thread)))]
mod index;
#[cfg(not(any(sanitize_address, sanitize_thread)))]
mod linalg;
mod metal;
#[cfg(not(any(sanitize_address, sanitize_thread)))]
mod ops;
#[cfg(not(any(sanitize_address, sanitize_thread)))]
mod order;
#[cfg(not(any(sanitize_address, sanitize_thread)))]
mod random;
#[cfg(not(any(sanitize_address, sanitize_thread)))]
mod rnn;
mod spatial;
mod split;
#[cfg(not(any(sanitize_address, sanitize_thread)))]
mod tally;
#[cfg(not(any(sanitize_address, sanitize_thread)))]
mod trees;
#[cfg(not(any(sanitize_address, sanitize_thread)))]
mod warpgroup;
