//! What needs no Objective-C: the state of encoders, who may enter them when, counters and settings.

pub mod encoder;
pub mod figures;
pub mod guard;
pub mod kind;
pub mod registry;
pub mod settings;
pub mod sync;
