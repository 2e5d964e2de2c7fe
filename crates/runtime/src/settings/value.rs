//! How each kind of value is read, checked and shown.

use std::time::Duration;

use serde::{Serialize, Serializer};
use streampool_device::{Mitigations, bytes};

use super::error::{Origin, SettingError};
use super::variable::{MOST_STREAMS, Variable};

/// What a thread gets when every worker stream is leased.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum WhenExhausted {
    /// A stream that another thread uses too, chosen round robin.
    #[default]
    Share,
    /// Its turn, first come first served, within this time; `None` waits for ever.
    #[serde(rename = "wait_ms")]
    Wait(#[serde(serialize_with = "milliseconds")] Option<Duration>),
    /// An error at once.
    Fail,
}

impl WhenExhausted {
    /// The longest time that can be waited for, short of for ever: 2³² − 1 milliseconds, about 49 days.
    pub const LONGEST_WAIT: Duration = Duration::from_millis(u32::MAX as u64);
}

fn milliseconds<S: Serializer>(wait: &Option<Duration>, to: S) -> Result<S::Ok, S::Error> {
    wait.map(|wait| wait.as_secs_f64() * 1e3).serialize(to)
}

/// The value of one setting. Each setting has a type of its own, so the type says which one it is; the two
/// watermarks are alike.
pub(super) trait Value: Sized {
    /// Reads it, bounds aside.
    fn parse(text: &str) -> Option<Self>;
    /// Whether it is within bounds.
    fn is_allowed(&self) -> bool;
    /// Shows it.
    fn text(&self) -> String;
}

/// Refuses a value that is out of bounds.
pub(super) fn check<T: Value>(
    variable: &Variable,
    value: &T,
    origin: Origin,
) -> Result<(), SettingError> {
    if value.is_allowed() {
        Ok(())
    } else {
        Err(invalid(variable, value.text(), origin))
    }
}

/// Reads and checks a value from the environment.
pub(super) fn read<T: Value>(variable: &Variable, text: &str) -> Result<T, SettingError> {
    T::parse(text.trim())
        .filter(T::is_allowed)
        .ok_or_else(|| invalid(variable, text.to_owned(), Origin::Environment))
}

fn invalid(variable: &Variable, value: String, origin: Origin) -> SettingError {
    SettingError::Invalid {
        name: variable.name,
        value,
        origin,
        allowed: variable.allowed,
    }
}

/// The number of streams.
impl Value for usize {
    fn parse(text: &str) -> Option<Self> {
        text.parse().ok()
    }

    fn is_allowed(&self) -> bool {
        (1..=MOST_STREAMS).contains(self)
    }

    fn text(&self) -> String {
        self.to_string()
    }
}

/// A budget of runs.
impl Value for u64 {
    fn parse(text: &str) -> Option<Self> {
        text.parse().ok()
    }

    fn is_allowed(&self) -> bool {
        *self > 0
    }

    fn text(&self) -> String {
        self.to_string()
    }
}

impl Value for WhenExhausted {
    fn parse(text: &str) -> Option<Self> {
        match text {
            "-1" => Some(WhenExhausted::Wait(None)),
            "0" => Some(WhenExhausted::Fail),
            _ => {
                let wait = Duration::from_millis(text.parse().ok()?);
                // Other spellings of zero would wait for no time, which nobody means.
                (!wait.is_zero()).then_some(WhenExhausted::Wait(Some(wait)))
            }
        }
    }

    fn is_allowed(&self) -> bool {
        match self {
            WhenExhausted::Wait(Some(wait)) => *wait <= WhenExhausted::LONGEST_WAIT,
            _ => true,
        }
    }

    fn text(&self) -> String {
        match self {
            WhenExhausted::Share => "share".into(),
            WhenExhausted::Wait(None) => "wait for ever".into(),
            WhenExhausted::Wait(Some(wait)) if wait.subsec_nanos() % 1_000_000 == 0 => {
                format!("wait {} ms", wait.as_millis())
            }
            WhenExhausted::Wait(Some(wait)) => format!("wait {} ms", wait.as_secs_f64() * 1e3),
            WhenExhausted::Fail => "fail".into(),
        }
    }
}

/// The memory limit.
impl Value for Option<usize> {
    fn parse(text: &str) -> Option<Self> {
        if text.eq_ignore_ascii_case("none") {
            return Some(None);
        }
        bytes::parse(text).map(Some)
    }

    fn is_allowed(&self) -> bool {
        *self != Some(0)
    }

    fn text(&self) -> String {
        self.map_or_else(|| "none".into(), bytes::format)
    }
}

/// A watermark.
impl Value for f64 {
    fn parse(text: &str) -> Option<Self> {
        text.parse().ok()
    }

    fn is_allowed(&self) -> bool {
        *self > 0.0 && *self <= 1.0
    }

    fn text(&self) -> String {
        self.to_string()
    }
}

impl Value for Mitigations {
    fn parse(text: &str) -> Option<Self> {
        Mitigations::parse(text)
    }

    fn is_allowed(&self) -> bool {
        self.is_known()
    }

    fn text(&self) -> String {
        self.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::super::variable::{
        EXHAUSTION, HIGH_WATERMARK, MEMORY_LIMIT, MITIGATIONS, RUN_STEPS, STREAMS,
    };
    use super::*;

    /// Reads each text and compares, or expects the refusal that names the variable, text and table entry.
    fn table<T: Value + PartialEq + std::fmt::Debug>(
        variable: &Variable,
        cases: &[(&str, Option<T>)],
    ) {
        for (text, expected) in cases {
            match (read::<T>(variable, text), expected) {
                (Ok(value), Some(expected)) => assert_eq!(value, *expected, "`{text}`"),
                (
                    Err(SettingError::Invalid {
                        name,
                        value,
                        origin,
                        allowed,
                    }),
                    None,
                ) => {
                    assert_eq!((name, value.as_str()), (variable.name, *text));
                    assert_eq!((origin, allowed), (Origin::Environment, variable.allowed));
                }
                (got, _) => panic!("`{text}` gives {got:?}, not {expected:?}"),
            }
        }
    }

    #[test]
    fn streams() {
        table::<usize>(
            &STREAMS,
            &[
                ("1", Some(1)),
                (" 64 ", Some(64)),
                ("0", None),
                ("65", None),
                ("-3", None),
                ("3.5", None),
                ("", None),
                ("many", None),
                ("99999999999999999999", None),
            ],
        );
    }

    #[test]
    fn exhaustion() {
        let wait = |ms| Some(WhenExhausted::Wait(Some(Duration::from_millis(ms))));
        table(
            &EXHAUSTION,
            &[
                ("0", Some(WhenExhausted::Fail)),
                ("-1", Some(WhenExhausted::Wait(None))),
                ("250", wait(250)),
                ("4294967295", wait(4_294_967_295)),
                ("4294967296", None),
                ("-2", None),
                ("00", None),
                ("1s", None),
                ("share", None),
                ("", None),
            ],
        );
    }

    #[test]
    fn memory_limit() {
        table(
            &MEMORY_LIMIT,
            &[
                ("none", Some(None)),
                ("4096", Some(Some(4096))),
                ("6GiB", Some(Some(6 << 30))),
                ("0", None),
                ("0K", None),
                ("-1", None),
                ("", None),
            ],
        );
    }

    #[test]
    fn budgets() {
        table::<u64>(
            &RUN_STEPS,
            &[
                ("1", Some(1)),
                ("100000", Some(100_000)),
                ("0", None),
                ("-1", None),
                ("1e9", None),
                ("", None),
            ],
        );
    }

    #[test]
    fn fraction() {
        table(
            &HIGH_WATERMARK,
            &[
                ("0.5", Some(0.5)),
                ("1", Some(1.0)),
                ("1e-3", Some(0.001)),
                ("0", None),
                ("1.01", None),
                ("-0.5", None),
                ("NaN", None),
                ("inf", None),
                ("90%", None),
            ],
        );
    }

    #[test]
    fn mitigations() {
        let except = |names: &[&str]| {
            Some(Mitigations::Except(
                names.iter().map(|&name| name.into()).collect(),
            ))
        };
        table(
            &MITIGATIONS,
            &[
                ("all", Some(Mitigations::All)),
                ("None", Some(Mitigations::None)),
                ("-strided-copy-race", except(&["strided-copy-race"])),
                (
                    "-strided-copy-race, -buffers-in-flight,-strided-copy-race",
                    except(&["buffers-in-flight", "strided-copy-race"]),
                ),
                ("strided-copy-race", None),
                ("-gremlins", None),
                ("-strided-copy-race,", None),
                ("-", None),
                ("", None),
            ],
        );
    }

    #[test]
    fn a_wait_is_shown_in_milliseconds() {
        assert_eq!(
            WhenExhausted::Wait(Some(Duration::from_micros(1500))).text(),
            "wait 1.5 ms"
        );
    }
}
