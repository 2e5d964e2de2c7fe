//! Bodies: read within limits of size and time, decompressed, compressed.

use std::io::{Read, Write};
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::Response;
use bytes::Bytes;
use flate2::Compression;
use flate2::read::{MultiGzDecoder, ZlibDecoder};
use flate2::write::{GzEncoder, ZlibEncoder};
use http_body_util::{BodyExt, LengthLimitError, Limited};

use crate::aside::aside;
use crate::error::{Error, Result};
use crate::server::Limits;

/// Smaller bodies are sent as they are.
const LEAST_COMPRESSED: usize = 512;

/// Bodies of refused requests are read up to this size, and for so long.
const MOST_SKIPPED: usize = 1 << 20;
const SKIP_TIME: Duration = Duration::from_secs(1);

/// Decompressed, a body has about so many times as many bytes.
const USUAL_RATIO: usize = 8;

/// What bodies may be compressed as.
const CODINGS: &[&str] = &[
    "gzip",
    "deflate",
    #[cfg(feature = "zstd")]
    "zstd",
];

/// The window of zstd that RFC 9659 allows for HTTP is 8 MiB: so much memory a body takes while it is read.
#[cfg(feature = "zstd")]
const ZSTD_WINDOW: u32 = 23;

/// The bytes of a body, decompressed.
pub async fn read(headers: &HeaderMap, body: Body, limits: &Limits) -> Result<Bytes> {
    let too_large = || Error::TooLarge {
        what: "the body",
        limit: limits.max_body,
        setting: "max_body",
    };
    // Who says that it is too large need not be read.
    if length(headers).is_some_and(|length| length > limits.max_body) {
        return Err(too_large());
    }
    let body = Limited::new(body, limits.max_body).collect();
    let body = tokio::time::timeout(limits.body_time, body).await;
    let body = body.map_err(|_| Error::SlowBody(limits.body_time))?;
    let body = body.map_err(|error| match error.is::<LengthLimitError>() {
        true => too_large(),
        false => Error::invalid(format!("the body did not arrive: {error}")),
    })?;
    let body = body.to_bytes();
    let encoding = headers.get(header::CONTENT_ENCODING);
    match encoding.map_or(Ok("identity"), |encoding| encoding.to_str()) {
        Ok("identity" | "") => Ok(body),
        encoding => aside(body.len().saturating_mul(USUAL_RATIO), || {
            decompressed(encoding.unwrap_or("?"), &body, limits)
        }),
    }
}

fn decompressed(encoding: &str, body: &[u8], limits: &Limits) -> Result<Bytes> {
    match encoding {
        "gzip" => inflated(MultiGzDecoder::new(body), limits),
        "deflate" => inflated(ZlibDecoder::new(body), limits),
        #[cfg(feature = "zstd")]
        "zstd" => {
            let reader = zstd::Decoder::with_buffer(body).and_then(|mut reader| {
                reader.window_log_max(ZSTD_WINDOW)?;
                Ok(reader)
            });
            inflated(
                reader.map_err(|error| Error::Internal(error.to_string()))?,
                limits,
            )
        }
        other => Err(Error::invalid(format!(
            "the content encoding {other:?} is not supported, expected one of {}",
            CODINGS.join(", ")
        ))),
    }
}

/// Reads a body that nobody needs, if it is not long: a client that still sends it hears the answer, and its connection stays.
pub async fn skip(headers: &HeaderMap, mut body: Body) {
    if length(headers).is_none_or(|length| length > MOST_SKIPPED) {
        return;
    }
    let frames = async { while let Some(Ok(_)) = body.frame().await {} };
    // Who sends it slowly hears the answer without that.
    let _ = tokio::time::timeout(SKIP_TIME, frames).await;
}

/// How many bytes the body has, by its header.
fn length(headers: &HeaderMap) -> Option<usize> {
    let length = headers.get(header::CONTENT_LENGTH)?;
    length.to_str().ok()?.parse().ok()
}

fn inflated(reader: impl Read, limits: &Limits) -> Result<Bytes> {
    let mut bytes = Vec::new();
    let most = limits.max_body as u64;
    let read = reader.take(most.saturating_add(1)).read_to_end(&mut bytes);
    read.map_err(|error| Error::invalid(format!("the body cannot be decompressed: {error}")))?;
    match bytes.len() > limits.max_body {
        true => Err(Error::TooLarge {
            what: "the decompressed body",
            limit: limits.max_body,
            setting: "max_body",
        }),
        false => Ok(bytes.into()),
    }
}

/// How a client wants a body compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    /// Not at all.
    Identity,
    /// As gzip.
    Gzip,
    /// As zlib.
    Deflate,
    /// As zstd.
    #[cfg(feature = "zstd")]
    Zstd,
}

impl Encoding {
    /// The first that a client names and that is known.
    pub fn wanted(headers: &HeaderMap) -> Encoding {
        let accepted = headers.get(header::ACCEPT_ENCODING);
        let accepted = accepted.and_then(|accepted| accepted.to_str().ok());
        let mut names = accepted.unwrap_or_default().split(',').map(|name| {
            let (name, quality) = name.split_once(';').unwrap_or((name, ""));
            (name.trim(), quality.trim().trim_start_matches("q=") != "0")
        });
        let found = names.find_map(|name| match name {
            ("gzip", true) => Some(Encoding::Gzip),
            ("deflate", true) => Some(Encoding::Deflate),
            #[cfg(feature = "zstd")]
            ("zstd", true) => Some(Encoding::Zstd),
            _ => None,
        });
        found.unwrap_or(Encoding::Identity)
    }
}

/// A response with this body, compressed as wanted.
pub fn response(kind: &'static str, body: Vec<u8>, wanted: Encoding) -> Response {
    let packed = match wanted {
        _ if body.len() < LEAST_COMPRESSED => None,
        Encoding::Identity => None,
        Encoding::Gzip => {
            let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
            let written = encoder.write_all(&body).and_then(|()| encoder.finish());
            written.ok().map(|packed| (packed, "gzip"))
        }
        Encoding::Deflate => {
            let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
            let written = encoder.write_all(&body).and_then(|()| encoder.finish());
            written.ok().map(|packed| (packed, "deflate"))
        }
        #[cfg(feature = "zstd")]
        Encoding::Zstd => {
            let packed = zstd::bulk::compress(&body, 1);
            packed.ok().map(|packed| (packed, "zstd"))
        }
    };
    let (body, encoding) = match packed {
        Some((packed, name)) => (packed, Some(name)),
        None => (body, None),
    };
    let mut response = super::reply::bytes(kind, body);
    if let Some(name) = encoding {
        let value = HeaderValue::from_static(name);
        response
            .headers_mut()
            .insert(header::CONTENT_ENCODING, value);
    }
    response
}
