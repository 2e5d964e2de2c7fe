//! An imitation driver that races as AGX does: it crashes without agx-fix and not with it, and what agx-fix says of that is exact.
#![cfg(metal_sim)]

mod common;

use std::ffi::{c_char, c_void};
use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};

use agx_fix::{Settings, Statistics};
use common::driver::{self, Dispatched};
use common::{asked_for, assert_aborted, assert_ended_well, errors, run};
use streampool_metal_sim::{Class, Id, Message, Selector, Sim, live_objects, send};

const TRIES: usize = if cfg!(sanitize_thread) { 2_000 } else { 10_000 };

/// What a process does that a test started.
#[test]
fn scenario() {
    match asked_for().as_deref() {
        None => {}
        Some("race, plain") => race(driver::device()),
        Some("race") => race_guarded(),
        Some("misuse") => misuse(),
        Some("shown") => shown(),
        Some("exact") => exact(),
        Some("classes") => classes(),
        Some("check") => check(),
        Some("huge") => huge(),
        Some("metal") => metal(),
        Some("late, default") => late(MTLCreateSystemDefaultDevice, |made| made),
        Some("late, listed") => late(MTLCopyAllDevices, |made| {
            send!(made, "objectAtIndex:", 0usize)
        }),
        Some("knows nothing of it") => use_metal(),
        Some(other) => panic!("{other}?"),
    }
}

/// Wraps the imitation driver, as the environment says, and returns its device.
fn wrap() -> Id {
    let device = driver::device();
    let (settings, errors) = Settings::from_environment();
    assert_eq!(errors, []);
    // SAFETY: the device is alive, and answers as one of Metal's.
    unsafe { agx_fix::install_on(device.as_ptr(), settings) }
        .expect("it has the classes that a device has");
    device
}

/// A command buffer of the imitation driver, wrapped as the environment says.
fn wrapped_command_buffer() -> Id {
    let device = wrap();
    let commands = driver::command_buffer(device);
    device.release();
    commands
}

/// In every try two threads have looked up a method of an encoder when a third ends it, or not, and gives it up.
fn race(device: Id) {
    let commands = driver::command_buffer(device);
    device.release();
    let (begun, ended) = (Barrier::new(3), Barrier::new(3));
    let (shared, dispatched) = (AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for caller in [1, 2] {
            let (shared, dispatched, begun, ended) = (&shared, &dispatched, &begun, &ended);
            scope.spawn(move || {
                for number in 0..TRIES {
                    begun.wait();
                    let encoder = Id::from_ptr(shared.load(Ordering::SeqCst) as *const ());
                    let message = Dispatched::encode(encoder);
                    dispatched.fetch_add(1, Ordering::SeqCst);
                    linger(number * caller + number / 6);
                    message.run();
                    ended.wait();
                }
            });
        }
        for number in 0..TRIES {
            let encoder = driver::encoder(commands, "computeCommandEncoder");
            shared.store(encoder.as_ptr::<()>() as usize, Ordering::SeqCst);
            dispatched.store(0, Ordering::SeqCst);
            begun.wait();
            while dispatched.load(Ordering::SeqCst) < 2 {
                std::thread::yield_now();
            }
            // At any time before, within and after the calls.
            linger(number);
            if number % 2 == 0 {
                let _: () = send!(encoder, "endEncoding");
            }
            encoder.release();
            ended.wait();
        }
    });
    commands.release();
}

/// A while that is not the same from try to try. Where there are few processors, others get one.
fn linger(number: usize) {
    (0..number * 7919 % 1000).for_each(|_| std::hint::spin_loop());
    (0..number / 2 % 3).for_each(|_| std::thread::yield_now());
}

fn race_guarded() {
    race(wrap());
    let read = agx_fix::statistics();
    let tries = TRIES as u64;
    assert_eq!(
        (read.created, read.destroyed, read.ended),
        (tries, tries, tries / 2)
    );
    let refused = read.after_end + read.after_destruction;
    assert_eq!(read.calls + refused, 2 * tries + tries / 2, "{read}");
    assert!(
        read.deferred > 0 && read.after_end > 0 && read.after_destruction > 0,
        "{read}"
    );
    assert_eq!(
        (
            read.unannounced,
            read.given_up,
            read.too_deep,
            read.abandoned
        ),
        (0, 0, 0, 0)
    );
    assert_eq!(live_objects().get("ImitationComputeEncoder"), None);
    assert_eq!(agx_fix::check().displaced, [""; 0]);
}

/// What a program does that uses encoders as it should.
fn use_metal() {
    let sim = Sim::strict();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..25 {
                    driver::pooled(|| {
                        let device = default_device();
                        let queue: Id = send!(device, "newCommandQueue");
                        let commands: Id = send!(queue, "commandBuffer");
                        for kind in ["computeCommandEncoder", "blitCommandEncoder"] {
                            let encoder: Id = Message::new(commands, kind).send(());
                            let _: () = send!(encoder, "endEncoding");
                        }
                        let _: () = send!(commands, "commit");
                        let _: () = send!(commands, "waitUntilCompleted");
                        queue.release();
                        device.release();
                    });
                }
            });
        }
    });
    assert_eq!(sim.violations(), []);
}

/// The imitation of Metal in which nothing races.
fn metal() {
    let wrapped = agx_fix::install(Settings::default()).expect("there is a device");
    assert_eq!((wrapped.classes, wrapped.created), (5, 0));
    use_metal();
    let expected = Statistics {
        created: 200,
        ended: 200,
        destroyed: 200,
        calls: 200,
        ..wrapped
    };
    assert_eq!(
        agx_fix::statistics(),
        Statistics {
            nested_calls: 0,
            ..expected
        }
    );
}

#[test]
fn what_is_right_stays_as_it_is() {
    assert_ended_well(&run("metal", &[]));
}

/// A function of Metal's that returns a reference.
type Maker = unsafe extern "C" fn() -> *const c_void;

/// What Apple's loader calls in place of a function where agx-fix is inserted.
fn replacement(of: Maker) -> Maker {
    let row = agx_fix_replacements
        .iter()
        .find(|row| row[1] as usize == of as usize);
    row.expect("it is in the table")[0]
}

/// There is no device when the wrapping begins. The program gets one by a function of Metal's afterwards.
fn late(by: Maker, device_of: impl Fn(Id) -> Id) {
    // SAFETY: nil is allowed.
    let nothing = unsafe { agx_fix::install_on(std::ptr::null_mut(), Settings::default()) };
    assert_eq!(nothing, Err(agx_fix::Error::NoDevice));
    assert_eq!(agx_fix::check().methods, 0);
    let same = default_device();
    // SAFETY: it may be called anywhere, and gives a reference.
    let made = Id::from_ptr(unsafe { replacement(by)() });
    assert_eq!(device_of(made), same);
    made.release();
    same.release();
    assert_eq!(agx_fix::statistics().classes, 1, "the device's");
    use_metal();
    let read = agx_fix::statistics();
    assert_eq!(
        (read.classes, read.created, read.ended, read.destroyed),
        (5, 200, 200, 200)
    );
    assert_eq!((read.calls, read.unannounced), (200, 0));
}

#[test]
fn a_device_that_comes_late_is_wrapped() {
    assert_ended_well(&run("late, default", &[]));
    assert_ended_well(&run("late, listed", &[]));
}

/// A program that was not linked with agx-fix: all that it has of it is in the dylib. The symbols that this one has are not used.
#[test]
fn inserted_it_wraps_by_itself() {
    let test = std::env::current_exe().expect("a test has a file");
    let library = test.with_file_name("libagx_fix.so");
    let library = library.to_str().expect("a path of text");
    let output = run(
        "knows nothing of it",
        &[("LD_PRELOAD", library), ("AGX_FIX_VERBOSE", "1")],
    );
    assert_ended_well(&output);
    let said = errors(&output);
    assert!(
        said.contains("methods of class") && said.contains("are wrapped (Encoder)"),
        "{said}"
    );
    assert!(
        said.contains(
            "agx-fix: 200 encoders created, 200 ended, 200 destroyed, 0 of them deferred"
        ),
        "{said}"
    );

    let output = run(
        "knows nothing of it",
        &[("LD_PRELOAD", library), ("AGX_FIX_ABORT", "maybe")],
    );
    assert_ended_well(&output);
    let said = errors(&output);
    assert!(
        said.contains("AGX_FIX_ABORT is `maybe`; allowed is 0 or 1"),
        "{said}"
    );
    assert!(
        !said.contains("encoders created"),
        "nothing is worth telling\n{said}"
    );

    let output = run(
        "knows nothing of it",
        &[
            ("LD_PRELOAD", library),
            ("AGX_FIX_VERBOSE", "1"),
            ("AGX_FIX_DISABLE", "1"),
        ],
    );
    assert_ended_well(&output);
    assert!(!errors(&output).contains("agx-fix"), "{}", errors(&output));
}

#[test]
fn without_agx_fix_the_driver_crashes() {
    assert_aborted(&run("race, plain", &[]), "the imitation driver crashes");
}

#[test]
fn with_agx_fix_it_does_not_in_ten_thousand_tries() {
    assert_ended_well(&run("race", &[]));
}

#[test]
fn disabled_it_does_nothing() {
    assert_aborted(
        &run("race", &[("AGX_FIX_DISABLE", "1")]),
        "the imitation driver crashes",
    );
}

/// What an ended encoder is asked for.
fn misuse() {
    let commands = wrapped_command_buffer();
    let encoder = driver::encoder(commands, "computeCommandEncoder");
    driver::encode(encoder);
    let _: () = send!(encoder, "endEncoding");
    let calls = |encoder| -> u64 { send!(encoder, "calls") };
    assert_eq!(calls(encoder), 3, "one, the end, and what the end calls");
    driver::encode(encoder);
    let _: () = send!(encoder, "setImageblockWidth:height:", 1usize, 1usize);
    let _: () = send!(encoder, "endEncoding");
    assert_eq!(calls(encoder), 3, "none was made");
    let _: () = send!(encoder, "setLabel:", Id::NULL);
    let _: Id = send!(encoder, "label");
    let _: () = send!(encoder, "finishLater");
    assert_eq!(
        calls(encoder),
        6,
        "names, questions and what is the driver's own are"
    );
    assert_eq!(agx_fix::statistics().after_end, 3);
    let late = Dispatched::encode(encoder);
    encoder.release();
    late.run();
    assert_eq!(agx_fix::statistics().after_destruction, 1);
    commands.release();
}

#[test]
fn calls_after_the_end_are_told_and_not_made() {
    let output = run("misuse", &[]);
    assert_ended_well(&output);
    let said = errors(&output);
    for expected in [
        "-[ImitationComputeEncoder setBuffer:offset:atIndex:] called on encoder 0x",
        "after endEncoding (thread 1): not made; 1 such calls so far",
        "after endEncoding (thread 1): not made; 3 such calls so far",
        "after its last release (thread 1): not made; 1 such calls so far",
    ] {
        assert!(said.contains(expected), "{expected}\n{said}");
    }
}

#[test]
fn by_setting_a_call_after_the_end_aborts() {
    let output = run("misuse", &[("AGX_FIX_ABORT", "1")]);
    assert_aborted(
        &output,
        "after endEncoding (thread 1): aborting, as AGX_FIX_ABORT says",
    );
}

/// The driver is asked for the encoder that there is, after its end.
fn shown() {
    let commands = wrapped_command_buffer();
    let encoder = driver::encoder(commands, "computeCommandEncoder");
    let _: () = send!(encoder, "endEncoding");
    let shown: Id = send!(commands, "currentCommandEncoder");
    assert_eq!(shown, encoder);
    driver::encode(shown);
    let read = agx_fix::statistics();
    assert_eq!((read.created, read.after_end), (1, 1));
    encoder.release();
    commands.release();
}

#[test]
fn an_encoder_that_is_only_shown_stays_ended() {
    assert_ended_well(&run("shown", &[]));
}

fn default_device() -> Id {
    // SAFETY: it may be called anywhere, and gives a reference.
    Id::from_ptr(unsafe { MTLCreateSystemDefaultDevice() })
}

unsafe extern "C" {
    safe static agx_fix_replacements: [[Maker; 2]; 2];
    fn MTLCreateSystemDefaultDevice() -> *const c_void;
    fn MTLCopyAllDevices() -> *const c_void;
    fn agx_fix_statistics(to: *mut Statistics, size: usize) -> usize;
    fn agx_fix_check() -> isize;
    fn class_replaceMethod(
        class: *const c_void,
        selector: *const c_char,
        implementation: *const c_void,
        types: *const c_char,
    ) -> *const c_void;
}

/// One life of an encoder, counted from Rust and from C.
fn exact() {
    let commands = wrapped_command_buffer();
    let wrapped = agx_fix::statistics();
    assert_eq!(
        (wrapped.classes, wrapped.created, wrapped.calls),
        (4, 0, 0),
        "what was made to find out counts not"
    );
    let encoder = driver::encoder(commands, "computeCommandEncoder");
    for _ in 0..5 {
        driver::encode(encoder);
    }
    let _: () = send!(encoder, "endEncoding");
    encoder.release();
    let expected = Statistics {
        created: 1,
        ended: 1,
        destroyed: 1,
        calls: 6,
        // By the end, and by the destructor.
        nested_calls: 2,
        ..wrapped
    };
    assert_eq!(agx_fix::statistics(), expected);
    let mut from_c = Statistics::default();
    // SAFETY: there is room.
    let size = unsafe { agx_fix_statistics(&mut from_c, size_of::<Statistics>()) };
    assert_eq!((from_c, size), (expected, size_of::<Statistics>()));
    let mut first = [Statistics::default(); 2];
    // SAFETY: there is room.
    unsafe { agx_fix_statistics(first.as_mut_ptr(), 8) };
    assert_eq!(
        (first[0].classes, first[0].methods),
        (4, 0),
        "no more than there is room for"
    );
    commands.release();
}

#[test]
fn statistics_are_exact() {
    assert_ended_well(&run("exact", &[]));
}

/// A class that was not there to be found appears.
fn classes() {
    let device = wrap();
    let commands = driver::command_buffer(device);
    let before = agx_fix::statistics();
    let encoder = driver::encoder(commands, "rayCommandEncoder");
    let after = agx_fix::statistics();
    assert_eq!((after.classes, after.created), (before.classes + 1, 1));
    let _: () = send!(encoder, "endEncoding");
    driver::encode(encoder);
    assert_eq!(agx_fix::statistics().after_end, 1);
    encoder.release();
    commands.release();
    // SAFETY: the device is alive, and answers as one of Metal's.
    let again =
        unsafe { agx_fix::install_on(device.as_ptr(), Settings::default()) }.expect("as before");
    assert_eq!(again.classes, after.classes, "all are known");
    device.release();
}

/// A class with more methods than there are stubs.
fn huge() {
    const METHODS: u64 = 5000;
    let commands = wrapped_command_buffer();
    let before = agx_fix::statistics();
    driver::huge_class(METHODS as usize);
    let encoder = driver::encoder(commands, "hugeCommandEncoder");
    let after = agx_fix::statistics();
    let wrapped = after.methods - before.methods;
    // Seven come from above.
    assert_eq!(wrapped + after.methods_left_out, METHODS + 7);
    assert_eq!(after.methods, 4096);
    for number in 0..METHODS {
        let _: () = Message::new(encoder, &format!("m{number}")).send(());
    }
    let calls: u64 = send!(encoder, "calls");
    assert_eq!(calls, METHODS, "each was made, wrapped or not");
    let _: () = send!(encoder, "endEncoding");
    encoder.release();
    let read = agx_fix::statistics();
    assert!(read.calls < METHODS);
    assert_eq!(
        (read.ended, read.destroyed),
        (1, 1),
        "these are wrapped first"
    );
    commands.release();
}

#[test]
fn methods_for_which_no_stub_is_left_are_told_and_work() {
    let output = run("huge", &[]);
    assert_ended_well(&output);
    let said = errors(&output);
    assert!(
        said.contains("agx-fix: there are no stubs left for"),
        "{said}"
    );
}

#[test]
fn a_class_that_appears_later_is_learned() {
    let output = run("classes", &[("AGX_FIX_VERBOSE", "1")]);
    assert_ended_well(&output);
    assert!(
        errors(&output)
            .contains("agx-fix: 1 methods of class ImitationRayEncoder are wrapped (Encoder)")
    );
}

/// Somebody puts a method back.
fn check() {
    assert_eq!(agx_fix_check_now(), -1, "nothing is wrapped yet");
    wrap().release();
    assert_eq!(
        (agx_fix::check().displaced.len(), agx_fix_check_now()),
        (0, 0)
    );
    assert_eq!(
        agx_fix::check().methods as u64,
        agx_fix::statistics().methods
    );
    let class: *const Class = Class::named(c"ImitationComputeEncoder").expect("it is there");
    let selector = Selector::of(c"label").as_ptr();
    // SAFETY: nobody calls the method.
    let ours =
        unsafe { class_replaceMethod(class.cast(), selector, std::ptr::null(), c"@@:".as_ptr()) };
    assert_eq!(
        agx_fix::check().displaced,
        ["-[ImitationComputeEncoder label]"]
    );
    assert_eq!(agx_fix_check_now(), 1);
    // SAFETY: it is what was there.
    unsafe { class_replaceMethod(class.cast(), selector, ours, c"@@:".as_ptr()) };
    assert_eq!(agx_fix_check_now(), 0);
}

fn agx_fix_check_now() -> isize {
    // SAFETY: it may be called anywhere.
    unsafe { agx_fix_check() }
}

#[test]
fn a_method_that_somebody_puts_back_is_seen() {
    let output = run("check", &[]);
    assert_ended_well(&output);
    assert!(
        errors(&output).contains("-[ImitationComputeEncoder label] was replaced by somebody else")
    );
}
