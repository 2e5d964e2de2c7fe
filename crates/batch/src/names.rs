//! The names of tenants, known without the queue's lock.

use std::collections::HashMap;
use std::sync::{PoisonError, RwLock};

use crate::schedule::TenantId;

/// Names that have been asked for. They are as many as there are accounts: who shares the nameless one is not among them.
#[derive(Default)]
pub struct Names(RwLock<HashMap<Box<str>, TenantId>>);

impl Names {
    /// The tenant of this name; `ask` knows it, the first time.
    pub fn find(&self, name: &str, ask: impl FnOnce() -> TenantId) -> TenantId {
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(&tenant) = known.get(name) {
            return tenant;
        }
        drop(known);
        let tenant = ask();
        if tenant != 0 {
            let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
            known.insert(name.into(), tenant);
        }
        tenant
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_asked_for_once_unless_it_has_no_account() {
        let names = Names::default();
        assert_eq!(names.find("first", || 1), 1);
        assert_eq!(names.find("first", || panic!("it is known")), 1);
        assert_eq!(names.find("one too many", || 0), 0);
        assert_eq!(names.find("one too many", || 2), 2);
    }
}
