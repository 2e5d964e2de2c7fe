//! Keeps programs that cannot be rebuilt from racing in Apple's AGX driver.
//!
//! The driver crashes when an encoder is destroyed while another thread is in a call on it, when an encoder is used
//! after its end, and when threads share a command buffer. Inserted into a program (`DYLD_INSERT_LIBRARIES=libagx_fix.dylib`), or asked
//! for by [`install`], this library wraps the methods of the driver's encoders and command buffers, whatever their classes are called:
//! one thread at a time is in such an object, it is destroyed when the last has left it, an encoder that is ended and given up is kept
//! for a while, and a call that comes too late is not made, but counted and told.
//!
//! ```
//! # #[cfg(metal_sim)]
//! # extern crate streampool_metal_sim;
//! let (settings, errors) = agx_fix::Settings::from_environment();
//! assert!(errors.is_empty());
//! match agx_fix::install(settings) {
//!     Ok(_) => assert_eq!(agx_fix::check().displaced, [""; 0]),
//!     Err(error) => println!("{error}"), // where there is no Metal
//! }
//! println!("{}", agx_fix::statistics());
//! ```

#![deny(unsafe_code)]
// The model checker runs the logic alone, from `tests/loom_*.rs`.
#![cfg(not(loom))]

// The tests in `src` do without Objective-C, those in `tests` do not.
#[cfg(all(any(target_vendor = "apple", metal_sim), not(test)))]
mod edge;
#[cfg(not(all(any(target_vendor = "apple", metal_sim), not(test))))]
#[path = "elsewhere.rs"]
mod edge;
// Where `edge` is not built, only their tests use these.
#[cfg(any(target_vendor = "apple", metal_sim, all(test, unix)))]
#[cfg_attr(test, allow(dead_code))]
mod inserted;
#[cfg_attr(
    any(test, not(any(target_vendor = "apple", metal_sim))),
    allow(dead_code)
)]
mod logic;
mod results;
#[cfg(any(target_vendor = "apple", metal_sim, all(test, unix)))]
mod trampoline;

#[cfg(all(any(target_vendor = "apple", metal_sim), not(test)))]
pub use edge::install_on;
pub use logic::figures::Statistics;
pub use logic::settings::{SettingError, Settings};
pub use results::{Check, Error};

/// Finds out the classes of the default device's objects and wraps them; not if the settings say that it is disabled.
/// Returns what was wrapped so far. When it was called before, the settings of that time hold.
pub fn install(settings: Settings) -> Result<Statistics, Error> {
    edge::install(settings)
}

/// What was counted so far.
pub fn statistics() -> Statistics {
    edge::statistics()
}

/// Looks whether the wrapped methods still run what they were made to.
pub fn check() -> Check {
    edge::check()
}
