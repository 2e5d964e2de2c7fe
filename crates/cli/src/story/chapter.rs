//! Chapters: what each claims, and what was found.

use std::error::Error;
use std::fmt::Write;
use std::time::Instant;

use serde::Serialize;
use serde_json::{Value, json};

use super::setting::Setting;
use super::sheet::Sheet;
use crate::Result;
use crate::plot::{Bars, Plot};
use crate::text::figure;

/// How a chapter is told. What is going on is told on the way.
pub type Tell = fn(&Setting, &dyn Fn(&str)) -> Result<Found>;

/// One part of the argument.
pub struct Chapter {
    /// Its name.
    pub name: &'static str,
    /// What is claimed, with all that is allowed for.
    pub claim: String,
    /// How that is measured, here.
    pub how: String,
    /// Measures it.
    pub tell: Tell,
}

/// What was found.
#[derive(Default)]
pub struct Found {
    /// What has to hold for the claim to hold.
    pub checks: Vec<Check>,
    /// The figures, each table with what is in it.
    pub tables: Vec<(String, Sheet)>,
    /// They as drawings.
    pub drawings: Vec<Drawing>,
    /// What they come to, if all holds.
    pub sum: String,
}

/// A drawing.
pub enum Drawing {
    Lines(Plot),
    Bars(Bars),
}

impl Drawing {
    /// It as an SVG image.
    pub fn svg(&self) -> String {
        match self {
            Drawing::Lines(plot) => plot.svg(),
            Drawing::Bars(bars) => bars.svg(),
        }
    }

    /// It for a terminal.
    pub fn terminal(&self, width: usize) -> String {
        match self {
            Drawing::Lines(plot) => plot.terminal(width, 12),
            Drawing::Bars(bars) => bars.terminal(width),
        }
    }
}

/// One thing that has to hold.
#[derive(Debug, Serialize)]
pub struct Check {
    /// Its name in JSON.
    pub name: String,
    /// What is looked at.
    pub what: String,
    /// Whether it held.
    pub ok: bool,
    /// The figures in a few words.
    pub figures: String,
    /// The figures by name.
    pub numbers: Value,
}

impl Check {
    /// That a figure is no less than `least`.
    pub fn at_least(name: String, what: String, value: f64, least: f64) -> Check {
        Check {
            name,
            what,
            ok: value >= least,
            figures: format!("{} (at least {least})", figure(value)),
            numbers: json!({ "value": value, "at_least": least }),
        }
    }

    /// That a figure is no more than `most`, both small.
    pub fn at_most(name: String, what: String, value: f64, most: f64) -> Check {
        Check {
            name,
            what,
            ok: value <= most,
            figures: format!("{value:.1e} (at most {most:.0e})"),
            numbers: json!({ "value": value, "at_most": most }),
        }
    }

    /// What could not be looked at, which shows that something does not hold.
    pub fn failed(name: &str, what: &str, why: &(dyn Error + Send + Sync)) -> Check {
        Check {
            name: name.to_owned(),
            what: what.to_owned(),
            ok: false,
            figures: why.to_string(),
            numbers: json!({ "error": why.to_string() }),
        }
    }
}

/// A chapter that was told.
pub struct Told {
    /// Its number, from 1.
    pub number: usize,
    /// Its name.
    pub name: &'static str,
    /// What is claimed.
    pub claim: String,
    /// How that was measured.
    pub how: String,
    /// What was found.
    pub found: Found,
    /// How long it took.
    pub seconds: f64,
}

impl Told {
    /// Whether the claim holds.
    pub fn ok(&self) -> bool {
        self.found.checks.iter().all(|check| check.ok)
    }

    /// Whether it does, in words.
    pub fn verdict(&self) -> String {
        let checks = &self.found.checks;
        let failed: Vec<&Check> = checks.iter().filter(|check| !check.ok).collect();
        if failed.is_empty() {
            return self.found.sum.clone();
        }
        let mut verdict = format!("{} of {} checks failed", failed.len(), checks.len());
        for (number, check) in failed.iter().enumerate() {
            let before = if number == 0 { ": " } else { "; " };
            let _ = write!(verdict, "{before}{}: {}", check.what, check.figures);
        }
        verdict + "."
    }

    /// Its title.
    pub fn title(&self) -> String {
        let mut letters = self.name.chars();
        let first = letters.next().map(|letter| letter.to_ascii_uppercase());
        let name: String = first.into_iter().chain(letters).collect();
        format!("{} {name}", self.number)
    }

    /// It for JSON.
    pub fn json(&self) -> Value {
        let table = |(what, sheet): &(String, Sheet)| sheet.json(what);
        json!({
            "number": self.number,
            "name": self.name,
            "ok": self.ok(),
            "claim": self.claim,
            "how": self.how,
            "checks": self.found.checks,
            "tables": self.found.tables.iter().map(table).collect::<Vec<_>>(),
            "verdict": self.verdict(),
            "seconds": self.seconds,
        })
    }
}

impl Chapter {
    /// Tells it.
    pub fn told(&self, number: usize, setting: &Setting, now: &dyn Fn(&str)) -> Told {
        let begin = Instant::now();
        // What cannot be done shows that something does not hold; the other chapters are still told.
        let found = (self.tell)(setting, now).unwrap_or_else(|failure| Found {
            checks: vec![Check::failed(self.name, "the measurement", &*failure)],
            ..Found::default()
        });
        Told {
            number,
            name: self.name,
            claim: self.claim.clone(),
            how: self.how.clone(),
            found,
            seconds: begin.elapsed().as_secs_f64(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(values: &[f64]) -> Told {
        let check = |&value: &f64| Check::at_least("rate".into(), "the rate".into(), value, 0.7);
        Told {
            number: 2,
            name: "scaling",
            claim: "It scales.".to_owned(),
            how: String::new(),
            found: Found {
                checks: values.iter().map(check).collect(),
                sum: "It scaled.".to_owned(),
                ..Found::default()
            },
            seconds: 0.0,
        }
    }

    #[test]
    fn one_check_that_fails_is_enough() {
        let good = told(&[0.7, 0.9]);
        assert!(good.ok() && good.verdict() == "It scaled.");
        let bad = told(&[0.9, 0.6, f64::NAN]);
        assert!(!bad.ok());
        let verdict = bad.verdict();
        assert!(
            verdict.starts_with("2 of 3 checks failed: the rate: 0.60"),
            "{verdict}"
        );
        assert_eq!(bad.json()["ok"], false);
        assert_eq!(bad.title(), "2 Scaling");
    }

    #[test]
    fn nothing_is_at_most_nan() {
        let check = |value| Check::at_most("e".into(), "error".into(), value, 1e-5);
        assert!(check(1e-6).ok && check(1e-5).ok);
        assert!(!check(2e-5).ok && !check(f64::NAN).ok && !check(f64::INFINITY).ok);
    }
}
