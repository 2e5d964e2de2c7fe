//! The environment variables, and what holds without them.

use std::time::Duration;

use super::guarded::Patience;

/// How agx-fix behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Whether nothing is wrapped. `AGX_FIX_DISABLE`.
    pub disabled: bool,
    /// Whether the loading, classes, deferred destructions and, at exit, the statistics are always told. `AGX_FIX_VERBOSE`.
    pub verbose: bool,
    /// Whether a call on an encoder that is ended or destroyed aborts the process. `AGX_FIX_ABORT`.
    pub abort: bool,
    /// Whether the processes that this one starts get the library, too, where it was inserted. `AGX_FIX_CHILDREN`.
    pub children: bool,
    /// After how long a waiting call says for whom it waits. `AGX_FIX_WARN_MS`.
    pub warn_after: Duration,
    /// After how long a waiting call goes on beside the other. `AGX_FIX_WAIT_MS`.
    pub wait_limit: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            disabled: false,
            verbose: false,
            abort: false,
            children: false,
            warn_after: Duration::from_millis(500),
            wait_limit: Duration::from_secs(10),
        }
    }
}

/// A variable whose value means nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{variable} is `{value}`; allowed is {allowed}")]
pub struct SettingError {
    /// Its name.
    pub variable: &'static str,
    /// What it says.
    pub value: String,
    /// What it may say.
    pub allowed: &'static str,
}

impl Settings {
    /// What the environment variables say. Those that mean nothing are in the list, and what holds without them holds.
    pub fn from_environment() -> (Settings, Vec<SettingError>) {
        Self::read(|name| Some(std::env::var_os(name)?.to_string_lossy().into_owned()))
    }

    /// What the variables say that `look_up` finds.
    fn read(look_up: impl Fn(&str) -> Option<String>) -> (Settings, Vec<SettingError>) {
        let mut settings = Settings::default();
        let mut errors = Vec::new();
        let mut error = |variable, value, allowed| {
            errors.push(SettingError {
                variable,
                value,
                allowed,
            });
        };
        for (variable, flag) in [
            ("AGX_FIX_DISABLE", &mut settings.disabled),
            ("AGX_FIX_VERBOSE", &mut settings.verbose),
            ("AGX_FIX_ABORT", &mut settings.abort),
            ("AGX_FIX_CHILDREN", &mut settings.children),
        ] {
            match look_up(variable) {
                None => {}
                Some(value) if value.is_empty() || value == "0" => {}
                Some(value) if value == "1" => *flag = true,
                Some(value) => error(variable, value, "0 or 1"),
            }
        }
        for (variable, time) in [
            ("AGX_FIX_WARN_MS", &mut settings.warn_after),
            ("AGX_FIX_WAIT_MS", &mut settings.wait_limit),
        ] {
            let Some(value) = look_up(variable) else {
                continue;
            };
            match value.parse::<u32>() {
                Ok(milliseconds) => *time = Duration::from_millis(milliseconds.into()),
                Err(_) => error(
                    variable,
                    value,
                    "a whole number of milliseconds up to 4294967295",
                ),
            }
        }
        (settings, errors)
    }

    /// How long calls wait.
    pub fn patience(&self) -> Patience {
        Patience {
            warn_after: self.warn_after,
            limit: self.wait_limit,
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> (Settings, Vec<SettingError>) {
        Settings::read(|name| {
            let found = variables.iter().find(|(known, _)| *known == name)?;
            Some(found.1.to_owned())
        })
    }

    #[test]
    fn variables_say_what_holds() {
        assert_eq!(read(&[]), (Settings::default(), vec![]));
        let (settings, errors) = read(&[
            ("AGX_FIX_ABORT", "1"),
            ("AGX_FIX_VERBOSE", "0"),
            ("AGX_FIX_WARN_MS", "20"),
            ("AGX_FIX_WAIT_MS", "0"),
        ]);
        assert_eq!(errors, []);
        assert!(settings.abort && !settings.verbose && !settings.disabled);
        assert_eq!(settings.warn_after, Duration::from_millis(20));
        assert_eq!(settings.wait_limit, Duration::ZERO);
    }

    #[test]
    fn what_means_nothing_is_told_and_changes_nothing() {
        let (settings, errors) = read(&[("AGX_FIX_DISABLE", "yes"), ("AGX_FIX_WAIT_MS", "-1")]);
        assert_eq!(settings, Settings::default());
        let told: Vec<String> = errors.iter().map(SettingError::to_string).collect();
        assert_eq!(
            told,
            [
                "AGX_FIX_DISABLE is `yes`; allowed is 0 or 1",
                "AGX_FIX_WAIT_MS is `-1`; allowed is a whole number of milliseconds up to 4294967295",
            ]
        );
    }
}
