//! The registry of devices: one entry, of the GPU, which may say how many cores it has.

use std::ffi::c_void;

use crate::foundation::{NSOBJECT, text};
use crate::inside::Inside;
use crate::metal::REGISTRY_ID;
use crate::method;
use crate::report::{Rule, violation};
use crate::runtime::{Body, Class, Definition, Id};
use crate::settings::settings;

pub(crate) static NUMBER: Class = Class::fixed(c"_Imitation_Number", Some(&NSOBJECT), define);

/// What the GPU's entry is called while somebody has it.
const ENTRY: u32 = 0x1707;

struct Number(i64);

impl Body for Number {}

fn define(class: &Definition) {
    method!(class, "longLongValue", |this: Number| -> i64 { this.0 });
}

/// What to look for: an entry's number, taken over by the search.
#[unsafe(no_mangle)]
extern "C" fn IORegistryEntryIDMatching(id: u64) -> *mut c_void {
    Box::into_raw(Box::new(id)).cast()
}

#[unsafe(no_mangle)]
unsafe extern "C" fn IOServiceGetMatchingService(_port: u32, matching: *mut c_void) -> u32 {
    let _inside = Inside::enter();
    // SAFETY: it was made above, and is given over once.
    let id = unsafe { Box::from_raw(matching.cast::<u64>()) };
    if *id == REGISTRY_ID { ENTRY } else { 0 }
}

#[unsafe(no_mangle)]
extern "C" fn IORegistryEntryCreateCFProperty(
    entry: u32,
    key: Id,
    _allocator: *const c_void,
    _options: u32,
) -> Id {
    let _inside = Inside::enter();
    check(entry);
    match (text(key).as_deref(), settings().gpu_cores) {
        (Some("gpu-core-count"), Some(cores)) => NUMBER.instance(Number(cores)),
        _ => Id::NULL,
    }
}

#[unsafe(no_mangle)]
extern "C" fn IOObjectRelease(object: u32) -> i32 {
    check(object);
    0
}

fn check(entry: u32) {
    if entry != ENTRY {
        violation(
            Rule::Argument,
            format!("{entry:#x} is no entry of the registry"),
        );
    }
}
