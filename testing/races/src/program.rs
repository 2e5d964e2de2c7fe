//! Programs that know what their ops touch.

use std::any::Any;
use std::sync::Arc;

use streampool_device::{Op, Program, Slots, Span};

use crate::access::Touch;

/// A program of the device that is wrapped.
pub(crate) struct Captured {
    pub program: Arc<dyn Program>,
    pub ops: Vec<Op>,
    pub slots: Slots,
}

impl Captured {
    /// One of ours, if it is.
    pub fn of(program: &Arc<dyn Program>) -> Option<&Captured> {
        program.as_any().downcast_ref()
    }

    /// What a replay touches that was bound to `given`.
    pub fn touched(&self, given: &[Span]) -> Vec<Touch> {
        let mut touched = Vec::new();
        for op in &self.ops {
            Touch::all_of(&self.slots.bind(op, given), &mut touched);
        }
        touched
    }
}

impl Program for Captured {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn ops(&self) -> usize {
        self.program.ops()
    }

    fn slots(&self) -> &[usize] {
        self.program.slots()
    }

    fn bytes(&self) -> usize {
        self.program.bytes()
    }
}
