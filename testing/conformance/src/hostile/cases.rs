//! Which cases a test of hostile numbers tries: so many, or for so long.

use std::time::{Duration, Instant};

/// The numbers of the cases.
///
/// `HOSTILE_FIRST` is the first, `HOSTILE_SECONDS` the time after which no further one begins, and each test has a variable of its
/// own for how many there are. Where only the time is given there are as many as fit into it.
#[derive(Debug)]
pub struct Cases {
    begun: Instant,
    time: Option<Duration>,
    next: u64,
    end: u64,
}

impl Cases {
    /// As many as the environment says in this variable, or else the usual number.
    pub fn from_environment(variable: &str, usual: u64) -> Cases {
        let first = number("HOSTILE_FIRST").unwrap_or(0);
        let time = number("HOSTILE_SECONDS").map(Duration::from_secs);
        let count = number(variable).unwrap_or(match time {
            Some(_) => u64::MAX,
            None => usual,
        });
        Cases {
            begun: Instant::now(),
            time,
            next: first,
            end: first.saturating_add(count),
        }
    }

    /// The next one that would be tried, and the one before which it ends at the latest.
    pub fn left(&self) -> std::ops::Range<u64> {
        let is_late = self.time.is_some_and(|time| self.begun.elapsed() >= time);
        self.next..if is_late { self.next } else { self.end }
    }

    /// Goes on with this one.
    pub fn go_to(&mut self, next: u64) {
        self.next = next;
    }

    /// How long ago it began.
    pub fn elapsed(&self) -> Duration {
        self.begun.elapsed()
    }
}

impl Iterator for Cases {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        let case = self.left().next()?;
        self.next = case + 1;
        Some(case)
    }
}

fn number(name: &str) -> Option<u64> {
    let given = std::env::var(name).ok()?;
    match given.parse() {
        Ok(number) => Some(number),
        Err(_) => panic!("{name}={given} is no number"),
    }
}
