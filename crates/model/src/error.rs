//! What can go wrong with models: which file, node or tensor it is, what it was given, and what would be right.

use std::path::{Path, PathBuf};

use crate::graph::Operator;

/// The result of a call of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a call failed. Its text says all of it, so what is inside is no [source](std::error::Error::source) of it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refused or failed to read a file.
    #[error("{}: {error}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        error: std::io::Error,
    },
    /// A file is not what it should be.
    #[error("{what} is {got}, expected {expected}")]
    File {
        /// Where in the file.
        what: String,
        /// What is there.
        got: String,
        /// What would be right.
        expected: String,
    },
    /// The model uses operators that are not supported.
    #[error("{}", unsupported(.0))]
    Unsupported(Vec<UnsupportedOperator>),
    /// A node failed.
    #[error("node {node:?} ({op}): {why}")]
    Node {
        /// Its name, or that of its first output if it has none.
        node: String,
        /// Its operator.
        op: String,
        /// Why.
        why: Box<NodeError>,
    },
    /// A tensor or another value of a file cannot be taken.
    #[error("value {name:?}: {why}")]
    Value {
        /// Its name.
        name: String,
        /// Why.
        why: Box<NodeError>,
    },
    /// A graph does not hold together.
    #[error(transparent)]
    Graph(NodeError),
    /// An input that a caller gave, or did not give.
    #[error("input {name:?} is {got}, expected {expected}")]
    Input {
        /// Its name.
        name: String,
        /// What was given.
        got: String,
        /// What would be right.
        expected: String,
    },
    /// An output that cannot be given as it was asked for.
    #[error("output {name:?} is {got}, expected {expected}")]
    Output {
        /// Its name.
        name: String,
        /// What it is.
        got: String,
        /// What would be right.
        expected: String,
    },
    /// A run was not over at its deadline.
    #[error("the deadline of the run is past")]
    Deadline,
    /// As many runs are under way on the stream as may be.
    #[error(
        "{limit} runs of the session are under way on this stream: wait for one of them, use submit_when_room, or raise \
         SessionOptions::max_in_flight"
    )]
    Busy {
        /// How many there may be at most.
        limit: usize,
    },
    /// The tensors of the caller refused or failed.
    #[error(transparent)]
    Tensor(#[from] streampool_tensor::Error),
    /// The runtime or the device refused or failed.
    #[error(transparent)]
    Runtime(#[from] streampool_runtime::Error),
}

/// An operator that is not supported, and every place where it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnsupportedOperator {
    /// Which.
    pub operator: Operator,
    /// Why, if it is not simply unknown.
    pub why: Option<String>,
    /// The nodes.
    pub nodes: Vec<String>,
}

/// Why one node failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NodeError {
    /// The operator refused its arguments, or failed.
    #[error(transparent)]
    Tensor(#[from] streampool_tensor::Error),
    /// A node of a graph inside the node failed.
    #[error(transparent)]
    Inner(#[from] Box<Error>),
    /// The model is not what it should be.
    #[error("{what} is {got}, expected {expected}")]
    Malformed {
        /// What is wrong.
        what: String,
        /// What it is.
        got: String,
        /// What would be right.
        expected: String,
    },
    /// There is no memory for a plan, of which this node takes more than any other.
    #[error("of the memory of a plan it takes {bytes} bytes, more than any other node: {error}")]
    NoMemory {
        /// What it takes.
        bytes: usize,
        /// What the pool said.
        error: streampool_runtime::Error,
    },
    /// The model asks for what is not to be had.
    #[error("{0} is not supported")]
    Unsupported(String),
}

impl Error {
    /// What failed on a stream, if that is behind it.
    pub(crate) fn on_stream(&self) -> Option<&streampool_runtime::Fault> {
        self.of_runtime()?.fault()
    }

    /// It, or simply that it was too late, where that is why a node or a tensor failed.
    pub(crate) fn or_deadline(self) -> Error {
        match self.of_runtime() {
            Some(streampool_runtime::Error::Deadline) => Error::Deadline,
            _ => self,
        }
    }

    /// Whether the budget of the run is spent.
    pub(crate) fn is_over_budget(&self) -> bool {
        let error = self.of_runtime();
        matches!(error, Some(streampool_runtime::Error::OverBudget { .. }))
    }

    /// What the runtime refused, if that is behind it.
    fn of_runtime(&self) -> Option<&streampool_runtime::Error> {
        match self {
            Error::Node { why, .. } | Error::Value { why, .. } => why.of_runtime(),
            Error::Graph(fault) => fault.of_runtime(),
            Error::Tensor(streampool_tensor::Error::Runtime(error)) | Error::Runtime(error) => {
                Some(error)
            }
            _ => None,
        }
    }

    /// The input `name` is not what it should be.
    pub(crate) fn input(name: &str, got: impl ToString, expected: impl ToString) -> Error {
        Error::Input {
            name: name.to_owned(),
            got: got.to_string(),
            expected: expected.to_string(),
        }
    }

    /// The system refused or failed to read the file at `path`.
    pub(crate) fn io(path: &Path, error: std::io::Error) -> Error {
        Error::Io {
            path: path.to_owned(),
            error,
        }
    }

    /// `what` in a file is not what it should be.
    pub(crate) fn file(what: impl ToString, got: impl ToString, expected: impl ToString) -> Error {
        Error::File {
            what: what.to_string(),
            got: got.to_string(),
            expected: expected.to_string(),
        }
    }
}

/// Refuses an attribute that lists another number of values.
pub(crate) fn alike(name: &str, got: usize, expected: usize) -> Result<(), NodeError> {
    match got == expected {
        true => Ok(()),
        false => Err(NodeError::malformed(
            format_args!("attribute {name}"),
            format_args!("of {got} values"),
            expected,
        )),
    }
}

impl NodeError {
    fn of_runtime(&self) -> Option<&streampool_runtime::Error> {
        match self {
            NodeError::Tensor(streampool_tensor::Error::Runtime(error)) => Some(error),
            NodeError::Inner(error) => error.of_runtime(),
            NodeError::NoMemory { error, .. } => Some(error),
            _ => None,
        }
    }

    /// The error of a value of this name.
    pub(crate) fn of_value(self, name: &str) -> Error {
        Error::Value {
            name: name.to_owned(),
            why: Box::new(self),
        }
    }

    /// The error of a node.
    pub(crate) fn of_node(self, name: &str, op: impl ToString) -> Error {
        Error::Node {
            node: name.to_owned(),
            op: op.to_string(),
            why: Box::new(self),
        }
    }

    /// `what` is not what it should be.
    pub(crate) fn malformed(
        what: impl ToString,
        got: impl ToString,
        expected: impl ToString,
    ) -> NodeError {
        NodeError::Malformed {
            what: what.to_string(),
            got: got.to_string(),
            expected: expected.to_string(),
        }
    }

    /// `what` is not supported.
    pub(crate) fn unsupported(what: impl ToString) -> NodeError {
        NodeError::Unsupported(what.to_string())
    }
}

fn unsupported(all: &[UnsupportedOperator]) -> String {
    let each = all.iter().map(|one| {
        let why = one
            .why
            .as_ref()
            .map(|why| format!(" ({why})"))
            .unwrap_or_default();
        let (operator, version) = (&one.operator, one.operator.version);
        format!(
            "{operator} of version {version}{why} at {}",
            one.nodes.join(", ")
        )
    });
    format!(
        "operators that are not supported: {}",
        each.collect::<Vec<_>>().join("; ")
    )
}
