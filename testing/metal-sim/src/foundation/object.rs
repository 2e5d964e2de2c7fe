//! `NSObject` and `NSString`, which need each other: every object has a description.

use std::ffi::{CStr, CString, c_char, c_void};
use std::sync::Arc;

use crate::method;
use crate::runtime::{Body, Class, Definition, Id, Selector, autorelease};

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
        autoreleased_string(&format!(
            "<{}: {:p}>",
            this.class_name(),
            this.as_ptr::<()>()
        ))
    });
    method!(class, "debugDescription", |this| -> Id {
        crate::send!(this, "description")
    });
}

#[unsafe(export_name = "_OBJC_CLASS_NSString")]
pub(crate) static NSSTRING: Class = Class::fixed(c"NSString", Some(&NSOBJECT), define_string);

/// `NSUTF8StringEncoding`
const UTF8: i32 = 4;

#[derive(Default)]
struct Text(CString);

impl Body for Text {}

fn define_string(class: &Definition) {
    class.begin_with::<Text>();
    method!(
        class,
        "initWithBytes:length:encoding:",
        |this, bytes: *mut c_void, length: usize, encoding: i32| -> Id {
            assert_eq!(encoding, UTF8, "strings are made from UTF-8 only");
            // SAFETY: the method takes so many bytes.
            let bytes = unsafe { std::slice::from_raw_parts(bytes.cast::<u8>(), length) };
            // A string of the imitation ends at a zero byte.
            let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(length);
            this.set_body(Text(CString::new(&bytes[..end]).unwrap_or_default()));
            this
        }
    );
    method!(class, "UTF8String", |this: Text| -> *const c_char {
        this.0.as_ptr()
    });
    method!(class, "lengthOfBytesUsingEncoding:", |this: Text,
                                                   _encoding: i32|
     -> usize {
        this.0.as_bytes().len()
    });
    method!(class, "length", |this: Text| -> usize {
        this.0.to_string_lossy().encode_utf16().count()
    });
    method!(class, "isEqual:", |this: Text, other: Id| -> u8 {
        u8::from(is_same(&this, other))
    });
    method!(class, "isEqualToString:", |this: Text, other: Id| -> u8 {
        u8::from(is_same(&this, other))
    });
    method!(class, "hash", |this: Text| -> usize {
        this.0.as_bytes().iter().fold(5381, |hash: usize, byte| {
            hash.wrapping_mul(33) ^ usize::from(*byte)
        })
    });
    method!(class, "description", |this: Text| -> Id {
        autorelease(this.id().retain())
    });
}

fn is_same(text: &Text, other: Id) -> bool {
    other
        .body_if::<Text>()
        .is_some_and(|other| other.0 == text.0)
}

/// A string, whose reference is the caller's.
pub(crate) fn string(text: &str) -> Id {
    NSSTRING.instance(Text(
        CString::new(text.replace('\0', " ")).unwrap_or_default(),
    ))
}

/// A string that the innermost pool holds.
pub(crate) fn autoreleased_string(text: &str) -> Id {
    autorelease(string(text))
}

/// What a string says; `None` where it is none.
pub(crate) fn text(string: Id) -> Option<String> {
    let body: Arc<Text> = string.body_if()?;
    Some(CStr::to_string_lossy(&body.0).into_owned())
}
