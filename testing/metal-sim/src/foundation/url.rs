//! `NSURL`, of files.

use std::path::PathBuf;

use super::object::{NSOBJECT, autoreleased_string, text};
use crate::method;
use crate::runtime::{Body, Class, Definition, Id, autorelease};

#[unsafe(export_name = "_OBJC_CLASS_NSURL")]
pub(super) static NSURL: Class = Class::fixed(c"NSURL", Some(&NSOBJECT), define);

struct File(String);

impl Body for File {}

fn define(class: &Definition) {
    let meta = class.of_class();
    method!(meta, "fileURLWithPath:", |_this, path: Id| -> Id {
        autorelease(NSURL.instance(File(text(path).unwrap_or_default())))
    });
    method!(class, "initFileURLWithPath:", |this, path: Id| -> Id {
        this.set_body(File(text(path).unwrap_or_default()));
        this
    });
    method!(class, "path", |this: File| -> Id {
        autoreleased_string(&this.0)
    });
}

/// The file that a URL names.
pub(crate) fn path(url: Id) -> Option<PathBuf> {
    Some(PathBuf::from(&url.body_if::<File>()?.0))
}
