//! What a queue promises its callers. What forks or runs long is in a program of its own.
#![cfg(not(loom))]

mod cancelling;
mod coalescing;
#[path = "../common/mod.rs"]
mod common;
mod deadlines;
mod failing;
mod in_order;
mod nested;
mod oversize;
mod padding;
mod room;
mod settings;
mod shapes;
mod tasks;
mod tenants;
mod traced;
mod wakers;
