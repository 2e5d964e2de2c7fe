//! What can go wrong with a request or a queue, and what to do about it.

use std::sync::Arc;
use std::time::Duration;

use streampool_tensor::DType;

use crate::engine::Rejected;

/// The result of a call of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a call or a request failed. Cheap to clone: all requests of a batch may get the same.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There was no room in the queue.
    #[error(
        "the queue is full: {requests} requests of {bytes} bytes wait; try again in {retry_after:?}, or raise `{setting}`"
    )]
    Full {
        /// How many requests wait; of one that is run in parts, its parts. If `capacity_of` is reached, those of that priority.
        requests: usize,
        /// How many bytes these have.
        bytes: usize,
        /// Which limit is reached: `capacity`, `capacity_of` its priority, or `capacity_bytes`.
        setting: &'static str,
        /// When there will be room, as far as can be told; a millisecond at least.
        retry_after: Duration,
    },
    /// A request that never fits.
    #[error(
        "the request has {bytes} bytes, and the queue takes {capacity}: raise `capacity_bytes`"
    )]
    TooLarge {
        /// How many bytes it has.
        bytes: usize,
        /// How many wait at most.
        capacity: usize,
    },
    /// The queue is closed.
    #[error("the queue is closed: `restart` opens it again")]
    Closed,
    /// The deadline passed before it was the request's turn, or while a session ran it.
    #[error("the deadline of the request passed before it was answered")]
    Expired,
    /// A request is not what it should be.
    #[error("the request's input {input} is {got}, expected {expected}")]
    Request {
        /// Which of its inputs.
        input: usize,
        /// What was given.
        got: String,
        /// What would be right.
        expected: String,
    },
    /// What a function gave back does not fit what it was given.
    #[error("output {output} of the batch is {got}, expected {expected}")]
    Output {
        /// Which output.
        output: usize,
        /// What came.
        got: String,
        /// What would be right.
        expected: String,
    },
    /// A function gave back another number of rows than it was given.
    #[error(
        "the function of the queue gave back {got} rows for {expected}: it has to give one for each"
    )]
    Rows {
        /// How many it gave.
        got: usize,
        /// How many it was given.
        expected: usize,
    },
    /// The function failed.
    #[error(transparent)]
    Failed(Arc<dyn std::error::Error + Send + Sync>),
    /// The function could not have run anything: what failed is not a request's own. A function that knows says so with
    /// [`unavailable`](Self::unavailable), and is not called again for the parts of its batch.
    #[error("the function of the queue cannot run anything: {0}")]
    Unavailable(Arc<dyn std::error::Error + Send + Sync>),
    /// The function panicked.
    #[error("the function of the queue panicked: {0}")]
    Panicked(Arc<str>),
    /// A panic has lost the request, in the queue or where the function's answer was dropped; the panic's message is on standard
    /// error.
    #[error("a panic in the queue has lost the request")]
    Lost,
    /// A setting is not what it can be.
    #[error("`{setting}` is {got}, expected {expected}")]
    Setting {
        /// Which setting.
        setting: &'static str,
        /// What was given.
        got: String,
        /// What would be right.
        expected: &'static str,
    },
    /// A call from within the queue's own function, which would wait for what comes only after that.
    #[error("from within the queue's own function `{call}` would wait for ever: {instead}")]
    Inside {
        /// Which call.
        call: &'static str,
        /// What to do instead.
        instead: &'static str,
    },
    /// The process is a fork of the one that made the queue.
    #[error(
        "this process is a fork of the one that made the queue, whose threads are not here: make the queue after the fork"
    )]
    Forked,
    /// The operating system gave no thread.
    #[error("no thread for the queue: {0}")]
    Thread(Arc<std::io::Error>),
}

impl Error {
    /// The function of a queue failed like this. An error of this crate stays what it is.
    pub fn failed(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
        match error.into().downcast() {
            Ok(own) => *own,
            Err(other) => Error::Failed(other.into()),
        }
    }

    /// The function of a queue failed like this, and would have with any other requests: the device is gone, say.
    pub fn unavailable(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
        Error::Unavailable(error.into().into())
    }

    /// Whether the request was never run.
    pub(crate) fn is_refusal(&self) -> bool {
        matches!(
            self,
            Error::Full { .. } | Error::TooLarge { .. } | Error::Closed | Error::Expired
        )
    }

    pub(crate) fn setting(
        setting: &'static str,
        got: impl std::fmt::Debug,
        expected: &'static str,
    ) -> Error {
        Error::Setting {
            setting,
            got: format!("{got:?}"),
            expected,
        }
    }

    pub(crate) fn no_input(input: usize, expected: impl Into<String>) -> Error {
        Error::Request {
            input,
            got: "not there".to_owned(),
            expected: expected.into(),
        }
    }

    pub(crate) fn request(
        input: usize,
        (dtype, shape): (DType, &[usize]),
        expected: impl Into<String>,
    ) -> Error {
        Error::Request {
            input,
            got: format!("{dtype} {shape:?}"),
            expected: expected.into(),
        }
    }
}

impl From<Rejected> for Error {
    fn from(rejected: Rejected) -> Error {
        match rejected {
            Rejected::Closed => Error::Closed,
            Rejected::Expired => Error::Expired,
            Rejected::TooLarge { bytes, capacity } => Error::TooLarge { bytes, capacity },
            Rejected::Full {
                requests,
                bytes,
                setting,
                retry_after,
            } => Error::Full {
                requests,
                bytes,
                setting,
                retry_after,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error as _;

    use super::*;

    #[test]
    fn what_is_said_is_not_said_again_by_a_source() {
        let disk = || std::io::Error::other("the disk is full");
        for error in [Error::failed(disk()), Error::unavailable(disk())] {
            assert!(error.to_string().contains("the disk is full"));
            assert!(error.source().is_none(), "{error:?}");
        }
    }
}
