//! The extension `logging`: which lines the log has, while the server runs.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::error::{Error, Result};

/// The kinds of lines that a log has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shown {
    /// Errors.
    pub error: bool,
    /// Warnings.
    pub warning: bool,
    /// What else operators want to know.
    pub info: bool,
    /// What helps to find out why something fails, such as each request that did.
    pub debug: bool,
}

impl Shown {
    /// Whether a line of this kind is shown.
    pub fn has(self, level: tracing::Level) -> bool {
        match level {
            tracing::Level::ERROR => self.error,
            tracing::Level::WARN => self.warning,
            tracing::Level::INFO => self.info,
            tracing::Level::DEBUG => self.debug,
            tracing::Level::TRACE => false,
        }
    }
}

type Apply = Box<dyn Fn(Shown) -> Result<(), String> + Send + Sync>;

/// A log whose kinds of lines clients can change. The program that writes the log says how.
pub struct Log {
    shown: Mutex<Shown>,
    apply: Apply,
}

/// What a client says of a setting.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// Yes or no.
    Flag(bool),
    /// A number.
    Number(u64),
    /// A text.
    Text(String),
}

/// The settings that clients read, with the names of Triton.
pub type Told = Vec<(&'static str, Value)>;

impl Log {
    /// A log that shows these lines now, and others once `apply` was called with them.
    pub fn new(
        shown: Shown,
        apply: impl Fn(Shown) -> Result<(), String> + Send + Sync + 'static,
    ) -> Log {
        Log {
            shown: Mutex::new(shown),
            apply: Box::new(apply),
        }
    }

    fn shown(&self) -> MutexGuard<'_, Shown> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The settings now.
    pub(crate) fn told(&self) -> Told {
        let shown = *self.shown();
        vec![
            ("log_file", Value::Text(String::new())),
            ("log_info", Value::Flag(shown.info)),
            ("log_warning", Value::Flag(shown.warning)),
            ("log_error", Value::Flag(shown.error)),
            ("log_verbose_level", Value::Number(shown.debug.into())),
            ("log_format", Value::Text("ISO8601".to_owned())),
        ]
    }

    /// Changes settings, all or none of them.
    pub(crate) fn change(&self, changes: &[(String, Value)]) -> Result<()> {
        let mut now = self.shown();
        let mut shown = *now;
        for (name, value) in changes {
            set(&mut shown, name, value)?;
        }
        if shown != *now {
            (self.apply)(shown).map_err(Error::Internal)?;
            *now = shown;
        }
        Ok(())
    }
}

fn set(shown: &mut Shown, name: &str, value: &Value) -> Result<()> {
    let refused = |why: &str| Err(Error::invalid(format!("{name}: {why}")));
    match (name, value) {
        ("log_error", Value::Flag(on)) => shown.error = *on,
        ("log_warning", Value::Flag(on)) => shown.warning = *on,
        ("log_info", Value::Flag(on)) => shown.info = *on,
        ("log_verbose_level", Value::Number(level @ 0..=1)) => shown.debug = *level == 1,
        ("log_verbose_level", Value::Number(_)) => {
            return refused("1 is the highest level, it shows each request that failed");
        }
        ("log_format", Value::Text(format)) if format == "ISO8601" => {}
        ("log_format", Value::Text(_)) => {
            return refused(
                "times of the log are always ISO8601; `--log` says whether lines are JSON",
            );
        }
        ("log_file", Value::Text(file)) if file.is_empty() => {}
        ("log_file", Value::Text(_)) => return refused("the log goes to standard error only"),
        ("log_error" | "log_warning" | "log_info", _) => return refused("expected true or false"),
        ("log_verbose_level", _) => return refused("expected a whole number, 0 or more"),
        ("log_format" | "log_file", _) => return refused("expected a text"),
        _ => return refused("there is no such setting"),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn settings_take_effect_or_are_refused() {
        let calls = Arc::new(AtomicUsize::new(0));
        let counted = calls.clone();
        let shown = Shown {
            error: true,
            warning: true,
            info: true,
            debug: false,
        };
        let log = Log::new(shown, move |shown| {
            counted.fetch_add(1, Ordering::Relaxed);
            match shown.debug {
                true => Ok(()),
                false => Err("no".to_owned()),
            }
        });
        let change = |name: &str, value: Value| log.change(&[(name.to_owned(), value)]);
        for (name, value, why) in [
            ("log_info", Value::Number(1), "true or false"),
            ("log_verbose_level", Value::Number(2), "highest"),
            ("log_verbose_level", Value::Flag(true), "whole number"),
            ("log_format", Value::Text("default".to_owned()), "ISO8601"),
            (
                "log_file",
                Value::Text("/tmp/x".to_owned()),
                "standard error",
            ),
            ("log_colour", Value::Flag(true), "no such setting"),
        ] {
            let error = change(name, value).unwrap_err();
            assert!(error.to_string().contains(why), "{error}");
        }
        change("log_format", Value::Text("ISO8601".to_owned())).unwrap();
        assert_eq!(calls.load(Ordering::Relaxed), 0, "nothing was changed");
        change("log_verbose_level", Value::Number(1)).unwrap();
        assert_eq!(log.told()[4].1, Value::Number(1));
        assert_eq!(
            change("log_verbose_level", Value::Number(0))
                .unwrap_err()
                .status(),
            500
        );
        assert_eq!(log.told()[4].1, Value::Number(1), "what failed is not told");
    }
}
