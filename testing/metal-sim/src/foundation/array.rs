//! `NSArray`.

use super::object::NSOBJECT;
use crate::method;
use crate::report::{Rule, violation};
use crate::runtime::{Body, Class, Definition, Id, Strong, autorelease};

#[unsafe(export_name = "_OBJC_CLASS_NSArray")]
pub(super) static NSARRAY: Class = Class::fixed(c"NSArray", Some(&NSOBJECT), define);

#[derive(Default)]
struct Array(Vec<Strong>);

impl Body for Array {}

/// The objects at an address.
///
/// # Safety
///
/// There are so many.
unsafe fn copied(objects: *const Id, count: usize) -> Array {
    // SAFETY: the caller vouches.
    Array(
        (0..count)
            .map(|place| Strong::new(unsafe { *objects.add(place) }))
            .collect(),
    )
}

fn define(class: &Definition) {
    class.begin_with::<Array>();
    let meta = class.of_class();
    method!(meta, "arrayWithObjects:count:", |_this,
                                              objects: *const Id,
                                              count: usize|
     -> Id {
        // SAFETY: the method takes so many objects.
        autorelease(NSARRAY.instance(unsafe { copied(objects, count) }))
    });
    method!(class, "initWithObjects:count:", |this,
                                              objects: *const Id,
                                              count: usize|
     -> Id {
        // SAFETY: the method takes so many objects.
        this.set_body(unsafe { copied(objects, count) });
        this
    });
    method!(class, "count", |this: Array| -> usize { this.0.len() });
    method!(class, "objectAtIndex:", |this: Array, index: usize| -> Id {
        match this.0.get(index) {
            Some(object) => object.id(),
            None => {
                violation(
                    Rule::Argument,
                    format!("object {index} of an array of {}", this.0.len()),
                );
                Id::NULL
            }
        }
    });
}

/// An array, whose reference is the caller's. It takes over the references to the objects.
pub(crate) fn array(objects: impl Iterator<Item = Id>) -> Id {
    let objects = objects.map(|object| {
        let kept = Strong::new(object);
        object.release();
        kept
    });
    NSARRAY.instance(Array(objects.collect()))
}

/// The objects of an array.
pub(crate) fn objects(array: Id) -> Vec<Id> {
    array
        .body_if::<Array>()
        .map(|array| array.0.iter().map(Strong::id).collect())
        .unwrap_or_default()
}
