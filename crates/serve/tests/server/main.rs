//! The server on a port of this machine.

mod abuse;
mod common;
mod http;
mod reference;
