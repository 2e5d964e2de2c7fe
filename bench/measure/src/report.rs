//! The figures as a table and as JSON.

use serde_json::{Map, Value, json};

use super::figure::{Goal, Measurement, Spread, Unit};
use crate::machine::Machine;
use crate::table::{Align, Table};
use crate::text::compact;
use crate::{Outcome, Result, output};

/// What was measured, where.
pub struct Report {
    /// What the figures tell.
    pub title: &'static str,
    /// The device's name.
    pub device: String,
    /// The machine.
    pub machine: Machine,
    /// Values behind each figure.
    pub rounds: usize,
    /// The figures.
    pub measurements: Vec<Measurement>,
}

impl Report {
    /// Tells it, as one JSON object or as a table. A goal that is missed is no failure of the program.
    pub fn tell(&self, as_json: bool) -> Result<Outcome> {
        if as_json {
            output::json(&self.object()?)?;
        } else {
            output::text(&self.page())?;
        }
        Ok(Outcome::Good)
    }

    /// One object, with a key for each figure.
    pub fn object(&self) -> Result<Value> {
        let mut object = Map::new();
        object.insert("device".into(), json!(self.device));
        object.insert("machine".into(), json!(self.machine));
        object.insert("rounds".into(), json!(self.rounds));
        for measurement in &self.measurements {
            let figure = &measurement.figure;
            let spread = spread(measurement)?;
            object.insert(
                figure.key.into(),
                json!({
                    "median": spread.median,
                    "min": spread.min,
                    "max": spread.max,
                    "p10": spread.p10,
                    "p90": spread.p90,
                    "unit": figure.unit,
                    "goal": figure.goal,
                    "ok": figure.goal.map(|goal| goal.is_met(spread.median)),
                }),
            );
        }
        Ok(object.into())
    }

    /// A table for a terminal.
    pub fn page(&self) -> String {
        let mut table = Table::new(
            2,
            &[
                Align::Left,
                Align::Right,
                Align::Right,
                Align::Left,
                Align::Left,
            ],
        );
        table.row(["", "median", "most within", "goal", ""]);
        for measurement in &self.measurements {
            let Ok(spread) = spread(measurement) else {
                continue;
            };
            let unit = measurement.figure.unit;
            let goal = measurement.figure.goal;
            let verdict = goal.map(|goal| {
                if goal.is_met(spread.median) {
                    "ok"
                } else {
                    "missed"
                }
            });
            table.row([
                measurement.figure.what.to_owned(),
                format!("{} {:<2}", unit.number(spread.median), unit.name()),
                format!("{} to {}", unit.number(spread.p10), unit.number(spread.p90)),
                goal.map_or_else(String::new, |goal| goal_text(goal, unit)),
                verdict.unwrap_or_default().to_owned(),
            ]);
        }
        format!(
            "{} on {}: {}\n\n{}\nMedians of {} rounds, and where eight in ten of them lie.\n",
            self.title,
            self.device,
            self.machine.line(),
            table.render(),
            self.rounds,
        )
    }
}

fn goal_text(goal: Goal, unit: Unit) -> String {
    let told = |value: f64| match unit {
        Unit::Rate => compact(value),
        _ => value.to_string(),
    };
    match goal {
        Goal::AtMost(most) => format!("<= {}", told(most)),
        Goal::AtLeast(least) => format!(">= {}", told(least)),
    }
}

fn spread(measurement: &Measurement) -> Result<Spread> {
    Spread::of(&measurement.values)
        .ok_or_else(|| format!("nothing was measured for {}", measurement.figure.key).into())
}
