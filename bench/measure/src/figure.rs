//! A figure: what is measured, in what, and how good it is meant to be.

use std::time::Duration;

use serde::Serialize;

use crate::Result;
use crate::text::{compact, figure};

/// What a value counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Unit {
    /// Nanoseconds.
    #[serde(rename = "ns")]
    Nanoseconds,
    /// How many times as much as something else.
    #[serde(rename = "x")]
    Ratio,
    /// Microseconds.
    #[serde(rename = "us")]
    Microseconds,
    /// How often in a second.
    #[serde(rename = "/s")]
    Rate,
}

impl Unit {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Unit::Nanoseconds => "ns",
            Unit::Microseconds => "us",
            Unit::Ratio => "x",
            Unit::Rate => "/s",
        }
    }

    /// A value in it, without its name.
    pub fn number(self, value: f64) -> String {
        match self {
            Unit::Rate => compact(value),
            _ => figure(value),
        }
    }
}

/// How good a figure is meant to be.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Goal {
    /// No more than this.
    AtMost(f64),
    /// No less than this.
    AtLeast(f64),
}

impl Goal {
    /// Whether `value` is that good.
    pub fn is_met(self, value: f64) -> bool {
        match self {
            Goal::AtMost(most) => value <= most,
            Goal::AtLeast(least) => value >= least,
        }
    }
}

/// What is measured.
#[derive(Debug, Clone, Copy)]
pub struct Figure {
    /// Its name in JSON.
    pub key: &'static str,
    /// Its name in the table.
    pub what: &'static str,
    /// What it counts.
    pub unit: Unit,
    /// How good it is meant to be; `None` if it is there to compare with.
    pub goal: Option<Goal>,
}

type Round = Box<dyn FnMut(Duration) -> Result<f64>>;

/// A figure, how to take it, and what was taken so far.
pub struct Measurement {
    /// What is measured.
    pub figure: Figure,
    /// One value for each round.
    pub values: Vec<f64>,
    round: Round,
}

impl Measurement {
    /// A measurement whose `round` takes about the time it is given.
    pub fn new(figure: Figure, round: impl FnMut(Duration) -> Result<f64> + 'static) -> Self {
        Measurement {
            figure,
            values: Vec::new(),
            round: Box::new(round),
        }
    }

    /// Takes one value, in about this time.
    pub fn round(&mut self, slice: Duration) -> Result<f64> {
        (self.round)(slice)
    }
}

/// The middle of some values, the ends, and where most of them lie.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Spread {
    /// Half are at most this.
    pub median: f64,
    /// The smallest.
    pub min: f64,
    /// The largest.
    pub max: f64,
    /// One in ten is less.
    pub p10: f64,
    /// One in ten is more.
    pub p90: f64,
}

impl Spread {
    /// The spread of `values`, of which there is at least one.
    pub fn of(values: &[f64]) -> Option<Self> {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let last = sorted.len().checked_sub(1)?;
        let at = |fraction: f64| {
            let place = last as f64 * fraction;
            let (below, above) = (
                sorted[place.floor() as usize],
                sorted[place.ceil() as usize],
            );
            below + (above - below) * place.fract()
        };
        Some(Spread {
            median: at(0.5),
            min: sorted[0],
            max: sorted[last],
            p10: at(0.1),
            p90: at(0.9),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_in_the_middle() {
        let spread = |values: &[f64]| Spread::of(values).map(|s| (s.min, s.median, s.max));
        assert_eq!(spread(&[3.0, -1.0, 2.0]), Some((-1.0, 2.0, 3.0)));
        assert_eq!(spread(&[4.0, 1.0, 2.0, 3.0]), Some((1.0, 2.5, 4.0)));
        assert_eq!(spread(&[7.0]), Some((7.0, 7.0, 7.0)));
        assert_eq!(spread(&[]), None);
    }

    #[test]
    fn most_lie_between_the_tenths() {
        let values: Vec<f64> = (0..=10).map(f64::from).collect();
        let spread = Spread::of(&values).map(|s| (s.p10, s.p90));
        assert_eq!(spread, Some((1.0, 9.0)));
    }

    #[test]
    fn goals_have_a_side() {
        assert!(Goal::AtMost(5.0).is_met(5.0) && !Goal::AtMost(5.0).is_met(5.1));
        assert!(Goal::AtLeast(1.8).is_met(1.8) && !Goal::AtLeast(1.8).is_met(1.79));
    }
}
