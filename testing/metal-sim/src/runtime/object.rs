//! Objects: a class, a count of references, and a body.

use std::any::Any;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::block;
use super::layout::{Body, Class, Head, IMMORTAL, Id, Object, This};
use super::selector::Selector;
use crate::report::{Rule, violation};

/// Its last reference is gone.
const FREED: usize = usize::MAX - 1;
/// Its last reference is gone, and `dealloc` runs.
const DYING: usize = usize::MAX - 2;

/// So many freed objects are kept to see who still uses them.
const CORPSES: usize = 200_000;

static FREED_OBJECTS: Mutex<VecDeque<Box<Object>>> = Mutex::new(VecDeque::new());

impl Object {
    pub(super) fn create(class: &'static Class, body: Option<Arc<dyn Body>>) -> Id {
        let head = Head::new(std::ptr::from_ref(class).cast_mut(), 1);
        Id(Box::into_raw(Box::new(Object {
            head,
            body: Mutex::new(body),
        })))
    }
}

impl Head {
    pub(super) const fn new(class: *mut Class, count: usize) -> Head {
        Head {
            class: AtomicPtr::new(class),
            count: AtomicUsize::new(count),
        }
    }

    pub(super) fn class(&self) -> Option<&'static Class> {
        // SAFETY: what is stored here came from a reference to a class, and classes live for ever.
        unsafe { self.class.load(Ordering::Acquire).as_ref() }
    }

    pub(super) fn set_class(&self, class: &'static Class) {
        self.class
            .store(std::ptr::from_ref(class).cast_mut(), Ordering::Release);
    }
}

impl Id {
    /// No object.
    pub const NULL: Id = Id(std::ptr::null_mut());

    /// An object by its address, such as a pointer that `objc2` gives.
    pub fn from_ptr<T: ?Sized>(address: *const T) -> Id {
        Id(address.cast::<Object>().cast_mut())
    }

    /// Its address, to give to `objc2`.
    pub fn as_ptr<T>(self) -> *mut T {
        self.0.cast()
    }

    /// Whether it is no object.
    pub fn is_null(self) -> bool {
        self.0.is_null()
    }

    fn head(self) -> Option<&'static Head> {
        // SAFETY: an `Id` is null or came from this runtime, where every object begins with a head. A freed one stays
        // readable for a while.
        unsafe { self.0.cast::<Head>().as_ref() }
    }

    /// Its class.
    pub fn class(self) -> Option<&'static Class> {
        let head = self.head()?;
        if let Some(class) = head.class() {
            return Some(class);
        }
        // SAFETY: only a class that stands in a static, and was not yet used, has no class of its own.
        let unmade: &'static Class = unsafe { &*self.0.cast::<Class>() };
        Some(unmade.meta())
    }

    /// The class that it is, where it is a class.
    pub(crate) fn as_class(self) -> Option<&'static Class> {
        if self.is_block() || self.references() != IMMORTAL {
            return None;
        }
        // SAFETY: only classes are never counted.
        Some(unsafe { &*self.0.cast::<Class>() })
    }

    fn is_block(self) -> bool {
        self.head()
            .and_then(Head::class)
            .is_some_and(block::is_block_class)
    }

    /// Reports a violation where the object is freed. Says whether it may be used.
    pub(super) fn check_alive(self, use_of: impl FnOnce() -> String) -> bool {
        let Some(head) = self.head() else {
            return false;
        };
        if self.is_block() || head.count.load(Ordering::Acquire) != FREED {
            return true;
        }
        violation(
            Rule::UseAfterFree,
            format!(
                "{} to an object of class {} that is freed",
                use_of(),
                self.class_name()
            ),
        );
        false
    }

    pub(crate) fn class_name(self) -> String {
        self.class()
            .map_or_else(|| "nil".to_owned(), ToString::to_string)
    }

    /// Takes a reference.
    pub fn retain(self) -> Id {
        if self.is_block() {
            block::copy(self.as_ptr());
        } else if !self.count(|count| if count < DYING { count + 1 } else { count }) {
            violation(
                Rule::UseAfterFree,
                format!(
                    "retain of an object of class {} that is freed",
                    self.class_name()
                ),
            );
        }
        self
    }

    /// Takes a reference unless the last one is gone.
    pub(crate) fn try_retain(self) -> bool {
        let mut taken = false;
        self.count(|count| {
            taken = count < DYING;
            if taken { count + 1 } else { count }
        });
        taken
    }

    /// Gives a reference back. The last one ends the object.
    pub fn release(self) {
        if self.is_block() {
            return block::release(self.as_ptr());
        }
        let mut last = false;
        let alive = self.count(|count| {
            last = count == 1;
            match count {
                1 => DYING,
                count if count < DYING => count - 1,
                other => other,
            }
        });
        if !alive {
            violation(
                Rule::OverRelease,
                format!(
                    "release of an object of class {} that is freed",
                    self.class_name()
                ),
            );
        } else if last {
            let _: () = crate::send!(self, "dealloc");
        }
    }

    /// Changes the count of references; says whether the object is not freed.
    fn count(self, mut change: impl FnMut(usize) -> usize) -> bool {
        let Some(head) = self.head() else { return true };
        let mut now = head.count.load(Ordering::Acquire);
        loop {
            let next = change(now);
            match head
                .count
                .compare_exchange_weak(now, next, Ordering::AcqRel, Ordering::Acquire)
            {
                Ok(former) => return former != FREED,
                Err(other) => now = other,
            }
        }
    }

    /// How many references there are.
    pub(crate) fn references(self) -> usize {
        self.head()
            .map_or(0, |head| head.count.load(Ordering::Acquire))
    }

    fn object(self) -> Option<&'static Object> {
        if self.is_null() || self.references() == IMMORTAL || self.is_block() {
            return None;
        }
        // SAFETY: neither null, a class, nor a block: an object that `create` made, readable as said at `Id`.
        Some(unsafe { &*self.0 })
    }

    /// What `dealloc` of the root class does: the end of the object.
    pub(crate) fn free(self) {
        let Some(object) = self.object() else { return };
        let mut before = FREED;
        self.count(|count| {
            before = count;
            FREED
        });
        if before != DYING {
            violation(
                Rule::OverRelease,
                format!(
                    "dealloc of an object of class {} that has references",
                    self.class_name()
                ),
            );
        }
        if before == FREED {
            return;
        }
        let body = object
            .body
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(body) = body {
            body.freed();
        }
        if let Some(class) = self.class() {
            class.count_freed();
        }
        let mut corpses = FREED_OBJECTS.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: `create` made it by `Box::into_raw`, and only the first to set `FREED` comes here.
        corpses.push_back(unsafe { Box::from_raw(self.0) });
        let oldest = if corpses.len() > CORPSES {
            corpses.pop_front()
        } else {
            None
        };
        drop(corpses);
        drop(oldest);
    }

    /// Gives the object its body, in its `init`.
    pub fn set_body(self, body: impl Body) {
        if let Some(object) = self.object() {
            *object.body.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(body));
        }
    }

    /// Its body, where it is alive and has one of that type.
    pub fn body_if<T: Body>(self) -> Option<Arc<T>> {
        let object = self.object()?;
        let body = object
            .body
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()?;
        let body: Arc<dyn Any + Send + Sync> = body;
        body.downcast().ok()
    }

    /// Its body, to run a method on. There is none, which is a violation, where the object was freed after the method
    /// was looked up, or is of another class than the method is for.
    pub fn this<T: Body>(self) -> Option<This<T>> {
        let body = self.body_if();
        if body.is_none() && self.check_alive(|| "a call".to_owned()) {
            let (class, asked) = (self.class_name(), std::any::type_name::<T>());
            violation(
                Rule::Argument,
                format!("a method of {asked} for an object of class {class}"),
            );
        }
        body.map(|body| This::new(self, body))
    }

    /// The implementation that a message with `selector` reaches.
    pub(crate) fn lookup(self, selector: Selector) -> *mut std::ffi::c_void {
        if !self.check_alive(|| format!("message {selector}")) {
            return ignored as *mut std::ffi::c_void;
        }
        let Some(class) = self.class() else {
            return ignored as *mut std::ffi::c_void;
        };
        match class.method(selector) {
            Some(method) => method.get(),
            None => {
                let kind = if class.is_meta() { '+' } else { '-' };
                violation(
                    Rule::UnknownSelector,
                    format!("{kind}[{class} {selector}] is not imitated"),
                );
                ignored as *mut std::ffi::c_void
            }
        }
    }
}

/// Answers a message that cannot be answered: with nothing.
extern "C-unwind" fn ignored() -> usize {
    0
}
