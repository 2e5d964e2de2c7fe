//! Large expressions by address: hashing thousands of nodes at every call would cost more than small calls do.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use streampool_device::Expr;
use streampool_device::lock::RwLock;

use super::program::Program;
use crate::ranks;

const SLOTS: usize = 64;

type Pair = (Arc<Expr>, Arc<Program>);

/// The programs of the expressions last used, each at the one slot its address leads to. A slot keeps its
/// expression alive, so the address cannot come to mean another one.
pub(super) struct Recent {
    slots: [RwLock<Option<Pair>>; SLOTS],
    hits: AtomicU64,
}

impl Recent {
    pub(super) fn new() -> Self {
        Recent {
            slots: std::array::from_fn(|_| RwLock::new(ranks::RECENT, None)),
            hits: AtomicU64::new(0),
        }
    }

    pub(super) fn get(&self, expr: &Arc<Expr>) -> Option<Arc<Program>> {
        let slot = self.slot(expr).read();
        let (held, program) = slot.as_ref()?;
        if !Arc::ptr_eq(held, expr) {
            return None;
        }
        self.hits.fetch_add(1, Ordering::Relaxed);
        Some(program.clone())
    }

    pub(super) fn put(&self, expr: &Arc<Expr>, program: &Arc<Program>) {
        let pair = Some((expr.clone(), program.clone()));
        let before = {
            let mut slot = self.slot(expr).write();
            std::mem::replace(&mut *slot, pair)
        };
        drop(before);
    }

    pub(super) fn hits(&self) -> u64 {
        self.hits.load(Ordering::Relaxed)
    }

    fn slot(&self, expr: &Arc<Expr>) -> &RwLock<Option<Pair>> {
        let address = Arc::as_ptr(expr).addr();
        &self.slots[(address >> 4).wrapping_mul(0x9e37_79b9) >> 8 & (SLOTS - 1)]
    }
}
