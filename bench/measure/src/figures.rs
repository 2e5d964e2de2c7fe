//! Figures: what is measured, in what, how good it is meant to be, and what all of them came to.

use std::time::{Duration, Instant};

use serde::Serialize;
use serde_json::{Map, Value, json};
use streampool::Pool;

use crate::machine::Machine;
use crate::progress::Progress;
use crate::table::{Align, Table};
use crate::text::{compact, figure};
use crate::{Outcome, Result, output};

/// What a value counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Unit {
    #[serde(rename = "ns")]
    Nanoseconds,
    #[serde(rename = "us")]
    Microseconds,
    /// How many times as much as something else.
    #[serde(rename = "x")]
    Ratio,
    /// How often in a second.
    #[serde(rename = "/s")]
    Rate,
}

impl Unit {
    fn name(self) -> &'static str {
        match self {
            Unit::Nanoseconds => "ns",
            Unit::Microseconds => "us",
            Unit::Ratio => "x",
            Unit::Rate => "/s",
        }
    }

    fn number(self, value: f64) -> String {
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
    AtMost(f64),
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

    /// It for a table, where there is one.
    pub fn told(goal: Option<Goal>) -> String {
        match goal {
            None => String::new(),
            Some(Goal::AtMost(most)) if most >= 1e6 => format!("<= {}", compact(most)),
            Some(Goal::AtMost(most)) => format!("<= {most}"),
            Some(Goal::AtLeast(least)) if least >= 1e6 => format!(">= {}", compact(least)),
            Some(Goal::AtLeast(least)) => format!(">= {least}"),
        }
    }
}

/// Whether a goal was met, for a table.
pub fn verdict(ok: Option<bool>) -> &'static str {
    match ok {
        Some(true) => "ok",
        Some(false) => "missed",
        None => "",
    }
}

/// A figure, how to take a value of it in about some time, and the values that were taken.
pub struct Figure {
    /// Its name in JSON.
    pub key: &'static str,
    /// Its name in the table.
    pub what: &'static str,
    pub unit: Unit,
    /// How good it is meant to be; `None` if it is there to compare with.
    pub goal: Option<Goal>,
    pub values: Vec<f64>,
    pub round: Box<dyn FnMut(Duration) -> Result<f64>>,
}

impl Figure {
    pub fn new(
        key: &'static str,
        what: &'static str,
        unit: Unit,
        goal: Option<Goal>,
        round: impl FnMut(Duration) -> Result<f64> + 'static,
    ) -> Figure {
        Figure {
            key,
            what,
            unit,
            goal,
            values: Vec::new(),
            round: Box::new(round),
        }
    }
}

/// The middle of some values, the ends, and where eight in ten of them lie.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Spread {
    pub median: f64,
    pub min: f64,
    pub max: f64,
    pub p10: f64,
    pub p90: f64,
}

impl Spread {
    /// The spread of `values`, of which there is at least one.
    pub fn of(values: &[f64]) -> Result<Spread> {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let last = sorted.len().checked_sub(1);
        let last = last.ok_or("nothing was measured")?;
        let at = |fraction: f64| {
            let place = last as f64 * fraction;
            let (below, above) = (
                sorted[place.floor() as usize],
                sorted[place.ceil() as usize],
            );
            below + (above - below) * place.fract()
        };
        Ok(Spread {
            median: at(0.5),
            min: sorted[0],
            max: sorted[last],
            p10: at(0.1),
            p90: at(0.9),
        })
    }
}

/// Takes values of all figures and tells them, as one JSON object or as a table. One round of all comes before the next of any:
/// what disturbs the machine for a while hits all alike. The first round warms up.
pub fn report(
    title: &str,
    pool: &Pool,
    mut figures: Vec<Figure>,
    quick: bool,
    as_json: bool,
) -> Result<Outcome> {
    let (rounds, slice) = match quick {
        true => (5, Duration::from_millis(4)),
        false => (31, Duration::from_millis(25)),
    };
    let progress = Progress::on_terminal();
    for round in 0..=rounds {
        for figure in &mut figures {
            progress.step(round + 1, rounds + 1, figure.what);
            let value = (figure.round)(slice)?;
            if round > 0 {
                figure.values.push(value);
            }
        }
    }
    drop(progress);
    let properties = pool.device().properties();
    let machine = Machine::with(properties);
    let mut object = Map::new();
    use Align::{Left, Right};
    let mut table = Table::new(2, &[Left, Right, Right, Left, Left]);
    table.row(["", "median", "most within", "goal", ""]);
    for figure in &figures {
        let (spread, unit) = (Spread::of(&figure.values)?, figure.unit);
        let ok = figure.goal.map(|goal| goal.is_met(spread.median));
        let mut value = serde_json::to_value(spread)?;
        value["unit"] = json!(unit);
        value["goal"] = json!(figure.goal);
        value["ok"] = json!(ok);
        object.insert(figure.key.into(), value);
        table.row([
            figure.what.to_owned(),
            format!("{} {:<2}", unit.number(spread.median), unit.name()),
            format!("{} to {}", unit.number(spread.p10), unit.number(spread.p90)),
            Goal::told(figure.goal),
            verdict(ok).to_owned(),
        ]);
    }
    if as_json {
        object.insert("device".into(), json!(properties.name));
        object.insert("machine".into(), json!(machine));
        object.insert("rounds".into(), json!(rounds));
        output::json(&Value::from(object))?;
    } else {
        output::text(&format!(
            "{title} on {}: {}\n\n{}\nMedians of {rounds} rounds, and where eight in ten of them lie.\n",
            properties.name,
            machine.line(),
            table.render(),
        ))?;
    }
    Ok(Outcome::Good)
}

/// Nanoseconds of one call, of as many as fill `slice`.
pub fn per_call(
    slice: Duration,
    mut call: impl FnMut() -> streampool::runtime::Result<()>,
) -> Result<f64> {
    let seconds = seconds_per_call(slice, |calls| {
        let begin = Instant::now();
        (0..calls).try_for_each(|_| call())?;
        Ok(begin.elapsed())
    });
    Ok(1e9 * seconds?)
}

/// Seconds of one call, of as many as fill `slice`; `time` makes so many calls and says how long they took.
pub fn seconds_per_call(
    slice: Duration,
    mut time: impl FnMut(u64) -> Result<Duration>,
) -> Result<f64> {
    let mut calls = 1;
    loop {
        let elapsed = time(calls)?;
        if elapsed * 8 >= slice {
            let rest = slice.as_secs_f64() / elapsed.as_secs_f64();
            let calls = ((calls as f64 * rest) as u64).max(1);
            return Ok(time(calls)?.as_secs_f64() / calls as f64);
        }
        calls *= 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_has_a_middle_and_ends() {
        let spread = |values: &[f64]| {
            let spread = Spread::of(values).unwrap();
            (spread.min, spread.median, spread.max)
        };
        assert_eq!(spread(&[3.0, -1.0, 2.0]), (-1.0, 2.0, 3.0));
        assert_eq!(spread(&[4.0, 1.0, 2.0, 3.0]), (1.0, 2.5, 4.0));
        assert!(Spread::of(&[]).is_err());
        let values: Vec<f64> = (0..=10).map(f64::from).collect();
        let most = Spread::of(&values).map(|s| (s.p10, s.p90)).unwrap();
        assert_eq!(most, (1.0, 9.0));
    }

    #[test]
    fn goals_have_a_side() {
        assert!(Goal::AtMost(5.0).is_met(5.0) && !Goal::AtMost(5.0).is_met(5.1));
        assert!(Goal::AtLeast(1.8).is_met(1.8) && !Goal::AtLeast(1.8).is_met(1.79));
    }

    #[test]
    fn a_call_takes_the_time_it_takes() {
        let call = || {
            std::thread::sleep(Duration::from_micros(200));
            Ok(())
        };
        let took = per_call(Duration::from_millis(4), call).unwrap();
        assert!(took >= 200_000.0, "{took} ns");
        let broken = || Err(streampool::runtime::Error::ShutDown);
        assert!(per_call(Duration::from_millis(1), broken).is_err());
    }
}
