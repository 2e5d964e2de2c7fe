//! What both kinds of encoders have in common.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use super::blit::BlitCommand;
use super::buffer::Buffer;
use super::command_buffer::{CommandBuffer, Turn};
use super::dispatch::Dispatch;
use super::hazards::Place;
use crate::report::{Rule, violation};
use crate::settings::{Refusal, is_refused, settings};

/// What an encoder leaves to the GPU.
pub(super) struct Pass {
    pub commands: Commands,
    pub accesses: Vec<Access>,
    /// Among the passes of the device, once it is committed.
    pub place: Option<Place>,
}

pub(super) enum Commands {
    /// Those of one group in any order.
    Compute(Vec<Vec<Dispatch>>),
    Blit(Vec<BlitCommand>),
}

/// That a buffer is read or written, where Metal orders that.
#[derive(Clone, Copy)]
pub(super) struct Access {
    number: u64,
    writes: bool,
}

impl Access {
    pub fn of(buffer: &Buffer, writes: bool) -> Option<Access> {
        buffer.tracked.then_some(Access {
            number: buffer.number,
            writes,
        })
    }
}

impl Pass {
    /// How many threads it has; of a copy, one for each 16 bytes.
    pub fn threads(&self) -> u64 {
        match &self.commands {
            Commands::Compute(groups) => groups.iter().flatten().map(Dispatch::threads).sum(),
            Commands::Blit(commands) => {
                let bytes = commands.iter().map(|command| command.bytes() as u64 / 16);
                bytes.sum()
            }
        }
    }
}

/// Whether Metal runs one pass with such accesses after the other.
pub(super) fn are_ordered(these: &[Access], those: &[Access]) -> bool {
    let meets =
        |one: &Access, other: &Access| one.number == other.number && (one.writes || other.writes);
    these
        .iter()
        .any(|one| those.iter().any(|other| meets(one, other)))
}

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
    for _ in 0..crate::chance::below(4) {
        thread::yield_now();
    }
    BUSY.store(false, Ordering::Release);
}
