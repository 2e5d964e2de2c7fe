//! Apple GPUs as Streampool devices, through Metal on macOS 14 or later.
//!
//! It compiles everywhere. Elsewhere than on Apple's systems [`MetalDevice::new`] says that there is no Metal.
//!
//! ```
//! # #[cfg(metal_sim)]
//! # use streampool_metal_sim as _;
//! use streampool_device::Device;
//! use streampool_metal::{MetalDevice, MetalOptions};
//!
//! match MetalDevice::new(MetalOptions::default()) {
//!     Ok(device) => println!("{}", device.properties().hardware),
//!     Err(why) => println!("{why}"),
//! }
//! ```

// The unit tests link with the imitation.
#[cfg(all(test, metal_sim))]
use streampool_metal_sim as _;

#[cfg(not(any(target_vendor = "apple", metal_sim)))]
mod absent;
mod options;
mod quirks;

#[cfg(any(target_vendor = "apple", metal_sim))]
mod present;
#[cfg(any(target_vendor = "apple", metal_sim))]
mod ranks;

#[cfg(not(any(target_vendor = "apple", metal_sim)))]
pub use absent::MetalDevice;
pub use options::MetalOptions;
#[cfg(any(target_vendor = "apple", metal_sim))]
pub use present::MetalDevice;
pub use quirks::{APPLE_QUIRKS, APPLE_REPORTS, Answer, AppleQuirk, AppleReport};
