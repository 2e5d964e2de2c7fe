//! Command buffers: who may do what with one, and in which order.

use super::*;

const COMMANDS: usize = 0x2000;

const MAKE: Call = Call {
    name: "make",
    purpose: Purpose::Apart,
};
const HANDLER: Call = Call {
    name: "handler",
    purpose: Purpose::Encode,
};

fn with_commands(settings: Settings) -> Guard<Notes> {
    let guard = Guard::new(settings, Notes::default());
    guard.made(ONE, COMMANDS, 0x9000);
    guard
}

/// Enters the command buffer.
fn enter(guard: &Guard<Notes>, thread: Thread, call: Call) -> Verdict {
    guard.enter(thread, What::CommandBuffer, COMMANDS, call)
}

fn on_commands(guard: &Guard<Notes>, thread: Thread, call: Call) {
    let pass = guarded(enter(guard, thread, call));
    guard.leave(thread, pass);
}

/// A thread makes the encoder.
fn make(guard: &Guard<Notes>, thread: Thread) {
    let pass = guarded(enter(guard, thread, MAKE));
    guard.opened(thread, ENCODER, &pass);
    guard.leave(thread, pass);
}

#[test]
fn what_comes_after_the_commit_is_refused_and_told() {
    let guard = with_commands(Settings::default());
    on_commands(&guard, ONE, HANDLER);
    assert!(!guard.is_committed(COMMANDS));
    on_commands(&guard, ONE, END);
    for late in [MAKE, HANDLER, END] {
        assert!(matches!(enter(&guard, TWO, late), Verdict::Refused));
    }
    assert!(guard.is_committed(COMMANDS));
    let read = guard.figures.read();
    assert_eq!((read.buffers, read.committed), (1, 1));
    assert_eq!((read.after_commit, read.after_end, read.ended), (3, 0, 0));
    assert_eq!(
        guard.world.said.lock().unwrap()[1],
        "handler called on command buffer 0x2000 after commit (thread 2): not made; 2 such calls so far"
    );
}

#[test]
fn who_wants_an_encoder_waits_for_another_threads() {
    for late in [MAKE, END] {
        let guard = with_commands(Settings {
            warn_after: Duration::from_millis(5),
            wait_limit: Duration::from_secs(60),
            ..Settings::default()
        });
        make(&guard, ONE);
        // Others need not wait for it, nor does the thread itself.
        on_commands(&guard, TWO, HANDLER);
        on_commands(&guard, ONE, MAKE);
        let ended = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let pass = guarded(enter(&guard, TWO, late));
                assert!(ended.load(Ordering::SeqCst), "it waited");
                guard.leave(TWO, pass);
            });
            // It says so once it has waited for a while.
            let begun = Instant::now();
            let is_silent = || guard.world.said.lock().unwrap().is_empty();
            while is_silent() && begun.elapsed() < Duration::from_secs(20) {
                std::thread::yield_now();
            }
            call(&guard, ONE, DRAW);
            let pass = guarded(guard.enter(ONE, What::Encoder, ENCODER, END));
            ended.store(true, Ordering::SeqCst);
            guard.leave(ONE, pass);
        });
        let read = guard.figures.read();
        assert_eq!((read.waits, read.given_up, read.ended), (1, 0, 1));
    }
}

#[test]
fn an_encoder_that_is_given_up_without_an_end_is_waited_for_no_longer() {
    let guard = with_commands(Settings::default());
    make(&guard, ONE);
    let pass = guarded(guard.destroy(ONE, What::Encoder, ENCODER, DESTRUCTOR));
    guard.leave(ONE, pass);
    on_commands(&guard, TWO, MAKE);
    assert_eq!(guard.figures.read().waits, 0);
}

#[test]
fn the_wait_for_an_encoder_that_nobody_ends_is_told_and_given_up() {
    let guard = with_commands(Settings {
        warn_after: Duration::from_millis(5),
        wait_limit: Duration::from_millis(10),
        ..Settings::default()
    });
    make(&guard, ONE);
    on_commands(&guard, TWO, MAKE);
    let read = guard.figures.read();
    assert_eq!((read.long_waits, read.given_up, read.waits), (1, 1, 1));
    assert_eq!(
        guard.world.said.lock().unwrap()[0],
        "make on command buffer 0x2000 (thread 2) has waited 5ms for thread 1, which is in an encoder of it that is not ended"
    );
}

#[test]
fn who_ends_an_encoder_is_in_its_command_buffer_too() {
    let guard = with_commands(Settings {
        wait_limit: Duration::from_millis(10),
        ..Settings::default()
    });
    make(&guard, ONE);
    let end = guarded(guard.enter(ONE, What::Encoder, ENCODER, END));
    on_commands(&guard, TWO, HANDLER);
    assert_eq!(guard.figures.read().given_up, 1, "it could not get in");
    guard.leave(ONE, end);
    on_commands(&guard, TWO, HANDLER);
    assert_eq!(guard.figures.read().given_up, 1);
}

#[test]
fn an_end_from_within_a_call_on_the_encoder_waits_for_nobody() {
    let guard = with_commands(Settings::default());
    make(&guard, ONE);
    let draw = guarded(guard.enter(ONE, What::Encoder, ENCODER, DRAW));
    let handler = guarded(enter(&guard, TWO, HANDLER));
    call(&guard, ONE, END);
    guard.leave(TWO, handler);
    guard.leave(ONE, draw);
    let read = guard.figures.read();
    assert_eq!((read.waits, read.ended), (0, 1));
}

#[test]
fn in_a_call_on_the_command_buffer_the_driver_may_use_an_ended_encoder() {
    let guard = with_commands(Settings::default());
    make(&guard, ONE);
    call(&guard, ONE, END);
    let commit = guarded(enter(&guard, ONE, END));
    call(&guard, ONE, DRAW);
    call(&guard, ONE, END);
    assert!(matches!(
        guard.enter(TWO, What::Encoder, ENCODER, DRAW),
        Verdict::Refused
    ));
    guard.leave(ONE, commit);
    assert!(matches!(
        guard.enter(ONE, What::Encoder, ENCODER, DRAW),
        Verdict::Refused
    ));
    let read = guard.figures.read();
    assert_eq!((read.after_end, read.ended, read.committed), (2, 1, 1));
}

#[test]
fn a_command_buffer_lives_while_a_call_is_in_it() {
    let guard = with_commands(Settings::default());
    let pass = guarded(enter(&guard, ONE, HANDLER));
    assert!(matches!(
        guard.destroy(TWO, What::CommandBuffer, COMMANDS, DESTRUCTOR),
        Verdict::Refused
    ));
    guard.leave(ONE, pass);
    assert_eq!(*guard.world.destroyed.lock().unwrap(), [COMMANDS]);
    assert_eq!(guard.figures.read().destroyed, 0, "encoders are counted");
}
