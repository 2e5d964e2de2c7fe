//! `MTLBlitCommandEncoder`.

use std::sync::{Arc, Mutex};

use super::buffer::Buffer;
use super::command_buffer::CommandBuffer;
use super::encoder::{Access, Commands, Pass, Session};
use super::lock;
use super::values::Range;
use crate::foundation::NSOBJECT;
use crate::method;
use crate::report::{Rule, violation};
use crate::runtime::{Body, Class, Definition, Id, autorelease};

pub(super) static BLIT_ENCODER: Class =
    Class::fixed(c"_Imitation_BlitCommandEncoder", Some(&NSOBJECT), define);

/// From this length on blits corrupt.
const TOO_LONG: usize = 4 << 30;

struct BlitEncoder {
    session: Session,
    state: Mutex<(Vec<BlitCommand>, Vec<Access>)>,
}

pub(super) enum BlitCommand {
    Copy {
        from: Place,
        to: Place,
        bytes: usize,
    },
    Fill {
        at: Place,
        bytes: usize,
        value: u8,
    },
}

/// An offset in a buffer.
pub(super) struct Place {
    buffer: Arc<Buffer>,
    offset: usize,
}

impl Body for BlitEncoder {
    fn freed(&self) {
        self.session.freed();
    }
}

/// An encoder that the innermost pool holds.
pub(super) fn new(owner: &Arc<CommandBuffer>) -> Id {
    let Some(session) = Session::begin(owner) else {
        return Id::NULL;
    };
    autorelease(BLIT_ENCODER.instance(BlitEncoder {
        session,
        state: Mutex::default(),
    }))
}

impl Place {
    /// A part of a buffer, where it is one that Metal copies.
    fn new(buffer: Id, offset: usize, bytes: usize) -> Option<Place> {
        let Some(buffer) = buffer.body_if::<Buffer>() else {
            violation(
                Rule::Argument,
                "a copy or fill of what is no buffer that lives".to_owned(),
            );
            return None;
        };
        let ends_within = offset
            .checked_add(bytes)
            .is_some_and(|end| end <= buffer.length);
        if !ends_within || bytes == 0 || !offset.is_multiple_of(4) || !bytes.is_multiple_of(4) {
            violation(
                Rule::BlitRange,
                format!("{bytes} bytes at {offset} of {}", buffer.name()),
            );
            return None;
        }
        if bytes >= TOO_LONG {
            violation(
                Rule::BlitLength,
                format!("{bytes} bytes of {} in one copy or fill", buffer.name()),
            );
            return None;
        }
        Some(Place { buffer, offset })
    }

    fn address(&self) -> *mut u8 {
        self.buffer.address().wrapping_add(self.offset)
    }
}

impl BlitEncoder {
    fn encode(&self, command: BlitCommand) {
        let mut state = lock(&self.state);
        for (place, writes) in command.places() {
            state.1.extend(Access::of(&place.buffer, writes));
            self.session.owner.names(Arc::clone(&place.buffer));
        }
        state.0.push(command);
    }
}

impl BlitCommand {
    /// How many bytes it writes.
    pub fn bytes(&self) -> usize {
        let (BlitCommand::Copy { bytes, .. } | BlitCommand::Fill { bytes, .. }) = self;
        *bytes
    }

    fn places(&self) -> Vec<(&Place, bool)> {
        match self {
            BlitCommand::Copy { from, to, .. } => vec![(from, false), (to, true)],
            BlitCommand::Fill { at, .. } => vec![(at, true)],
        }
    }

    /// Runs it on this thread.
    pub fn run(&self) {
        // SAFETY: ranges were checked when it was encoded, and the buffers live as long as this command; that nobody
        // else touches them now is what Metal leaves to its user.
        unsafe {
            match self {
                BlitCommand::Copy { from, to, bytes } => to
                    .address()
                    .copy_from_nonoverlapping(from.address(), *bytes),
                BlitCommand::Fill { at, bytes, value } => at.address().write_bytes(*value, *bytes),
            }
        }
    }
}

fn define(class: &Definition) {
    method!(
        class,
        "copyFromBuffer:sourceOffset:toBuffer:destinationOffset:size:",
        |this: BlitEncoder,
         from: Id,
         from_offset: usize,
         to: Id,
         to_offset: usize,
         bytes: usize| {
            let Some(_turn) = this.session.enter("a copy") else {
                return;
            };
            let places = (
                Place::new(from, from_offset, bytes),
                Place::new(to, to_offset, bytes),
            );
            let (Some(from), Some(to)) = places else {
                return;
            };
            if Arc::ptr_eq(&from.buffer, &to.buffer) && from.offset.abs_diff(to.offset) < bytes {
                return violation(
                    Rule::BlitRange,
                    format!("a copy within {} overlaps", to.buffer.name()),
                );
            }
            this.encode(BlitCommand::Copy { from, to, bytes });
        }
    );
    method!(
        class,
        "fillBuffer:range:value:",
        |this: BlitEncoder, buffer: Id, range: Range, value: u8| {
            let Some(_turn) = this.session.enter("a fill") else {
                return;
            };
            if let Some(at) = Place::new(buffer, range.location, range.length) {
                this.encode(BlitCommand::Fill {
                    at,
                    bytes: range.length,
                    value,
                });
            }
        }
    );
    method!(class, "endEncoding", |this: BlitEncoder| {
        this.session.end(|| {
            let (commands, accesses) = std::mem::take(&mut *lock(&this.state));
            Pass {
                commands: Commands::Blit(commands),
                accesses,
                place: None,
            }
        });
    });
    method!(class, "setLabel:", |_this: BlitEncoder, _label: Id| {});
}
