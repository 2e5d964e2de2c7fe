//! Methods of many signatures are called directly and through a stub, and must not tell the difference.

mod jumps;

use std::ffi::{CStr, c_char, c_int};
use std::mem::transmute;
use std::sync::atomic::AtomicU64;

use super::*;
use crate::logic::guard::Pass;

const SELECTOR: usize = 0x5e1;

/// Watches, and counts what it is told.
struct Recorder {
    way: fn() -> Way,
    before: AtomicU64,
    after: AtomicU64,
    abandoned: AtomicU64,
    too_deep: AtomicU64,
    object: AtomicUsize,
    argument: AtomicUsize,
    result: AtomicUsize,
}

impl Recorder {
    fn new() -> &'static Recorder {
        Self::choosing(|| Way::Watched(None))
    }

    fn choosing(way: fn() -> Way) -> &'static Recorder {
        let recorder = Recorder {
            way,
            before: AtomicU64::new(0),
            after: AtomicU64::new(0),
            abandoned: AtomicU64::new(0),
            too_deep: AtomicU64::new(0),
            object: AtomicUsize::new(0),
            argument: AtomicUsize::new(0),
            result: AtomicUsize::new(0),
        };
        Box::leak(Box::new(recorder))
    }

    /// A stub before a method, which this recorder watches.
    fn stub(&'static self, original: *const ()) -> *const () {
        let target = Target {
            original: original as usize,
            selector: SELECTOR,
            wrapper: self,
        };
        let stub = FreeStub::take().expect("there are stubs");
        let stub = stub.stand_before(Box::leak(Box::new(target)));
        stub as *const ()
    }

    /// How often it was told of each.
    fn told(&self) -> [u64; 4] {
        [&self.before, &self.after, &self.abandoned, &self.too_deep]
            .map(|count| count.load(Ordering::Relaxed))
    }
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// Leaves nothing as it was in the registers that hold arguments and results.
fn use_registers() {
    let floats: Vec<f64> = (0..16)
        .map(|number| std::hint::black_box(f64::from(number)) * 1.5)
        .collect();
    let text = format!("{:?} {:?}", floats, std::thread::current().id());
    assert!(std::hint::black_box(text).contains("22.5"));
}

impl Wrapper for Recorder {
    fn before(&'static self, object: usize, argument: usize) -> Way {
        self.argument.store(argument, Ordering::Relaxed);
        count(&self.before);
        self.object.store(object, Ordering::Relaxed);
        use_registers();
        (self.way)()
    }

    fn after(&self, _: usize, pass: Option<Pass>, result: usize) {
        assert!(pass.is_none());
        count(&self.after);
        self.result.store(result, Ordering::Relaxed);
        use_registers();
    }

    fn abandoned(&self, _: Option<Pass>) {
        count(&self.abandoned);
    }

    fn too_deep(&self) {
        count(&self.too_deep);
    }
}

type Many = extern "C" fn(
    usize,
    usize,
    u64,
    f64,
    u8,
    f32,
    i64,
    f64,
    u16,
    f64,
    i8,
    f64,
    u64,
    f64,
    f64,
    f32,
    f64,
    f64,
    f32,
    u32,
    f64,
    i16,
) -> f64;

#[rustfmt::skip]
extern "C" fn many(
    object: usize, selector: usize, a: u64, b: f64, c: u8, d: f32, e: i64, f: f64, g: u16, h: f64, i: i8, j: f64, k: u64,
    l: f64, m: f64, n: f32, o: f64, p: f64, q: f32, r: u32, s: f64, t: i16,
) -> f64 {
    let integers = [object as f64, selector as f64, a as f64, f64::from(c), e as f64, f64::from(g), f64::from(i), k as f64];
    let floats = [b, f64::from(d), f, h, j, l, m, f64::from(n), o, p, f64::from(q), f64::from(r), s, f64::from(t)];
    integers.iter().chain(&floats).enumerate().map(|(place, value)| (place + 1) as f64 * value).sum()
}

#[test]
fn arguments_in_registers_and_on_the_stack_arrive() {
    let recorder = Recorder::new();
    // SAFETY: the stub stands before a function of this type.
    let stub: Many = unsafe { transmute(recorder.stub(many as *const ())) };
    let call = |f: Many| {
        f(
            7,
            SELECTOR,
            u64::MAX,
            1.5,
            200,
            -2.5,
            -9,
            1e100,
            60000,
            3.25,
            -100,
            4.0,
            11,
            5.0,
            6.0,
            0.125,
            7.0,
            8.0,
            9.0,
            10,
            11.0,
            -12,
        )
    };
    assert_eq!(call(stub), call(many));
    assert_eq!(recorder.told(), [1, 1, 0, 0]);
    assert_eq!(recorder.object.load(Ordering::Relaxed), 7);
    assert_eq!(recorder.argument.load(Ordering::Relaxed), usize::MAX);
}

#[test]
fn what_goes_straight_is_not_watched() {
    let recorder = Recorder::choosing(|| Way::Straight);
    // SAFETY: the stub stands before a function of this type.
    let stub: extern "C" fn(usize, usize, u128) -> u128 =
        unsafe { transmute(recorder.stub(wide as *const ())) };
    assert_eq!(stub(3, SELECTOR, 5), wide(3, SELECTOR, 5));
    assert_eq!(recorder.told(), [1, 0, 0, 0]);
}

#[derive(Debug, Clone, Copy, PartialEq)]
#[repr(C)]
struct Large {
    size: [u64; 5],
    scale: f64,
}

#[derive(Debug, Clone, Copy, PartialEq)]
#[repr(C)]
struct Small {
    count: u64,
    scale: f64,
}

#[derive(Debug, Clone, Copy, PartialEq)]
#[repr(C)]
struct Colour {
    parts: [f32; 4],
}

extern "C" fn large(object: usize, selector: usize, by: Large, add: u64, small: Small) -> Large {
    let size = by.size.map(|size| size * small.count + add);
    Large {
        size: [size[0], size[1], size[2], object as u64, selector as u64],
        scale: by.scale * small.scale,
    }
}

extern "C" fn small(object: usize, _selector: usize, colour: Colour) -> Small {
    Small {
        count: object as u64,
        scale: f64::from(colour.parts[3]),
    }
}

extern "C" fn colour(_object: usize, _selector: usize, large: Large, by: Colour) -> Colour {
    Colour {
        parts: by.parts.map(|part| part * large.scale as f32),
    }
}

extern "C" fn wide(object: usize, selector: usize, factor: u128) -> u128 {
    factor * object as u128 + selector as u128
}

const LARGE: Large = Large {
    size: [1, 2, 3, 4, 5],
    scale: 0.5,
};
const SMALL: Small = Small {
    count: 10,
    scale: 3.0,
};
const COLOUR: Colour = Colour {
    parts: [0.25, 0.5, 0.75, 1.0],
};

#[test]
fn structs_are_passed_and_returned() {
    let recorder = Recorder::new();
    // SAFETY: each stub stands before a function of the type it is taken for.
    let (to_large, to_small, to_colour, to_wide) = unsafe {
        (
            transmute::<*const (), extern "C" fn(usize, usize, Large, u64, Small) -> Large>(
                recorder.stub(large as *const ()),
            ),
            transmute::<*const (), extern "C" fn(usize, usize, Colour) -> Small>(
                recorder.stub(small as *const ()),
            ),
            transmute::<*const (), extern "C" fn(usize, usize, Large, Colour) -> Colour>(
                recorder.stub(colour as *const ()),
            ),
            transmute::<*const (), extern "C" fn(usize, usize, u128) -> u128>(
                recorder.stub(wide as *const ()),
            ),
        )
    };
    assert_eq!(
        to_large(21, SELECTOR, LARGE, 100, SMALL),
        large(21, SELECTOR, LARGE, 100, SMALL)
    );
    assert_eq!(
        recorder.object.load(Ordering::Relaxed),
        21,
        "also behind where the struct goes"
    );
    assert_eq!(to_small(22, SELECTOR, COLOUR), small(22, SELECTOR, COLOUR));
    assert_eq!(recorder.result.load(Ordering::Relaxed), 22);
    assert_eq!(
        to_colour(23, SELECTOR, LARGE, COLOUR),
        colour(23, SELECTOR, LARGE, COLOUR)
    );
    let factor = u128::from(u64::MAX) * 77;
    assert_eq!(to_wide(24, SELECTOR, factor), wide(24, SELECTOR, factor));
    assert_eq!(recorder.told(), [4, 4, 0, 0]);
}

unsafe extern "C" {
    fn snprintf(to: *mut c_char, size: usize, format: *const c_char, ...) -> c_int;
}

#[test]
fn a_variadic_call_goes_through() {
    let recorder = Recorder::new();
    type Print = unsafe extern "C" fn(*mut c_char, usize, *const c_char, ...) -> c_int;
    // SAFETY: the stub stands before a function of this type.
    let stub: Print = unsafe { transmute(recorder.stub(snprintf as *const ())) };
    let mut text = [0 as c_char; 100];
    let to = text.as_mut_ptr();
    // SAFETY: there is room for so many bytes, and the arguments are what the format says.
    let length = unsafe {
        stub(
            to,
            100,
            c"%d %.1f %s %d %d %d %.2f".as_ptr(),
            1,
            2.5,
            c"three".as_ptr(),
            4,
            5,
            6,
            7.75,
        )
    };
    // SAFETY: it ends with a zero.
    let text = unsafe { CStr::from_ptr(text.as_ptr()) };
    assert_eq!(text.to_str(), Ok("1 2.5 three 4 5 6 7.75"));
    assert_eq!(length, 22);
}

#[test]
fn who_is_refused_gets_zero() {
    let recorder = Recorder::choosing(|| Way::Refused);
    extern "C" fn never(_: usize, _: usize, _: u64) -> u64 {
        panic!("it is refused");
    }
    // SAFETY: each stub stands before a function of the type it is taken for.
    let (to_never, to_many, to_colour, to_large) = unsafe {
        (
            transmute::<*const (), extern "C" fn(usize, usize, u64) -> u64>(
                recorder.stub(never as *const ()),
            ),
            transmute::<*const (), Many>(recorder.stub(many as *const ())),
            transmute::<*const (), extern "C" fn(usize, usize, Large, Colour) -> Colour>(
                recorder.stub(colour as *const ()),
            ),
            transmute::<*const (), extern "C" fn(usize, usize, Large, u64, Small) -> Large>(
                recorder.stub(large as *const ()),
            ),
        )
    };
    assert_eq!(to_never(1, SELECTOR, 5), 0);
    let nothing = to_many(
        7, SELECTOR, 1, 1.0, 1, 1.0, 1, 1.0, 1, 1.0, 1, 1.0, 1, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1,
        1.0, 1,
    );
    assert_eq!(nothing, 0.0);
    assert_eq!(
        to_colour(1, SELECTOR, LARGE, COLOUR),
        Colour { parts: [0.0; 4] }
    );
    // What a struct in memory is then is not said; that its caller goes on is.
    to_large(1, SELECTOR, LARGE, 1, SMALL);
    assert_eq!(recorder.told(), [4, 0, 0, 0]);
}

/// Calls itself through the stub that it is given.
extern "C" fn recursive(
    object: usize,
    selector: usize,
    stub: extern "C" fn(usize, usize, *const (), u64) -> u64,
    depth: u64,
) -> u64 {
    if depth == 0 {
        return object as u64;
    }
    stub(object, selector, stub as *const (), depth - 1) + depth
}

#[test]
fn calls_nest_and_the_deepest_go_unseen() {
    for depth in [1, 10, 63, 64, 200] {
        let recorder = Recorder::new();
        // SAFETY: the stub stands before a function of this type, in which a pointer to it is a parameter.
        let stub: extern "C" fn(usize, usize, *const (), u64) -> u64 =
            unsafe { transmute(recorder.stub(recursive as *const ())) };
        assert_eq!(
            stub(1000, SELECTOR, stub as *const (), depth),
            1000 + depth * (depth + 1) / 2
        );
        let (calls, deepest) = (depth + 1, shadow::DEEPEST as u64);
        let seen = calls.min(deepest);
        assert_eq!(recorder.told(), [seen, seen, 0, calls - seen]);
    }
}

#[test]
fn every_stub_stands_before_its_own_method() {
    extern "C" fn double(object: usize, _: usize) -> usize {
        2 * object
    }
    extern "C" fn negate(object: usize, _: usize) -> usize {
        !object
    }
    let stubs: Vec<_> = (0..300)
        .map(|number| {
            let recorder = Recorder::new();
            let original = if number % 3 == 0 { double } else { negate };
            // SAFETY: the stub stands before a function of this type.
            let stub: extern "C" fn(usize, usize) -> usize =
                unsafe { transmute(recorder.stub(original as *const ())) };
            (stub, original, recorder)
        })
        .collect();
    for (number, (stub, original, _)) in stubs.iter().enumerate() {
        assert_eq!(stub(number, SELECTOR), original(number, SELECTOR));
        assert!(is_stub(*stub as usize) && !is_stub(*original as usize));
    }
    assert!(
        stubs
            .iter()
            .all(|(_, _, recorder)| recorder.told() == [1, 1, 0, 0])
    );
}

#[test]
fn threads_do_not_meet() {
    let recorder = Recorder::new();
    // SAFETY: each stub stands before a function of the type it is taken for.
    let (to_large, to_recursive) = unsafe {
        (
            transmute::<*const (), extern "C" fn(usize, usize, Large, u64, Small) -> Large>(
                recorder.stub(large as *const ()),
            ),
            transmute::<*const (), extern "C" fn(usize, usize, *const (), u64) -> u64>(
                recorder.stub(recursive as *const ()),
            ),
        )
    };
    std::thread::scope(|scope| {
        for thread in 0..8 {
            scope.spawn(move || {
                for round in 0..200 {
                    let object = thread * 1000 + round;
                    let add = object as u64;
                    assert_eq!(
                        to_large(object, SELECTOR, LARGE, add, SMALL),
                        large(object, SELECTOR, LARGE, add, SMALL)
                    );
                    assert_eq!(
                        to_recursive(object, SELECTOR, to_recursive as *const (), 5),
                        add + 15
                    );
                }
            });
        }
    });
    assert_eq!(recorder.told(), [8 * 200 * 7, 8 * 200 * 7, 0, 0]);
}
