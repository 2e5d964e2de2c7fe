//! Interleavings of callers, workers, the keeper of time and those who close a queue. In each, every request has one fate and
//! nobody sleeps for ever. Built with `--cfg planted`, a call of a worker that does not sleep yet is not counted, who gives up the
//! last request does not look whether the queue is being closed, a lane comes back to a door that is shut, and who leaves a request
//! looks too early whether others see to it, which must be found.
#![cfg(loom)]
// With the bugs planted, only the tests that must find them are built.
#![cfg_attr(planted, allow(dead_code, unused_imports))]

#[allow(dead_code)]
#[path = "../../src/alarm.rs"]
mod alarm;
#[allow(dead_code, unused_imports)]
#[path = "../../src/engine/mod.rs"]
mod engine;
#[allow(dead_code)]
#[path = "../../src/figures.rs"]
mod figures;
#[allow(dead_code)]
#[path = "../../src/histogram.rs"]
mod histogram;
#[allow(dead_code)]
#[path = "../../../runtime/tests/loom_support/mod.rs"]
mod loom_support;
#[allow(dead_code)]
#[path = "../../src/outcome.rs"]
mod outcome;
#[allow(dead_code, unused_imports)]
#[path = "../../src/schedule/mod.rs"]
mod schedule;
#[allow(dead_code, unused_imports)]
#[path = "../../src/sync.rs"]
mod sync;

mod closing;
mod door;
mod inbox;
mod leaving;
mod queue;
mod serving;
mod time;
