//! An imitation of a driver's classes. Its encoders break as AGX's do: when they are freed with a call in them, used after
//! their end or their freeing, or used by two threads at once, the process crashes. So it does where Metal's assertions about command
//! buffers fail, in the words of those.

use std::cell::Cell;
use std::ffi::{CString, c_char, c_void};
use std::hint::spin_loop;
use std::mem::transmute;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use streampool_metal_sim::{Body, Class, ClassBuilder, Id, Message, Selector, method, send};

unsafe extern "C" {
    fn class_getMethodImplementation(
        class: *const c_void,
        selector: *const c_char,
    ) -> *const c_void;
    fn objc_autoreleasePoolPush() -> *mut c_void;
    fn objc_autoreleasePoolPop(pool: *mut c_void);
}

fn crash(what: &str) -> ! {
    eprintln!("the imitation driver crashes: {what}");
    std::process::abort();
}

/// What an encoder holds, and other objects that hold nothing.
#[derive(Default)]
struct Encoder {
    /// Its command buffer, which it keeps alive.
    commands: Option<Id>,
    /// The thread that is in it; 0 is none.
    inside: AtomicU64,
    ended: AtomicBool,
    calls: AtomicU64,
}

impl Body for Encoder {
    fn freed(&self) {
        let inside = self.inside.load(Ordering::SeqCst);
        if inside != 0 && inside != this_thread() {
            crash("an encoder is freed with a call in it");
        }
    }
}

/// What a command buffer holds.
#[derive(Default)]
struct Commands {
    /// The thread that is in it; 0 is none.
    inside: AtomicU64,
    has_open_encoder: AtomicBool,
    committed: AtomicBool,
    /// The encoder whose real end comes with the commit.
    unfinished: Mutex<Option<Id>>,
}

impl Body for Commands {}

/// Does something inside a command buffer.
fn inside_commands(commands: Id, work: impl FnOnce(&Commands)) {
    let Some(body) = commands.body_if::<Commands>() else {
        crash("a command buffer is used that is freed");
    };
    let before = body.inside.swap(this_thread(), Ordering::SeqCst);
    if before != 0 && before != this_thread() {
        crash("two threads are in a command buffer");
    }
    work(&body);
    if body.inside.swap(before, Ordering::SeqCst) != this_thread() {
        crash("two threads are in a command buffer");
    }
}

impl Commands {
    fn assert(&self, holds: bool, assertion: &str) {
        if !holds {
            crash(&format!("failed assertion `{assertion}'"));
        }
    }

    fn assert_none_open(&self, assertion: &str) {
        self.assert(!self.has_open_encoder.load(Ordering::SeqCst), assertion);
    }

    fn assert_not_committed(&self, assertion: &str) {
        self.assert(!self.committed.load(Ordering::SeqCst), assertion);
    }
}

fn this_thread() -> u64 {
    static LAST: AtomicU64 = AtomicU64::new(0);
    thread_local! {
        static NUMBER: Cell<u64> = Cell::new(LAST.fetch_add(1, Ordering::Relaxed) + 1);
    }
    NUMBER.get()
}

/// Does something inside an encoder.
fn inside(encoder: Id, encodes: bool, work: impl FnOnce(&Encoder)) {
    let Some(body) = encoder.body_if::<Encoder>() else {
        crash("an encoder is used that is freed");
    };
    let before = body.inside.swap(this_thread(), Ordering::SeqCst);
    if before != 0 && before != this_thread() {
        crash("two threads are in an encoder");
    }
    if encodes && body.ended.load(Ordering::SeqCst) {
        crash("an encoder is used after its end");
    }
    work(&body);
    body.calls.fetch_add(1, Ordering::Relaxed);
    // Nobody else may have come meanwhile.
    if body.inside.swap(before, Ordering::SeqCst) != this_thread() {
        crash("two threads are in an encoder");
    }
}

/// What a message runs.
fn method_of(class: &'static Class, selector: Selector) -> *const c_void {
    // SAFETY: they are a class and a selector.
    unsafe { class_getMethodImplementation((&raw const *class).cast(), selector.as_ptr()) }
}

/// Takes long enough for others to come, also where they have to be given the processor.
fn linger() {
    (0..200).for_each(|_| spin_loop());
    std::thread::yield_now();
}

/// The compute encoder that was made last.
static CURRENT: AtomicUsize = AtomicUsize::new(0);

/// Classes as a driver has them: what all encoders do is in a class above, beside what only the driver calls.
fn classes() -> &'static Class {
    let encoder = ClassBuilder::new("ImitationEncoder", "NSObject");
    method!(encoder, "label", |this| -> Id {
        inside(this, false, |_| {});
        Id::NULL
    });
    method!(encoder, "setLabel:", |this, _label: Id| inside(
        this,
        false,
        |_| {}
    ));
    method!(encoder, "finishLater", |this| inside(this, false, |_| {}));
    method!(encoder, "calls", |this| -> u64 {
        this.body_if::<Encoder>()
            .map_or(u64::MAX, |body| body.calls.load(Ordering::Relaxed))
    });
    method!(encoder, "endEncoding", |this| {
        inside(this, true, |body| {
            linger();
            let _: () = send!(this, "finishLater");
            body.ended.store(true, Ordering::SeqCst);
            if let Some(commands) = body.commands {
                inside_commands(commands, |commands| {
                    linger();
                    commands.has_open_encoder.store(false, Ordering::SeqCst);
                });
            }
        });
    });
    method!(encoder, "dealloc", |this| {
        let _: () = send!(this, "finishLater");
        let body = this.body_if::<Encoder>();
        let root = Class::named(c"NSObject").expect("the root class");
        let selector = Selector::of(c"dealloc");
        // SAFETY: the class has this method, of this type.
        let dealloc: extern "C-unwind" fn(Id, Selector) =
            unsafe { transmute(method_of(root, selector)) };
        dealloc(this, selector);
        if let Some(body) = body
            && let Some(commands) = body.commands
        {
            if let Some(commands) = commands.body_if::<Commands>()
                && !body.ended.load(Ordering::SeqCst)
            {
                commands.has_open_encoder.store(false, Ordering::SeqCst);
            }
            commands.release();
        }
    });
    encoder.register();

    let compute = ClassBuilder::new("ImitationComputeEncoder", "ImitationEncoder");
    method!(
        compute,
        "setBuffer:offset:atIndex:",
        |this, _buffer: Id, _offset: usize, _index: usize| {
            inside(this, true, |_| linger());
        }
    );
    method!(
        compute,
        "setImageblockWidth:height:",
        |this, _width: usize, _height: usize| {
            inside(this, true, |_| linger());
        }
    );
    compute.register();
    let ray = ClassBuilder::new("ImitationRayEncoder", "ImitationComputeEncoder");
    method!(ray, "trace", |this| inside(this, true, |_| linger()));
    ray.register();

    let commands = ClassBuilder::new("ImitationCommandBuffer", "NSObject");
    method!(commands, "computeCommandEncoder", |this| -> Id {
        let encoder = new_encoder(this, "ImitationComputeEncoder");
        CURRENT.store(encoder.as_ptr::<()>() as usize, Ordering::SeqCst);
        encoder
    });
    method!(commands, "currentCommandEncoder", |_this| -> Id {
        Id::from_ptr(CURRENT.load(Ordering::SeqCst) as *const ())
    });
    method!(commands, "rayCommandEncoder", |this| -> Id {
        new_encoder(this, "ImitationRayEncoder")
    });
    method!(commands, "hugeCommandEncoder", |this| -> Id {
        new_encoder(this, "ImitationHugeEncoder")
    });
    // An encoder whose end is put off: the driver does something with it once more when its command buffer is committed.
    method!(
        commands,
        "computeCommandEncoderWithDispatchType:",
        |this, _kind: usize| -> Id {
            let encoder = new_encoder(this, "ImitationComputeEncoder");
            inside_commands(this, |body| {
                *body.unfinished.lock().expect("no panic") = Some(encoder.retain());
            });
            encoder
        }
    );
    method!(commands, "addCompletedHandler:", |this, _handler: Id| {
        inside_commands(this, |body| {
            body.assert_not_committed("Completed handler provided after commit call");
            linger();
        });
    });
    method!(
        commands,
        "encodeSignalEvent:value:",
        |this, _event: Id, _value: u64| {
            inside_commands(this, |body| {
                body.assert_none_open("encodeSignalEvent:value: with uncommitted encoder");
                linger();
            });
        }
    );
    method!(commands, "waitUntilCompleted", |this| {
        let body = this.body_if::<Commands>();
        if !body.is_some_and(|body| body.committed.load(Ordering::SeqCst)) {
            crash("failed assertion `waitUntilCompleted before commit'");
        }
        linger();
    });
    method!(commands, "commit", |this| {
        inside_commands(this, |body| {
            body.assert_not_committed("commit an already committed command buffer");
            body.assert_none_open("commit command buffer with uncommitted encoder");
            linger();
            let unfinished = body.unfinished.lock().expect("no panic").take();
            if let Some(encoder) = unfinished {
                if let Some(body) = encoder.body_if::<Encoder>() {
                    body.ended.store(false, Ordering::SeqCst);
                }
                encode(encoder);
                encoder.release();
            }
            body.committed.store(true, Ordering::SeqCst);
        });
    });
    commands.register();

    let queue = ClassBuilder::new("ImitationQueue", "NSObject");
    method!(queue, "commandBuffer", |_this| -> Id {
        let class = Class::named(c"ImitationCommandBuffer").expect("it is there");
        send!(class.instance(Commands::default()), "autorelease")
    });
    queue.register();

    let device = ClassBuilder::new("ImitationDevice", "NSObject");
    method!(device, "newCommandQueue", |_this| -> Id {
        let class = Class::named(c"ImitationQueue").expect("it is there");
        class.instance(Encoder::default())
    });
    device.register()
}

/// A class of encoders with so many methods `m0`, `m1` and so on.
pub fn huge_class(methods: usize) {
    extern "C-unwind" fn used(encoder: Id, _: Selector) {
        inside(encoder, false, |_| {});
    }
    let class = ClassBuilder::new("ImitationHugeEncoder", "ImitationEncoder");
    for number in 0..methods {
        class.add(
            &format!("m{number}"),
            &(used as extern "C-unwind" fn(Id, Selector)),
        );
    }
    class.register();
}

/// An encoder of a command buffer, as methods return what they make without `new` in their names.
fn new_encoder(commands: Id, class: &str) -> Id {
    inside_commands(commands, |body| {
        body.assert_not_committed("_status < MTLCommandBufferStatusCommitted");
        body.assert_none_open("A command encoder is already encoding to this command buffer");
        linger();
        body.has_open_encoder.store(true, Ordering::SeqCst);
    });
    let name = CString::new(class).expect("a name");
    let class = Class::named(&name).expect("a class of that name");
    let encoder = class.instance(Encoder {
        commands: Some(commands.retain()),
        ..Encoder::default()
    });
    send!(encoder, "autorelease")
}

/// A device of the imitation driver. Called once.
pub fn device() -> Id {
    classes().instance(Encoder::default())
}

/// A command buffer of a device, with one reference.
pub fn command_buffer(device: Id) -> Id {
    pooled(|| {
        let queue: Id = send!(device, "newCommandQueue");
        let commands: Id = send!(queue, "commandBuffer");
        queue.release();
        commands.retain()
    })
}

/// An encoder, by this message, with one reference.
pub fn encoder(commands: Id, by: &str) -> Id {
    pooled(|| Message::new(commands, by).send::<Id>(()).retain())
}

/// Does something in an autorelease pool.
pub fn pooled<R>(work: impl FnOnce() -> R) -> R {
    // SAFETY: the pool is closed below, on this thread, and none is opened and left open meanwhile.
    let pool = unsafe { objc_autoreleasePoolPush() };
    let result = work();
    // SAFETY: as above.
    unsafe { objc_autoreleasePoolPop(pool) };
    result
}

/// Sends a message that encodes.
pub fn encode(encoder: Id) {
    send!(
        encoder,
        "setBuffer:offset:atIndex:",
        Id::NULL,
        0usize,
        1usize
    )
}

/// A message whose method has been looked up and is about to run, as in the middle of `objc_msgSend`.
pub struct Dispatched {
    object: Id,
    selector: Selector,
    implementation: Encode,
}

type Encode = extern "C-unwind" fn(Id, Selector, Id, usize, usize);

impl Dispatched {
    /// A message that encodes.
    pub fn encode(object: Id) -> Dispatched {
        let selector = Selector::of(c"setBuffer:offset:atIndex:");
        let class = object.class().expect("an object has a class");
        // SAFETY: the class has this method, of this type.
        let implementation =
            unsafe { transmute::<*const c_void, Encode>(method_of(class, selector)) };
        Dispatched {
            object,
            selector,
            implementation,
        }
    }

    /// Runs the method.
    pub fn run(self) {
        (self.implementation)(self.object, self.selector, Id::NULL, 0, 1);
    }
}
