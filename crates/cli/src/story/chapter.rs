//! Chapters: what each claims, and what was found.

use std::time::Instant;

use serde::Serialize;
use serde_json::{Value, json};

use super::setting::Setting;
use crate::page::{Cell, Part, Section, Table};
use crate::plot::{Bars, Group};
use crate::text::{count, figure};
use crate::{Failure, Result};

/// Who is told what is going on.
pub type Now<'a> = &'a dyn Fn(&str);

/// One part of the argument.
pub struct Chapter {
    /// Its name.
    pub name: &'static str,
    /// What is claimed, with all that is allowed for.
    pub claim: String,
    /// How that is measured, here.
    pub how: String,
    /// Measures it.
    pub tell: fn(&Setting, Now<'_>) -> Result<Found>,
}

/// What was found.
#[derive(Default)]
pub struct Found {
    /// What has to hold for the claim to hold.
    pub checks: Vec<Check>,
    /// The figures, each table with what is in it.
    pub tables: Vec<(String, Table)>,
    /// They as drawings.
    pub drawings: Vec<Part>,
    /// What they come to, if all holds.
    pub sum: String,
}

/// One thing that has to hold.
#[derive(Debug, Serialize)]
pub struct Check {
    /// Its name in JSON.
    pub name: String,
    /// What is looked at.
    pub what: String,
    /// What was seen of it.
    #[serde(flatten)]
    pub seen: Seen,
}

/// What was seen of one thing that has to hold.
#[derive(Debug, Default, Serialize)]
pub struct Seen {
    /// Whether it held.
    pub ok: bool,
    /// The figures in a few words.
    pub figures: String,
    /// The figures by name.
    pub numbers: Value,
    /// Those to draw, if any.
    #[serde(skip)]
    pub drawn: Vec<u64>,
}

impl Check {
    /// That a figure is no less than `least`.
    pub fn at_least(name: String, what: String, value: f64, least: f64) -> Check {
        let seen = Seen {
            ok: value >= least,
            figures: format!("{} (at least {least})", figure(value)),
            numbers: json!({ "value": value, "at_least": least }),
            ..Seen::default()
        };
        Check { name, what, seen }
    }

    /// That a figure is no more than `most`, both small.
    pub fn at_most(name: String, what: String, value: f64, most: f64) -> Check {
        let seen = Seen {
            ok: value <= most,
            figures: format!("{value:.1e} (at most {most:.0e})"),
            numbers: json!({ "value": value, "at_most": most }),
            ..Seen::default()
        };
        Check { name, what, seen }
    }

    /// That what `act` sees is as it should be. What cannot be done shows that it is not; others are still tried.
    pub fn tried(
        now: Now<'_>,
        name: impl Into<String>,
        what: impl Into<String>,
        act: impl FnOnce() -> Result<Seen>,
    ) -> Check {
        let (name, what) = (name.into(), what.into());
        now(&what);
        let seen = act().unwrap_or_else(|failure| Seen::failed(&failure));
        Check { name, what, seen }
    }
}

impl Seen {
    /// That so many results were compared, and so many of them were wrong: none may be.
    pub fn compared(compared: u64, wrong: u64, numbers: Value) -> Seen {
        Seen {
            ok: wrong == 0,
            figures: format!("{} compared, {} wrong", count(compared), count(wrong)),
            numbers,
            drawn: vec![compared - wrong, wrong],
        }
    }

    fn failed(why: &Failure) -> Seen {
        Seen {
            figures: why.to_string(),
            numbers: json!({ "error": why.to_string() }),
            ..Seen::default()
        }
    }
}

/// What checks have to draw, as two bars for each.
pub fn bars(title: &str, label: &str, series: [&str; 2], checks: &[Check]) -> Part {
    let drawn = checks.iter().filter(|check| !check.seen.drawn.is_empty());
    let group = |check: &Check| Group {
        name: check.name.clone(),
        values: check.seen.drawn.iter().map(|&count| count as f64).collect(),
    };
    Part::Bars(Bars {
        title: title.to_owned(),
        label: label.to_owned(),
        series: series.map(str::to_owned).to_vec(),
        groups: drawn.map(group).collect(),
    })
}

/// The sums of what checks have to draw.
pub fn sums(checks: &[Check]) -> [u64; 2] {
    [0, 1].map(|place| {
        checks
            .iter()
            .filter_map(|one| one.seen.drawn.get(place))
            .sum()
    })
}

/// A chapter that was told.
pub struct Told {
    /// Its number, from 1.
    pub number: usize,
    /// Its name.
    pub name: &'static str,
    claim: String,
    how: String,
    /// What was found.
    pub found: Found,
    /// How long it took.
    pub seconds: f64,
}

impl Told {
    /// Whether the claim holds.
    pub fn ok(&self) -> bool {
        self.found.checks.iter().all(|check| check.seen.ok)
    }

    /// Whether it does, in words.
    pub fn verdict(&self) -> String {
        let checks = &self.found.checks;
        let failed = checks.iter().filter(|check| !check.seen.ok);
        let failed = failed.map(|check| format!("{}: {}", check.what, check.seen.figures));
        let failed: Vec<String> = failed.collect();
        match failed.len() {
            0 => self.found.sum.clone(),
            count => {
                let all = checks.len();
                format!("{count} of {all} checks failed: {}.", failed.join("; "))
            }
        }
    }

    /// Its title.
    pub fn title(&self) -> String {
        let (first, rest) = self.name.split_at(1);
        format!("{} {}{rest}", self.number, first.to_ascii_uppercase())
    }

    /// It as a section of a page.
    pub fn section(&self) -> Section {
        let mut parts = vec![
            Part::Named("Claim.", self.claim.clone()),
            Part::Named("How.", self.how.clone()),
        ];
        for (what, table) in &self.found.tables {
            parts.push(Part::Text(what.clone()));
            parts.push(Part::Table(table.clone()));
        }
        parts.extend(self.found.drawings.iter().cloned());
        let row = |check: &Check| {
            let word = if check.seen.ok { "ok" } else { "FAILED" };
            [word, &check.what, &check.seen.figures]
                .map(Cell::from)
                .to_vec()
        };
        parts.push(Part::Table(Table {
            head: Vec::new(),
            rows: self.found.checks.iter().map(row).collect(),
        }));
        let verdict = format!("{} ({:.1} s)", self.verdict(), self.seconds);
        parts.push(Part::Verdict(self.ok(), verdict));
        Section {
            title: self.title(),
            parts,
        }
    }

    /// It for JSON.
    pub fn json(&self) -> Value {
        let table = |(what, table): &(String, Table)| table.json(what);
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
    /// Tells it. What cannot be done shows that something does not hold; the other chapters are still told.
    pub fn told(self, number: usize, setting: &Setting, now: Now<'_>) -> Told {
        let begin = Instant::now();
        let found = (self.tell)(setting, now).unwrap_or_else(|failure| {
            let check = Check {
                name: self.name.to_owned(),
                what: "the measurement".to_owned(),
                seen: Seen::failed(&failure),
            };
            Found {
                checks: vec![check],
                ..Found::default()
            }
        });
        Told {
            number,
            name: self.name,
            claim: self.claim,
            how: self.how,
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
        let ok = |value| check(value).seen.ok;
        assert!(ok(1e-6) && ok(1e-5));
        assert!(!ok(2e-5) && !ok(f64::NAN) && !ok(f64::INFINITY));
    }

    #[test]
    fn what_cannot_be_tried_does_not_hold() {
        let seen = || Seen {
            ok: true,
            drawn: vec![3, 1],
            ..Seen::default()
        };
        let good = Check::tried(&|_| (), "good", "something", || Ok(seen()));
        let bad = Check::tried(&|_| (), "bad", "something else", || Err("it broke".into()));
        assert!(good.seen.ok && !bad.seen.ok && bad.seen.figures == "it broke");
        assert_eq!(sums(&[good, bad]), [3, 1]);
    }
}
