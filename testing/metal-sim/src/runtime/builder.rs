//! How classes are defined: those of this crate and those of a test.

use std::ffi::CString;
use std::sync::Arc;

use super::encode::Implementation;
use super::layout::{Body, Class, Definition};
use super::selector::Selector;

/// A class in the making, for a test.
pub struct ClassBuilder(&'static Class);

impl ClassBuilder {
    /// A class of that name.
    ///
    /// # Panics
    ///
    /// Where the name is taken, or there is no class of the superclass's name.
    pub fn new(name: &str, superclass: &str) -> ClassBuilder {
        let above = Class::named(&c_string(superclass));
        assert!(above.is_some(), "there is no class {superclass}");
        match Class::allocate(&c_string(name), above) {
            Some(class) => ClassBuilder(class),
            None => panic!("there is a class {name} already"),
        }
    }

    /// Adds a method; [`method!`](crate::method) is the way to write one.
    pub fn add(&self, selector: &str, implementation: &impl Implementation) {
        add(self.0, selector, implementation);
    }

    /// Makes it known by its name.
    pub fn register(self) -> &'static Class {
        self.0.register();
        self.0
    }
}

impl Definition {
    pub(super) fn new(class: &'static Class, meta: &'static Class) -> Definition {
        Definition { class, meta }
    }

    pub(crate) fn add(&self, selector: &str, implementation: &impl Implementation) {
        add(self.class, selector, implementation);
    }

    /// Methods of the class itself.
    pub(crate) fn of_class(&self) -> Definition {
        Definition::new(self.meta, self.meta)
    }

    /// What a new object holds before it is initialised.
    pub(crate) fn begin_with<T: Body + Default>(&self) {
        self.class.make_bodies(|| Arc::new(T::default()));
    }
}

fn add(class: &Class, selector: &str, implementation: &impl Implementation) {
    let name = Selector::of(&c_string(selector));
    let added = class.add(name, implementation.address(), implementation.types());
    assert!(added, "{class} has a method {selector} already");
}

fn c_string(text: &str) -> CString {
    CString::new(text).expect("a name without a zero byte")
}

/// Adds a method to a [`ClassBuilder`]: `method!(class, "name:", |this: Body, argument: Type| -> Result { … })`.
///
/// `this` is the object with its [`Body`](crate::Body), a [`This`](crate::This); without one (`|this|`) it is an
/// [`Id`](crate::Id).
#[macro_export]
macro_rules! method {
    ($class:expr, $name:expr, |$this:ident: $body:ty $(, $argument:ident: $type:ty)*| -> $result:ty $code:block) => {
        $crate::method!(@add $class, $name, receiver, ($($argument: $type),*), $result, {
            let Some($this) = receiver.this::<$body>() else {
                return <$result as $crate::Encode>::NOTHING;
            };
            $code
        })
    };
    ($class:expr, $name:expr, |$this:ident $(, $argument:ident: $type:ty)*| -> $result:ty $code:block) => {
        $crate::method!(@add $class, $name, $this, ($($argument: $type),*), $result, $code)
    };
    ($class:expr, $name:expr, |$this:ident: $body:ty $(, $argument:ident: $type:ty)*| $code:expr) => {
        $crate::method!($class, $name, |$this: $body $(, $argument: $type)*| -> () { $code })
    };
    ($class:expr, $name:expr, |$this:ident $(, $argument:ident: $type:ty)*| $code:expr) => {
        $crate::method!($class, $name, |$this $(, $argument: $type)*| -> () { $code })
    };
    (@add $class:expr, $name:expr, $receiver:ident, ($($argument:ident: $type:ty),*), $result:ty, $code:block) => {{
        extern "C-unwind" fn implementation(
            $receiver: $crate::Id,
            _: $crate::Selector
            $(, $argument: $type)*
        ) -> $result {
            let _inside = $crate::Inside::enter();
            $code
        }
        let pointer: extern "C-unwind" fn($crate::Id, $crate::Selector $(, $type)*) -> $result = implementation;
        $class.add($name, &pointer);
    }};
}

/// Sends a message as C would, for code that does not use `objc2`: `send!(object, "name:", argument)`. What it
/// returns is taken as of the type that is asked for.
#[macro_export]
macro_rules! send {
    ($receiver:expr, $selector:literal $(, $argument:expr)*) => {
        $crate::Message::new($receiver, $selector).send(($($argument,)*))
    };
}
