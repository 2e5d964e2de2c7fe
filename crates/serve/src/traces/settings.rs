//! Which requests are traced: the extension `trace` of Triton, for all models and for single ones.

use std::collections::BTreeMap;

use crate::error::{Error, Result};

/// What a client wants a setting to be: these values, or, if there are none, what holds without a setting of its own.
pub type Change = (String, Vec<String>);

/// The settings of all models, or of one. What is not set is as for all models, or as at the start.
#[derive(Debug, Clone, Default)]
struct Scope {
    on: Option<bool>,
    rate: Option<u64>,
    /// How many more are traced.
    count: Option<Option<u64>>,
    /// How many requests came since one was traced.
    seen: u64,
}

/// Which requests are traced.
#[derive(Debug, Clone)]
pub struct Settings {
    /// One of so many, if nobody sets another rate.
    rate: u64,
    all: Scope,
    models: BTreeMap<String, Scope>,
}

impl Settings {
    /// One of so many is traced, of all models.
    pub fn new(rate: u64) -> Settings {
        Settings {
            rate: rate.max(1),
            all: Scope::default(),
            models: BTreeMap::new(),
        }
    }

    /// Whether a request of a model that has come now is traced. `asked` says whether its client traces it, if that is known.
    pub fn take(&mut self, model: &str, asked: Option<bool>) -> bool {
        let (on, rate) = self.of(model);
        if !on || asked == Some(false) {
            return false;
        }
        let Settings { all, models, .. } = self;
        let mut own = models.get_mut(model);
        if asked.is_none() {
            let paced = match &mut own {
                Some(own) if own.rate.is_some() => &mut **own,
                _ => &mut *all,
            };
            paced.seen += 1;
            if paced.seen < rate {
                return false;
            }
            paced.seen = 0;
        }
        let counted = match own {
            Some(own) if own.count.is_some() => own,
            _ => all,
        };
        match &mut counted.count {
            None | Some(None) => true,
            Some(Some(0)) => false,
            Some(Some(left)) => {
                *left -= 1;
                true
            }
        }
    }

    /// Whether requests of a model are traced, and one of how many.
    fn of(&self, model: &str) -> (bool, u64) {
        let own = self.models.get(model);
        let on = own.and_then(|own| own.on).or(self.all.on).unwrap_or(true);
        let rate = own.and_then(|own| own.rate).or(self.all.rate);
        (on, rate.unwrap_or(self.rate))
    }

    /// Changes settings, all or none of them.
    pub fn change(&mut self, model: Option<&str>, changes: &[Change]) -> Result<()> {
        let mut changed = self.clone();
        let scope = match model {
            None => &mut changed.all,
            Some(model) => changed.models.entry(model.to_owned()).or_default(),
        };
        for (name, values) in changes {
            scope.set(name, values)?;
        }
        *self = changed;
        Ok(())
    }

    /// The settings of a model, or of all, as clients read them.
    pub fn told(&self, model: Option<&str>) -> Vec<(&'static str, Vec<String>)> {
        let (on, rate) = self.of(model.unwrap_or_default());
        let own = model.and_then(|model| self.models.get(model));
        let count = own.and_then(|own| own.count).or(self.all.count).flatten();
        told(on, rate, count)
    }
}

/// The settings, as clients read them.
pub fn told(on: bool, rate: u64, count: Option<u64>) -> Vec<(&'static str, Vec<String>)> {
    let level = if on { "TIMESTAMPS" } else { "OFF" };
    let count = count.map_or("-1".to_owned(), |count| count.to_string());
    vec![
        ("trace_level", vec![level.to_owned()]),
        ("trace_rate", vec![rate.to_string()]),
        ("trace_count", vec![count]),
        ("log_frequency", vec!["0".to_owned()]),
        ("trace_file", vec![String::new()]),
        ("trace_mode", vec!["opentelemetry".to_owned()]),
    ]
}

impl Scope {
    fn set(&mut self, name: &str, values: &[String]) -> Result<()> {
        let refused = |why: &str| Err(Error::invalid(format!("{name}: {why}")));
        let values: Vec<&str> = values.iter().map(String::as_str).collect();
        match (name, &values[..]) {
            ("trace_level", []) => self.on = None,
            ("trace_level", ["OFF"]) => self.on = Some(false),
            ("trace_level", ["TIMESTAMPS"]) => self.on = Some(true),
            ("trace_level", levels) if levels.contains(&"TENSORS") => {
                return refused("tensors are not traced, expected OFF or TIMESTAMPS");
            }
            ("trace_level", _) => return refused("expected OFF or TIMESTAMPS"),
            ("trace_rate", []) => self.rate = None,
            ("trace_rate", [rate]) => match rate.parse() {
                Ok(rate @ 1..) => self.rate = Some(rate),
                _ => {
                    return refused("expected a whole number, 1 or more: one of so many is traced");
                }
            },
            ("trace_count", []) => self.count = None,
            ("trace_count", ["-1"]) => self.count = Some(None),
            ("trace_count", [count]) => match count.parse() {
                Ok(count) => self.count = Some(Some(count)),
                Err(_) => return refused("expected a whole number, or -1 for all"),
            },
            ("log_frequency", [] | ["0"]) | ("trace_file", [] | [""]) => {}
            ("trace_mode", [] | ["opentelemetry"]) => {}
            ("log_frequency", _) => return refused("traces leave the server each second"),
            ("trace_file", _) => {
                return refused("where traces go is said when the server starts, by `--traces`");
            }
            ("trace_mode", _) => return refused("the only mode is opentelemetry"),
            ("trace_rate" | "trace_count", _) => return refused("expected one value"),
            _ => return refused("there is no such setting"),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(name: &str, values: &[&str]) -> Change {
        let values = values.iter().map(|&value| value.to_owned());
        (name.to_owned(), values.collect())
    }

    #[test]
    fn one_of_so_many_is_traced_until_the_count_is_reached() {
        let mut settings = Settings::new(3);
        let taken = |settings: &mut Settings, requests: usize| {
            let each = (0..requests).filter(|_| settings.take("a", None));
            each.count()
        };
        assert_eq!(taken(&mut settings, 9), 3);
        let changes = [change("trace_rate", &["1"]), change("trace_count", &["2"])];
        settings.change(Some("a"), &changes).unwrap();
        assert_eq!(taken(&mut settings, 9), 2, "its own settings");
        assert!(!settings.take("a", Some(true)), "its count is reached");
        assert!(settings.take("b", Some(true)), "the client traces it");
        assert!(!settings.take("b", Some(false)), "the client does not");
        let cleared = [change("trace_rate", &[]), change("trace_count", &[])];
        settings.change(Some("a"), &cleared).unwrap();
        assert_eq!(taken(&mut settings, 9), 3, "as for all models");
        settings
            .change(None, &[change("trace_level", &["OFF"])])
            .unwrap();
        assert!(!settings.take("a", Some(true)));
    }

    #[test]
    fn what_cannot_be_done_is_refused_and_changes_nothing() {
        let mut settings = Settings::new(1);
        for (name, values, why) in [
            ("trace_level", &["TIMESTAMPS", "TENSORS"][..], "tensors"),
            ("trace_level", &["HIGH"], "expected OFF"),
            ("trace_rate", &["0"], "1 or more"),
            ("trace_rate", &["1", "2"], "one value"),
            ("trace_count", &["-2"], "-1 for all"),
            ("log_frequency", &["50"], "each second"),
            ("trace_file", &["/etc/passwd"], "--traces"),
            ("trace_mode", &["triton"], "opentelemetry"),
            ("trace_color", &["red"], "no such setting"),
        ] {
            let changes = [change("trace_rate", &["7"]), change(name, values)];
            let error = settings.change(None, &changes).unwrap_err();
            assert!(error.to_string().contains(why), "{error}");
        }
        assert_eq!(settings.told(None)[1].1, ["1"]);
    }
}
