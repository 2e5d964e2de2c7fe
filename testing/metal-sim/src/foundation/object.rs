//! `NSObject`.

use crate::method;
use crate::runtime::{Class, Definition, Id, Selector, autorelease};

#[unsafe(export_name = "_OBJC_CLASS_NSObject")]
pub(crate) static NSOBJECT: Class = Class::fixed(c"NSObject", None, define);

type AnyClass = Option<&'static Class>;

fn define(class: &Definition) {
    let meta = class.of_class();
    method!(meta, "alloc", |this| -> Id {
        this.as_class().map_or(Id::NULL, Class::create)
    });
    method!(meta, "new", |this| -> Id {
        crate::send!(this.as_class().map_or(Id::NULL, Class::create), "init")
    });
    method!(meta, "class", |this| -> Id { this });

    method!(class, "init", |this| -> Id { this });
    method!(class, "dealloc", |this| this.free());
    method!(class, "class", |this| -> AnyClass { this.class() });
    method!(class, "self", |this| -> Id { this });
    method!(class, "copy", |this| -> Id { this.retain() });
    method!(class, "retain", |this| -> Id { this.retain() });
    method!(class, "release", |this| this.release());
    method!(class, "autorelease", |this| -> Id { autorelease(this) });
    method!(class, "retainCount", |this| -> usize { this.references() });
    method!(class, "hash", |this| -> usize {
        this.as_ptr::<()>() as usize
    });
    method!(class, "isEqual:", |this, other: Id| -> u8 {
        u8::from(this == other)
    });
    method!(class, "isProxy", |_this| -> u8 { 0 });
    method!(class, "isKindOfClass:", |this, class: AnyClass| -> u8 {
        let kinds = this.class().into_iter().flat_map(Class::lineage);
        u8::from(
            kinds
                .map(std::ptr::from_ref)
                .any(|kind| class.is_some_and(|class| std::ptr::eq(kind, class))),
        )
    });
    method!(class, "isMemberOfClass:", |this, class: AnyClass| -> u8 {
        u8::from(this.class().map(std::ptr::from_ref) == class.map(std::ptr::from_ref))
    });
    method!(class, "respondsToSelector:", |this,
                                           selector: Selector|
     -> u8 {
        u8::from(
            this.class()
                .is_some_and(|class| class.method(selector).is_some()),
        )
    });
    method!(class, "description", |this| -> Id {
        super::autoreleased_string(&format!(
            "<{}: {:p}>",
            this.class_name(),
            this.as_ptr::<()>()
        ))
    });
    method!(class, "debugDescription", |this| -> Id {
        crate::send!(this, "description")
    });
}
