//! Classes and their tables of methods.

use std::ffi::{CStr, CString, c_void};
use std::fmt;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use std::sync::{Arc, Once, OnceLock, RwLock};

use super::layout::{
    Body, Class, Definition, Head, IMMORTAL, Id, MakeBody, Method, Methods, Object,
};
use super::selector::Selector;
use crate::lock::{read, write};

impl Class {
    /// A class that stands in a static, so that the linker finds it; `define` adds its methods when it is first used.
    pub(crate) const fn fixed(
        name: &'static CStr,
        superclass: Option<&'static Class>,
        define: fn(&Definition),
    ) -> Class {
        Class::new(name, superclass, false, Some(define))
    }

    pub(crate) const fn new(
        name: &'static CStr,
        superclass: Option<&'static Class>,
        is_meta: bool,
        define: Option<fn(&Definition)>,
    ) -> Class {
        Class {
            head: Head::new(std::ptr::null_mut(), IMMORTAL),
            superclass,
            name,
            is_meta,
            define,
            made: Once::new(),
            methods: RwLock::new(Methods::new()),
            body: OnceLock::new(),
            live: AtomicUsize::new(0),
        }
    }

    /// Gives a class its metaclass and its methods, when it is first used.
    pub(crate) fn make(&'static self) {
        self.made.call_once(|| {
            let above = match self.superclass {
                Some(superclass) => superclass.meta(),
                // A class answers to what instances of the root class answer to.
                None => self,
            };
            let meta = Box::leak(Box::new(Class::new(self.name, Some(above), true, None)));
            if let Some(define) = self.define {
                define(&Definition::new(self, meta));
            }
            // Who finds it asks it without waiting for this.
            self.head.set_class(meta);
        });
    }

    /// The class of this class.
    pub(super) fn meta(&'static self) -> &'static Class {
        if self.is_meta {
            return self;
        }
        self.make();
        self.head.class().unwrap_or(self)
    }

    pub(super) fn make_bodies(&self, make: MakeBody) {
        self.body.get_or_init(|| make);
    }

    /// A new object without state but that of its class, with one reference.
    pub(crate) fn create(&'static self) -> Id {
        let body = self
            .lineage()
            .find_map(|class| class.body.get())
            .map(|make| make());
        self.create_with(body)
    }

    pub(super) fn create_with(&'static self, body: Option<Arc<dyn Body>>) -> Id {
        self.make();
        self.live.fetch_add(1, Ordering::Relaxed);
        Object::create(self, body)
    }

    /// A new object with that state and one reference, which is the caller's.
    pub fn instance(&'static self, body: impl Body) -> Id {
        self.instance_with(Arc::new(body))
    }

    /// As [`Class::instance`], with state that others have, too.
    pub fn instance_with(&'static self, body: Arc<impl Body>) -> Id {
        self.create_with(Some(body))
    }

    pub(super) fn count_freed(&self) {
        self.live.fetch_sub(1, Ordering::Relaxed);
    }

    /// This class and those above it.
    pub(crate) fn lineage(&'static self) -> impl Iterator<Item = &'static Class> {
        std::iter::successors(Some(self), |class| class.superclass)
    }

    pub(super) fn superclass(&self) -> Option<&'static Class> {
        self.superclass
    }

    pub(super) fn c_name(&self) -> &'static CStr {
        self.name
    }

    pub(super) fn is_meta(&self) -> bool {
        self.is_meta
    }

    /// The method that answers to `selector`, here or above.
    pub(crate) fn method(&'static self, selector: Selector) -> Option<&'static Method> {
        self.lineage().find_map(|class| class.own_method(selector))
    }

    fn own_method(&'static self, selector: Selector) -> Option<&'static Method> {
        self.make_unless_meta();
        read(&self.methods).get(&selector).copied()
    }

    /// Its own methods, without those of its superclasses.
    pub(super) fn own_methods(&'static self) -> Vec<&'static Method> {
        self.make_unless_meta();
        read(&self.methods).values().copied().collect()
    }

    fn make_unless_meta(&'static self) {
        if !self.is_meta {
            self.make();
        }
    }

    /// Adds a method, unless the class itself has one of that name.
    pub(super) fn add(
        &self,
        selector: Selector,
        implementation: *mut c_void,
        types: CString,
    ) -> bool {
        let mut methods = write(&self.methods);
        if methods.contains_key(&selector) {
            return false;
        }
        let implementation = AtomicPtr::new(implementation);
        let method = Method {
            selector,
            types,
            implementation,
        };
        methods.insert(selector, Box::leak(Box::new(method)));
        true
    }

    /// Adds a method, or gives the class's own one another implementation and returns the former.
    pub(super) fn replace(
        &'static self,
        selector: Selector,
        implementation: *mut c_void,
        types: CString,
    ) -> *mut c_void {
        self.make_unless_meta();
        if self.add(selector, implementation, types) {
            return std::ptr::null_mut();
        }
        self.own_method(selector)
            .map_or(std::ptr::null_mut(), |method| method.set(implementation))
    }
}

impl Method {
    pub(super) fn get(&self) -> *mut c_void {
        self.implementation.load(Ordering::Acquire)
    }

    /// Sets the implementation and returns the former.
    pub(super) fn set(&self, implementation: *mut c_void) -> *mut c_void {
        self.implementation.swap(implementation, Ordering::AcqRel)
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name.to_string_lossy())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::time::Duration;

    use super::*;

    static SLOW: Class = Class::fixed(c"Slow", None, |class| {
        std::thread::sleep(Duration::from_millis(20));
        crate::method!(class.of_class(), "answer", |_this| -> u32 { 42 });
    });

    #[test]
    fn who_first_asks_a_class_while_another_makes_it_gets_an_answer() {
        let first = Barrier::new(8);
        std::thread::scope(|scope| {
            for asker in 0..8 {
                let first = &first;
                scope.spawn(move || {
                    first.wait();
                    std::thread::sleep(Duration::from_millis(asker));
                    let answer: u32 = crate::send!(Id::from_ptr(&SLOW), "answer");
                    assert_eq!(answer, 42);
                });
            }
        });
    }
}
