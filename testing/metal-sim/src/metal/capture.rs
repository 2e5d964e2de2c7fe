//! `MTLCaptureManager` and `MTLCaptureScope`: a scope is begun, then ended.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use super::device::Device;
use crate::foundation::NSOBJECT;
use crate::method;
use crate::report::{Rule, violation};
use crate::runtime::{Body, Class, Definition, Id};
use crate::signposts;

#[unsafe(export_name = "_OBJC_CLASS_MTLCaptureManager")]
pub(super) static MANAGER: Class = Class::fixed(c"MTLCaptureManager", Some(&NSOBJECT), define);
pub(super) static SCOPE: Class =
    Class::fixed(c"_Imitation_CaptureScope", Some(&NSOBJECT), define_scope);

#[derive(Default)]
struct Scope {
    open: AtomicBool,
}

impl Body for Scope {}

fn define(class: &Definition) {
    let meta = class.of_class();
    // One for the process, which is never freed and answers as the class does.
    method!(meta, "sharedCaptureManager", |this| -> Id {
        static MANAGED: OnceLock<Id> = OnceLock::new();
        *MANAGED.get_or_init(|| this)
    });
    method!(meta, "newCaptureScopeWithDevice:", |_this,
                                                 device: Id|
     -> Id {
        new_scope(device)
    });
    method!(meta, "isCapturing", |_this| -> u8 { 0 });
}

fn new_scope(device: Id) -> Id {
    if device.body_if::<Device>().is_none() {
        violation(
            Rule::Argument,
            "a capture scope for what is no device".to_owned(),
        );
    }
    SCOPE.instance(Scope::default())
}

fn define_scope(class: &Definition) {
    method!(class, "beginScope", |this: Scope| this.turn(true));
    method!(class, "endScope", |this: Scope| this.turn(false));
    method!(class, "setLabel:", |_this: Scope, _label: Id| {});
}

impl Scope {
    fn turn(&self, open: bool) {
        signposts::capture(open);
        if self.open.swap(open, Ordering::AcqRel) == open {
            violation(
                Rule::Argument,
                "a capture scope is begun or ended twice".to_owned(),
            );
        }
    }
}
