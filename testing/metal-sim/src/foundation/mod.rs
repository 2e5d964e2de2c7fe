//! As much of Foundation as Metal's interface passes around.

mod array;
mod error;
mod object;
mod url;

pub(crate) use array::{array, objects};
pub(crate) use error::{error, set_error};
pub(crate) use object::{NSOBJECT, autoreleased_string, string, text};
pub(crate) use url::path;

use crate::runtime::Class;

pub(crate) fn classes() -> impl Iterator<Item = &'static Class> {
    [
        &NSOBJECT,
        &object::NSSTRING,
        &error::NSERROR,
        &url::NSURL,
        &array::NSARRAY,
    ]
    .into_iter()
}
