//! The runtime over the host device. What forks, measures or needs the first thread is in a program of its own.
#![cfg(not(loom))]

#[path = "../common/mod.rs"]
mod common;
mod events;
mod exhaustion;
mod faults;
mod handlers;
mod memory;
mod preparation;
mod programs;
mod quirks;
mod runs;
mod sharing;
mod streams;
mod synchronise;
