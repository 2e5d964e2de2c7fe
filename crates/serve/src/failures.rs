//! The last requests that failed, for those who look at the server.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use serde::Serialize;

use crate::error::Error;

/// How many are kept.
const MOST: usize = 32;

/// The last requests that failed.
#[derive(Default)]
pub struct Failures(Mutex<VecDeque<Failure>>);

/// A request that failed.
#[derive(Debug, Clone, Serialize)]
pub struct Failure {
    /// Milliseconds since 1970.
    pub at: u64,
    /// The model.
    pub model: String,
    /// The reason, as metrics have it.
    pub reason: &'static str,
    /// What the client was told.
    pub error: String,
}

impl Failures {
    /// Keeps a failure.
    pub fn add(&self, model: &str, error: &Error) {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let mut text = error.to_string();
        // It may quote what a client sent.
        if let Some((end, _)) = text.char_indices().nth(300) {
            text.truncate(end);
        }
        let failure = Failure {
            at: now.map_or(0, |now| now.as_millis() as u64),
            model: model.to_owned(),
            reason: error.reason().label(),
            error: text,
        };
        let mut failures = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        failures.truncate(MOST - 1);
        failures.push_front(failure);
    }

    /// The failures, the last first.
    pub fn seen(&self) -> Vec<Failure> {
        let failures = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        failures.iter().cloned().collect()
    }
}
