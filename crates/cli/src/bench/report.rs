//! What a sweep came to: for a terminal, and as JSON.

use std::fmt::Write;
use std::path::PathBuf;

use serde::Serialize;

use super::columns::{self, Unit};
use super::point::{Point, Via};
use super::verdict;
use crate::machine::Machine;
use crate::table::{Align, Table, width, wrap};
use crate::text;

/// All of it.
#[derive(Debug, Serialize)]
pub struct Report {
    /// The file of the model.
    #[serde(serialize_with = "crate::output::path")]
    pub model: PathBuf,
    /// The name of the device.
    pub device: String,
    /// The machine.
    pub machine: Machine,
    /// How long each point was measured.
    pub seconds: f64,
    /// The points, in the order in which they were measured.
    pub points: Vec<Point>,
    /// What they say.
    pub verdict: Vec<String>,
}

/// Points of the same inputs, rows aside.
pub struct Set<'r> {
    pub points: Vec<&'r Point>,
}

impl Report {
    /// Whether no request failed.
    pub fn is_whole(&self) -> bool {
        self.points.iter().all(|point| point.failed == 0)
    }

    /// The first line.
    pub fn title(&self) -> String {
        let (model, device) = (text::file_name(&self.model), &self.device);
        let seconds = self.seconds;
        format!(
            "{model} on {device}: {}; {seconds} s for each point",
            self.machine.line()
        )
    }

    /// In what latencies are told.
    pub fn unit(&self) -> Unit {
        Unit::of(&self.points)
    }

    /// The points of each set of shapes.
    pub fn sets(&self) -> Vec<Set<'_>> {
        sets(&self.points)
    }

    /// It for a terminal.
    pub fn page(&self) -> String {
        let mut page = wrap(&self.title(), width()).join("\n") + "\n";
        let unit = self.unit();
        let say = |page: &mut String, text: &str| {
            let _ = write!(page, "\n{}\n", wrap(text, width()).join("\n"));
        };
        for set in self.sets() {
            for (how, points) in set.ways() {
                let title = format!("{}, {how}; latency in {}", set.shapes(), unit.name());
                say(&mut page, &title);
                let (names, rows) = columns::of(&points, unit);
                let mut table = Table::new(2, &vec![Align::Right; names.len()]);
                table.row(names);
                for row in rows {
                    table.row(row);
                }
                page.push_str(&table.render());
            }
        }
        let texts = columns::notes(&self.points);
        for text in texts.iter().chain(&self.verdict) {
            say(&mut page, text);
        }
        page
    }
}

impl<'r> Set<'r> {
    /// The shapes of the requests.
    pub fn shapes(&self) -> String {
        let shape = |point: Option<&&Point>| point.map_or("", |point| &point.shape).to_owned();
        let (first, last) = (shape(self.points.first()), shape(self.points.last()));
        match first == last {
            true => first,
            false => format!("{first} to {last}"),
        }
    }

    /// The points by how requests got to the model, and that in words.
    pub fn ways(&self) -> Vec<(&'static str, Vec<&'r Point>)> {
        let of = |via| {
            self.points
                .iter()
                .filter(move |point| point.via == via)
                .copied()
        };
        let all = [
            (
                "each thread for itself",
                of(Via::Threads).collect::<Vec<_>>(),
            ),
            ("through the queue", of(Via::Queue).collect()),
        ];
        let measured = all.into_iter().filter(|(_, points)| !points.is_empty());
        measured.collect()
    }
}

/// What `points` say, for each set of shapes.
pub fn verdicts(points: &[Point]) -> Vec<String> {
    let sets = sets(points);
    let several = sets.len() > 1;
    let of_set = |set: &Set<'_>| {
        let said = verdict::of(&set.points).join(" ");
        match several {
            true => format!("With {}: {said}", set.shapes()),
            false => said,
        }
    };
    sets.iter().map(of_set).collect()
}

fn sets(points: &[Point]) -> Vec<Set<'_>> {
    let sets = points.chunk_by(|one, next| one.set == next.set);
    let set = sets.map(|points| Set {
        points: points.iter().collect(),
    });
    set.collect()
}
