//! What both protocols share: the models, the limits, and whether the server is ready.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit};

use crate::error::{Error, Result};
use crate::repository::Repository;

/// The name that clients are told.
pub const NAME: &str = "streampool";

/// The extensions of the protocol that the server has.
pub const EXTENSIONS: [&str; 7] = [
    "classification",
    "model_repository",
    "schedule_policy",
    "model_configuration",
    "binary_tensor_data",
    "parameters",
    "statistics",
];

/// What a client may do at most.
#[derive(Debug, Clone)]
pub struct Limits {
    /// The bytes of a request's body, also after it was decompressed.
    pub max_body: usize,
    /// The bytes of a request's headers, 8 KiB at least.
    pub max_header: usize,
    /// How long the headers of a request may take to arrive; an idle connection is closed after that.
    pub header_time: Duration,
    /// How long the body of a request may take to arrive.
    pub body_time: Duration,
    /// Inferences that are in progress, over all models.
    pub max_requests: usize,
    /// Connections of one listener; more wait until one is closed.
    pub max_connections: usize,
    /// How long the server waits for requests in progress when it is stopped.
    pub drain_time: Duration,
    /// Whether clients may load and unload models.
    pub control: bool,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            max_body: 64 << 20,
            max_header: 64 << 10,
            header_time: Duration::from_secs(60),
            body_time: Duration::from_secs(60),
            max_requests: 4096,
            max_connections: 16_384,
            drain_time: Duration::from_secs(30),
            control: false,
        }
    }
}

/// A server of the models of a folder. Its routers go into any `axum` application.
pub struct Server {
    repository: Repository,
    limits: Limits,
    permits: Semaphore,
    ready: AtomicBool,
}

impl Server {
    /// A server of these models. It is not ready before [`set_ready`](Self::set_ready).
    pub fn new(repository: Repository, limits: Limits) -> Arc<Server> {
        let permits = limits.max_requests.min(Semaphore::MAX_PERMITS);
        Arc::new(Server {
            repository,
            permits: Semaphore::new(permits),
            limits,
            ready: AtomicBool::new(false),
        })
    }

    /// The models.
    pub fn repository(&self) -> &Repository {
        &self.repository
    }

    /// The limits.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Whether load balancers should send requests.
    pub fn is_ready(&self) -> bool {
        self.ready.load(Ordering::Relaxed)
    }

    /// Says whether load balancers should send requests. Requests are answered anyway.
    pub fn set_ready(&self, ready: bool) {
        self.ready.store(ready, Ordering::Relaxed);
    }

    /// Takes one of the places for requests in progress.
    pub fn enter(&self) -> Result<SemaphorePermit<'_>> {
        let permit = self.permits.try_acquire();
        permit.map_err(|_| Error::TooManyRequests(self.limits.max_requests))
    }

    /// Refuses to load or unload models unless clients may do that.
    pub fn check_control(&self) -> Result<()> {
        match self.limits.control {
            true => Ok(()),
            false => Err(Error::invalid(
                "explicit model load / unload is not allowed: start the server with `--control`",
            )),
        }
    }
}
