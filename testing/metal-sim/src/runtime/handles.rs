//! What holds on to objects: a method that runs, and a reference that counts.

use std::ops::Deref;
use std::sync::Arc;

use super::layout::{Id, This};

impl<T> This<T> {
    pub(super) fn new(id: Id, body: Arc<T>) -> This<T> {
        This { id, body }
    }

    /// The object.
    pub fn id(&self) -> Id {
        self.id
    }

    /// The body, which may outlive the object.
    pub fn body(&self) -> &Arc<T> {
        &self.body
    }
}

impl<T> Deref for This<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.body
    }
}

/// A reference that counts.
#[derive(Debug)]
pub struct Strong(Id);

impl Strong {
    /// Takes a reference of its own.
    pub fn new(id: Id) -> Strong {
        Strong(id.retain())
    }

    /// The object.
    pub fn id(&self) -> Id {
        self.0
    }
}

impl Drop for Strong {
    fn drop(&mut self) {
        self.0.release();
    }
}
