//! How long a case has kept the processors busy: a machine that does much else at the same time does not count.

use std::time::{Duration, Instant};

/// What the process has done since a moment.
#[derive(Debug)]
pub struct Effort {
    begun: Instant,
    used: Duration,
}

/// Where no thread wants a processor for so many times as long, nothing is done any more.
const IDLE: u32 = 20;

impl Effort {
    /// From now on.
    pub fn begin() -> Effort {
        Effort {
            begun: Instant::now(),
            used: used(),
        }
    }

    /// The time of processors that all threads of the process have used.
    pub fn used(&self) -> Duration {
        used().saturating_sub(self.used)
    }

    /// Whether what is over after so much time of processors should be over: it has used that, or every thread waits.
    pub fn is_beyond(&self, most: Duration) -> bool {
        self.used() >= most || self.begun.elapsed() >= most * IDLE && !others_are_ready()
    }
}

/// The time of processors that the process has used; where the system does not tell, the time that has passed.
fn used() -> Duration {
    from_system().unwrap_or_else(|| {
        static FIRST: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
        FIRST.get_or_init(Instant::now).elapsed()
    })
}

/// What Linux says, in hundredths of a second.
fn from_system() -> Option<Duration> {
    let told = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The name of the process may hold anything, so the fields behind it are counted from its end.
    let mut fields = told.rsplit(')').next()?.split_ascii_whitespace().skip(11);
    let mut next = || fields.next()?.parse::<u64>().ok();
    let ticks = next()? + next()?;
    Some(Duration::from_millis(10 * ticks))
}

/// Whether a thread besides this one runs, or would if there were a processor for it. No, where the system does not tell.
fn others_are_ready() -> bool {
    let Ok(threads) = std::fs::read_dir("/proc/self/task") else {
        return false;
    };
    let is_ready = |told: &str| {
        told.rsplit(')')
            .next()
            .is_some_and(|fields| fields.trim_start().starts_with('R'))
    };
    let told = threads
        .flatten()
        .filter_map(|thread| std::fs::read_to_string(thread.path().join("stat")).ok());
    told.filter(|told| is_ready(told)).count() > 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_counts_and_sleep_does_not() {
        let effort = Effort::begin();
        assert!(!effort.is_beyond(Duration::from_secs(3600)));
        let mut number = 1u64;
        while effort.used() < Duration::from_millis(30) {
            for _ in 0..10_000 {
                number = std::hint::black_box(number.wrapping_mul(number));
            }
        }
        assert!(effort.is_beyond(Duration::from_millis(30)));
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_thread_that_wants_a_processor_is_ready() {
        let ends = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !ends.load(std::sync::atomic::Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
            let begun = Instant::now();
            while !others_are_ready() && begun.elapsed() < Duration::from_secs(60) {
                std::thread::yield_now();
            }
            let found = others_are_ready();
            ends.store(true, std::sync::atomic::Ordering::Relaxed);
            assert!(found);
        });
    }
}
