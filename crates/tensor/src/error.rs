//! What can go wrong with tensors: who was given what, and what would be right.

use std::path::{Path, PathBuf};

use streampool_device::DType;

/// The result of a call of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a call failed.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A shape does not fit.
    #[error("{op}: {argument} has shape {got:?}, expected {expected}")]
    Shape {
        /// The operator.
        op: &'static str,
        /// Which of its arguments is wrong.
        argument: &'static str,
        /// Its shape.
        got: Vec<usize>,
        /// What would be right.
        expected: String,
    },
    /// An element type does not fit.
    #[error("{op}: {argument} is of type {got}, expected {expected}")]
    DType {
        /// The operator.
        op: &'static str,
        /// Which of its arguments is wrong.
        argument: &'static str,
        /// Its type.
        got: DType,
        /// What would be right.
        expected: String,
    },
    /// There is no such axis.
    #[error("{op}: {argument} is {got}, expected {}", axes(*rank))]
    Axis {
        /// The operator.
        op: &'static str,
        /// Which of its arguments is wrong.
        argument: &'static str,
        /// The axis asked for; a negative one counts from the end.
        got: isize,
        /// How many axes there are.
        rank: usize,
    },
    /// There is no such index.
    #[error("{op}: {argument} is {got}, expected {}", indices(*size))]
    Index {
        /// The operator.
        op: &'static str,
        /// Which of its arguments is wrong.
        argument: &'static str,
        /// The index asked for; a negative one counts from the end.
        got: isize,
        /// How many there are.
        size: usize,
    },
    /// A parameter is not what it can be.
    #[error("{op}: {argument} is {got}, expected {expected}")]
    Parameter {
        /// The operator.
        op: &'static str,
        /// Which of its arguments is wrong.
        argument: &'static str,
        /// What was given.
        got: String,
        /// What would be right.
        expected: String,
    },
    /// An argument is on another device, or in another pool of the same one.
    #[error(
        "{op}: {argument} is in a pool on {got}, expected the pool on {expected} that the first argument is in: \
         move it there with `to`"
    )]
    OtherPool {
        /// The operator.
        op: &'static str,
        /// Which of its arguments is elsewhere.
        argument: &'static str,
        /// The device it is on.
        got: String,
        /// The device of the first argument.
        expected: String,
    },
    /// A file is not what it should be.
    #[error("{}: {place} is {got}, expected {expected}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Where in it.
        place: String,
        /// What is there.
        got: String,
        /// What would be right.
        expected: String,
    },
    /// The operating system refused or failed to read or write a file.
    #[error("{}: {message}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What kind of failure it is.
        kind: std::io::ErrorKind,
        /// What the system said.
        message: String,
    },
    /// Values on the host are not what they should be.
    #[error("the values are {got}, expected {expected}")]
    Array {
        /// What was given.
        got: String,
        /// What would be right.
        expected: String,
    },
    /// The runtime or the device refused or failed.
    #[error(transparent)]
    Runtime(#[from] streampool_runtime::Error),
}

impl Error {
    /// `argument` of `op` has a shape that does not fit.
    #[cold]
    pub fn shape(
        op: &'static str,
        argument: &'static str,
        got: &[usize],
        expected: impl ToString,
    ) -> Error {
        Error::Shape {
            op,
            argument,
            got: got.to_vec(),
            expected: expected.to_string(),
        }
    }

    /// `argument` of `op` has an element type that does not fit.
    #[cold]
    pub fn dtype(
        op: &'static str,
        argument: &'static str,
        got: DType,
        expected: impl ToString,
    ) -> Error {
        Error::DType {
            op,
            argument,
            got,
            expected: expected.to_string(),
        }
    }

    /// `argument` of `op` is not what it can be.
    #[cold]
    pub fn parameter(
        op: &'static str,
        argument: &'static str,
        got: impl ToString,
        expected: impl ToString,
    ) -> Error {
        Error::Parameter {
            op,
            argument,
            got: got.to_string(),
            expected: expected.to_string(),
        }
    }

    /// As the error of `op`, which is made of other operators.
    #[cold]
    pub(crate) fn named(mut self, name: &'static str) -> Error {
        if let Error::Shape { op, .. }
        | Error::DType { op, .. }
        | Error::Axis { op, .. }
        | Error::Index { op, .. }
        | Error::Parameter { op, .. } = &mut self
        {
            *op = name;
        }
        self
    }

    /// `place` of a file is not what it should be.
    #[cold]
    pub(crate) fn file(
        path: &Path,
        place: impl ToString,
        got: impl ToString,
        expected: impl ToString,
    ) -> Error {
        Error::File {
            path: path.to_owned(),
            place: place.to_string(),
            got: got.to_string(),
            expected: expected.to_string(),
        }
    }

    /// The system failed on a file.
    #[cold]
    pub(crate) fn io(path: &Path, error: &std::io::Error) -> Error {
        Error::Io {
            path: path.to_owned(),
            kind: error.kind(),
            message: error.to_string(),
        }
    }
}

impl From<streampool_device::Error> for Error {
    fn from(error: streampool_device::Error) -> Self {
        Error::Runtime(error.into())
    }
}

fn axes(rank: usize) -> String {
    match rank {
        0 => "none: a scalar has no axes".to_owned(),
        _ => format!("-{rank} to {}", rank - 1),
    }
}

fn indices(size: usize) -> String {
    match size {
        0 => "none: the axis is empty".to_owned(),
        _ => format!("-{size} to {}", size - 1),
    }
}
