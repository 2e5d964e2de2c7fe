//! The Objective-C runtime, as `objc2` and a library that swizzles use it.
#![cfg(metal_sim)]

use std::ffi::{CStr, c_void};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use objc2::rc::{Retained, autoreleasepool};
use objc2::runtime::{AnyClass, AnyObject, Imp, NSObject, NSObjectProtocol, Sel};
use objc2::{ffi, msg_send, sel};
use objc2_foundation::{NSArray, NSString, NSURL};
use streampool_metal_sim::{Body, Class, ClassBuilder, Id, Rule, Selector, Sim, method, send};

struct Counter(AtomicUsize);

impl Body for Counter {}

fn counter_class(name: &str) -> &'static Class {
    let class = ClassBuilder::new(name, "NSObject");
    method!(class, "add:", |this: Counter, more: usize| -> usize {
        this.0.fetch_add(more, Ordering::SeqCst) + more
    });
    class.register()
}

fn class(name: &CStr) -> &'static AnyClass {
    AnyClass::get(name).expect("a class of this name")
}

fn object(id: Id) -> &'static AnyObject {
    // SAFETY: the tests keep what they make until they release it.
    unsafe { &*id.as_ptr::<AnyObject>() }
}

#[test]
fn strings_arrays_and_urls_hold_what_they_are_given() {
    let _sim = Sim::strict();
    autoreleasepool(|_| {
        let one = NSString::from_str("grüße");
        assert_eq!(
            (one.to_string().as_str(), one.len(), one.len_utf16()),
            ("grüße", 7, 5)
        );
        assert!(one.isEqual(Some(&NSString::from_str("grüße"))));
        let array = NSArray::from_retained_slice(&[one, NSString::from_str("two")]);
        assert_eq!(array.count(), 2);
        assert_eq!(array.objectAtIndex(1).to_string(), "two");
        let url = NSURL::fileURLWithPath(&NSString::from_str("/a/b"));
        assert_eq!(url.path().expect("a path").to_string(), "/a/b");
    });
}

#[test]
fn an_object_knows_its_class() {
    let _sim = Sim::strict();
    let plain = NSObject::new();
    assert_eq!(plain.class().name(), c"NSObject");
    assert!(plain.respondsToSelector(sel!(hash)) && !plain.respondsToSelector(sel!(commit)));
    let string = NSString::from_str("a");
    assert!(
        string.isKindOfClass(class(c"NSObject")) && !string.isMemberOfClass(class(c"NSObject"))
    );
    assert_eq!(class(c"NSString").superclass(), Some(class(c"NSObject")));
}

#[test]
fn methods_are_listed_and_inherited() {
    let _sim = Sim::strict();
    counter_class("Listed");
    let class = class(c"Listed");
    let own: Vec<Sel> = class
        .instance_methods()
        .iter()
        .map(|method| method.name())
        .collect();
    assert_eq!(own, [sel!(add:)]);
    let method = class.instance_method(sel!(add:)).expect("its own method");
    // SAFETY: a method, whose signature ends with a zero and lives as long.
    let types = unsafe { CStr::from_ptr(ffi::method_getTypeEncoding(method)) };
    assert_eq!(types, c"Q@:Q");
    assert!(
        class.instance_method(sel!(hash)).is_some(),
        "of its superclass"
    );
    assert!(class.instance_method(sel!(commit)).is_none());
}

extern "C-unwind" fn hundred(_: Id, _: Selector, _: usize) -> usize {
    100
}

fn hundred_as_imp() -> Imp {
    let function: extern "C-unwind" fn(Id, Selector, usize) -> usize = hundred;
    // SAFETY: a function pointer is one, and is called by who knows the signature.
    unsafe { std::mem::transmute(function) }
}

#[test]
fn a_replaced_method_runs_from_then_on() {
    let _sim = Sim::strict();
    let counter = counter_class("Replaced").instance(Counter(AtomicUsize::new(0)));
    let method = class(c"Replaced")
        .instance_method(sel!(add:))
        .expect("its method");
    // SAFETY: the implementations have the same signature.
    let former = unsafe { method.set_implementation(hundred_as_imp()) };
    // SAFETY: the method takes a number and returns one.
    let sum: usize = unsafe { msg_send![object(counter), add: 1usize] };
    assert_eq!(sum, 100);
    // SAFETY: as above.
    unsafe { method.set_implementation(former) };
    // SAFETY: as above.
    let sum: usize = unsafe { msg_send![object(counter), add: 1usize] };
    assert_eq!(sum, 1);
    counter.release();
}

#[test]
fn an_inherited_method_is_replaced_for_the_class_alone() {
    let _sim = Sim::strict();
    counter_class("Parent");
    let child = ClassBuilder::new("Child", "Parent").register();
    let (parent, child) = (
        Class::named(c"Parent")
            .expect("a class")
            .instance(Counter(AtomicUsize::new(0))),
        child.instance(Counter(AtomicUsize::new(0))),
    );
    // SAFETY: a class, and an implementation for the signature.
    let former = unsafe {
        ffi::class_replaceMethod(
            std::ptr::from_ref(class(c"Child")).cast_mut(),
            sel!(add:),
            hundred_as_imp(),
            c"Q@:Q".as_ptr(),
        )
    };
    assert!(former.is_none(), "the class had none of its own");
    // SAFETY: the method takes a number and returns one.
    let sums: (usize, usize) = unsafe {
        (
            msg_send![object(parent), add: 1usize],
            msg_send![object(child), add: 1usize],
        )
    };
    assert_eq!(sums, (1, 100));
    // SAFETY: as above.
    let added = unsafe {
        ffi::class_addMethod(
            std::ptr::from_ref(class(c"Child")).cast_mut(),
            sel!(add:),
            hundred_as_imp(),
            c"Q@:Q".as_ptr(),
        )
    };
    assert!(!added.as_bool(), "it has one now");
    parent.release();
    child.release();
}

#[test]
fn dealloc_is_a_message_that_can_be_wrapped() {
    static ENDED: AtomicUsize = AtomicUsize::new(0);
    static ORIGINAL: AtomicUsize = AtomicUsize::new(0);
    extern "C-unwind" fn wrapped(this: Id, selector: Selector) {
        ENDED.fetch_add(1, Ordering::SeqCst);
        let original = ORIGINAL.load(Ordering::SeqCst) as *const c_void;
        // SAFETY: what `class_getMethodImplementation` gave for this selector.
        let original: extern "C-unwind" fn(Id, Selector) = unsafe { std::mem::transmute(original) };
        original(this, selector);
    }
    let _sim = Sim::strict();
    let counter = counter_class("Wrapped").instance(Counter(AtomicUsize::new(0)));
    let class = class(c"Wrapped");
    let dealloc = class
        .instance_method(sel!(dealloc))
        .expect("of the root class");
    ORIGINAL.store(dealloc.implementation() as usize, Ordering::SeqCst);
    let function: extern "C-unwind" fn(Id, Selector) = wrapped;
    // SAFETY: a class, and an implementation for the signature.
    unsafe {
        let function: Imp = std::mem::transmute(function);
        ffi::class_replaceMethod(
            std::ptr::from_ref(class).cast_mut(),
            sel!(dealloc),
            function,
            c"v@:".as_ptr(),
        );
    }
    counter.retain();
    counter.release();
    assert_eq!(ENDED.load(Ordering::SeqCst), 0);
    counter.release();
    assert_eq!(ENDED.load(Ordering::SeqCst), 1);
}

#[test]
fn methods_are_replaced_while_messages_are_sent() {
    let _sim = Sim::strict();
    let counter = counter_class("Busy").instance(Counter(AtomicUsize::new(0)));
    let method = class(c"Busy")
        .instance_method(sel!(add:))
        .expect("its method");
    let done = AtomicBool::new(false);
    let answers = std::thread::scope(|scope| {
        let senders: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    let mut hundreds = 0;
                    for _ in 0..5_000 {
                        let answer: usize = send!(counter, "add:", 0usize);
                        assert!(answer == 0 || answer == 100);
                        hundreds += usize::from(answer == 100);
                    }
                    hundreds
                })
            })
            .collect();
        let swapper = scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                // SAFETY: the implementations have the same signature.
                unsafe {
                    let former = method.set_implementation(hundred_as_imp());
                    method.set_implementation(former);
                }
            }
        });
        let answers: usize = senders
            .into_iter()
            .map(|sender| sender.join().expect("no panic"))
            .sum();
        done.store(true, Ordering::Relaxed);
        swapper.join().expect("no panic");
        answers
    });
    assert!(answers <= 20_000);
    counter.release();
}

#[test]
fn a_pool_gives_back_what_it_was_given() {
    let sim = Sim::strict();
    autoreleasepool(|_| {
        let string = Retained::into_raw(NSString::from_str("pooled"));
        // SAFETY: the reference goes to the pool.
        unsafe { ffi::objc_autorelease(string.cast()) };
        assert_eq!(sim.live_objects().get("NSString"), Some(&1));
    });
    assert!(sim.live_objects().is_empty());
}

#[test]
fn a_weakly_held_body_outlives_a_racing_release() {
    let sim = Sim::recording();
    counter_class("Raced");
    let class = Class::named(c"Raced").expect("a class");
    for _ in 0..200 {
        let counter = class.instance(Counter(AtomicUsize::new(0)));
        std::thread::scope(|scope| {
            scope.spawn(move || counter.release());
            scope.spawn(move || {
                let _: usize = send!(counter, "add:", 1usize);
            });
        });
    }
    assert!(
        sim.violations()
            .iter()
            .all(|violation| violation.rule == Rule::UseAfterFree)
    );
}
