//! Settings that cannot be.

use streampool_host::{HostDevice, HostOptions};
use streampool_runtime::{Pool, Settings, SettingsBuilder};

use crate::{Case, Outcome, done};

/// Settings that no environment changes.
fn plain() -> SettingsBuilder {
    Settings::builder().without_environment()
}

/// What comes of an environment in which one variable is set.
fn environment(name: &str, value: &str) -> Outcome {
    let read = |asked: &str| (asked == name).then(|| value.to_owned());
    Settings::builder().build_from(read, [name.to_owned()])?;
    Ok(())
}

pub const CASES: &[Case] = &[
    (
        "a pool of no streams",
        |_| done(plain().streams(0).build()?),
        &["STREAMPOOL_STREAMS", "`0`", "1 to 64"],
    ),
    (
        "a pool of absurdly many streams",
        |_| done(plain().streams(1000).build()?),
        &["1000", "1 to 64"],
    ),
    (
        "settings spoilt after they were built",
        |w| {
            let mut settings = plain().build()?;
            settings.streams = 0;
            done(Pool::with_settings(w.pool.device().clone(), settings)?)
        },
        &["0", "1 to 64"],
    ),
    (
        "watermarks that cross",
        |_| done(plain().high_watermark(0.2).low_watermark(0.8).build()?),
        &["0.2", "0.8"],
    ),
    (
        "a number that does not parse",
        |_| environment("STREAMPOOL_STREAMS", "many"),
        &["STREAMPOOL_STREAMS", "many", "1 to 64"],
    ),
    (
        "a wait that does not parse",
        |_| environment("STREAMPOOL_WAIT_TIMEOUT_MS", "-2"),
        &["STREAMPOOL_WAIT_TIMEOUT_MS", "-2", "-1"],
    ),
    (
        "a size that does not parse",
        |_| environment("STREAMPOOL_MEMORY_LIMIT", "12 parsecs"),
        &["STREAMPOOL_MEMORY_LIMIT", "12 parsecs"],
    ),
    (
        "a fraction that is none",
        |_| environment("STREAMPOOL_HIGH_WATERMARK", "1.5"),
        &["STREAMPOOL_HIGH_WATERMARK", "1.5"],
    ),
    (
        "a quirk nobody knows",
        |_| environment("STREAMPOOL_MITIGATIONS", "-gremlins"),
        &["STREAMPOOL_MITIGATIONS", "gremlins", "shared-matmul-state"],
    ),
    (
        "a variable nobody knows",
        |_| environment("STREAMPOOL_STREAM", "4"),
        &["STREAMPOOL_STREAM", "STREAMPOOL_STREAMS"],
    ),
    (
        "a host without threads",
        |_| done(HostDevice::new(HostOptions::default().threads(0))?),
        &["threads", "0"],
    ),
    (
        "a host of absurdly many threads",
        |_| done(HostDevice::new(HostOptions::default().threads(100_000))?),
        &["100000"],
    ),
    (
        "a host without memory",
        |_| done(HostDevice::new(HostOptions::default().capacity(0))?),
        &["0"],
    ),
];
