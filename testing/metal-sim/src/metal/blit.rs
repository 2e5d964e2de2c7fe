//! `MTLBlitCommandEncoder`.

use std::sync::{Arc, Mutex};

use super::committed::CommandBuffer;
use super::encoder::Session;
use super::hazards::Access;
use super::pass::{BlitCommand, Commands, Part, Pass};
use super::values::Range;
use crate::foundation::NSOBJECT;
use crate::lock::lock;
use crate::method;
use crate::report::{Rule, violation};
use crate::runtime::{Body, Class, Definition, Id, autorelease};

pub(super) static BLIT_ENCODER: Class =
    Class::fixed(c"_Imitation_BlitCommandEncoder", Some(&NSOBJECT), define);

struct BlitEncoder {
    session: Session,
    state: Mutex<(Vec<BlitCommand>, Vec<Access>)>,
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
                Part::new(from, from_offset, bytes),
                Part::new(to, to_offset, bytes),
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
            if let Some(at) = Part::new(buffer, range.location, range.length) {
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
