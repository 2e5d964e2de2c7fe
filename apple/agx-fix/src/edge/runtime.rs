//! Classes and messages, over the functions of the Objective-C runtime.

use std::ffi::{CStr, c_char, c_void};
use std::mem::transmute;

use super::foreign::{self, ClassPointer, MethodPointer, Object, ProtocolPointer};

pub use super::foreign::Selector;

/// A class. Classes of drivers live as long as the process.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Class(usize);

/// A method that the instances of a class have.
#[derive(Clone, Copy)]
pub struct Method {
    /// Its selector.
    pub selector: Selector,
    /// Its type encoding, for the runtime.
    types: *const c_char,
}

impl Method {
    fn new(method: MethodPointer) -> Self {
        // SAFETY: the method is one of a class's, which live as long as the process.
        let (selector, types) = unsafe {
            (
                foreign::method_getName(method),
                foreign::method_getTypeEncoding(method),
            )
        };
        Method { selector, types }
    }

    /// The name of its selector.
    pub fn name(&self) -> &'static str {
        // SAFETY: the selector is registered, and the runtime keeps names for ever.
        text(unsafe { foreign::sel_getName(self.selector) })
    }

    /// Its type encoding.
    pub fn types(&self) -> &'static str {
        text(self.types)
    }
}

/// The runtime's text. Names that are not UTF-8 are none of Metal's.
fn text(from: *const c_char) -> &'static str {
    if from.is_null() {
        return "";
    }
    // SAFETY: the runtime's texts end with a zero and live as long as their class.
    unsafe { CStr::from_ptr(from) }.to_str().unwrap_or_default()
}

/// A name as a selector.
pub fn selector(name: &CStr) -> Selector {
    // SAFETY: the name ends with a zero.
    unsafe { foreign::sel_registerName(name.as_ptr()) }
}

impl Class {
    fn new(class: ClassPointer) -> Option<Self> {
        (!class.is_null()).then_some(Class(class as usize))
    }

    fn pointer(self) -> ClassPointer {
        self.0 as ClassPointer
    }

    /// The class of an object.
    ///
    /// # Safety
    /// The object is alive.
    pub unsafe fn of(object: Object) -> Option<Self> {
        // SAFETY: the caller vouches for the object.
        Class::new(unsafe { foreign::object_getClass(object) })
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        // SAFETY: it is a class.
        text(unsafe { foreign::class_getName(self.pointer()) })
    }

    /// The class above; none above a root such as `NSObject`.
    pub fn above(self) -> Option<Class> {
        // SAFETY: it is a class.
        Class::new(unsafe { foreign::class_getSuperclass(self.pointer()) })
    }

    /// The methods that it defines itself.
    pub fn own_methods(self) -> Vec<Method> {
        let mut count = 0;
        // SAFETY: it is a class, and the count has room.
        let list = unsafe { foreign::class_copyMethodList(self.pointer(), &mut count) };
        if list.is_null() {
            return Vec::new();
        }
        // SAFETY: so many methods are in the list.
        let methods = unsafe { std::slice::from_raw_parts(list, count as usize) };
        let methods = methods.iter().map(|&method| Method::new(method)).collect();
        // SAFETY: the list is the caller's to free, and no longer used.
        unsafe { foreign::free(list.cast()) };
        methods
    }

    /// Its method for a selector, its own or inherited.
    pub fn method(self, selector: Selector) -> Option<Method> {
        // SAFETY: they are a class and a selector.
        let method = unsafe { foreign::class_getInstanceMethod(self.pointer(), selector) };
        (!method.is_null()).then(|| Method::new(method))
    }

    /// What a message with this selector runs.
    pub fn implementation(self, selector: Selector) -> usize {
        // SAFETY: they are a class and a selector.
        unsafe { foreign::class_getMethodImplementation(self.pointer(), selector) as usize }
    }

    /// Makes a message run something else. What the class inherits, other classes keep.
    ///
    /// # Safety
    /// The implementation behaves as a method of these types.
    pub unsafe fn replace(self, method: Method, implementation: usize) {
        // SAFETY: the caller vouches for the implementation, the rest comes from the runtime.
        unsafe {
            foreign::class_replaceMethod(
                self.pointer(),
                method.selector,
                implementation as *const c_void,
                method.types,
            );
        }
    }
}

/// A protocol that the process knows.
#[derive(Clone, Copy)]
pub struct Protocol(usize);

impl Protocol {
    /// By its name.
    pub fn named(name: &CStr) -> Option<Self> {
        // SAFETY: the name ends with a zero.
        let protocol = unsafe { foreign::objc_getProtocol(name.as_ptr()) };
        (!protocol.is_null()).then_some(Protocol(protocol as usize))
    }

    /// Whether it has a method, required or optional.
    pub fn has(self, selector: Selector) -> bool {
        [true, false].into_iter().any(|required| {
            // SAFETY: they are a protocol and a selector.
            let description = unsafe {
                foreign::protocol_getMethodDescription(
                    self.0 as ProtocolPointer,
                    selector,
                    required,
                    true,
                )
            };
            !description.name.is_null()
        })
    }
}

/// Sends a message that takes at most one object or address and returns one or nothing. Nil, if the object does not understand it.
///
/// # Safety
/// The object is nil or alive, and has no other type for the method.
pub unsafe fn send(object: Object, name: &CStr, argument: Object) -> Object {
    let selector = selector(name);
    if object.is_null() {
        return object;
    }
    // SAFETY: the caller vouches for the object.
    let Some(class) = (unsafe { Class::of(object) }) else {
        return std::ptr::null_mut();
    };
    if class.method(selector).is_none() {
        return std::ptr::null_mut();
    }
    type Implementation = extern "C" fn(Object, Selector, Object) -> Object;
    // SAFETY: the caller vouches for the method's type; one that takes no argument does not look at it.
    let method: Implementation = unsafe { transmute(class.implementation(selector)) };
    method(object, selector, argument)
}

/// A reference that is given back when it is dropped, unless it is to nil.
pub struct Owned(pub Object);

impl Drop for Owned {
    fn drop(&mut self) {
        // SAFETY: whoever made this had the reference; nil is let pass.
        unsafe { foreign::objc_release(self.0) };
    }
}

/// A pool for what is returned to be released later. It is emptied when it is dropped.
pub struct Pool(*mut c_void);

impl Pool {
    pub fn new() -> Self {
        // SAFETY: it may be called anywhere.
        Pool(unsafe { foreign::objc_autoreleasePoolPush() })
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        // SAFETY: the pool is this thread's latest, since it is dropped in the function that made it.
        unsafe { foreign::objc_autoreleasePoolPop(self.0) };
    }
}
