//! The thin side towards Objective-C: finds the driver's classes, wraps their methods, and is what programs call.

#![expect(
    unsafe_code,
    reason = "replaces methods of classes that it learns of as the process runs"
)]

mod devices;
mod discovery;
mod foreign;
mod handlers;
mod load;
mod runtime;
mod watch;
mod wrapping;

use std::ffi::c_void;

use crate::{Check, Error, Settings, Statistics};

pub fn install(settings: Settings) -> Result<Statistics, Error> {
    if settings.disabled {
        return Ok(statistics());
    }
    // SAFETY: it may be called anywhere, and returns a reference or nil.
    let device = runtime::Owned(unsafe { foreign::MTLCreateSystemDefaultDevice() });
    if !device.0.is_null() {
        // SAFETY: it is a device of Metal's.
        return unsafe { install_on(device.0, settings) };
    }
    // SAFETY: as above.
    let all = runtime::Owned(unsafe { foreign::MTLCopyAllDevices() });
    // SAFETY: the list is kept until the end of this function.
    let first = unsafe { devices::listed(all.0) }.next();
    // SAFETY: it is a device of Metal's, or nil.
    unsafe { install_on(first.unwrap_or(std::ptr::null_mut()), settings) }
}

/// As [`install`](crate::install), for another device, given as the address of its object.
///
/// # Safety
/// The device is nil or one of Metal's, and alive.
pub unsafe fn install_on(device: *mut c_void, settings: Settings) -> Result<Statistics, Error> {
    if !settings.disabled {
        // Without a device, too: the program may get one later.
        let guard = watch::guard_with(settings);
        // SAFETY: the caller vouches for the device.
        let classes = unsafe { discovery::classes(device) }?;
        for (class, role) in classes {
            watch::learn(guard, class, role);
        }
    }
    Ok(statistics())
}

pub fn statistics() -> Statistics {
    watch::guard()
        .map(|guard| guard.figures.read())
        .unwrap_or_default()
}

pub fn check() -> Check {
    let (methods, displaced) = wrapping::check();
    Check {
        methods,
        displaced: displaced.into_iter().map(str::to_owned).collect(),
    }
}
