//! One thing after another on one thread: what is refused, told and counted is exact.

use agx_fix::{Settings, Statistics};
use streampool_metal_sim::{Class, Id, Message, Selector, live_objects, send};

use crate::common::driver::{self, Dispatched};
use crate::common::{assert_aborted, assert_ended_well, errors, run};
use crate::{agx_fix_check, agx_fix_statistics, class_replaceMethod, wrap, wrapped_command_buffer};

/// What an ended encoder is asked for.
pub fn misuse() {
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
pub fn shown() {
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

/// What a command buffer is asked for after its commit.
pub fn committed() {
    let commands = wrapped_command_buffer();
    let _: () = send!(commands, "addCompletedHandler:", Id::NULL);
    let _: () = send!(commands, "commit");
    let _: () = send!(commands, "addCompletedHandler:", Id::NULL);
    let _: () = send!(commands, "commit");
    let encoder: Id = send!(commands, "computeCommandEncoder");
    assert!(encoder.is_null());
    let read = agx_fix::statistics();
    assert_eq!((read.buffers, read.committed, read.after_commit), (1, 1, 3));
    assert_eq!((read.created, read.after_end), (0, 0));
    commands.release();
    assert_eq!(live_objects().get("ImitationCommandBuffer"), None);
}

#[test]
fn calls_after_the_commit_are_told_and_not_made() {
    let output = run("committed", &[]);
    assert_ended_well(&output);
    let said = errors(&output);
    for expected in [
        "-[ImitationCommandBuffer addCompletedHandler:] called on command buffer 0x",
        "after commit (thread 1): not made; 1 such calls so far",
        "after commit (thread 1): not made; 3 such calls so far",
    ] {
        assert!(said.contains(expected), "{expected}\n{said}");
    }
}

/// The driver does with an ended encoder what it put off, when the command buffer is committed.
pub fn finished_late() {
    let commands = wrapped_command_buffer();
    let encoder = driver::pooled(|| -> Id {
        let encoder: Id = send!(commands, "computeCommandEncoderWithDispatchType:", 0usize);
        encoder.retain()
    });
    driver::encode(encoder);
    let _: () = send!(encoder, "endEncoding");
    let calls = |encoder| -> u64 { send!(encoder, "calls") };
    assert_eq!(calls(encoder), 3, "one, the end, and what the end calls");
    driver::encode(encoder);
    assert_eq!((calls(encoder), agx_fix::statistics().after_end), (3, 1));
    let _: () = send!(commands, "commit");
    assert_eq!((calls(encoder), agx_fix::statistics().after_end), (4, 1));
    encoder.release();
    commands.release();
}

#[test]
fn what_the_driver_calls_in_a_commit_is_made() {
    assert_ended_well(&run("finished late", &[]));
}

/// One life of an encoder, counted from Rust and from C.
pub fn exact() {
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
        // Not destroyed yet.
        kept: 1,
        // The first on the command buffer.
        calls: 7,
        // By the end.
        nested_calls: 1,
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
pub fn classes() {
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
pub fn huge() {
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
    assert_eq!((read.ended, read.kept), (1, 1), "these are wrapped first");
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
pub fn check() {
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
