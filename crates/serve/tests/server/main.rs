//! The server on a port of this machine.

mod abuse;
mod common;
mod config;
mod devices;
mod grpc;
mod http;
mod looking;
mod reference;
mod secure;
mod settings;
mod strings;
mod text;
