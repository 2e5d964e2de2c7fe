//! What a model is given: read from a file, or made up.

mod file;
mod made;
mod shapes;

use std::path::Path;

use streampool::model::ValueInfo;
use streampool::{Array, Input, Pool, Session};

use crate::Result;
pub use made::made;
pub use shapes::{Given, resolve};

/// Where inputs come from.
#[derive(Debug, Clone, Copy)]
pub enum From<'a> {
    /// This `.npz` file, by their names.
    File(&'a Path),
    /// This seed, in shapes that the model or its user gives.
    Seed(u64, &'a [Given]),
}

impl From<'_> {
    /// A value for each of `ports`, in order. Thread `thread` gets its own where they are made up.
    pub fn inputs(self, ports: &[ValueInfo], thread: usize, pool: &Pool) -> Result<Vec<Array>> {
        match self {
            From::File(path) => file::read(path, ports, pool),
            From::Seed(seed, given) => {
                let shapes = resolve(ports, given)?;
                made(ports, &shapes, seed.wrapping_add(thread as u64), pool)
            }
        }
    }

    /// The session that takes what comes from here: a file may have arrays for inputs that need not be given.
    pub fn session(self, session: Session) -> Result<Session> {
        match self {
            From::File(path) => {
                let given = file::among(path, session.optional_inputs())?;
                match given.is_empty() {
                    true => Ok(session),
                    false => Ok(session.taking(given)?),
                }
            }
            From::Seed(..) => Ok(session),
        }
    }

    /// Whether each thread gets its own.
    pub fn differ(self) -> bool {
        matches!(self, From::Seed(..))
    }
}

/// Them as a session takes them.
pub fn refer(arrays: &[Array]) -> Vec<Input<'_>> {
    arrays.iter().map(Input::from).collect()
}
