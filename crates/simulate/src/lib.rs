//! How many replicas a load needs, and how long its requests take: replicas in virtual time, each with the queue that ships.
//!
//! ```
//! use streampool_simulate::{Arrivals, Balance, Cost, Plan, simulate};
//!
//! let plan = Plan {
//!     replicas: 4,
//!     cost: Cost::fixed(&[(1, 0.004), (8, 0.010), (32, 0.030)])?,
//!     arrivals: Arrivals::Poisson { rate: 1000.0 },
//!     balance: Balance::LeastOutstanding,
//!     seconds: 20.0,
//!     ..Plan::default()
//! };
//! let outcome = simulate(&plan)?;
//! assert_eq!(outcome.rejected, 0);
//! assert!(outcome.p99.is_some_and(|late| late < 0.1));
//! # Ok::<(), String>(())
//! ```
//!
//! Only the schedule of a replica is the real one: batches take as long as a measurement says, and threads, locks and the network
//! take no time but the one that the plan gives to each request.

#![forbid(unsafe_code)]

mod arrivals;
mod balance;
pub mod command;
mod cost;
mod page;
mod random;
mod replica;
mod times;
mod world;

pub use arrivals::{ArrivalTimes, Arrivals};
pub use balance::Balance;
pub use cost::Cost;
pub use world::{Autoscale, Failures, Outcome, Plan, Slice, Tenant, fewest, simulate};
