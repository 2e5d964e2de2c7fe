//! How the program gets its devices: what is called in place of Metal's two functions where the library is inserted. So a device is
//! met that was not there when the library was loaded, and one of another driver than the default device's.

use std::ptr::null_mut;

use super::foreign::{self, Object};
use super::runtime::send;
use super::watch::{guard, learn_of};
use crate::logic::kind::Role;

/// A function that returns a reference to an object.
type Maker = unsafe extern "C" fn() -> Object;

/// A row of the table that Apple's loader reads in a library that is inserted: who calls `theirs`, except from this library, calls `ours`.
#[repr(C)]
struct Replacement {
    ours: Maker,
    theirs: Maker,
}

#[used]
#[cfg_attr(
    target_vendor = "apple",
    unsafe(link_section = "__DATA,__interpose,interposing")
)]
// Against the imitation, a test does what the loader would.
#[cfg_attr(metal_sim, unsafe(export_name = "agx_fix_replacements"))]
static REPLACEMENTS: [Replacement; 2] = [
    Replacement {
        ours: default_device,
        theirs: foreign::MTLCreateSystemDefaultDevice,
    },
    Replacement {
        ours: all_devices,
        theirs: foreign::MTLCopyAllDevices,
    },
];

unsafe extern "C" fn default_device() -> Object {
    // SAFETY: it may be called anywhere.
    let device = unsafe { foreign::MTLCreateSystemDefaultDevice() };
    // SAFETY: the device was just returned, or is nil.
    unsafe { meet(device) };
    device
}

unsafe extern "C" fn all_devices() -> Object {
    // SAFETY: it may be called anywhere.
    let all = unsafe { foreign::MTLCopyAllDevices() };
    // SAFETY: the list was just returned, or is nil, and keeps its devices alive.
    unsafe { listed(all).for_each(|device| meet(device)) };
    all
}

/// Wraps what makes queues on this device. The classes of those, and of what they make, are learned when they are made.
///
/// # Safety
/// The device is nil or alive.
unsafe fn meet(device: Object) {
    if let Some(guard) = guard() {
        // SAFETY: the caller vouches for the device.
        unsafe { learn_of(guard, device, Role::Device) };
    }
}

/// The objects of an array.
///
/// # Safety
/// The array is nil, or alive for as long as the iterator.
pub unsafe fn listed(array: Object) -> impl Iterator<Item = Object> {
    // SAFETY: the caller vouches for the array. A count comes back where an object would, and nil has none.
    let count = unsafe { send(array, c"count", null_mut()) } as usize;
    // SAFETY: as above. An index goes where an object would.
    (0..count).map(move |index| unsafe { send(array, c"objectAtIndex:", index as Object) })
}
