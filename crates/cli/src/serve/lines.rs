//! The lines of the server's log, and which of them are shown.

use std::io;

use streampool_serve::log::{Log, Shown};
use tracing::level_filters::LevelFilter;
use tracing::subscriber::Interest;
use tracing::{Level, Metadata, Subscriber};
use tracing_subscriber::layer::{Context, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, Registry, fmt, reload};

/// Lets lines through that are to be shown.
struct Lines(Shown);

impl<S: Subscriber> Layer<S> for Lines {
    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        match self.0.has(*metadata.level()) {
            true => Interest::always(),
            false => Interest::never(),
        }
    }

    fn enabled(&self, metadata: &Metadata<'_>, _: Context<'_, S>) -> bool {
        self.0.has(*metadata.level())
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        let levels = [Level::DEBUG, Level::INFO, Level::WARN, Level::ERROR];
        let most = levels.into_iter().find(|&level| self.0.has(level));
        Some(most.map_or(LevelFilter::OFF, LevelFilter::from_level))
    }
}

/// Begins the log, on standard error.
pub fn begin(json: bool, shown: Shown) -> Log {
    let (lines, handle) = reload::Layer::new(Lines(shown));
    let written = fmt::layer().with_writer(io::stderr).with_target(false);
    let registry = Registry::default().with(lines);
    // Whoever has set up a log before keeps it.
    let _ = match json {
        true => registry.with(written.json().flatten_event(true)).try_init(),
        false => registry.with(written.with_ansi(false)).try_init(),
    };
    Log::new(shown, move |shown| {
        let changed = handle.modify(|lines| lines.0 = shown);
        changed.map_err(|error| error.to_string())
    })
}
