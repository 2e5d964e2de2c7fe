//! Encoders that are ended and given up, and kept.

use super::super::super::quarantine::{LONGEST, MOST};
use super::*;

/// Gives an encoder up that is ended, and lets the time pass for which it is kept.
pub fn give_up_for_good(guard: &Guard<Notes>, encoder: usize) {
    give_up(guard, encoder);
    guard.world.pass(LONGEST);
    guard.before_command_buffer(ONE, QUEUE);
}

const QUEUE: usize = 0x9000;

fn give_up(guard: &Guard<Notes>, encoder: usize) {
    assert!(matches!(
        guard.destroy(ONE, What::Encoder, encoder, DESTRUCTOR),
        Verdict::Refused
    ));
}

/// Makes an encoder of a command buffer, and ends it.
fn ended_encoder(guard: &Guard<Notes>, commands: usize, encoder: usize) {
    let make = Call {
        name: "make",
        purpose: Purpose::Apart,
    };
    let pass = guarded(guard.enter(ONE, What::CommandBuffer, commands, make));
    guard.opened(ONE, encoder, &pass);
    guard.leave(ONE, pass);
    let pass = guarded(guard.enter(ONE, What::Encoder, encoder, END));
    guard.leave(ONE, pass);
}

#[test]
fn who_calls_after_it_was_given_up_is_refused_as_long_as_it_is_kept() {
    let guard = guard(Settings::default());
    call(&guard, ONE, END);
    give_up(&guard, ENCODER);
    for purpose in [DRAW, END, LABEL] {
        assert!(matches!(
            guard.enter(TWO, What::Encoder, ENCODER, purpose),
            Verdict::Refused
        ));
    }
    guard.world.pass(LONGEST / 2);
    guard.before_command_buffer(ONE, QUEUE);
    assert_eq!(*guard.world.destroyed.lock().unwrap(), [0; 0]);
    let read = guard.figures.read();
    assert_eq!(
        (read.after_destruction, read.kept, read.destroyed),
        (3, 1, 0)
    );
    guard.world.pass(LONGEST / 2);
    guard.before_command_buffer(ONE, QUEUE);
    assert_eq!(*guard.world.destroyed.lock().unwrap(), [ENCODER]);
    assert_eq!(guard.figures.read().destroyed, 1);
}

#[test]
fn it_is_kept_too_when_a_call_was_in_it_at_the_last_release() {
    let guard = guard(Settings::default());
    let pass = guarded(guard.enter(TWO, What::Encoder, ENCODER, END));
    give_up(&guard, ENCODER);
    guard.leave(TWO, pass);
    let read = guard.figures.read();
    assert_eq!((read.deferred, read.kept, read.destroyed), (1, 1, 0));
}

#[test]
fn no_more_are_kept_than_the_latest() {
    let guard = Guard::new(Settings::default(), Notes::default());
    let address = |number| 0x1000 + 0x100 * number;
    for number in 0..MOST + 3 {
        guard.created(ONE, What::Encoder, address(number));
        let pass = guarded(guard.enter(ONE, What::Encoder, address(number), END));
        guard.leave(ONE, pass);
        give_up(&guard, address(number));
    }
    let first = [0, 1, 2].map(address);
    assert_eq!(*guard.world.destroyed.lock().unwrap(), first);
}

#[test]
fn none_holds_the_place_of_the_next_command_buffer() {
    let guard = Guard::new(Settings::default(), Notes::default());
    let (uncommitted, committed, other) = (0x100, 0x200, 0x300);
    guard.made(ONE, uncommitted, QUEUE);
    guard.made(ONE, committed, QUEUE);
    guard.made(ONE, other, QUEUE + 1);
    for commands in [uncommitted, committed, other] {
        ended_encoder(&guard, commands, ENCODER + commands);
        give_up(&guard, ENCODER + commands);
    }
    let pass = guarded(guard.enter(ONE, What::CommandBuffer, committed, END));
    guard.leave(ONE, pass);
    guard.before_command_buffer(TWO, QUEUE);
    assert_eq!(
        *guard.world.destroyed.lock().unwrap(),
        [ENCODER + uncommitted]
    );
}
