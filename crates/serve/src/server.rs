//! What both protocols share: the models, the limits, and whether the server is ready.

use std::sync::Arc;
use std::time::Duration;

use axum::http::Request;
use tokio::sync::{Semaphore, SemaphorePermit, watch};

use crate::error::{Error, Result};
use crate::failures::Failures;
use crate::figures::Watch;
use crate::log::Log;
use crate::model::Model;
use crate::repository::Repository;
use crate::shared_memory::Regions;
use crate::tenants::{self, Keys, Place, Tenants, Who};
use crate::traces::{Context, Tracer};

/// The name that clients are told.
pub const NAME: &str = "streampool";

/// How often those who wait for a change of readiness look whether devices are lost.
const LOOK: Duration = Duration::from_millis(500);

/// The extensions of the protocol that the server has.
pub const EXTENSIONS: [&str; 10] = [
    "classification",
    "model_repository",
    "schedule_policy",
    "model_configuration",
    "binary_tensor_data",
    "parameters",
    "statistics",
    "system_shared_memory",
    "trace",
    "logging",
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
    /// Tenants that have metrics of their own.
    pub tenant_labels: usize,
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
            tenant_labels: 64,
        }
    }
}

/// What a server has beside models.
#[derive(Default)]
pub struct Options {
    /// Only requests with one of these keys are answered, if there are any.
    pub keys: Option<Keys>,
    /// The log, if clients can change what it shows.
    pub log: Option<Log>,
    /// What traces requests.
    pub tracer: Option<Arc<Tracer>>,
    /// How the names of the objects of shared memory begin that clients may use; nothing: they may use none.
    pub shared_memory: Option<String>,
}

/// What the server is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    NotReady,
    Ready,
    /// Connections are about to be closed.
    Ending,
}

/// A server of the models of a folder. Its routers go into any `axum` application.
pub struct Server {
    repository: Repository,
    limits: Limits,
    permits: Semaphore,
    phase: watch::Sender<Phase>,
    keys: Option<Keys>,
    tenants: Arc<Tenants>,
    failures: Failures,
    log: Option<Log>,
    tracer: Option<Arc<Tracer>>,
    regions: Regions,
}

impl Server {
    /// A server of these models. It is not ready before [`set_ready`](Self::set_ready).
    pub fn new(repository: Repository, limits: Limits) -> Arc<Server> {
        Server::with(repository, limits, Options::default())
    }

    /// A server that has more than models.
    pub fn with(repository: Repository, limits: Limits, options: Options) -> Arc<Server> {
        let permits = limits.max_requests.min(Semaphore::MAX_PERMITS);
        Arc::new(Server {
            repository,
            permits: Semaphore::new(permits),
            tenants: Arc::new(Tenants::new(limits.tenant_labels)),
            limits,
            phase: watch::Sender::new(Phase::NotReady),
            keys: options.keys,
            failures: Failures::default(),
            log: options.log,
            tracer: options.tracer,
            regions: Regions::new(options.shared_memory),
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

    /// The keys, if requests need one.
    pub fn keys(&self) -> Option<&Keys> {
        self.keys.as_ref()
    }

    /// What became of the requests of each tenant.
    pub fn tenants(&self) -> &Arc<Tenants> {
        &self.tenants
    }

    /// The last requests that failed.
    pub fn failures(&self) -> &Failures {
        &self.failures
    }

    /// What traces requests.
    pub fn tracer(&self) -> Option<&Arc<Tracer>> {
        self.tracer.as_ref()
    }

    /// The log, if clients can change what it shows.
    pub(crate) fn log(&self) -> Result<&Log> {
        self.log.as_ref().ok_or_else(|| {
            Error::Unsupported(
                "the program has a log of its own, which clients cannot change".to_owned(),
            )
        })
    }

    /// The regions of shared memory.
    pub(crate) fn regions(&self) -> &Regions {
        &self.regions
    }

    /// Whether load balancers should send requests. A server whose devices are all lost is not ready.
    pub fn is_ready(&self) -> bool {
        self.is_ready_in(*self.phase.borrow())
    }

    fn is_ready_in(&self, phase: Phase) -> bool {
        phase == Phase::Ready && self.repository.devices().is_usable()
    }

    /// Says whether load balancers should send requests. Requests are answered anyway.
    pub fn set_ready(&self, ready: bool) {
        let phase = if ready { Phase::Ready } else { Phase::NotReady };
        self.phase.send_replace(phase);
    }

    /// Ends what never ends by itself: streams of events and of health. To be called when listeners are about to stop.
    pub fn end(&self) {
        self.phase.send_replace(Phase::Ending);
    }

    /// Waits until the server is ready if it was not, or the other way round; says how it is. Nothing, if the server ends.
    pub(crate) async fn ready_after(&self, before: Option<bool>) -> Option<bool> {
        let mut phase = self.phase.subscribe();
        let differs = |phase: &Phase| match phase {
            Phase::Ending => true,
            phase => Some(self.is_ready_in(*phase)) != before,
        };
        loop {
            // Nobody tells when a device is lost.
            let changed = tokio::time::timeout(LOOK, phase.wait_for(differs));
            let Ok(phase) = changed.await else { continue };
            return match *phase.ok()? {
                // Whoever was told that all is well is told that no more.
                Phase::Ending => before.filter(|&before| before).map(|_| false),
                phase => Some(self.is_ready_in(phase)),
            };
        }
    }

    /// Waits until the server ends.
    pub(crate) async fn ended(&self) {
        let mut phase = self.phase.subscribe();
        // It cannot fail while the server is there.
        let _ = phase.wait_for(|phase| *phase == Phase::Ending).await;
    }

    /// Finds out who sends a request, and keeps it [with the request](Who::of). The paths in `open` need no key.
    pub(crate) fn admit<B>(&self, request: &mut Request<B>, open: &[&str]) -> Result<()> {
        let who = match tenants::who(self.keys.as_ref(), request.headers()) {
            Err(_) if open.contains(&request.uri().path()) => Who::default(),
            who => who?,
        };
        let context = self
            .tracer
            .is_some()
            .then(|| Context::of(request.headers()));
        let context = context.flatten();
        request.extensions_mut().insert(Who { context, ..who });
        Ok(())
    }

    /// A request for a model has come.
    pub(crate) fn begin(&self, model: &Model, who: &Who) -> Watch {
        let of = (model.name(), model.version());
        let span = self.tracer.as_ref();
        let span = span.and_then(|tracer| tracer.begin(of, who.tenant.as_ref(), who.context));
        model.figures().begin(&self.tenants, who, span)
    }

    /// A request for a model is over: it is counted, and kept for those who look if it failed.
    pub(crate) fn finish<T>(&self, model: &Model, watch: Watch, answer: &Result<T>) {
        let error = answer.as_ref().err();
        watch.end(error);
        if let Some(error) = error {
            tracing::debug!(model = model.name(), %error, "failed");
            self.failures.add(model.name(), error);
        }
    }

    /// Takes one of the places for requests in progress.
    pub fn enter(&self, who: &Who) -> Result<(SemaphorePermit<'_>, Option<Place>)> {
        let permit = self.permits.try_acquire();
        let permit = permit.map_err(|_| Error::TooManyRequests(self.limits.max_requests))?;
        Ok((permit, self.tenants.enter(who)?))
    }

    /// Refuses to load or unload models, or to change settings, unless the client may do that.
    pub fn check_control(&self, who: &Who) -> Result<()> {
        match (self.limits.control, who.control) {
            (true, true) => Ok(()),
            (true, false) => {
                let tenant = who.tenant.as_deref().unwrap_or_default();
                Err(Error::Forbidden(tenant.to_owned()))
            }
            (false, _) => Err(Error::invalid(
                "explicit model load / unload is not allowed, nor is a change of settings: start the server with `--control`",
            )),
        }
    }
}
