//! The C names of the runtime.

use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::ptr;

use super::autorelease::{self, autorelease};
use super::block;
use super::layout::{Class, Id, Method};
use super::selector::Selector;
use crate::inside::Inside;

type MaybeClass = Option<&'static Class>;
type MaybeMethod = Option<&'static Method>;

/// The string that a caller passes.
///
/// # Safety
///
/// It is null, or ends with a zero and stays as it is.
unsafe fn text<'a>(text: *const c_char) -> &'a CStr {
    if text.is_null() {
        return c"";
    }
    // SAFETY: the caller vouches.
    unsafe { CStr::from_ptr(text) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn sel_registerName(name: *const c_char) -> Selector {
    // SAFETY: the C interface asks for a string.
    Selector::of(unsafe { text(name) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn sel_getUid(name: *const c_char) -> Selector {
    // SAFETY: the C interface asks for a string.
    Selector::of(unsafe { text(name) })
}

#[unsafe(no_mangle)]
extern "C" fn sel_getName(selector: Selector) -> *const c_char {
    selector.as_ptr()
}

#[unsafe(no_mangle)]
extern "C" fn sel_isEqual(one: Selector, other: Selector) -> bool {
    one == other
}

#[unsafe(no_mangle)]
extern "C-unwind" fn objc_msg_lookup(receiver: Id, selector: Selector) -> *mut c_void {
    let _inside = Inside::enter();
    receiver.lookup(selector)
}

#[repr(C)]
struct Super {
    receiver: Id,
    class: MaybeClass,
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn objc_msg_lookup_super(
    to: *const Super,
    selector: Selector,
) -> *mut c_void {
    // SAFETY: the C interface asks for a pointer to such a pair.
    let to = unsafe { &*to };
    let method = to.class.and_then(|class| class.method(selector));
    method.map_or_else(|| to.receiver.lookup(selector), Method::get)
}

#[unsafe(no_mangle)]
extern "C" fn class_getMethodImplementation(class: MaybeClass, selector: Selector) -> *mut c_void {
    class
        .and_then(|class| class.method(selector))
        .map_or(ptr::null_mut(), Method::get)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn objc_getClass(name: *const c_char) -> MaybeClass {
    // SAFETY: the C interface asks for a string.
    Class::named(unsafe { text(name) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn objc_lookUpClass(name: *const c_char) -> MaybeClass {
    // SAFETY: the C interface asks for a string.
    Class::named(unsafe { text(name) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn objc_allocateClassPair(
    superclass: MaybeClass,
    name: *const c_char,
    _extra: usize,
) -> MaybeClass {
    // SAFETY: the C interface asks for a string.
    Class::allocate(unsafe { text(name) }, superclass)
}

#[unsafe(no_mangle)]
extern "C" fn objc_registerClassPair(class: MaybeClass) {
    if let Some(class) = class {
        class.register();
    }
}

#[unsafe(no_mangle)]
extern "C" fn class_getName(class: MaybeClass) -> *const c_char {
    class.map_or(c"nil".as_ptr(), |class| class.c_name().as_ptr())
}

#[unsafe(no_mangle)]
extern "C" fn class_getSuperclass(class: MaybeClass) -> MaybeClass {
    class.and_then(Class::superclass)
}

#[unsafe(no_mangle)]
extern "C" fn class_isMetaClass(class: MaybeClass) -> bool {
    class.is_some_and(Class::is_meta)
}

#[unsafe(no_mangle)]
extern "C" fn class_respondsToSelector(class: MaybeClass, selector: Selector) -> bool {
    class.is_some_and(|class| class.method(selector).is_some())
}

#[unsafe(no_mangle)]
extern "C-unwind" fn class_getInstanceMethod(class: MaybeClass, selector: Selector) -> MaybeMethod {
    class?.method(selector)
}

#[unsafe(no_mangle)]
extern "C-unwind" fn class_getClassMethod(class: MaybeClass, selector: Selector) -> MaybeMethod {
    class?.meta().method(selector)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn class_addMethod(
    class: &'static Class,
    selector: Selector,
    implementation: *mut c_void,
    types: *const c_char,
) -> bool {
    class.make();
    // SAFETY: the C interface asks for a string.
    let types = CString::from(unsafe { text(types) });
    class.add(selector, implementation, types)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn class_replaceMethod(
    class: &'static Class,
    selector: Selector,
    implementation: *mut c_void,
    types: *const c_char,
) -> *mut c_void {
    // SAFETY: the C interface asks for a string.
    let types = CString::from(unsafe { text(types) });
    class.replace(selector, implementation, types)
}

/// The methods of the class itself, in memory that the caller gives to `free`.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn class_copyMethodList(
    class: MaybeClass,
    length: *mut c_uint,
) -> *mut &'static Method {
    let methods = class.map(Class::own_methods).unwrap_or_default();
    if !length.is_null() {
        // SAFETY: the C interface asks for null or a place for the length.
        unsafe { *length = methods.len() as c_uint };
    }
    if methods.is_empty() {
        return ptr::null_mut();
    }
    // SAFETY: memory for one pointer more than there are methods, the last of them null.
    unsafe {
        let list: *mut &'static Method =
            libc::calloc(methods.len() + 1, size_of::<&Method>()).cast();
        assert!(!list.is_null(), "no memory for a list of methods");
        ptr::copy_nonoverlapping(methods.as_ptr(), list, methods.len());
        list
    }
}

#[unsafe(no_mangle)]
extern "C" fn method_getName(method: &Method) -> Selector {
    method.selector
}

#[unsafe(no_mangle)]
extern "C" fn method_getTypeEncoding(method: &Method) -> *const c_char {
    method.types.as_ptr()
}

#[unsafe(no_mangle)]
extern "C" fn method_getImplementation(method: MaybeMethod) -> *mut c_void {
    method.map_or(ptr::null_mut(), Method::get)
}

#[unsafe(no_mangle)]
extern "C" fn method_setImplementation(
    method: MaybeMethod,
    implementation: *mut c_void,
) -> *mut c_void {
    method.map_or(ptr::null_mut(), |method| method.set(implementation))
}

#[unsafe(no_mangle)]
extern "C" fn method_exchangeImplementations(one: &Method, other: &Method) {
    let first = one.set(other.get());
    other.set(first);
}

#[unsafe(no_mangle)]
extern "C" fn object_getClass(object: Id) -> MaybeClass {
    object.class()
}

#[unsafe(no_mangle)]
extern "C" fn object_getClassName(object: Id) -> *const c_char {
    class_getName(object.class())
}

#[unsafe(no_mangle)]
extern "C-unwind" fn objc_retain(object: Id) -> Id {
    let _inside = Inside::enter();
    object.retain()
}

#[unsafe(no_mangle)]
extern "C-unwind" fn objc_release(object: Id) {
    let _inside = Inside::enter();
    object.release();
}

#[unsafe(no_mangle)]
extern "C-unwind" fn objc_autorelease(object: Id) -> Id {
    let _inside = Inside::enter();
    autorelease(object)
}

#[unsafe(no_mangle)]
extern "C-unwind" fn objc_autoreleaseReturnValue(object: Id) -> Id {
    let _inside = Inside::enter();
    autorelease(object)
}

#[unsafe(no_mangle)]
extern "C-unwind" fn objc_retainAutorelease(object: Id) -> Id {
    let _inside = Inside::enter();
    autorelease(object.retain())
}

#[unsafe(no_mangle)]
extern "C-unwind" fn objc_retainAutoreleaseReturnValue(object: Id) -> Id {
    let _inside = Inside::enter();
    autorelease(object.retain())
}

/// Takes what a method returned autoreleased. The pool's reference stays until the pool is closed: nobody promises
/// that it goes earlier.
#[unsafe(no_mangle)]
extern "C-unwind" fn objc_retainAutoreleasedReturnValue(object: Id) -> Id {
    let _inside = Inside::enter();
    object.retain()
}

#[unsafe(no_mangle)]
extern "C-unwind" fn objc_retainBlock(block: Id) -> Id {
    let _inside = Inside::enter();
    Id::from_ptr(block::copy(block.as_ptr()))
}

#[unsafe(no_mangle)]
extern "C-unwind" fn objc_alloc(class: MaybeClass) -> Id {
    class.map_or(Id::NULL, Class::create)
}

#[unsafe(no_mangle)]
extern "C-unwind" fn class_createInstance(class: MaybeClass, _extra: usize) -> Id {
    class.map_or(Id::NULL, Class::create)
}

#[unsafe(no_mangle)]
extern "C-unwind" fn objc_autoreleasePoolPush() -> usize {
    let _inside = Inside::enter();
    autorelease::push()
}

#[unsafe(no_mangle)]
extern "C-unwind" fn objc_autoreleasePoolPop(pool: usize) {
    let _inside = Inside::enter();
    autorelease::pop(pool);
}

/// Says how many classes there are, and lists as many as there is room for.
#[unsafe(no_mangle)]
unsafe extern "C" fn objc_getClassList(list: *mut &'static Class, room: c_int) -> c_int {
    let classes = Class::all();
    if !list.is_null() {
        for (place, class) in classes
            .iter()
            .take(usize::try_from(room).unwrap_or(0))
            .enumerate()
        {
            // SAFETY: the C interface asks for room for so many.
            unsafe { *list.add(place) = class };
        }
    }
    classes.len() as c_int
}
