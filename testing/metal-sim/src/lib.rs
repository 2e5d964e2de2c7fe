//! A small Objective-C runtime and an imitation of Metal for Linux, for tests only.
//!
//! A program that calls Metal through `objc2-metal` links with this crate instead of Apple's frameworks and runs
//! unchanged: the C names that it asks for are defined here. The imitation enforces the rules that Metal states
//! ([`Rule`]), at least as strictly as Apple's validation layer: a broken one aborts the process and says which.
//! Kernels are compiled from their Metal text and executed on the CPU by `streampool-emulated`. Each queue has a thread
//! of its own and runs its work in any order that Metal allows; handlers are called by other threads in any order.
//!
//! A test that wants more than that takes a [`Sim`]: the imitation for itself, errors and delays on request, and a
//! check at its end that no object is left.
//!
//! ```
//! use streampool_metal_sim::Sim;
//!
//! let sim = Sim::recording();
//! sim.capacity(1 << 20);
//! // … calls of Metal …
//! assert_eq!(sim.violations(), []);
//! assert!(sim.live_objects().is_empty());
//! ```
//!
//! `ci/metal-sim.sh` builds and runs the tests that use it. Nothing of it is there on Apple's systems, which have the
//! real thing.
#![cfg(not(target_vendor = "apple"))]

mod chance;
mod classes;
mod foundation;
mod inside;
mod lock;
mod metal;
mod registry;
mod report;
mod runtime;
mod settings;
mod signposts;
mod sim;

pub use classes::live_objects;
pub use inside::{Inside, measure_time_inside, time_inside};
pub use report::{Rule, Violation};
pub use runtime::{
    Arguments, Body, Class, ClassBuilder, Encode, Id, Implementation, Message, Method, Selector,
    Strong, This, define_protocol,
};
pub use settings::{Refusal, fail_next, fail_next_somewhere};
pub use signposts::{Mark, Signpost, signposts};
pub use sim::Sim;
