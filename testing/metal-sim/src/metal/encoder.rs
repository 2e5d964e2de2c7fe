//! What both kinds of encoders have in common.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use super::committed::{CommandBuffer, Turn};
use super::pass::Pass;
use crate::chance;
use crate::report::{Rule, violation};
use crate::settings::{Refusal, is_refused, settings};

/// The encoder's place in its command buffer.
pub(super) struct Session {
    pub owner: Arc<CommandBuffer>,
    ended: AtomicBool,
}

impl Session {
    pub fn begin(owner: &Arc<CommandBuffer>) -> Option<Session> {
        (!is_refused(Refusal::Encoder) && owner.open_encoder()).then(|| Session {
            owner: Arc::clone(owner),
            ended: AtomicBool::new(false),
        })
    }

    /// The turn of a call that encodes more, where it may.
    pub fn enter(&self, what: &str) -> Option<Turn<'_>> {
        let turn = self.owner.turn(what);
        let name = || self.owner.name();
        if self.ended.load(Ordering::Acquire) {
            violation(
                Rule::EncodeAfterEnd,
                format!("{what} on an encoder of {} that is ended", name()),
            );
        } else if self.owner.is_committed() {
            violation(
                Rule::EncodeAfterCommit,
                format!("{what} on an encoder of {}, which is committed", name()),
            );
        } else {
            return Some(turn);
        }
        None
    }

    pub fn end(&self, pass: impl FnOnce() -> Pass) {
        race();
        let _turn = self.owner.turn("endEncoding");
        if self.ended.swap(true, Ordering::AcqRel) {
            return violation(
                Rule::EndEncoding,
                format!("an encoder of {} is ended again", self.owner.name()),
            );
        }
        if self.owner.is_committed() {
            return violation(
                Rule::EncodeAfterCommit,
                format!(
                    "an encoder is ended after the commit of {}",
                    self.owner.name()
                ),
            );
        }
        self.owner.close_encoder(Some(pass()));
    }

    pub fn freed(&self) {
        race();
        if !self.ended.load(Ordering::Acquire) {
            violation(
                Rule::EndEncoding,
                format!(
                    "an encoder of {} is released without being ended",
                    self.owner.name()
                ),
            );
            self.owner.close_encoder(None);
        }
    }
}

/// Breaks like a driver that does not bear two threads which make, end or free encoders at once.
pub(super) fn race() {
    static BUSY: AtomicBool = AtomicBool::new(false);
    if !settings().racing_encoders {
        return;
    }
    if BUSY.swap(true, Ordering::AcqRel) {
        return violation(
            Rule::EncoderRace,
            "two threads make, end or free encoders at once".to_owned(),
        );
    }
    // Now and then long enough for a thread that only now wakes up, on a busy machine, too.
    if chance::one_in(16) {
        thread::sleep(Duration::from_micros(200));
    }
    for _ in 0..chance::below(4) {
        thread::yield_now();
    }
    BUSY.store(false, Ordering::Release);
}
