//! One figure under one condition, and figures that belong together.

use serde::Serialize;

use crate::figures::verdict;
use crate::text::{compact, counted, figure};

/// What a value counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Unit {
    /// Times per second.
    #[serde(rename = "per_s")]
    PerSecond,
    /// 10¹² floating-point operations per second.
    #[serde(rename = "TFLOP/s")]
    Teraflops,
    /// 10⁹ bytes read and written per second.
    #[serde(rename = "GB/s")]
    Gigabytes,
}

/// What the ratio is taken against.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Against {
    /// The bare driver, doing the same or the nearest there is.
    Driver,
    /// Ours with one thread.
    OneThread,
    /// Ours waiting after each.
    DepthOne,
}

/// One figure under one condition.
///
/// In JSON every key is there, with `null` for what does not apply. No two points have the same `name` and
/// `threads`:
///
/// ```json
/// {"name": "launch_sync", "threads": 8, "depth": 1, "bytes": null, "unit": "per_s",
///  "ours": 560000.0, "raw": 583000.0, "ratio": 0.96, "against": "driver", "goal": 0.9, "met": true}
/// ```
///
/// `goal` is the least `ratio` that is wanted, and `met` whether it was reached.
#[derive(Debug, Clone, Serialize)]
pub struct Point {
    pub name: String,
    pub threads: usize,
    /// Calls between two waits.
    pub depth: Option<usize>,
    /// The size of each.
    pub bytes: Option<usize>,
    pub unit: Unit,
    pub ours: Option<f64>,
    pub raw: Option<f64>,
    pub ratio: Option<f64>,
    pub against: Option<Against>,
    pub goal: Option<f64>,
    pub met: Option<bool>,
}

impl Point {
    fn new(name: impl Into<String>, threads: usize, unit: Unit) -> Point {
        Point {
            name: name.into(),
            threads,
            depth: None,
            bytes: None,
            unit,
            ours: None,
            raw: None,
            ratio: None,
            against: None,
            goal: None,
            met: None,
        }
    }

    /// Ours, beside the bare driver's.
    pub fn beside(
        name: impl Into<String>,
        threads: usize,
        unit: Unit,
        (ours, raw): (f64, f64),
    ) -> Self {
        Point {
            ours: Some(ours),
            raw: Some(raw),
            ratio: Some(ours / raw),
            against: Some(Against::Driver),
            ..Point::new(name, threads, unit)
        }
    }

    /// Ours, with nothing beside it.
    pub fn ours(name: impl Into<String>, threads: usize, unit: Unit, ours: f64) -> Self {
        Point {
            ours: Some(ours),
            ..Point::new(name, threads, unit)
        }
    }

    /// The bare driver's alone.
    pub fn raw(name: impl Into<String>, threads: usize, raw: f64) -> Self {
        Point {
            raw: Some(raw),
            ..Point::new(name, threads, Unit::PerSecond)
        }
    }

    /// How many times as much as another point of ours this one is, as a point of its own.
    pub fn gain(&self, name: &str, against: Against, base: &Point) -> Option<Point> {
        Some(Point {
            name: name.to_owned(),
            ratio: Some(self.ours? / base.ours?),
            against: Some(against),
            raw: None,
            goal: None,
            met: None,
            ..self.clone()
        })
    }

    /// With the least ratio that is wanted.
    pub fn goal(self, least: f64) -> Self {
        Point {
            goal: Some(least),
            met: self.ratio.map(|ratio| ratio >= least),
            ..self
        }
    }

    /// The cells of its row: condition, ours, the driver's, the ratio, the goal and whether it is met.
    pub fn row(&self) -> [String; 6] {
        let value = |value: Option<f64>| match (value, self.unit) {
            (None, _) => "-".to_owned(),
            (Some(value), Unit::PerSecond) => format!("{}/s", compact(value)),
            (Some(value), Unit::Teraflops) => format!("{} TFLOP/s", figure(value)),
            (Some(value), Unit::Gigabytes) => format!("{} GB/s", figure(value)),
        };
        let ratio = self.ratio.map_or_else(String::new, |ratio| {
            let of = match self.against {
                Some(Against::OneThread) => " x one",
                Some(Against::DepthOne) => " x depth 1",
                _ => "",
            };
            format!("{ratio:.2}{of}")
        });
        let goal = self.goal.map(|goal| format!(">= {goal}"));
        [
            self.condition(),
            value(self.ours),
            value(self.raw),
            ratio,
            goal.unwrap_or_default(),
            verdict(self.met).to_owned(),
        ]
    }

    fn condition(&self) -> String {
        let threads = counted(self.threads as u64, "thread");
        format!("{}, {threads}", self.name.replace('_', " "))
    }
}

/// Figures that belong together.
#[derive(Debug)]
pub struct Group {
    /// What they are.
    pub title: &'static str,
    /// They.
    pub points: Vec<Point>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_goal_is_met_by_the_ratio() {
        let point =
            |ours| Point::beside("launch_sync", 8, Unit::PerSecond, (ours, 100.0)).goal(0.9);
        assert_eq!(point(90.0).met, Some(true));
        assert_eq!(point(89.0).met, Some(false));
        assert_eq!(point(89.0).row()[5], "missed");
        let unknown = Point::raw("raw_launches", 8, 100.0).goal(0.9);
        assert_eq!(unknown.met, None);
    }

    #[test]
    fn a_gain_compares_ours_with_ours() {
        let rate = |threads, ours| Point::beside("linear", threads, Unit::PerSecond, (ours, 1e9));
        let (one, eight) = (rate(1, 50e3), rate(8, 250e3));
        let gain = eight.gain("linear_scaling", Against::OneThread, &one);
        let gain = gain.unwrap().goal(4.0);
        assert_eq!(
            (gain.ratio, gain.met, gain.raw),
            (Some(5.0), Some(true), None)
        );
        assert_eq!(gain.threads, 8);
    }

    #[test]
    fn every_key_is_always_there() {
        let value = serde_json::to_value(Point::raw("plain_chunk", 1, 5e3)).unwrap();
        for key in [
            "name", "threads", "depth", "bytes", "unit", "ours", "raw", "ratio", "against", "goal",
            "met",
        ] {
            assert!(value.get(key).is_some(), "{key} is not in {value}");
        }
        assert!(value["ours"].is_null());
        assert_eq!(value["unit"], "per_s");
    }
}
