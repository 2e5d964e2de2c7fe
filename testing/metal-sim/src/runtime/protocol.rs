//! Protocols: names of methods that a class may promise. A test defines those it needs.

use std::collections::BTreeMap;
use std::ffi::{CStr, CString, c_char};
use std::ptr;
use std::sync::{PoisonError, RwLock};

use super::selector::Selector;

struct Protocol {
    required: Vec<Selector>,
    optional: Vec<Selector>,
}

static PROTOCOLS: RwLock<BTreeMap<CString, &'static Protocol>> = RwLock::new(BTreeMap::new());

/// Defines a protocol of instance methods. One of that name is replaced.
pub fn define_protocol(name: &CStr, required: &[&CStr], optional: &[&CStr]) {
    let selectors = |names: &[&CStr]| names.iter().map(|name| Selector::of(name)).collect();
    let protocol = Protocol {
        required: selectors(required),
        optional: selectors(optional),
    };
    let mut protocols = PROTOCOLS.write().unwrap_or_else(PoisonError::into_inner);
    protocols.insert(name.to_owned(), Box::leak(Box::new(protocol)));
}

#[unsafe(no_mangle)]
unsafe extern "C" fn objc_getProtocol(name: *const c_char) -> Option<&'static Protocol> {
    // SAFETY: the C interface asks for a string.
    let name = unsafe { CStr::from_ptr(name) };
    PROTOCOLS
        .read()
        .unwrap_or_else(PoisonError::into_inner)
        .get(name)
        .copied()
}

#[repr(C)]
struct MethodDescription {
    name: *const c_char,
    types: *const c_char,
}

/// What a protocol says of a method; of its types nothing.
#[unsafe(no_mangle)]
extern "C" fn protocol_getMethodDescription(
    protocol: Option<&Protocol>,
    selector: Selector,
    required: bool,
    of_instances: bool,
) -> MethodDescription {
    let methods = protocol.map(|protocol| {
        if required {
            &protocol.required
        } else {
            &protocol.optional
        }
    });
    let has = of_instances && methods.is_some_and(|methods| methods.contains(&selector));
    MethodDescription {
        name: if has { selector.as_ptr() } else { ptr::null() },
        types: ptr::null(),
    }
}
