//! What needs no Objective-C: the state of encoders and command buffers, who may enter them when, counters and settings.

pub mod figures;
pub mod guard;
pub mod guarded;
pub mod kind;
pub mod quarantine;
pub mod registry;
pub mod settings;
pub mod sync;
