//! Selectors: the names of methods, one pointer for each.

use std::collections::HashSet;
use std::ffi::{CStr, c_char};
use std::fmt;
use std::sync::{LazyLock, PoisonError, RwLock};

/// The name of a method. Two are the same where their pointers are.
#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Selector(*const c_char);

// SAFETY: a selector points to a string that is never changed nor freed.
unsafe impl Send for Selector {}
// SAFETY: as above.
unsafe impl Sync for Selector {}

static NAMES: LazyLock<RwLock<HashSet<&'static CStr>>> = LazyLock::new(RwLock::default);

impl Selector {
    /// No selector.
    pub const NULL: Selector = Selector(std::ptr::null());

    /// The selector of that name, made where it is new.
    pub fn of(name: &CStr) -> Selector {
        if let Some(known) = NAMES
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .get(name)
        {
            return Selector(known.as_ptr());
        }
        let mut names = NAMES.write().unwrap_or_else(PoisonError::into_inner);
        if !names.contains(name) {
            names.insert(Box::leak(name.to_owned().into_boxed_c_str()));
        }
        Selector(
            names
                .get(name)
                .map_or(std::ptr::null(), |known| known.as_ptr()),
        )
    }

    /// As C has it.
    pub fn as_ptr(self) -> *const c_char {
        self.0
    }

    pub(super) fn name(self) -> &'static CStr {
        // SAFETY: every selector came from `of`, whose strings live for ever.
        unsafe { CStr::from_ptr(self.0) }
    }
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name().to_string_lossy())
    }
}
