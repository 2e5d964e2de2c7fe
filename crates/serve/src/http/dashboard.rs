//! The page at `/`, and the events that keep it up to date.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderValue, header};
use axum::response::Response;
use bytes::Bytes;
use http_body_util::StreamBody;
use hyper::body::Frame;
use serde_json::{Value as Json, json};
use streampool::batch::Histogram;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

use super::reply;
use crate::server::Server;
use crate::statistics::total;

/// How often the page is told how things are.
const EVERY: Duration = Duration::from_secs(1);

/// The page. It loads nothing from elsewhere.
pub async fn page() -> Response {
    let page = include_str!("dashboard.html").to_owned();
    let mut response = reply::text("text/html; charset=utf-8", page);
    let policy = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; frame-ancestors 'none'; base-uri 'none'";
    let headers = response.headers_mut();
    headers.insert(
        header::CONTENT_SECURITY_POLICY,
        HeaderValue::from_static(policy),
    );
    response
}

/// How things are, each second, until the server ends or the client goes away.
pub async fn events(State(server): State<Arc<Server>>) -> Response {
    let (tell, told) = mpsc::channel::<Result<Frame<Bytes>, Infallible>>(1);
    tokio::spawn(async move {
        loop {
            let event = format!("data: {}\n\n", state(&server));
            if tell.send(Ok(Frame::data(event.into()))).await.is_err() {
                return;
            }
            tokio::select! {
                () = tokio::time::sleep(EVERY) => {}
                () = server.ended() => return,
                () = tell.closed() => return,
            }
        }
    });
    let mut response = Response::new(Body::new(StreamBody::new(ReceiverStream::new(told))));
    let headers = response.headers_mut();
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("text/event-stream"),
    );
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// How things are. The page takes differences of two such.
fn state(server: &Server) -> Json {
    let figures = server.repository().all_figures();
    let models = figures.iter().map(|(name, version, figures)| {
        let seen = figures.seen();
        let queues = &seen.queues;
        json!({
            "name": name,
            "version": version,
            "success": seen.success.0,
            "failures": seen.failures.iter().sum::<u64>(),
            "pending": seen.pending,
            "queued": queues.queued,
            "running": queues.running,
            "oldest_ns": queues.oldest_wait,
            "rows": total(&queues.batch_rows),
            "batches": queues.batch_rows.count(),
            "padding": queues.padding_waste,
            "wait": counts(&queues.queue_time),
            "compute": counts(&queues.compute_time),
            "sizes": counts(&queues.batch_rows),
        })
    });
    let devices = server.repository().devices();
    let names = devices
        .status()
        .into_iter()
        .map(|device| match device.lost {
            None => device.name,
            Some(_) => format!("{} (lost)", device.name),
        });
    let names: Vec<String> = names.collect();
    let pool = devices.pools().next().and_then(|pool| pool.snapshot().ok());
    json!({
        "ready": server.is_ready(),
        "version": env!("CARGO_PKG_VERSION"),
        "models": models.collect::<Vec<_>>(),
        "device": names.join(", "),
        "memory": pool.as_ref().map(|pool| pool.memory),
        "places": pool.as_ref().map(|pool| pool.streams),
        "streams": pool.as_ref().map(|pool| {
            let each = pool.made.iter().map(|stream| json!({
                "index": stream.index,
                "ops": stream.ops,
                "busy": stream.encoded > stream.completed,
                "fault": stream.fault,
            }));
            each.collect::<Vec<_>>()
        }),
        "failures": server.failures().seen(),
    })
}

/// The values of a histogram, and how often each is there.
fn counts(histogram: &Histogram) -> Vec<(u64, u64)> {
    histogram.counts().collect()
}
