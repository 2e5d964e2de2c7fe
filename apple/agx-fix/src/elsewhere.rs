//! In place of `edge` where there is no Metal: nothing is wrapped.

use crate::{Check, Error, Settings, Statistics};

pub fn install(_: Settings) -> Result<Statistics, Error> {
    Err(Error::NoMetal)
}

pub fn statistics() -> Statistics {
    Statistics::default()
}

pub fn check() -> Check {
    Check::default()
}
