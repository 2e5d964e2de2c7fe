//! Listeners: connections within limits, and an end that loses nothing.

use std::fmt;
use std::future::ready;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
#[cfg(unix)]
use tokio::net::UnixListener;
use tokio::sync::{Semaphore, watch};

use crate::server::Limits;
use crate::tls::Tls;

/// Where to listen: `ADDRESS:PORT`, or `unix:PATH`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// An address and a port, or a name and a port.
    Tcp(String),
    /// A socket in the file system.
    Unix(PathBuf),
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Address, String> {
        match text.strip_prefix("unix:") {
            Some("") => Err("expected unix:PATH".to_owned()),
            Some(path) => Ok(Address::Unix(PathBuf::from(path))),
            None if text.contains(':') => Ok(Address::Tcp(text.to_owned())),
            None => Err("expected ADDRESS:PORT or unix:PATH".to_owned()),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Tcp(address) => f.write_str(address),
            Address::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// A socket that connections come to.
pub struct Listener {
    socket: Socket,
    tls: Option<Arc<Tls>>,
}

enum Socket {
    Tcp(TcpListener),
    #[cfg(unix)]
    Unix(UnixListener),
}

impl Listener {
    /// Listens at an address. A socket that a server before has left in the file system is replaced.
    pub async fn bind(address: &Address) -> std::io::Result<Listener> {
        let socket = match address {
            Address::Tcp(address) => TcpListener::bind(address).await.map(Socket::Tcp),
            #[cfg(unix)]
            Address::Unix(path) => {
                use std::os::unix::fs::FileTypeExt;
                let left = std::fs::symlink_metadata(path);
                if left.is_ok_and(|left| left.file_type().is_socket())
                    && std::os::unix::net::UnixStream::connect(path).is_err()
                {
                    std::fs::remove_file(path)?;
                }
                UnixListener::bind(path).map(Socket::Unix)
            }
            #[cfg(not(unix))]
            Address::Unix(_) => Err(std::io::ErrorKind::Unsupported.into()),
        };
        Ok(Listener {
            socket: socket?,
            tls: None,
        })
    }

    /// With TLS for connections of TCP. Those of the file system never leave the machine.
    pub fn with_tls(mut self, tls: Option<Arc<Tls>>) -> Listener {
        self.tls = tls;
        self
    }

    /// Where it listens.
    pub fn address(&self) -> String {
        match &self.socket {
            Socket::Tcp(tcp) => tcp
                .local_addr()
                .map_or_else(|e| e.to_string(), |a| a.to_string()),
            #[cfg(unix)]
            Socket::Unix(unix) => {
                let address = unix.local_addr();
                let path = address
                    .ok()
                    .and_then(|address| address.as_pathname().map(PathBuf::from));
                format!("unix:{}", path.unwrap_or_default().display())
            }
        }
    }
}

/// Serves connections until `stop` says so; then takes no more, and waits for requests in progress. Returns whether all of them
/// ended in time.
pub async fn serve(
    listener: Listener,
    router: Router,
    limits: Limits,
    mut stop: watch::Receiver<bool>,
) -> bool {
    let connections = Connections {
        builder: builder(&limits),
        graceful: GracefulShutdown::new(),
        places: Arc::new(Semaphore::new(
            limits.max_connections.min(Semaphore::MAX_PERMITS),
        )),
        router,
        header_time: limits.header_time,
    };
    tokio::select! {
        _ = stop.wait_for(|stop| *stop) => {}
        () = connections.accept(&listener) => {}
    }
    drop(listener);
    let ended = connections.graceful.shutdown();
    tokio::time::timeout(limits.drain_time, ended).await.is_ok()
}

fn builder(limits: &Limits) -> Builder<TokioExecutor> {
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.header_time)
        // Hyper wants room for a header of usual size.
        .max_buf_size(limits.max_header.max(8192));
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(limits.header_time)
        .max_concurrent_streams(u32::try_from(limits.max_requests).unwrap_or(u32::MAX))
        .max_header_list_size(u32::try_from(limits.max_header).unwrap_or(u32::MAX))
        .adaptive_window(true);
    builder
}

struct Connections {
    builder: Builder<TokioExecutor>,
    graceful: GracefulShutdown,
    places: Arc<Semaphore>,
    router: Router,
    header_time: Duration,
}

impl Connections {
    async fn accept(&self, listener: &Listener) {
        loop {
            let Ok(place) = self.places.clone().acquire_owned().await else {
                return;
            };
            let accepted = match &listener.socket {
                Socket::Tcp(tcp) => tcp.accept().await.map(|(stream, _)| {
                    // Small answers go at once. Where that cannot be, they come later.
                    let _ = stream.set_nodelay(true);
                    match &listener.tls {
                        None => self.start(ready(Ok(stream)), place),
                        Some(tls) => {
                            let (tls, within) = (tls.clone(), self.header_time);
                            self.start(async move { tls.accept(stream, within).await }, place)
                        }
                    }
                }),
                #[cfg(unix)]
                Socket::Unix(unix) => unix
                    .accept()
                    .await
                    .map(|(stream, _)| self.start(ready(Ok(stream)), place)),
            };
            if let Err(error) = accepted {
                tracing::warn!(%error, "no connection");
                // As when the process has no more files: others may be closed soon.
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
    }

    /// Serves a connection once it is `accepted`, of which TLS is a part.
    fn start<S>(
        &self,
        accepted: impl Future<Output = std::io::Result<S>> + Send + 'static,
        place: impl Send + 'static,
    ) where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let service = TowerToHyperService::new(self.router.clone());
        let (builder, graceful) = (self.builder.clone(), self.graceful.watcher());
        tokio::spawn(async move {
            let stream = match accepted.await {
                Ok(stream) => stream,
                Err(error) => {
                    tracing::debug!(%error, "no TLS");
                    return;
                }
            };
            let connection = builder.serve_connection(TokioIo::new(stream), service);
            if let Err(error) = graceful.watch(connection.into_owned()).await {
                tracing::debug!(%error, "a connection ended");
            }
            drop(place);
        });
    }
}

/// Waits until the process is told to end.
pub async fn told_to_end() {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        if let Ok(mut terminate) = signal(SignalKind::terminate()) {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = tokio::signal::ctrl_c() => {}
            }
            return;
        }
    }
    // Where signals cannot be heard they end the process themselves.
    if tokio::signal::ctrl_c().await.is_err() {
        std::future::pending().await
    }
}
