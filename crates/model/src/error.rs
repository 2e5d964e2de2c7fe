//! What can go wrong with a graph, and in which of its nodes.

/// The result of evaluating a graph.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a graph failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A node failed.
    #[error("node {node:?} ({op}): {fault}")]
    Node {
        /// Its name, or that of its first output if it has none.
        node: String,
        /// Its operator.
        op: String,
        /// Why.
        #[source]
        fault: Box<Fault>,
    },
    /// A graph does not hold together.
    #[error(transparent)]
    Graph(Fault),
}

/// Why one node failed.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// The operator refused its arguments, or failed.
    #[error(transparent)]
    Tensor(#[from] streampool_tensor::Error),
    /// A node of a graph inside the node failed.
    #[error(transparent)]
    Inner(#[from] Box<Error>),
    /// The file is not what it should be.
    #[error("{what} is {got}, expected {expected}")]
    Malformed {
        /// What is wrong.
        what: String,
        /// What it is.
        got: String,
        /// What would be right.
        expected: String,
    },
    /// The file asks for what is not to be had.
    #[error("{0} is not supported")]
    Unsupported(String),
}

impl Fault {
    /// `what` is not what it should be.
    pub fn malformed(what: impl ToString, got: impl ToString, expected: impl ToString) -> Fault {
        Fault::Malformed {
            what: what.to_string(),
            got: got.to_string(),
            expected: expected.to_string(),
        }
    }

    /// `what` is not supported.
    pub fn unsupported(what: impl ToString) -> Fault {
        Fault::Unsupported(what.to_string())
    }
}
