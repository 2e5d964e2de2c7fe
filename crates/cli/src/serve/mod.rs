//! `streampool serve`: the models of a folder over HTTP and gRPC, until a signal ends it.

mod lines;

use std::path::PathBuf;
use std::sync::Arc;
use std::thread::available_parallelism;
use std::time::{Duration, Instant};

use clap::{Arg, Args, Command, ValueEnum};
use streampool_serve::listen::{self, Address, Listener};
use streampool_serve::log::{self, Shown};
use streampool_serve::tls::{Files, Tls};
use streampool_serve::traces::{Destination, Exporter, Tracer};
use streampool_serve::watch as look;
use streampool_serve::{Defaults, Keys, Limits, Repository, Server, grpc, http};
use tokio::sync::watch;

use crate::device::Devices;
use crate::text::within;
use crate::{Outcome, Result};

/// Serve the models of a folder over HTTP and gRPC (Open Inference Protocol)
///
/// A model is NAME.onnx, or a folder NAME with VERSION/model.onnx and optionally a config.pbtxt, as NVIDIA Triton has them.
/// On SIGTERM or Ctrl-C, the server reports that it is not ready, finishes the requests in progress, and exits. The log goes to
/// standard error.
///
/// The exit code is 1 if the folder cannot be read, an address is in use, or, without --allow-failures, a model cannot be
/// loaded.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
        streampool serve models\n  \
        streampool serve models --http 0.0.0.0:8000 --device cuda --log json\n  \
        curl localhost:8000/v2/models/NAME\n  \
        curl localhost:8000/metrics")]
pub struct Options {
    /// The folder that contains the models
    models: PathBuf,
    /// The address for HTTP: ADDRESS:PORT or unix:PATH
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8000")]
    http: Address,
    /// The address for gRPC: ADDRESS:PORT or unix:PATH; gRPC is off by default
    #[arg(long, value_name = "ADDRESS")]
    grpc: Option<Address>,
    /// The devices to run on: host, cuda or metal; cuda:1 is the second GPU, cuda:all is every GPU, host:4 is four devices on this CPU
    #[arg(long, value_name = "DEVICES", default_value = "host")]
    device: Devices,
    /// The maximum number of rows in a batch, unless config.pbtxt sets it
    #[arg(long, value_name = "ROWS", default_value_t = 32, value_parser = within(1usize, 65_536))]
    max_batch_size: usize,
    /// How long a request waits for others while the device is free, in microseconds
    #[arg(long, value_name = "US", default_value_t = 0, value_parser = within(0u64, 10_000_000))]
    max_wait: u64,
    /// The maximum number of batches of one model that run at the same time; 2 by default, 8 on a GPU
    #[arg(long, value_name = "COUNT", value_parser = within(1usize, 64))]
    max_in_flight: Option<usize>,
    /// The maximum number of requests that wait for one model
    #[arg(long, value_name = "COUNT", default_value_t = 1024, value_parser = within(1usize, 10_000_000))]
    queue_capacity: usize,
    /// The maximum number of tokens in a batch of texts, including padding
    #[arg(long, value_name = "TOKENS", default_value_t = 16_384, value_parser = within(16usize, 1 << 24))]
    max_batch_tokens: usize,
    /// The maximum number of inferences in progress, over all models
    #[arg(long, value_name = "COUNT", default_value_t = 4096, value_parser = within(1usize, 1_000_000))]
    max_requests: usize,
    /// The maximum number of open connections; further ones wait until one closes
    #[arg(long, value_name = "COUNT", default_value_t = 16_384, value_parser = within(1usize, 1_000_000))]
    max_connections: usize,
    /// The maximum size of the body of a request in bytes, before and after decompression
    #[arg(long, value_name = "BYTES", default_value_t = 64 << 20, value_parser = within(1usize, 1 << 40))]
    max_body: usize,
    /// The maximum size of the headers of a request, in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 64 << 10, value_parser = within(8192usize, 16 << 20))]
    max_header: usize,
    /// How long a client may take to send the headers of a request, in seconds; an idle connection is closed after that time
    #[arg(long, value_name = "SECONDS", default_value_t = 60.0, value_parser = within(0.1, 86_400.0))]
    header_time: f64,
    /// How long a client may take to send the body of a request, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 60.0, value_parser = within(0.1, 86_400.0))]
    body_time: f64,
    /// The deadline of each request in seconds, unless the request or config.pbtxt sets an earlier one; none by default
    #[arg(long, value_name = "SECONDS", value_parser = within(0.001, 86_400.0))]
    request_time: Option<f64>,
    /// How long the server still accepts connections after the signal to stop, in seconds, so that load balancers notice
    #[arg(long, value_name = "SECONDS", default_value_t = 0.0, value_parser = within(0.0, 3600.0))]
    drain_delay: f64,
    /// How long the server waits for requests in progress before it gives them up, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 30.0, value_parser = within(0.0, 86_400.0))]
    drain_time: f64,
    /// The certificate chain of the server, in PEM; TCP connections then use TLS
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// The private key of the certificate, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// The root certificates of clients, in PEM; clients must then present a certificate
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_client_ca: Option<PathBuf>,
    /// A JSON file with the keys, weights and limits of tenants; requests must then have a key
    #[arg(long, value_name = "FILE")]
    keys: Option<PathBuf>,
    /// The number of tenants with metrics of their own; the others share one set
    #[arg(long, value_name = "COUNT", default_value_t = 64, value_parser = within(1usize, 10_000))]
    tenant_labels: usize,
    /// How often to look for new and changed models, in seconds; never by default
    #[arg(long, value_name = "SECONDS", value_parser = within(0.1, 86_400.0))]
    watch: Option<f64>,
    /// Let clients load and unload models, and change the settings of log and traces
    #[arg(long)]
    control: bool,
    /// Serve the other models if one cannot be loaded
    #[arg(long)]
    allow_failures: bool,
    /// Let clients on this machine pass tensors in shared memory objects whose names begin with this prefix; off by default
    #[arg(long, value_name = "PREFIX")]
    shared_memory: Option<String>,
    /// Where to send traces: http://HOST:PORT of an OpenTelemetry collector, or a file; off by default
    #[arg(long, value_name = "TO")]
    traces: Option<Destination>,
    /// Trace one in this many requests that have no `traceparent`
    #[arg(long, value_name = "COUNT", default_value_t = 1000, value_parser = within(1u64, 1_000_000_000))]
    trace_rate: u64,
    /// The format of the log
    #[arg(long, value_enum, default_value_t = Log::Pretty)]
    log: Log,
    /// The lowest level to log
    #[arg(long, value_enum, default_value_t = Level::Info)]
    log_level: Level,
}

/// The form of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Log {
    /// Human-readable lines.
    Pretty,
    /// One JSON object per line.
    Json,
}

/// How important a line of a log is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
enum Level {
    Error,
    Warn,
    Info,
    Debug,
}

const PREFIX: &str = "STREAMPOOL_SERVE_";

/// How often keys and certificates are looked at.
const SECRETS: Duration = Duration::from_secs(2);

/// How long the end waits for traces to leave.
const FLUSH: Duration = Duration::from_secs(5);

/// Serves until a signal ends it.
pub fn run(options: &Options) -> Result<Outcome> {
    let begun = Instant::now();
    refuse_unknown(std::env::vars_os().filter_map(|(name, _)| name.into_string().ok()))?;
    let log = lines::begin(options.log == Log::Json, shown(options.log_level));
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    // Tokio reads the variable itself. The other processors are for the models, and for clients on this machine.
    if std::env::var_os("TOKIO_WORKER_THREADS").is_none() {
        runtime.worker_threads(available_parallelism().map_or(1, |count| count.get().div_ceil(2)));
    }
    let runtime = runtime.enable_all().build()?;
    runtime.block_on(serve(options, log, begun))
}

/// The variable that an option can also be given by.
fn variable(option: &Arg) -> String {
    format!("{PREFIX}{}", option.get_id().as_str().to_uppercase())
}

/// The command, each of whose options can also be given by a variable.
pub fn with_variables(command: Command) -> Command {
    command.mut_args(|option| {
        // The few names are kept for as long as the process.
        let name: &'static str = variable(&option).leak();
        option.env(name).hide_env(true)
    })
}

/// Refuses a variable that no option reads.
fn refuse_unknown(names: impl Iterator<Item = String>) -> Result<()> {
    let command = Options::augment_args(Command::new("serve"));
    let known: Vec<String> = command.get_arguments().map(variable).collect();
    let mut unknown = names.filter(|name| name.starts_with(PREFIX) && !known.contains(name));
    match unknown.next() {
        None => Ok(()),
        Some(name) => Err(format!("{name} is not a setting; known: {}", known.join(", ")).into()),
    }
}

/// The lines of the log that are at least so important.
fn shown(level: Level) -> Shown {
    Shown {
        error: true,
        warning: level >= Level::Warn,
        info: level >= Level::Info,
        debug: level >= Level::Debug,
    }
}

async fn serve(options: &Options, log: log::Log, begun: Instant) -> Result<Outcome> {
    let tls = tls(options)?;
    let http_listener = bind(&options.http).await?.with_tls(tls.clone());
    let grpc_listener = match &options.grpc {
        Some(address) => Some(bind(address).await?.with_tls(tls.clone())),
        None => None,
    };
    let (tracer, exporter) = tracer(options);
    let server = server(options, log, tracer)?;
    if let Some(exporter) = exporter {
        tokio::spawn(exporter.run());
    }
    let (stop, stopped) = watch::channel(false);
    let limits = server.limits();
    let http_address = http_listener.address();
    let router = http::router(server.clone());
    let mut serving = vec![tokio::spawn(listen::serve(
        http_listener,
        router,
        limits.clone(),
        stopped.clone(),
    ))];
    let grpc_address = grpc_listener.as_ref().map(Listener::address);
    if let Some(listener) = grpc_listener {
        let router = grpc::router(server.clone());
        serving.push(tokio::spawn(listen::serve(
            listener,
            router,
            limits.clone(),
            stopped,
        )));
    }
    tokio::spawn(look::secrets(server.clone(), tls, SECRETS));
    if let Some(seconds) = options.watch {
        let every = Duration::from_secs_f64(seconds);
        tokio::spawn(look::models(server.clone(), every));
    }
    server.set_ready(true);
    let models = server.repository().loaded().len();
    let milliseconds = begun.elapsed().as_secs_f64() * 1e3;
    tracing::info!(
        http = http_address,
        grpc = grpc_address,
        models,
        milliseconds,
        "ready"
    );
    listen::told_to_end().await;
    tracing::info!("shutting down");
    server.set_ready(false);
    tokio::time::sleep(Duration::from_secs_f64(options.drain_delay)).await;
    server.end();
    // If nobody listens any more, it has ended already.
    let _ = stop.send(true);
    let mut all_ended = true;
    for listener in serving {
        all_ended &= listener.await?;
    }
    if let Some(tracer) = server.tracer() {
        // A collector that takes none holds nobody up.
        let _ = tokio::time::timeout(FLUSH, tracer.flush()).await;
    }
    match all_ended {
        true => tracing::info!("all requests answered"),
        false => tracing::warn!("requests in progress were given up"),
    }
    Ok(Outcome::of(all_ended))
}

fn tls(options: &Options) -> Result<Option<Arc<Tls>>> {
    let (Some(certificate), Some(key)) = (&options.tls_cert, &options.tls_key) else {
        return Ok(None);
    };
    let files = Files {
        certificate: certificate.clone(),
        key: key.clone(),
        clients: options.tls_client_ca.clone(),
    };
    Ok(Some(Arc::new(Tls::load(files)?)))
}

async fn bind(address: &Address) -> Result<Listener> {
    let listener = Listener::bind(address).await;
    listener.map_err(|error| format!("cannot listen at {address}: {error}").into())
}

/// What traces requests, and what sends traces on.
fn tracer(options: &Options) -> (Option<Arc<Tracer>>, Option<Exporter>) {
    let traces = options.traces.clone();
    traces.map(|to| Tracer::new(to, options.trace_rate)).unzip()
}

/// The models of the folder, loaded.
fn server(options: &Options, log: log::Log, tracer: Option<Arc<Tracer>>) -> Result<Arc<Server>> {
    let keys = options.keys.as_deref().map(Keys::load).transpose()?;
    let defaults = Defaults {
        max_batch_size: options.max_batch_size,
        max_wait: Duration::from_micros(options.max_wait),
        max_in_flight: options.max_in_flight,
        queue_capacity: options.queue_capacity,
        request_time: options.request_time.map(Duration::from_secs_f64),
        max_batch_tokens: options.max_batch_tokens,
        weights: keys.as_ref().map(Keys::weights).unwrap_or_default(),
    };
    let limits = Limits {
        max_body: options.max_body,
        max_header: options.max_header,
        header_time: Duration::from_secs_f64(options.header_time),
        body_time: Duration::from_secs_f64(options.body_time),
        max_requests: options.max_requests,
        max_connections: options.max_connections,
        drain_time: Duration::from_secs_f64(options.drain_time),
        control: options.control,
        tenant_labels: options.tenant_labels,
    };
    let repository = Repository::new(&options.models, options.device.set()?, defaults);
    let failures = repository.load_all();
    let folder = options.models.display();
    let failures = failures.map_err(|error| format!("{folder}: {error}"))?;
    for (model, why) in &failures {
        tracing::error!(model, why, "not loaded");
    }
    match failures.first() {
        Some((_, why)) if !options.allow_failures => Err(why.clone().into()),
        _ => {
            let options = streampool_serve::Options {
                keys,
                log: Some(log),
                tracer,
                shared_memory: options.shared_memory.clone(),
            };
            Ok(Server::with(repository, limits, options))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_variable_is_refused() {
        let names = |name: &str| std::iter::once(name.to_owned());
        assert!(refuse_unknown(names("STREAMPOOL_SERVE_HTTP")).is_ok());
        assert!(refuse_unknown(names("STREAMPOOL_STREAMS")).is_ok());
        let error = refuse_unknown(names("STREAMPOOL_SERVE_HTPT")).unwrap_err();
        assert!(error.to_string().contains("STREAMPOOL_SERVE_HTTP"));
    }
}
