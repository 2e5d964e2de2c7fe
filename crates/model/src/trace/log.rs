//! What a trace has listed so far.

use rustc_hash::FxHashMap;
use streampool_device::{Error, Op, Result, Span};

use super::listing::{ListedOp, Memory, Source};

/// A plan has no more ops: with these it takes some hundred megabytes, and a minute to be made.
const MOST_STEPS: usize = 1 << 20;

/// What was listed so far.
#[derive(Default)]
pub struct Log {
    /// The node that is traced.
    pub node: usize,
    pub steps: Vec<ListedOp>,
    pub sources: FxHashMap<Memory, Source>,
    /// What somebody asked for the values of.
    pub asked: Option<Memory>,
    /// The node is too long for a plan.
    pub left: bool,
}

impl Log {
    pub fn push(&mut self, op: &Op) -> Result<()> {
        if self.steps.len() >= MOST_STEPS {
            self.left = true;
            return Err(Error::Unavailable {
                device: "trace".to_owned(),
                why: format!("more than {MOST_STEPS} ops in one plan are not possible"),
            });
        }
        self.steps.push(ListedOp::new(op.clone(), self.node));
        Ok(())
    }

    pub fn source(&mut self, span: Span, source: Source) {
        self.sources.insert(Memory::of(span), source);
    }
}

impl std::fmt::Debug for Log {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} steps", self.steps.len())
    }
}
