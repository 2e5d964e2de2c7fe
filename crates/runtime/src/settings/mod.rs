//! What can be set, and where each value came from.
//!
//! A value given to the builder counts first, then the environment variable, then the default. Nothing is
//! read twice: [`Settings::VARIABLES`] is the one table of names, meanings, allowed values and defaults.

#![forbid(unsafe_code)]

mod builder;
mod error;
mod value;
mod variable;

use serde::Serialize;

pub use builder::SettingsBuilder;
pub use error::{Origin, SettingError};
pub use streampool_device::Mitigations;
pub use value::WhenExhausted;
pub use variable::Variable;

use value::Value;
use variable::{
    EXHAUSTION, HIGH_WATERMARK, LOW_WATERMARK, MEMORY_LIMIT, MITIGATIONS, STREAMS, VARIABLES,
};
pub(crate) use variable::{RUN_STEPS, RUN_WORK};

/// Says to serde what it is like.
#[derive(Serialize)]
#[serde(remote = "Mitigations", rename_all = "snake_case")]
enum MitigationsAsJson {
    All,
    None,
    Except(Vec<String>),
}

/// The settings of a pool. [`Settings::builder`] makes them; [`Settings::default`] is the defaults, whatever
/// the environment says.
///
/// ```
/// # use streampool_runtime::{WhenExhausted, Settings};
/// let settings = Settings::builder()
///     .without_environment()
///     .streams(8)
///     .exhaustion(WhenExhausted::Fail)
///     .build()?;
/// assert_eq!(settings.streams, 8);
/// assert_eq!(settings.memory_limit, None);
/// # Ok::<(), streampool_runtime::SettingError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Settings {
    /// How many streams the device has, the default one included: 1 to [`Settings::MOST_STREAMS`].
    pub streams: usize,
    /// What a thread gets when every worker stream is leased.
    pub exhaustion: WhenExhausted,
    /// The most bytes of device memory to hold, if fewer than the device has.
    pub memory_limit: Option<usize>,
    /// The fraction of the limit above which idle memory is given back to the device.
    pub high_watermark: f64,
    /// The fraction of the limit, at most the high one. If giving back idle memory leaves more than this,
    /// pressure callbacks are called once, and what lies idle then is given back, too.
    pub low_watermark: f64,
    /// Which driver quirks are worked around.
    #[serde(with = "MitigationsAsJson")]
    pub mitigations: Mitigations,
    /// The most nodes that one run of a model evaluates and ops that it encodes. By default 100 million: as many as a decoder
    /// of a thousand nodes makes for a hundred thousand tokens. A loop of them ends within minutes.
    pub run_steps: u64,
    /// The most elements that the ops of one run go over, counted as [`Op::work`](crate::Op::work) does. By default 2⁵⁰:
    /// as many multiplications as 70 billion parameters take for 16,000 tokens.
    pub run_work: u64,
    /// Whether new buffers get the memory of dropped ones. Without that, no two buffers of a pool ever have the
    /// same address: for devices that only list what they are told.
    #[serde(skip)]
    pub reuse_memory: bool,
    #[serde(skip)]
    origins: Origins,
}

/// The origin of each field of [`Settings`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Origins {
    streams: Origin,
    exhaustion: Origin,
    memory_limit: Origin,
    high_watermark: Origin,
    low_watermark: Origin,
    mitigations: Origin,
    run_steps: Origin,
    run_work: Origin,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            streams: 32,
            exhaustion: WhenExhausted::Share,
            memory_limit: None,
            high_watermark: 0.9,
            low_watermark: 0.75,
            mitigations: Mitigations::All,
            run_steps: 100_000_000,
            run_work: 1 << 50,
            reuse_memory: true,
            origins: Origins::default(),
        }
    }
}

impl Settings {
    /// The most streams a pool can have.
    pub const MOST_STREAMS: usize = variable::MOST_STREAMS;

    /// Every variable that is read.
    pub const VARIABLES: &[Variable] = VARIABLES;

    /// Checks every value. The builder has done so; this is for fields that were changed since.
    pub fn validate(&self) -> Result<(), SettingError> {
        let origins = &self.origins;
        value::check(&STREAMS, &self.streams, origins.streams)?;
        value::check(&EXHAUSTION, &self.exhaustion, origins.exhaustion)?;
        value::check(&MEMORY_LIMIT, &self.memory_limit, origins.memory_limit)?;
        value::check(
            &HIGH_WATERMARK,
            &self.high_watermark,
            origins.high_watermark,
        )?;
        value::check(&LOW_WATERMARK, &self.low_watermark, origins.low_watermark)?;
        value::check(&MITIGATIONS, &self.mitigations, origins.mitigations)?;
        value::check(&RUN_STEPS, &self.run_steps, origins.run_steps)?;
        value::check(&RUN_WORK, &self.run_work, origins.run_work)?;
        if self.low_watermark > self.high_watermark {
            return Err(SettingError::WatermarksCrossed {
                low: self.low_watermark,
                high: self.high_watermark,
            });
        }
        Ok(())
    }

    /// Each setting as the name of its variable, its value as text, and who decided it.
    pub fn origins(&self) -> Vec<(&'static str, String, Origin)> {
        let origins = &self.origins;
        vec![
            (STREAMS.name, self.streams.text(), origins.streams),
            (EXHAUSTION.name, self.exhaustion.text(), origins.exhaustion),
            (
                MEMORY_LIMIT.name,
                self.memory_limit.text(),
                origins.memory_limit,
            ),
            (
                HIGH_WATERMARK.name,
                self.high_watermark.text(),
                origins.high_watermark,
            ),
            (
                LOW_WATERMARK.name,
                self.low_watermark.text(),
                origins.low_watermark,
            ),
            (
                MITIGATIONS.name,
                self.mitigations.text(),
                origins.mitigations,
            ),
            (RUN_STEPS.name, self.run_steps.text(), origins.run_steps),
            (RUN_WORK.name, self.run_work.text(), origins.run_work),
        ]
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_table_tells_the_defaults_and_every_origin_is_listed() {
        let listed = Settings::default().origins();
        let table: Vec<_> = Settings::VARIABLES
            .iter()
            .map(|v| (v.name, v.default.to_string(), Origin::Default))
            .collect();
        assert_eq!(listed, table);
    }

    #[test]
    fn fields_changed_to_nonsense_are_refused_by_name() {
        fn refused(change: fn(&mut Settings)) -> String {
            let mut settings = Settings::default();
            change(&mut settings);
            settings.validate().unwrap_err().to_string()
        }
        assert!(refused(|s| s.streams = 0).contains("STREAMPOOL_STREAMS"));
        assert!(refused(|s| s.streams = 65).contains("1 to 64"));
        assert!(
            refused(|s| s.exhaustion = WhenExhausted::Wait(Some(Duration::MAX)))
                .contains("4294967295")
        );
        assert!(refused(|s| s.memory_limit = Some(0)).contains("STREAMPOOL_MEMORY_LIMIT"));
        assert!(refused(|s| s.high_watermark = f64::NAN).contains("STREAMPOOL_HIGH_WATERMARK"));
        assert!(refused(|s| s.low_watermark = -0.1).contains("STREAMPOOL_LOW_WATERMARK"));
        assert!(refused(|s| s.low_watermark = 0.95).contains("0.95"));
        assert!(
            refused(|s| s.mitigations = Mitigations::Except(vec!["sticky-tape".into()]))
                .contains("sticky-tape")
        );
        assert_eq!(Settings::default().validate(), Ok(()));
    }

    #[test]
    fn json_says_milliseconds() {
        let settings = Settings {
            exhaustion: WhenExhausted::Wait(Some(Duration::from_micros(2500))),
            ..Settings::default()
        };
        let json = serde_json::to_value(&settings).unwrap();
        assert_eq!(json["exhaustion"]["wait_ms"], 2.5);
        assert_eq!(json["mitigations"], "all");
        assert_eq!(json.get("origins"), None);
    }
}
