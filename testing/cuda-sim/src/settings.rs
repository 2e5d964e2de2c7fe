//! What the environment sets.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use cudarc::driver::sys::CUresult;

use crate::handle::Outcome;

/// What the environment sets.
pub struct Settings {
    /// How long a launch holds the driver's lock.
    pub launch: Duration,
    /// How long who holds it alone does.
    pub alone: Duration,
    /// Bytes of the GPU's memory.
    pub memory: usize,
    /// How many waits are refused: the first ones.
    pub refused_waits: u64,
    /// How many calls that free or destroy are refused: the first ones.
    pub refused_frees: u64,
}

/// Whether a wait may begin: the first ones may not, as many as the settings say.
pub fn may_wait() -> Outcome {
    static ASKED: AtomicU64 = AtomicU64::new(0);
    not_among_the_first(settings().refused_waits, &ASKED)
}

/// Whether something may be freed, likewise.
pub fn may_free() -> Outcome {
    static ASKED: AtomicU64 = AtomicU64::new(0);
    not_among_the_first(settings().refused_frees, &ASKED)
}

fn not_among_the_first(refused: u64, asked: &AtomicU64) -> Outcome {
    match refused > 0 && asked.fetch_add(1, Ordering::Relaxed) < refused {
        true => Err(CUresult::CUDA_ERROR_NOT_PERMITTED),
        false => Ok(()),
    }
}

/// As the environment was at the first call.
pub fn settings() -> &'static Settings {
    static SETTINGS: OnceLock<Settings> = OnceLock::new();
    SETTINGS.get_or_init(|| Settings {
        launch: Duration::from_micros(number("CUDA_SIM_LAUNCH_US", 2)),
        alone: Duration::from_micros(number("CUDA_SIM_ALONE_US", 10)),
        memory: number("CUDA_SIM_MEMORY", 8 << 30) as usize,
        refused_waits: number("CUDA_SIM_REFUSED_WAITS", 0),
        refused_frees: number("CUDA_SIM_REFUSED_FREES", 0),
    })
}

fn number(name: &str, usual: u64) -> u64 {
    match std::env::var(name) {
        Ok(value) => value
            .parse()
            .unwrap_or_else(|_| panic!("{name} is a whole number, not `{value}`")),
        Err(_) => usual,
    }
}

/// Longer than this, it is slept instead of spun.
const LONGEST_SPIN: Duration = Duration::from_micros(50);

/// Takes so long.
pub fn spend(time: Duration) {
    if time > LONGEST_SPIN {
        return std::thread::sleep(time);
    }
    let begun = Instant::now();
    while begun.elapsed() < time {
        std::hint::spin_loop();
    }
}
