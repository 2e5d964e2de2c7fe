//! Responses: JSON, text, and errors as clients expect them.

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use serde::Serialize;

use crate::error::{Error, Result};

/// A body of this type.
pub fn bytes(kind: &'static str, body: Vec<u8>) -> Response {
    let mut response = Response::new(Body::from(body));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

/// A text of this type.
pub fn text(kind: &'static str, body: String) -> Response {
    bytes(kind, body.into_bytes())
}

/// A value as JSON.
pub fn json(value: &impl Serialize) -> Response {
    match serde_json::to_vec(value) {
        Ok(body) => bytes("application/json", body),
        Err(why) => error(&Error::Internal(why.to_string())),
    }
}

/// A value as JSON, or the error.
pub fn result(result: Result<impl Serialize>) -> Response {
    match result {
        Ok(value) => json(&value),
        Err(why) => error(&why),
    }
}

/// Nothing, or the error.
pub fn done(result: Result<()>) -> Response {
    match result {
        Ok(()) => Response::new(Body::empty()),
        Err(why) => error(&why),
    }
}

/// An error: its text for people, its status for programs.
pub fn error(error: &Error) -> Response {
    let body = serde_json::json!({"error": error.to_string()}).to_string();
    let mut response = text("application/json", body);
    let status = StatusCode::from_u16(error.status()).ok();
    *response.status_mut() = status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    if status == Some(StatusCode::UNAUTHORIZED) {
        let value = HeaderValue::from_static("Bearer");
        let headers = response.headers_mut();
        headers.insert(header::WWW_AUTHENTICATE, value);
    }
    if let Some(time) = error.retry_after() {
        // Whole seconds, and not too early.
        let seconds = time.as_secs() + u64::from(time.subsec_nanos() > 0);
        let value = HeaderValue::from(seconds.max(1));
        response.headers_mut().insert(header::RETRY_AFTER, value);
    }
    response
}
