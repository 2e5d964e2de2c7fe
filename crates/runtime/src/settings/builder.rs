//! Making settings: the builder first, then the environment, then the defaults.

use std::collections::HashMap;

use super::value::{self, Value};
use super::variable::{
    self, EXHAUSTION, HIGH_WATERMARK, LOW_WATERMARK, MEMORY_LIMIT, MITIGATIONS, RUN_STEPS,
    RUN_WORK, STREAMS, Variable,
};
use super::{Mitigations, Origin, Origins, SettingError, Settings, WhenExhausted};

/// Makes [`Settings`]. What is not set here comes from the environment, or is the default.
#[derive(Debug, Clone, Default)]
pub struct SettingsBuilder {
    streams: Option<usize>,
    exhaustion: Option<WhenExhausted>,
    memory_limit: Option<Option<usize>>,
    high_watermark: Option<f64>,
    low_watermark: Option<f64>,
    mitigations: Option<Mitigations>,
    run_steps: Option<u64>,
    run_work: Option<u64>,
    reuse_memory: Option<bool>,
    without_environment: bool,
}

impl Settings {
    /// Begins to make settings.
    pub fn builder() -> SettingsBuilder {
        SettingsBuilder::default()
    }
}

impl SettingsBuilder {
    /// Sets [`Settings::streams`].
    pub fn streams(mut self, streams: usize) -> Self {
        self.streams = Some(streams);
        self
    }

    /// Sets [`Settings::exhaustion`].
    pub fn exhaustion(mut self, exhaustion: WhenExhausted) -> Self {
        self.exhaustion = Some(exhaustion);
        self
    }

    /// Sets [`Settings::memory_limit`], in bytes. `None` means no limit, whatever the environment says.
    pub fn memory_limit(mut self, limit: Option<usize>) -> Self {
        self.memory_limit = Some(limit);
        self
    }

    /// Sets [`Settings::high_watermark`].
    pub fn high_watermark(mut self, fraction: f64) -> Self {
        self.high_watermark = Some(fraction);
        self
    }

    /// Sets [`Settings::low_watermark`].
    pub fn low_watermark(mut self, fraction: f64) -> Self {
        self.low_watermark = Some(fraction);
        self
    }

    /// Sets [`Settings::mitigations`].
    pub fn mitigations(mut self, mitigations: Mitigations) -> Self {
        self.mitigations = Some(mitigations);
        self
    }

    /// Sets [`Settings::run_steps`].
    pub fn run_steps(mut self, steps: u64) -> Self {
        self.run_steps = Some(steps);
        self
    }

    /// Sets [`Settings::run_work`].
    pub fn run_work(mut self, work: u64) -> Self {
        self.run_work = Some(work);
        self
    }

    /// Sets [`Settings::reuse_memory`].
    pub fn reuse_memory(mut self, reuse: bool) -> Self {
        self.reuse_memory = Some(reuse);
        self
    }

    /// Looks at no variable at all.
    pub fn without_environment(mut self) -> Self {
        self.without_environment = true;
        self
    }

    /// Makes the settings from this builder and the environment of the process.
    ///
    /// A `STREAMPOOL_*` variable that is unknown, or whose value is not allowed, is an error even where the
    /// builder decides: a setting that is silently ignored helps nobody.
    pub fn build(self) -> Result<Settings, SettingError> {
        // A name or value that is not Unicode is no name or value of ours; its replacement characters make
        // it an error, if it begins like ours.
        let variables: HashMap<String, String> = std::env::vars_os()
            .map(|(name, value)| (name.to_string_lossy().into_owned(), value))
            .filter(|(name, _)| variable::is_ours(name))
            .map(|(name, value)| (name, value.to_string_lossy().into_owned()))
            .collect();
        self.build_from(|name| variables.get(name).cloned(), variables.keys())
    }

    /// As [`build`](Self::build), with an environment of which `read` gives the value of a variable and
    /// `names` every name.
    pub fn build_from<N: AsRef<str>>(
        self,
        read: impl Fn(&str) -> Option<String>,
        names: impl IntoIterator<Item = N>,
    ) -> Result<Settings, SettingError> {
        if self.without_environment {
            return self.resolve(&|_| None);
        }
        variable::refuse_unknown(names)?;
        self.resolve(&read)
    }

    fn resolve(self, read: &dyn Fn(&str) -> Option<String>) -> Result<Settings, SettingError> {
        let default = Settings::default();
        let streams = choose(&STREAMS, self.streams, read)?;
        let exhaustion = choose(&EXHAUSTION, self.exhaustion, read)?;
        let memory_limit = choose(&MEMORY_LIMIT, self.memory_limit, read)?;
        let high = choose(&HIGH_WATERMARK, self.high_watermark, read)?;
        let low = choose(&LOW_WATERMARK, self.low_watermark, read)?;
        let mitigations = choose(&MITIGATIONS, self.mitigations, read)?;
        let run_steps = choose(&RUN_STEPS, self.run_steps, read)?;
        let run_work = choose(&RUN_WORK, self.run_work, read)?;

        // Who sets one watermark past the default of the other moves that one along.
        let default_high = default.high_watermark.max(low.value.unwrap_or(0.0));
        let high_watermark = high.value.unwrap_or(default_high);
        let default_low = default.low_watermark.min(high_watermark);

        let settings = Settings {
            streams: streams.value.unwrap_or(default.streams),
            exhaustion: exhaustion.value.unwrap_or(default.exhaustion),
            memory_limit: memory_limit.value.unwrap_or(default.memory_limit),
            high_watermark,
            low_watermark: low.value.unwrap_or(default_low),
            mitigations: mitigations.value.unwrap_or(default.mitigations),
            run_steps: run_steps.value.unwrap_or(default.run_steps),
            run_work: run_work.value.unwrap_or(default.run_work),
            reuse_memory: self.reuse_memory.unwrap_or(default.reuse_memory),
            origins: Origins {
                streams: streams.origin,
                exhaustion: exhaustion.origin,
                memory_limit: memory_limit.origin,
                high_watermark: high.origin,
                low_watermark: low.origin,
                mitigations: mitigations.origin,
                run_steps: run_steps.origin,
                run_work: run_work.origin,
            },
        };
        settings.validate()?;
        Ok(settings)
    }
}

/// A value, if anybody decided one.
struct Chosen<T> {
    value: Option<T>,
    origin: Origin,
}

fn choose<T: Value>(
    variable: &Variable,
    explicit: Option<T>,
    read: &dyn Fn(&str) -> Option<String>,
) -> Result<Chosen<T>, SettingError> {
    let variable_value = read(variable.name)
        .map(|text| value::read(variable, &text))
        .transpose()?;
    if let Some(explicit) = &explicit {
        value::check(variable, explicit, Origin::Builder)?;
    }
    let origin = match (&explicit, &variable_value) {
        (Some(_), _) => Origin::Builder,
        (None, Some(_)) => Origin::Environment,
        (None, None) => Origin::Default,
    };
    Ok(Chosen {
        value: explicit.or(variable_value),
        origin,
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn build(
        builder: SettingsBuilder,
        environment: &[(&str, &str)],
    ) -> Result<Settings, SettingError> {
        builder.build_from(
            |name| {
                let entry = environment.iter().find(|(known, _)| *known == name);
                entry.map(|(_, value)| value.to_string())
            },
            environment.iter().map(|(name, _)| *name),
        )
    }

    #[test]
    fn nothing_set_gives_the_defaults() {
        assert_eq!(build(Settings::builder(), &[]), Ok(Settings::default()));
    }

    #[test]
    fn the_builder_counts_before_the_environment_and_that_before_the_default() {
        let environment = [
            ("STREAMPOOL_STREAMS", "8"),
            ("STREAMPOOL_WAIT_TIMEOUT_MS", "250"),
            ("STREAMPOOL_MEMORY_LIMIT", "1GiB"),
            ("HOME", "/home/user"),
        ];
        let builder = Settings::builder().streams(4).memory_limit(None);
        let settings = build(builder, &environment).unwrap();
        assert_eq!(settings.streams, 4);
        assert_eq!(settings.memory_limit, None);
        assert_eq!(
            settings.exhaustion,
            WhenExhausted::Wait(Some(Duration::from_millis(250)))
        );
        assert_eq!(
            settings.origins()[..4],
            [
                ("STREAMPOOL_STREAMS", "4".into(), Origin::Builder),
                (
                    "STREAMPOOL_WAIT_TIMEOUT_MS",
                    "wait 250 ms".into(),
                    Origin::Environment
                ),
                ("STREAMPOOL_MEMORY_LIMIT", "none".into(), Origin::Builder),
                ("STREAMPOOL_HIGH_WATERMARK", "0.9".into(), Origin::Default),
            ]
        );
    }

    #[test]
    fn every_variable_of_the_table_is_read() {
        for variable in Settings::VARIABLES {
            let error = build(Settings::builder(), &[(variable.name, "?")]).unwrap_err();
            let message = error.to_string();
            assert!(message.contains(variable.name), "{message}");
            assert!(message.contains(variable.allowed), "{message}");
            assert!(message.contains("`?`"), "{message}");
        }
    }

    #[test]
    fn a_bad_variable_is_an_error_even_where_the_builder_decides() {
        let environment = [("STREAMPOOL_STREAMS", "900")];
        assert!(build(Settings::builder().streams(4), &environment).is_err());
    }

    #[test]
    fn an_unknown_variable_is_an_error_that_suggests_and_lists() {
        let environment = [("STREAMPOOL_MEMORY_LIMITS", "1G")];
        let error = build(Settings::builder(), &environment).unwrap_err();
        let message = error.to_string();
        assert!(
            message.contains("did you mean STREAMPOOL_MEMORY_LIMIT?"),
            "{message}"
        );
        for variable in Settings::VARIABLES {
            assert!(message.contains(variable.name), "{message}");
        }
        assert!(message.contains("STREAMPOOL_HOST_*"), "{message}");
    }

    #[test]
    fn without_environment_nothing_of_it_counts() {
        let environment = [("STREAMPOOL_STREAMS", "0"), ("STREAMPOOL_NONSENSE", "1")];
        let builder = Settings::builder().without_environment();
        assert_eq!(build(builder, &environment), Ok(Settings::default()));
    }

    #[test]
    fn one_watermark_moves_the_default_of_the_other_but_two_may_not_cross() {
        let lower = build(Settings::builder().high_watermark(0.5), &[]).unwrap();
        assert_eq!((lower.low_watermark, lower.high_watermark), (0.5, 0.5));
        let higher = build(Settings::builder().low_watermark(0.95), &[]).unwrap();
        assert_eq!((higher.low_watermark, higher.high_watermark), (0.95, 0.95));

        let crossed = build(
            Settings::builder().low_watermark(0.6),
            &[("STREAMPOOL_HIGH_WATERMARK", "0.5")],
        );
        assert_eq!(
            crossed,
            Err(SettingError::WatermarksCrossed {
                low: 0.6,
                high: 0.5
            })
        );
    }

    #[test]
    fn a_bad_builder_value_is_named_with_its_origin() {
        let error = build(Settings::builder().streams(65), &[]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "STREAMPOOL_STREAMS (from the builder) is `65`; allowed: a whole number from 1 to 64"
        );
    }
}
