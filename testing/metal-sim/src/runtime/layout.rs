//! What classes and objects are made of. What they do is in `class.rs` and `object.rs`.

use std::any::Any;
use std::collections::BTreeMap;
use std::ffi::{CStr, CString, c_void};
use std::sync::atomic::{AtomicPtr, AtomicUsize};
use std::sync::{Arc, Mutex, Once, OnceLock, RwLock};

use super::selector::Selector;

/// Never counted: classes.
pub(super) const IMMORTAL: usize = usize::MAX;

/// How every object begins, classes too.
#[repr(C)]
pub(super) struct Head {
    pub(super) class: AtomicPtr<Class>,
    pub(super) count: AtomicUsize,
}

/// What an object of a class of this crate, or of a test, holds.
pub trait Body: Any + Send + Sync {
    /// Called when the object's last reference goes. The body itself may live on in work under way.
    fn freed(&self) {}
}

#[repr(C)]
pub(super) struct Object {
    pub(super) head: Head,
    pub(super) body: Mutex<Option<Arc<dyn Body>>>,
}

/// A reference to an object, which may be null, and counts for nothing.
#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Id(pub(super) *mut Object);

// SAFETY: what an `Id` reaches is atomic or behind a lock; freed objects stay readable for a while, and who uses one
// for longer than that has had its violation long before.
unsafe impl Send for Id {}
// SAFETY: as above.
unsafe impl Sync for Id {}

/// A method of a class. Its address is what `class_getInstanceMethod` gives out.
pub struct Method {
    pub(super) selector: Selector,
    pub(super) types: CString,
    pub(super) implementation: AtomicPtr<c_void>,
}

pub(super) type Methods = BTreeMap<Selector, &'static Method>;
pub(super) type MakeBody = fn() -> Arc<dyn Body>;

/// A class. It begins as every object does, for classes are sent messages too.
#[repr(C)]
pub struct Class {
    pub(super) head: Head,
    pub(super) superclass: Option<&'static Class>,
    pub(crate) name: &'static CStr,
    pub(super) is_meta: bool,
    pub(super) define: Option<fn(&Definition)>,
    pub(super) made: Once,
    pub(super) methods: RwLock<Methods>,
    pub(super) body: OnceLock<MakeBody>,
    pub(crate) live: AtomicUsize,
}

/// A class of this crate that gets its methods.
pub(crate) struct Definition {
    pub(super) class: &'static Class,
    pub(super) meta: &'static Class,
}

/// An object and its body, as a method sees them.
pub struct This<T> {
    pub(super) id: Id,
    pub(super) body: Arc<T>,
}
