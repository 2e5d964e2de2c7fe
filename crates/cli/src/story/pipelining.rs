//! The chapter on pipelining: one thread with several runs under way.

use std::collections::VecDeque;
use std::time::Duration;

use serde_json::json;
use streampool::model::{self, Pending};
use streampool::{Input, Outputs};

use super::chapter::{Chapter, Check, Drawing, Found};
use super::rates::{ROUNDS, best, handed_over};
use super::setting::{Setting, Subject, same};
use super::sheet::{Cell, Sheet};
use crate::Result;
use crate::device::On;
use crate::plot::{Axis, Plot, Scale, Series};
use crate::threads::per_second;

const DEPTHS: [usize; 6] = [1, 2, 4, 8, 16, 32];

/// The least that any depth may reach of depth 1, with each run handed over.
const OF_DEPTH_ONE: f64 = 0.7;

/// What the deepest pipeline gains at least on a GPU, where depth 1 waits for each launch; for a run that is little more.
const GAIN: f64 = 1.3;

/// The most memory for what runs under way hold.
const MEMORY: usize = 1 << 30;

/// The chapter.
pub fn chapter(on: On) -> Chapter {
    let rate = format!(
        "no depth runs at less than {OF_DEPTH_ONE} of the rate of depth 1 with 5 us for handing each run over"
    );
    Chapter {
        name: "pipelining",
        claim: match on {
            On::Host => format!(
                "One thread may have up to 32 runs under way. All come out right and in order, and though on a host there is no \
                 other device to wait for, {rate}."
            ),
            On::Cuda | On::Metal => format!(
                "One thread may have up to 32 runs under way. All come out right and in order, {rate}, and for the linear layer \
                 some depth reaches at least {GAIN} times the rate of depth 1."
            ),
        },
        how: format!(
            "A thread submits runs and waits for the oldest when so many are under way; depth 1 waits for each. Outputs are \
             compared bit by bit with those of single runs, then rates are measured, and the best of {ROUNDS} rounds counts. Runs that \
             nobody waits for are done by other threads, so each depth also stands beside depth 1 with 5 us more for each run."
        ),
        tell,
    }
}

fn tell(setting: &Setting, now: &dyn Fn(&str)) -> Result<Found> {
    let mut found = Found::default();
    let (mut series, mut sums) = (Vec::new(), Vec::new());
    for (place, subject) in setting.subjects.iter().enumerate() {
        let name = &subject.name;
        // What single runs give is also where the session learns how much memory a run takes.
        let expected = subject.alone()?;
        let depths = affordable(subject);
        found
            .checks
            .push(in_order(subject, &expected, &depths, now)?);
        let rates = rates(subject, &depths, setting.slice, now)?;
        let one = rates.first().copied().unwrap_or(f64::NAN);
        let gains: Vec<f64> = rates.iter().map(|rate| rate / one).collect();
        let handed_over = handed_over(one, 1);
        let sheet = sheet(&depths, &rates, one, handed_over);
        found.tables.push((format!("{name}, one thread"), sheet));
        let points = depths.iter().zip(&gains);
        let points = points.map(|(&depth, &gain)| (depth as f64, gain));
        series.push(Series::new(name, points));
        let (least, most) = ends(&gains);
        found.checks.push(Check::at_least(
            format!("{name}-depths"),
            format!("least of {name} beside depth 1 with 5 us"),
            least * one / handed_over,
            OF_DEPTH_ONE,
        ));
        if place == 0 && setting.on != On::Host {
            let what = format!("most of {name} beside depth 1");
            let check = Check::at_least(format!("{name}-gain"), what, most, GAIN);
            found.checks.push(check);
        }
        sums.push(format!(
            "{name} ran at {least:.2} to {most:.2} times the rate of depth 1, at least {:.2} of it with 5 us",
            least * one / handed_over
        ));
    }
    found.drawings.push(Drawing::Lines(Plot {
        title: "Pipelining: one thread".to_owned(),
        x: Axis::new("runs under way", Scale::Log2),
        y: Axis::new("times the rate of depth 1", Scale::Linear),
        series,
    }));
    found.sum = format!("All outputs were right and in order; {}.", sums.join("; "));
    Ok(found)
}

/// Whether what comes out is what single runs give, in order.
fn in_order(
    subject: &Subject,
    expected: &[Outputs],
    depths: &[usize],
    now: &dyn Fn(&str),
) -> Result<Check> {
    let name = &subject.name;
    let (mut wrong, mut compared) = (0, 0);
    for &depth in depths {
        now(&format!("{name}, outputs at depth {depth}"));
        let runs = 2 * depth.max(8);
        wrong += count_wrong(subject, expected, depth, runs)?;
        compared += runs;
    }
    Ok(Check {
        name: format!("{name}-order"),
        what: format!("outputs of {name}, in order"),
        ok: wrong == 0,
        figures: format!("{compared} compared, {wrong} wrong"),
        numbers: json!({ "compared": compared, "wrong": wrong }),
    })
}

/// Runs per second at each depth.
fn rates(
    subject: &Subject,
    depths: &[usize],
    slice: Duration,
    now: &dyn Fn(&str),
) -> Result<Vec<f64>> {
    let mut rates = vec![Vec::new(); depths.len()];
    for round in 1..=ROUNDS {
        for (rates, &depth) in rates.iter_mut().zip(depths) {
            let name = &subject.name;
            now(&format!("{name}, depth {depth}, round {round} of {ROUNDS}"));
            rates.push(rate(subject, depth, slice)?);
        }
    }
    rates.iter().map(|rates| best(rates)).collect()
}

/// The depths for which there is memory: each run under way has a program of its own.
fn affordable(subject: &Subject) -> Vec<usize> {
    let held = subject.session.statistics();
    let each = held.program_bytes / held.programs.max(1);
    let fits = |&depth: &usize| depth == 1 || depth * each <= MEMORY;
    DEPTHS.into_iter().filter(fits).collect()
}

/// How many of so many runs give something else than single runs do.
fn count_wrong(
    subject: &Subject,
    expected: &[Outputs],
    depth: usize,
    runs: usize,
) -> Result<usize> {
    let mut pipeline = Pipeline::new(subject, depth);
    let (mut wrong, mut seen) = (0, 0);
    while seen < runs {
        if let Some(outputs) = pipeline.step()? {
            wrong += usize::from(!same(&outputs, expected, seen));
            seen += 1;
        }
    }
    Ok(wrong)
}

fn rate(subject: &Subject, depth: usize, slice: Duration) -> Result<f64> {
    let mut pipeline = Pipeline::new(subject, depth);
    let worker = || Ok(u64::from(pipeline.step()?.is_some()));
    per_second(&mut [worker], slice / ROUNDS as u32)
}

/// Runs under way, the oldest first.
struct Pipeline<'a> {
    subject: &'a Subject,
    depth: usize,
    submitted: usize,
    under_way: VecDeque<Pending>,
}

impl<'a> Pipeline<'a> {
    fn new(subject: &'a Subject, depth: usize) -> Pipeline<'a> {
        Pipeline {
            subject,
            depth,
            submitted: 0,
            under_way: VecDeque::new(),
        }
    }

    /// Submits one more; gives what the oldest gave, once there are enough.
    fn step(&mut self) -> model::Result<Option<Outputs>> {
        let session = &self.subject.session;
        let arrays = self.subject.arrays(self.submitted);
        let inputs = session.inputs().iter().zip(arrays);
        let inputs = inputs.map(|(port, array)| (&port.name, Input::from(array)));
        self.under_way.push_back(session.submit(inputs)?);
        self.submitted += 1;
        if self.under_way.len() < self.depth {
            return Ok(None);
        }
        self.under_way.pop_front().map(Pending::wait).transpose()
    }
}

fn sheet(depths: &[usize], rates: &[f64], one: f64, handed_over: f64) -> Sheet {
    let row = |(&depth, &rate): (&usize, &f64)| {
        vec![
            Cell::count(depth),
            Cell::rate(rate),
            Cell::figure(rate / one),
            Cell::figure(rate / handed_over),
        ]
    };
    Sheet {
        head: &["depth", "runs/s", "beside depth 1", "with 5 us"],
        rows: depths.iter().zip(rates).map(row).collect(),
    }
}

fn ends(values: &[f64]) -> (f64, f64) {
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    (least, values.iter().copied().fold(0.0, f64::max))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_out_is_the_oldest() {
        let host = Setting::new(On::Host, None, &[], Duration::ZERO).unwrap();
        let subject = &host.subjects[0];
        let mut expected = subject.alone().unwrap();
        let depths = affordable(subject);
        assert_eq!(depths, DEPTHS);
        let mut pipeline = Pipeline::new(subject, 3);
        let came: Vec<bool> = (0..5).map(|_| pipeline.step().unwrap().is_some()).collect();
        assert_eq!(came, [false, false, true, true, true]);
        assert_eq!(count_wrong(subject, &expected, 3, 16).unwrap(), 0);
        expected.swap(0, 1);
        assert_eq!(count_wrong(subject, &expected, 3, 16).unwrap(), 4);
    }
}
