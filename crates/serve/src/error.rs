//! Why a request is not answered with outputs, and what the two protocols call that.

use std::time::Duration;

use streampool::batch::Error as Batch;
use streampool::{ErrorKind, Fault};

/// The result of a call of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a request failed. The text is for the client.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is no such model, or it is not loaded.
    #[error("Request for unknown model: '{0}' is not found")]
    UnknownModel(String),
    /// The model has no such version, or it is not loaded.
    #[error("Request for unknown model: '{0}' version {1} is not found")]
    UnknownVersion(String, String),
    /// No region of shared memory has this name.
    #[error("Unable to find system shared memory region: '{0}'")]
    UnknownRegion(String),
    /// The request is wrong.
    #[error("{0}")]
    Invalid(String),
    /// A body has more bytes than are allowed.
    #[error("{what} is larger than {limit} bytes, the limit that `{setting}` sets")]
    TooLarge {
        /// What is too large.
        what: &'static str,
        /// The limit.
        limit: usize,
        /// The setting.
        setting: &'static str,
    },
    /// The client takes too long to send its body.
    #[error("the body did not arrive within {0:?}, the limit that `body_time` sets")]
    SlowBody(Duration),
    /// The server has keys, and the request has none of them.
    #[error("a key is missing or not known: send `Authorization: Bearer KEY`")]
    Unauthenticated,
    /// The owner of the key may not do this.
    #[error("tenant '{0}' may not load or unload models, or change settings")]
    Forbidden(String),
    /// The tenant has as many requests in progress as it may.
    #[error("tenant '{tenant}' has {limit} requests in progress, its limit")]
    TenantLimit {
        /// Who.
        tenant: String,
        /// How many it may have.
        limit: usize,
    },
    /// The queue of the model is full.
    #[error("Exceeds maximum queue size: {why}")]
    Full {
        /// Which limit was reached.
        why: String,
        /// Which kind of limit that is.
        refusal: Refusal,
        /// When to try again.
        retry_after: Duration,
    },
    /// More requests are in progress than are allowed.
    #[error("the server already handles {0} requests, the limit that `max_requests` sets")]
    TooManyRequests(usize),
    /// The server is being shut down.
    #[error("the server is shutting down")]
    ShuttingDown,
    /// The deadline passed.
    #[error("Request timeout expired")]
    Deadline,
    /// The server does not do this.
    #[error("{0}")]
    Unsupported(String),
    /// The model or the server failed.
    #[error("{0}")]
    Internal(String),
}

impl Error {
    /// The status of HTTP.
    pub fn status(&self) -> u16 {
        match self {
            Error::UnknownModel(_) | Error::UnknownVersion(..) | Error::UnknownRegion(_) => 404,
            Error::Invalid(_) => 400,
            Error::TooLarge { .. } => 413,
            Error::Unauthenticated => 401,
            Error::Forbidden(_) => 403,
            Error::SlowBody(_) => 408,
            Error::TenantLimit { .. } => 429,
            Error::Full { .. } | Error::TooManyRequests(_) | Error::ShuttingDown => 503,
            Error::Deadline => 504,
            Error::Unsupported(_) => 501,
            Error::Internal(_) => 500,
        }
    }

    /// When to try again, where that helps.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Error::Full { retry_after, .. } => Some(*retry_after),
            Error::TooManyRequests(_) | Error::ShuttingDown | Error::TenantLimit { .. } => {
                Some(Duration::from_secs(1))
            }
            _ => None,
        }
    }

    /// The reason under which a failed request is counted.
    pub fn reason(&self) -> Reason {
        match self {
            error if error.refusal().is_some() => Reason::Rejected,
            Error::Deadline => Reason::Deadline,
            Error::Internal(_) => Reason::Backend,
            _ => Reason::Client,
        }
    }

    /// Why there was no room, if that is what it says.
    pub fn refusal(&self) -> Option<Refusal> {
        match self {
            Error::Full { refusal, .. } => Some(*refusal),
            Error::TooManyRequests(_) => Some(Refusal::Requests),
            Error::TenantLimit { .. } => Some(Refusal::Tenant),
            Error::ShuttingDown => Some(Refusal::ShuttingDown),
            _ => None,
        }
    }

    pub(crate) fn invalid(text: impl Into<String>) -> Error {
        Error::Invalid(text.into())
    }
}

/// The reasons under which failed requests are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// There was no room.
    Rejected,
    /// The client went away.
    Cancelled,
    /// The deadline passed.
    Deadline,
    /// The request was wrong.
    Client,
    /// The model failed.
    Backend,
}

impl Reason {
    /// All of them.
    pub const ALL: [Reason; 5] = [
        Reason::Rejected,
        Reason::Cancelled,
        Reason::Deadline,
        Reason::Client,
        Reason::Backend,
    ];

    /// The value of the label `reason`. Triton has `REJECTED`, `CANCELED` and `BACKEND`, too.
    pub fn label(self) -> &'static str {
        match self {
            Reason::Rejected => "REJECTED",
            Reason::Cancelled => "CANCELED",
            Reason::Deadline => "DEADLINE",
            Reason::Client => "CLIENT",
            Reason::Backend => "BACKEND",
        }
    }
}

/// Why there was no room for a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// As many requests wait for the model as may.
    QueueRequests,
    /// As many requests of its priority wait for the model as may.
    QueuePriority,
    /// As many bytes wait for the model as may.
    QueueBytes,
    /// The server has as many requests in progress as it may.
    Requests,
    /// The tenant has.
    Tenant,
    /// The server ends, or the model is unloaded.
    ShuttingDown,
}

impl Refusal {
    /// All of them.
    pub const ALL: [Refusal; 6] = [
        Refusal::QueueRequests,
        Refusal::QueuePriority,
        Refusal::QueueBytes,
        Refusal::Requests,
        Refusal::Tenant,
        Refusal::ShuttingDown,
    ];

    /// The value of the label `reason`.
    pub fn label(self) -> &'static str {
        match self {
            Refusal::QueueRequests => "queue_requests",
            Refusal::QueuePriority => "queue_priority",
            Refusal::QueueBytes => "queue_bytes",
            Refusal::Requests => "max_requests",
            Refusal::Tenant => "tenant_limit",
            Refusal::ShuttingDown => "shutting_down",
        }
    }
}

impl From<Batch> for Error {
    fn from(error: Batch) -> Error {
        let text = error.to_string();
        // Only the queue refuses before anything runs, and a balancer may send only such a request again. Memory or a stream may be
        // missing in the midst of a run.
        match &error {
            Batch::Full {
                setting,
                retry_after,
                ..
            } => {
                return Error::Full {
                    why: text,
                    refusal: match *setting {
                        "capacity_bytes" => Refusal::QueueBytes,
                        "capacity_of" => Refusal::QueuePriority,
                        _ => Refusal::QueueRequests,
                    },
                    retry_after: *retry_after,
                };
            }
            Batch::Closed => return Error::ShuttingDown,
            _ => {}
        }
        let error = streampool::Error::from(error);
        // An index that is not there: indices come from clients. The fault of a program says so in its text only.
        let by_index = |fault: &Fault| fault.message().contains("is out of range for axis");
        if error.fault().is_some_and(by_index) {
            return Error::Invalid(text);
        }
        match error.kind() {
            ErrorKind::InvalidInput | ErrorKind::TooLarge => Error::Invalid(text),
            ErrorKind::DeadlineExceeded => Error::Deadline,
            _ => Error::Internal(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_queue_refuses_may_be_sent_again() {
        let full = Batch::Full {
            requests: 1,
            bytes: 1,
            setting: "capacity",
            retry_after: Duration::from_secs(1),
        };
        assert_eq!(Error::from(full).status(), 503);
        assert_eq!(Error::from(Batch::Closed).status(), 503);
        let no_memory = streampool::device::Error::OutOfMemory {
            device: "host".to_owned(),
            requested: 8,
            in_use: 8,
            capacity: 8,
        };
        let no_stream = streampool::runtime::Error::NoFreeStream { limit: 1 };
        for failed in [Batch::failed(no_memory), Batch::failed(no_stream)] {
            let error = Error::from(failed);
            assert_eq!((error.status(), error.reason()), (500, Reason::Backend));
            assert_eq!(error.retry_after(), None);
        }
    }
}
