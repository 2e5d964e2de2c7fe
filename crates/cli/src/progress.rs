//! What is going on right now, in one line of standard error that is gone when it is over.

use std::io::{self, IsTerminal, Write};

/// The line. Without a terminal there is none.
pub struct Progress {
    shown: bool,
}

impl Progress {
    /// A line, still empty.
    pub fn new() -> Self {
        Progress {
            shown: io::stderr().is_terminal(),
        }
    }

    /// Shows that step `number` of `steps` is `what`.
    pub fn step(&self, number: usize, steps: usize, what: &str) {
        // The line is cut where it would wrap: a wrapped line cannot be erased.
        let line: String = format!("[{number}/{steps}] {what}")
            .chars()
            .take(79)
            .collect();
        self.show(&line);
    }

    fn show(&self, line: &str) {
        if self.shown {
            let mut stderr = io::stderr().lock();
            let _ = write!(stderr, "\r\x1b[K{line}").and_then(|()| stderr.flush());
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.show("");
    }
}
