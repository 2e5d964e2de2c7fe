//! Blocks: closures of C, copied to the heap by whoever keeps one.

use std::alloc::{Layout, alloc, dealloc};
use std::ffi::{c_int, c_ulong, c_void};
use std::ptr;
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicUsize, Ordering};

use super::layout::{Class, Id};
use crate::foundation::NSOBJECT;
use crate::inside::Inside;

const ON_HEAP: i32 = 1 << 24;
const HAS_COPY_DISPOSE: i32 = 1 << 25;
const IS_GLOBAL: i32 = 1 << 28;

/// A block, as its ABI lays it out. What it captures follows.
#[repr(C)]
struct Literal {
    class: *const Class,
    flags: AtomicI32,
    /// Free for the runtime to use: counts the references of a block on the heap.
    references: AtomicU32,
    invoke: *const c_void,
    descriptor: *const Descriptor,
}

#[repr(C)]
struct Descriptor {
    reserved: c_ulong,
    size: c_ulong,
}

/// Stands after the descriptor of a block with [`HAS_COPY_DISPOSE`], and of no other.
#[repr(C)]
struct Helpers {
    copy: Option<unsafe extern "C-unwind" fn(*mut c_void, *const c_void)>,
    dispose: Option<unsafe extern "C-unwind" fn(*mut c_void)>,
}

impl Literal {
    fn helpers(&self) -> Option<&Helpers> {
        let has_some = self.flags.load(Ordering::Acquire) & HAS_COPY_DISPOSE != 0;
        // SAFETY: a block points to its descriptor, and with this flag the helpers follow.
        has_some.then(|| unsafe { &*self.descriptor.add(1).cast::<Helpers>() })
    }
}

#[unsafe(export_name = "_NSConcreteStackBlock")]
static STACK: Class = Class::fixed(c"__NSStackBlock__", Some(&NSOBJECT), |_| {});
#[unsafe(export_name = "_NSConcreteGlobalBlock")]
static GLOBAL: Class = Class::fixed(c"__NSGlobalBlock__", Some(&NSOBJECT), |_| {});
#[unsafe(export_name = "_NSConcreteMallocBlock")]
static HEAP: Class = Class::fixed(c"__NSMallocBlock__", Some(&NSOBJECT), |_| {});

static LIVE: AtomicUsize = AtomicUsize::new(0);

/// How many blocks there are on the heap.
pub(crate) fn live() -> usize {
    LIVE.load(Ordering::Relaxed)
}

/// The classes of blocks.
pub(crate) fn classes() -> impl Iterator<Item = &'static Class> {
    [&STACK, &GLOBAL, &HEAP].into_iter()
}

pub(super) fn is_block_class(class: &'static Class) -> bool {
    classes().any(|block| ptr::eq(block, class))
}

pub(super) fn copy(block: *mut c_void) -> *mut c_void {
    // SAFETY: null or a block of this ABI, as the caller of `_Block_copy` vouches.
    let Some(from) = (unsafe { block.cast::<Literal>().as_ref() }) else {
        return ptr::null_mut();
    };
    let flags = from.flags.load(Ordering::Acquire);
    if flags & IS_GLOBAL != 0 {
        return block;
    }
    if flags & ON_HEAP != 0 {
        from.references.fetch_add(1, Ordering::AcqRel);
        return block;
    }
    // SAFETY: a block on the stack points to its descriptor, which says how large it is; the copy is as large, and the
    // copy helper takes over what it captures.
    unsafe {
        let descriptor = &*from.descriptor;
        let copy = alloc(layout(descriptor)).cast::<Literal>();
        ptr::copy_nonoverlapping(
            block.cast::<u8>(),
            copy.cast::<u8>(),
            descriptor.size as usize,
        );
        (*copy).class = &HEAP;
        (*copy).flags = AtomicI32::new(flags | ON_HEAP);
        (*copy).references = AtomicU32::new(1);
        if let Some(helper) = from.helpers().and_then(|helpers| helpers.copy) {
            helper(copy.cast(), block);
        }
        LIVE.fetch_add(1, Ordering::Relaxed);
        copy.cast()
    }
}

pub(super) fn release(block: *mut c_void) {
    // SAFETY: null or a block of this ABI, as the caller of `_Block_release` vouches.
    let Some(this) = (unsafe { block.cast::<Literal>().as_ref() }) else {
        return;
    };
    let flags = this.flags.load(Ordering::Acquire);
    if flags & IS_GLOBAL != 0
        || flags & ON_HEAP == 0
        || this.references.fetch_sub(1, Ordering::AcqRel) > 1
    {
        return;
    }
    LIVE.fetch_sub(1, Ordering::Relaxed);
    // SAFETY: the last reference to a block on the heap is gone, so that nobody uses it or what it captures.
    unsafe {
        let layout = layout(&*this.descriptor);
        if let Some(helper) = this.helpers().and_then(|helpers| helpers.dispose) {
            helper(block);
        }
        dealloc(block.cast(), layout);
    }
}

fn layout(descriptor: &Descriptor) -> Layout {
    Layout::from_size_align(descriptor.size as usize, 16).expect("a block of a sane size")
}

/// A block that is kept, to be called later.
pub struct Block(*mut c_void);

// SAFETY: who gives a block to be called on another thread vouches that it may be.
unsafe impl Send for Block {}
// SAFETY: as above.
unsafe impl Sync for Block {}

impl Block {
    /// A copy of `block`, where there is one.
    pub fn keep(block: Id) -> Option<Block> {
        let copied = copy(block.as_ptr());
        (!copied.is_null()).then_some(Block(copied))
    }

    /// Calls it with an object.
    pub fn call(&self, argument: Id) {
        let function = self.function();
        // SAFETY: a block that takes one object, as the method that it was given to declares.
        let function: extern "C-unwind" fn(*mut c_void, Id) =
            unsafe { std::mem::transmute(function) };
        function(self.0, argument);
    }

    /// Calls it with an address and a length.
    pub fn call_with_range(&self, address: *mut c_void, length: usize) {
        let function = self.function();
        // SAFETY: a block that takes an address and a length, as the method that it was given to declares.
        let function: extern "C-unwind" fn(*mut c_void, *mut c_void, usize) =
            unsafe { std::mem::transmute(function) };
        function(self.0, address, length);
    }

    fn function(&self) -> *const c_void {
        // SAFETY: `keep` took a reference, so the block is there.
        unsafe { (*self.0.cast::<Literal>()).invoke }
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        release(self.0);
    }
}

#[unsafe(no_mangle)]
extern "C-unwind" fn _Block_copy(block: *mut c_void) -> *mut c_void {
    let _inside = Inside::enter();
    copy(block)
}

#[unsafe(no_mangle)]
extern "C-unwind" fn _Block_release(block: *mut c_void) {
    let _inside = Inside::enter();
    release(block);
}

const FIELD_IS_OBJECT: c_int = 3;
const FIELD_IS_BLOCK: c_int = 7;

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn _Block_object_assign(
    to: *mut *const c_void,
    object: *const c_void,
    flags: c_int,
) {
    let kept = match flags {
        FIELD_IS_OBJECT => Id::from_ptr(object).retain().as_ptr(),
        FIELD_IS_BLOCK => copy(object.cast_mut()),
        _ => object.cast_mut(),
    };
    // SAFETY: a field of the copy, as a block's copy helper calls this.
    unsafe { *to = kept };
}

#[unsafe(no_mangle)]
extern "C-unwind" fn _Block_object_dispose(object: *const c_void, flags: c_int) {
    match flags {
        FIELD_IS_OBJECT => Id::from_ptr(object).release(),
        FIELD_IS_BLOCK => release(object.cast_mut()),
        _ => {}
    }
}
