//! How many cores a GPU has. Metal does not tell; the system's registry of devices does, for Apple's own GPUs.

use std::ffi::c_void;

use objc2::rc::Retained;
use objc2::runtime::{NSObject, NSObjectProtocol};
use objc2::{msg_send, sel};
use objc2_foundation::NSString;
use objc2_metal::MTLDevice;

use super::objects::Gpu;
use super::pool::pooled;

/// What is taken for granted where the registry says nothing, or nothing that can be true.
const USUAL: u32 = 16;
const MOST: u32 = 1024;

#[cfg_attr(target_vendor = "apple", link(name = "IOKit", kind = "framework"))]
unsafe extern "C" {
    fn IORegistryEntryIDMatching(id: u64) -> *mut c_void;
    fn IOServiceGetMatchingService(port: u32, matching: *mut c_void) -> u32;
    fn IORegistryEntryCreateCFProperty(
        entry: u32,
        key: *const NSString,
        allocator: *const c_void,
        options: u32,
    ) -> *mut NSObject;
    fn IOObjectRelease(object: u32) -> i32;
}

/// An entry of the registry.
struct Entry(u32);

impl Drop for Entry {
    fn drop(&mut self) {
        // SAFETY: a reference that was given to us, once.
        unsafe { IOObjectRelease(self.0) };
    }
}

impl Entry {
    fn of(gpu: &Gpu) -> Option<Entry> {
        // SAFETY: the first makes a dictionary or nothing, and the second takes it over.
        let entry = unsafe {
            let matching = IORegistryEntryIDMatching(gpu.registryID());
            if matching.is_null() {
                return None;
            }
            IOServiceGetMatchingService(0, matching)
        };
        (entry != 0).then_some(Entry(entry))
    }

    /// A property that is a number.
    fn number(&self, key: &str) -> Option<i64> {
        let key = NSString::from_str(key);
        // SAFETY: the key is a string, which is the same object to Core Foundation, and so is what it makes, which is ours.
        let value = unsafe {
            let value = IORegistryEntryCreateCFProperty(self.0, &*key, std::ptr::null(), 0);
            Retained::from_raw(value)?
        };
        let is_number = value.respondsToSelector(sel!(longLongValue));
        // SAFETY: it takes nothing, and returns a `long long`.
        is_number.then(|| unsafe { msg_send![&*value, longLongValue] })
    }
}

/// How many cores `gpu` has, as the system tells, or what is usual. So many groups at least are made of an op that can be
/// split.
pub(crate) fn cores(gpu: &Gpu) -> u32 {
    let told = pooled(|| Entry::of(gpu)?.number("gpu-core-count"));
    let told = told.and_then(|told| u32::try_from(told).ok());
    told.filter(|cores| (1..=MOST).contains(cores))
        .unwrap_or(USUAL)
}
