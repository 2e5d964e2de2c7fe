//! How traces leave the server: to a collector by OTLP over HTTP, or to a file, in the background. A request never waits for that.

use std::fmt;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, timeout, timeout_at};

use super::span::{Finished, Writer};

/// How many requests wait to leave; what comes beyond that is dropped, and counted.
const WAITING: usize = 4096;
/// How many leave together.
const TOGETHER: usize = 512;
/// How long one waits for others.
const EVERY: Duration = Duration::from_secs(1);
/// How long a collector may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// Where traces go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Destination {
    /// A collector of OpenTelemetry.
    Collector {
        /// `HOST:PORT`.
        address: String,
        /// The path of its receiver.
        path: String,
    },
    /// A file that they are appended to, one message a line.
    File(PathBuf),
}

impl FromStr for Destination {
    type Err = String;

    fn from_str(text: &str) -> Result<Destination, String> {
        if text.starts_with("https://") {
            return Err("a collector is reached by http only: run one on this machine, and let it send on by https".to_owned());
        }
        let Some(rest) = text.strip_prefix("http://") else {
            return match text.is_empty() || text.contains("://") {
                true => Err("expected http://HOST:PORT or a file".to_owned()),
                false => Ok(Destination::File(text.into())),
            };
        };
        let (address, path) = rest
            .split_at_checked(rest.find('/').unwrap_or(rest.len()))
            .unwrap_or((rest, ""));
        let has_port = address
            .rsplit_once(':')
            .is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok());
        let plain = |c: char| c.is_ascii_graphic() && c != '@';
        if !address.chars().all(plain) || !path.chars().all(plain) || address.is_empty() {
            return Err("expected http://HOST:PORT".to_owned());
        }
        Ok(Destination::Collector {
            address: match has_port {
                true => address.to_owned(),
                false => format!("{address}:4318"),
            },
            path: match path {
                "" | "/" => "/v1/traces".to_owned(),
                path => path.to_owned(),
            },
        })
    }
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Destination::Collector { address, path } => write!(f, "http://{address}{path}"),
            Destination::File(path) => write!(f, "{}", path.display()),
        }
    }
}

/// What became of the traces of requests.
#[derive(Debug, Default)]
pub struct Counts {
    sent: AtomicU64,
    dropped: AtomicU64,
    failed: AtomicU64,
}

impl Counts {
    /// Each outcome, and how many there were.
    pub fn seen(&self) -> [(&'static str, u64); 3] {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        [
            ("sent", of(&self.sent)),
            ("dropped", of(&self.dropped)),
            ("failed", of(&self.failed)),
        ]
    }
}

enum Message {
    Finished(Finished),
    /// All that came before is to leave now.
    Flush(oneshot::Sender<()>),
}

/// The way to the exporter.
#[derive(Debug)]
pub struct Queue {
    sender: mpsc::Sender<Message>,
    counts: Arc<Counts>,
}

/// Sends traces on, in a task of its own.
pub struct Exporter {
    receiver: mpsc::Receiver<Message>,
    counts: Arc<Counts>,
    to: Destination,
    writer: Writer,
    /// Whether the last did not get through: one warning is enough.
    failing: bool,
}

/// The way to an exporter, and the exporter.
pub fn channel(to: Destination) -> (Queue, Exporter) {
    let (sender, receiver) = mpsc::channel(WAITING);
    let counts = Arc::new(Counts::default());
    let queue = Queue {
        sender,
        counts: counts.clone(),
    };
    let exporter = Exporter {
        receiver,
        counts,
        to,
        writer: Writer::new(),
        failing: false,
    };
    (queue, exporter)
}

impl Queue {
    /// Gives a request to the exporter, if there is room.
    pub fn put(&self, request: Finished) {
        if self.sender.try_send(Message::Finished(request)).is_err() {
            self.counts.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Waits until all that was put before has left, or could not.
    pub async fn flush(&self) {
        let (tell, told) = oneshot::channel();
        if self.sender.send(Message::Flush(tell)).await.is_ok() {
            // Without an exporter nothing leaves.
            let _ = told.await;
        }
    }

    /// What became of traces.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }
}

impl Exporter {
    /// Sends traces on until the server is gone.
    pub async fn run(mut self) {
        while let Some(first) = self.receiver.recv().await {
            let until = Instant::now() + EVERY;
            let (mut requests, mut next) = (Vec::new(), Some(first));
            let flush = loop {
                match next {
                    Some(Message::Finished(request)) => requests.push(request),
                    Some(Message::Flush(tell)) => break Some(tell),
                    None => break None,
                }
                if requests.len() >= TOGETHER {
                    break None;
                }
                next = timeout_at(until, self.receiver.recv())
                    .await
                    .unwrap_or(None);
            };
            if !requests.is_empty() {
                self.send(&requests).await;
            }
            // Who waits for it may have gone.
            let _ = flush.map(|tell| tell.send(()));
        }
    }

    async fn send(&mut self, requests: &[Finished]) {
        let body = self.writer.message(requests).to_string();
        let sent = match &self.to {
            Destination::Collector { address, path } => {
                let sending = timeout(PATIENCE, post(address, path, &body)).await;
                sending.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
            }
            Destination::File(path) => {
                let path = path.clone();
                let written = tokio::task::spawn_blocking(move || append(&path, body)).await;
                written.unwrap_or_else(|error| Err(io::Error::other(error)))
            }
        };
        let count = match &sent {
            Ok(()) => &self.counts.sent,
            Err(_) => &self.counts.failed,
        };
        count.fetch_add(requests.len() as u64, Ordering::Relaxed);
        match &sent {
            Ok(()) if self.failing => tracing::info!(to = %self.to, "traces are taken again"),
            Err(error) if !self.failing => {
                tracing::warn!(to = %self.to, %error, "traces are not taken, and lost until they are");
            }
            _ => {}
        }
        self.failing = sent.is_err();
    }
}

fn append(path: &Path, mut line: String) -> io::Result<()> {
    line.push('\n');
    let file = std::fs::OpenOptions::new()
        .append(true)
        .create(true)
        .open(path);
    file?.write_all(line.as_bytes())
}

async fn post(address: &str, path: &str, body: &str) -> io::Result<()> {
    let mut stream = TcpStream::connect(address).await?;
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(body.as_bytes()).await?;
    // `HTTP/1.1 200`
    let mut status = [0; 12];
    stream.read_exact(&mut status).await?;
    match status[9] {
        b'2' => Ok(()),
        _ => Err(io::Error::other(format!(
            "the collector says {}",
            String::from_utf8_lossy(&status)
        ))),
    }
}

#[cfg(test)]
mod tests {
    use streampool::batch::Mark;

    use super::*;

    #[test]
    fn a_request_never_waits_for_its_trace() {
        // Nobody takes them: the exporter does not run.
        let (queue, exporter) = channel(Destination::File("none".into()));
        let now = std::time::Instant::now();
        let finished = || Finished {
            mark: Mark { trace: 1, span: 1 },
            parent: None,
            model: "a".to_owned(),
            version: 1,
            tenant: None,
            begun: now,
            ended: now,
            failure: None,
            queued: Vec::new(),
        };
        for _ in 0..WAITING + 100 {
            queue.put(finished());
        }
        let counts = queue.counts().seen();
        assert_eq!(counts, [("sent", 0), ("dropped", 100), ("failed", 0)]);
        // It is gone: that holds nobody up either.
        drop(exporter);
        queue.put(finished());
        assert_eq!(queue.counts().seen()[1].1, 101);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        runtime.block_on(queue.flush());
    }

    #[test]
    fn a_collector_that_is_not_there_or_refuses_is_counted() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut bytes = [0; 4096];
            let _ = std::io::Read::read(&mut stream, &mut bytes).unwrap();
            stream
                .write_all(b"HTTP/1.1 503 Service Unavailable\r\n\r\n")
                .unwrap();
        });
        let refused = runtime.block_on(post(&address, "/v1/traces", "{}"));
        assert!(refused.unwrap_err().to_string().contains("503"));
        server.join().unwrap();
        assert!(
            runtime
                .block_on(post(&address, "/v1/traces", "{}"))
                .is_err()
        );
    }

    #[test]
    fn destinations_are_collectors_or_files() {
        for (text, told) in [
            ("http://localhost", "http://localhost:4318/v1/traces"),
            ("http://h:1/", "http://h:1/v1/traces"),
            ("http://h:1/own/path", "http://h:1/own/path"),
            ("http://[::1]:4318", "http://[::1]:4318/v1/traces"),
            ("traces.json", "traces.json"),
        ] {
            let read: Destination = text.parse().unwrap();
            assert_eq!(read.to_string(), told);
        }
        for wrong in [
            "",
            "http://",
            "https://h",
            "ftp://h",
            "http://a b",
            "http://h\r\n",
        ] {
            assert!(wrong.parse::<Destination>().is_err(), "{wrong:?}");
        }
    }
}
