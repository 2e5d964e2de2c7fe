//! The server on a port of this machine.

mod abuse;
mod common;
mod grpc;
mod http;
mod reference;
