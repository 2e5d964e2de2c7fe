//! The driver's names of objects, and what calls take and give.

use std::collections::BTreeMap;
use std::mem::MaybeUninit;

use cudarc::driver::sys::CUresult;

use crate::report::{Rule, breach};

/// The driver's name of an object: no two objects of a process have the same.
pub type Handle = usize;
/// Where a caller wants something written, perhaps nowhere.
pub type Out<'a, T> = Option<&'a mut MaybeUninit<T>>;
/// What a call comes to.
pub type Outcome<T = ()> = Result<T, CUresult>;

/// Writes what a call gives.
pub fn put<T>(to: Out<'_, T>, value: T) -> Outcome {
    to.ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)?.write(value);
    Ok(())
}

/// What a caller has to give.
pub fn given<T>(given: Option<T>) -> Outcome<T> {
    given.ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)
}

/// The object of this handle.
#[track_caller]
pub fn find<'a, T>(
    objects: &'a mut BTreeMap<Handle, T>,
    what: &str,
    handle: Handle,
) -> Outcome<&'a mut T> {
    if handle == 0 {
        return Err(CUresult::CUDA_ERROR_INVALID_HANDLE);
    }
    match objects.get_mut(&handle) {
        Some(object) => Ok(object),
        None => breach(
            Rule::Handle,
            &format!("{what} {handle:#x} was destroyed or never made"),
        ),
    }
}
