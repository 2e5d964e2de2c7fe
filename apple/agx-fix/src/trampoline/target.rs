//! What a stub stands before, and what is run round that.

use crate::logic::guard::Pass;

/// What a stub stands before.
pub struct Target {
    /// The address of the method.
    pub original: usize,
    /// Its selector, which is passed to it after its object.
    pub selector: usize,
    /// What is run before and after it.
    pub wrapper: &'static dyn Wrapper,
}

/// What is run round a method.
pub trait Wrapper: Sync {
    /// Decides what becomes of a call on this object, whose first argument this is, should that be an integer or an address.
    fn before(&'static self, object: usize, argument: usize) -> Way;
    /// The call on this object has returned this, as far as it fits a register.
    fn after(&self, object: usize, pass: Option<Pass>, result: usize);
    /// Nobody will come back from the call.
    fn abandoned(&self, pass: Option<Pass>);
    /// The call is made without any of these, because the thread has too many others under way.
    fn too_deep(&self);
}

/// What becomes of a call.
pub enum Way {
    /// It is made, and what follows it is run.
    Watched(Option<Pass>),
    /// It is made.
    Straight,
    /// It is not made. Its caller gets zero.
    Refused,
}
