//! `NSError`.

use super::object::{NSOBJECT, autoreleased_string, string};
use crate::method;
use crate::runtime::{Body, Class, Definition, Id, autorelease};

#[unsafe(export_name = "_OBJC_CLASS_NSError")]
pub(super) static NSERROR: Class = Class::fixed(c"NSError", Some(&NSOBJECT), define);

struct Failure {
    domain: String,
    code: isize,
    description: String,
}

impl Body for Failure {}

fn define(class: &Definition) {
    method!(class, "code", |this: Failure| -> isize { this.code });
    method!(class, "domain", |this: Failure| -> Id {
        autoreleased_string(&this.domain)
    });
    method!(class, "localizedDescription", |this: Failure| -> Id {
        autoreleased_string(&this.description)
    });
    method!(class, "description", |this: Failure| -> Id {
        autorelease(string(&format!(
            "{} {}: {}",
            this.domain, this.code, this.description
        )))
    });
}

/// An error, whose reference is the caller's.
pub(crate) fn error(domain: &str, code: isize, description: &str) -> Id {
    NSERROR.instance(Failure {
        domain: domain.to_owned(),
        code,
        description: description.to_owned(),
    })
}

/// Leaves an error where the caller of a method asked for it, and returns what such a method then returns.
pub(crate) fn set_error(place: *mut Id, domain: &str, code: isize, description: &str) -> Id {
    if !place.is_null() {
        let error = autorelease(error(domain, code, description));
        // SAFETY: the method takes null or a place for the error.
        unsafe { *place = error };
    }
    Id::NULL
}
