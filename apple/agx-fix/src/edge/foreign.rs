//! The functions of Apple's systems that are called, as their headers declare them. The Objective-C runtime is libobjc on Apple's
//! systems, and the imitation of it in tests elsewhere.

use std::ffi::{c_char, c_int, c_uint, c_void};

pub type Object = *mut c_void;
pub type ClassPointer = *mut c_void;
pub type MethodPointer = *mut c_void;
pub type ProtocolPointer = *mut c_void;
pub type Selector = *const c_void;

/// `struct objc_method_description`.
#[repr(C)]
pub struct MethodDescription {
    pub name: Selector,
    pub types: *const c_char,
}

/// `Dl_info`.
#[repr(C)]
pub struct ImageOfAddress {
    pub file: *const c_char,
    pub base: *const c_void,
    pub symbol: *const c_char,
    pub symbol_address: *const c_void,
}

#[cfg_attr(target_vendor = "apple", link(name = "objc", kind = "dylib"))]
unsafe extern "C" {
    pub fn sel_registerName(name: *const c_char) -> Selector;
    pub fn sel_getName(selector: Selector) -> *const c_char;
    pub fn object_getClass(object: Object) -> ClassPointer;
    pub fn objc_getClass(name: *const c_char) -> ClassPointer;
    pub fn class_getName(class: ClassPointer) -> *const c_char;
    pub fn class_getSuperclass(class: ClassPointer) -> ClassPointer;
    pub fn class_copyMethodList(class: ClassPointer, count: *mut c_uint) -> *mut MethodPointer;
    pub fn class_getInstanceMethod(class: ClassPointer, selector: Selector) -> MethodPointer;
    pub fn class_getMethodImplementation(class: ClassPointer, selector: Selector) -> *const c_void;
    pub fn class_replaceMethod(
        class: ClassPointer,
        selector: Selector,
        implementation: *const c_void,
        types: *const c_char,
    ) -> *const c_void;
    pub fn method_getName(method: MethodPointer) -> Selector;
    pub fn method_getTypeEncoding(method: MethodPointer) -> *const c_char;
    pub fn objc_getProtocol(name: *const c_char) -> ProtocolPointer;
    pub fn protocol_getMethodDescription(
        protocol: ProtocolPointer,
        selector: Selector,
        required: bool,
        of_instances: bool,
    ) -> MethodDescription;
    pub fn objc_autoreleasePoolPush() -> *mut c_void;
    pub fn objc_autoreleasePoolPop(pool: *mut c_void);
    pub fn objc_retain(object: Object) -> Object;
    pub fn objc_release(object: Object);
}

#[cfg_attr(target_vendor = "apple", link(name = "Metal", kind = "framework"))]
unsafe extern "C" {
    pub fn MTLCreateSystemDefaultDevice() -> Object;
    pub fn MTLCopyAllDevices() -> Object;
}

// Without it, Metal names no default device to a program that shows no window.
#[cfg(target_vendor = "apple")]
#[link(name = "CoreGraphics", kind = "framework")]
unsafe extern "C" {}

unsafe extern "C" {
    pub fn _Block_copy(block: Object) -> Object;
    pub fn _Block_release(block: Object);
    pub fn atexit(function: extern "C" fn()) -> c_int;
    pub fn dladdr(address: *const c_void, image: *mut ImageOfAddress) -> c_int;
    pub fn free(memory: *mut c_void);
}
