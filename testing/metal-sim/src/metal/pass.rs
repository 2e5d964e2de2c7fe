//! A pass: what one encoder leaves to the GPU.

use std::sync::Arc;

use super::buffer::Buffer;
use super::dispatch::Dispatch;
use super::hazards::{Access, Place};
use crate::chance;
use crate::report::{Rule, violation};
use crate::runtime::Id;
use crate::settings::settings;

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

pub(super) enum BlitCommand {
    Copy { from: Part, to: Part, bytes: usize },
    Fill { at: Part, bytes: usize, value: u8 },
}

/// An offset in a buffer.
pub(super) struct Part {
    pub buffer: Arc<Buffer>,
    pub offset: usize,
}

/// From this length on blits corrupt.
const TOO_LONG: usize = 4 << 30;

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

    /// Runs it on this thread.
    pub fn run(self) -> Result<(), String> {
        match self.commands {
            Commands::Blit(commands) => commands.iter().for_each(BlitCommand::run),
            Commands::Compute(_) if settings().skips_kernels => {}
            Commands::Compute(groups) => {
                for mut group in groups {
                    while !group.is_empty() {
                        group.swap_remove(chance::below(group.len())).run()?;
                    }
                }
            }
        }
        Ok(())
    }
}

impl Part {
    /// A part of a buffer, where it is one that Metal copies.
    pub fn new(buffer: Id, offset: usize, bytes: usize) -> Option<Part> {
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
        Some(Part { buffer, offset })
    }

    fn address(&self) -> *mut u8 {
        self.buffer.address().wrapping_add(self.offset)
    }
}

impl BlitCommand {
    /// How many bytes it writes.
    pub fn bytes(&self) -> usize {
        let (BlitCommand::Copy { bytes, .. } | BlitCommand::Fill { bytes, .. }) = self;
        *bytes
    }

    pub fn places(&self) -> Vec<(&Part, bool)> {
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
