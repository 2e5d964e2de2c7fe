//! What is going on right now, in one line of standard error that is gone when it is over.

use std::ffi::OsString;
use std::io::{self, IsTerminal, Write};

use crate::table;

/// The line. Without a terminal there is none.
pub struct Progress {
    shown: bool,
}

impl Progress {
    /// A line, still empty.
    pub fn on_terminal() -> Self {
        Progress {
            shown: can_erase(io::stderr().is_terminal(), std::env::var_os("TERM")),
        }
    }

    /// Shows that step `number` of `steps` is `what`.
    pub fn step(&self, number: usize, steps: usize, what: &str) {
        // The line is cut where it would wrap: a wrapped line cannot be erased.
        let line: String = format!("[{number}/{steps}] {what}")
            .chars()
            .take(table::width_of(io::stderr()) - 1)
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

/// Whether a line can be erased there: a terminal that is dumb knows no escapes.
fn can_erase(is_terminal: bool, term: Option<OsString>) -> bool {
    is_terminal && term.is_none_or(|term| term != "dumb")
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.show("");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dumb_terminal_gets_no_escapes() {
        assert!(can_erase(true, Some("xterm".into())) && can_erase(true, None));
        assert!(!can_erase(true, Some("dumb".into())));
        assert!(!can_erase(false, Some("xterm".into())));
    }
}
