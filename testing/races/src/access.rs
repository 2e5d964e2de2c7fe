//! One use of some bytes by one command.

use std::sync::Arc;

use streampool_device::{Access, Op, OpKind, Span, Tick};

/// Which bytes of which memory an operand lies in, and how it is used.
#[derive(Debug, Clone)]
pub(crate) struct Touch {
    pub op: OpKind,
    pub operand: &'static str,
    pub access: Access,
    pub span: Span,
}

/// What a command did.
#[derive(Debug, Clone)]
pub(crate) struct Use {
    pub touch: Touch,
    pub queue: usize,
    pub label: Arc<str>,
    pub tick: Tick,
}

impl Touch {
    /// What `op` touches.
    pub fn all_of(op: &Op, touched: &mut Vec<Touch>) {
        op.for_each_operand(|operand, access, view| {
            touched.extend(view.reach().map(|span| Touch {
                op: op.kind(),
                operand,
                access,
                span,
            }));
        });
    }

    fn end(&self) -> usize {
        self.span.offset.saturating_add(self.span.bytes)
    }

    /// Whether both touch one byte, and one of them writes it. The memory is the same.
    pub fn conflicts(&self, other: &Touch) -> bool {
        let one_writes = self.access == Access::Write || other.access == Access::Write;
        one_writes && self.span.offset < other.end() && other.span.offset < self.end()
    }

    /// Whether what conflicts with `other` conflicts with this, too.
    pub fn stands_for(&self, other: &Touch) -> bool {
        let as_strong = self.access == Access::Write || other.access == Access::Read;
        as_strong && self.span.contains(&other.span)
    }
}

impl std::fmt::Display for Use {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Touch { op, operand, .. } = &self.touch;
        let does = match self.touch.access {
            Access::Read => "reads",
            Access::Write => "writes",
        };
        let (from, end) = (self.touch.span.offset, self.touch.end());
        let Use { label, tick, .. } = self;
        write!(
            f,
            "command {tick} of queue {} ({label:?}), where {op} {does} {operand} in bytes {from}..{end} of memory {:#x}",
            self.queue, self.touch.span.handle
        )
    }
}
