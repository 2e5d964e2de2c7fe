//! `MTLComputePipelineDescriptor`.

use std::sync::{Arc, Mutex};

use super::library::Function;
use crate::foundation::{NSOBJECT, objects};
use crate::lock::lock;
use crate::method;
use crate::runtime::{Body, Class, Definition, Id, Strong};

#[unsafe(export_name = "_OBJC_CLASS_MTLComputePipelineDescriptor")]
pub(super) static DESCRIPTOR: Class =
    Class::fixed(c"MTLComputePipelineDescriptor", Some(&NSOBJECT), define);

#[derive(Default)]
pub(super) struct Descriptor {
    function: Mutex<Option<Strong>>,
    pub archives: Mutex<Vec<Strong>>,
}

impl Body for Descriptor {}

impl Descriptor {
    pub fn function(&self) -> Option<Arc<Function>> {
        lock(&self.function).as_ref()?.id().body_if()
    }
}

fn define(class: &Definition) {
    class.begin_with::<Descriptor>();
    method!(
        class,
        "setComputeFunction:",
        |this: Descriptor, function: Id| {
            *lock(&this.function) = (!function.is_null()).then(|| Strong::new(function));
        }
    );
    method!(
        class,
        "setBinaryArchives:",
        |this: Descriptor, archives: Id| {
            *lock(&this.archives) = objects(archives).into_iter().map(Strong::new).collect();
        }
    );
    method!(class, "setLabel:", |_this: Descriptor, _label: Id| {});
    method!(
        class,
        "setThreadGroupSizeIsMultipleOfThreadExecutionWidth:",
        |_this: Descriptor, _is: u8| {}
    );
}
