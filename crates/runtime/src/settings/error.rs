//! Who decided a setting, and why settings are refused.

use serde::Serialize;

/// Who decided a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// The program, through [`SettingsBuilder`](crate::SettingsBuilder).
    Builder,
    /// A `STREAMPOOL_*` variable.
    Environment,
    /// Nobody.
    #[default]
    Default,
}

impl std::fmt::Display for Origin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Origin::Builder => "builder",
            Origin::Environment => "environment",
            Origin::Default => "default",
        })
    }
}

/// Why settings are refused. The message says what would be right.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum SettingError {
    /// The value cannot be read, or is out of bounds.
    #[error("{name} (from the {origin}) is `{value}`; allowed: {allowed}")]
    Invalid {
        /// The variable of the setting.
        name: &'static str,
        /// What it was.
        value: String,
        /// Who said so.
        origin: Origin,
        /// What it may be.
        allowed: &'static str,
    },
    /// The environment has a variable that begins like ours and means nothing.
    #[error("{name} is not a setting{}; known: {}", suggestion(.nearest), .known.join(", "))]
    Unknown {
        /// The variable.
        name: String,
        /// The name that may have been meant.
        nearest: Option<&'static str>,
        /// Every name there is; one that ends in `*` stands for a device's own.
        known: Vec<String>,
    },
    /// The low watermark is above the high one.
    #[error(
        "STREAMPOOL_LOW_WATERMARK is {low}, above STREAMPOOL_HIGH_WATERMARK, which is {high}; \
         allowed: 0 < low <= high <= 1"
    )]
    WatermarksCrossed {
        /// The low watermark.
        low: f64,
        /// The high watermark.
        high: f64,
    },
}

fn suggestion(nearest: &Option<&'static str>) -> String {
    match nearest {
        Some(name) => format!(" (did you mean {name}?)"),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_name_is_told_apart_with_and_without_a_suggestion() {
        let known = vec!["STREAMPOOL_STREAMS".to_string(), "STREAMPOOL_HOST_*".into()];
        let mut error = SettingError::Unknown {
            name: "STREAMPOOL_STREAM".into(),
            nearest: Some("STREAMPOOL_STREAMS"),
            known,
        };
        assert_eq!(
            error.to_string(),
            "STREAMPOOL_STREAM is not a setting (did you mean STREAMPOOL_STREAMS?); \
             known: STREAMPOOL_STREAMS, STREAMPOOL_HOST_*"
        );
        if let SettingError::Unknown { nearest, .. } = &mut error {
            *nearest = None;
        }
        assert!(
            error
                .to_string()
                .starts_with("STREAMPOOL_STREAM is not a setting; known:")
        );
    }
}
