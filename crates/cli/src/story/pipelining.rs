//! The chapter on pipelining: one thread with several runs under way.

use std::collections::VecDeque;
use std::time::Duration;

use serde_json::json;
use streampool::model::{self, Pending};
use streampool::{Input, Outputs};

use super::chapter::{Chapter, Check, Found, Now, Seen};
use super::rates::{ROUNDS, best_of_rounds, handed_over, in_a_round};
use super::setting::{Setting, Subject, least, same};
use crate::Result;
use crate::device::On;
use crate::page::{Cell, Part, Table};
use crate::plot::{Axis, Plot, Scale, Series};

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
        "no depth falls below {OF_DEPTH_ONE} of the rate of depth 1 plus 5 us per run for the handover"
    );
    Chapter {
        name: "pipelining",
        claim: match on {
            On::Host => format!(
                "One thread can have up to 32 runs in progress. All results are right and in order. The host has no other device \
                 to wait for; still, {rate}."
            ),
            On::Cuda | On::Metal => format!(
                "One thread can have up to 32 runs in progress. All results are right and in order, {rate}, and some depth runs the \
                 linear layer at {GAIN} times the rate of depth 1 or more."
            ),
        },
        how: format!(
            "A thread submits runs, and waits for the oldest when the number in progress reaches the depth. At depth 1 it waits for \
             each run. Outputs are compared bit by bit with those of single runs. Then rates are measured, and the best of {ROUNDS} \
             rounds counts. Other threads execute the submitted runs, so each depth is also compared with depth 1 plus 5 us per run."
        ),
        tell,
    }
}

fn tell(setting: &Setting, now: Now<'_>) -> Result<Found> {
    let mut found = Found::default();
    let (mut series, mut sums) = (Vec::new(), Vec::new());
    for (place, subject) in setting.subjects.iter().enumerate() {
        let name = &subject.name;
        // What single runs give is also where the session learns how much memory a run takes.
        let expected = subject.alone()?;
        let depths = affordable(subject);
        let what = format!("outputs of {name}, in order");
        let order = || in_order(subject, &expected, &depths, now);
        let check = Check::tried(now, format!("{name}-order"), what, order);
        found.checks.push(check);
        let told = |depth: &usize| format!("depth {depth}");
        let rates = best_of_rounds(&depths, subject, now, told, |&depth| {
            rate(subject, depth, setting.slice)
        })?;
        let one = rates.first().copied().unwrap_or(f64::NAN);
        let gains: Vec<f64> = rates.iter().map(|rate| rate / one).collect();
        let handed_over = handed_over(one, 1);
        let table = table(&depths, &rates, one, handed_over);
        found.tables.push((format!("{name}, one thread"), table));
        let points = depths.iter().zip(&gains);
        let points = points.map(|(&depth, &gain)| (depth as f64, gain));
        series.push(Series::new(name, points));
        let (least, most) = (least(&gains), gains.iter().copied().fold(0.0, f64::max));
        let of_one = least * one / handed_over;
        let what = format!("lowest rate of {name} vs depth 1 plus 5 us");
        let check = Check::at_least(format!("{name}-depths"), what, of_one, OF_DEPTH_ONE);
        found.checks.push(check);
        if place == 0 && setting.on != On::Host {
            let what = format!("highest rate of {name} vs depth 1");
            let check = Check::at_least(format!("{name}-gain"), what, most, GAIN);
            found.checks.push(check);
        }
        sums.push(format!(
            "{name} ran at {least:.2} to {most:.2} times the rate of depth 1, and at least {of_one:.2} times that of depth 1 plus 5 us"
        ));
    }
    found.drawings.push(Part::Plot(Plot {
        title: "Pipelining: one thread".to_owned(),
        x: Axis::new("runs in progress", Scale::Log2),
        y: Axis::new("rate relative to depth 1", Scale::Linear),
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
    now: Now<'_>,
) -> Result<Seen> {
    let name = &subject.name;
    let (mut wrong, mut compared) = (0, 0);
    for &depth in depths {
        now(&format!("{name}, outputs at depth {depth}"));
        let runs = 2 * depth.max(8);
        wrong += count_wrong(subject, expected, depth, runs)?;
        compared += runs;
    }
    let numbers = json!({ "compared": compared, "wrong": wrong });
    Ok(Seen::compared(compared as u64, wrong as u64, numbers))
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
    // Each call ends a run, so that the first fills the pipeline, before the time begins.
    let worker = || {
        while pipeline.step()?.is_none() {}
        Ok(1)
    };
    in_a_round(&mut [worker], slice)
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

fn table(depths: &[usize], rates: &[f64], one: f64, handed_over: f64) -> Table {
    let row = |(&depth, &rate): (&usize, &f64)| {
        vec![
            Cell::count(depth),
            Cell::rate(rate),
            Cell::figure(rate / one),
            Cell::figure(rate / handed_over),
        ]
    };
    Table {
        head: vec!["depth", "runs/s", "vs depth 1", "vs depth 1 + 5 us"],
        rows: depths.iter().zip(rates).map(row).collect(),
    }
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

    #[test]
    fn a_slice_too_short_to_fill_the_pipeline_gives_a_rate() {
        let host = Setting::new(On::Host, None, &[], Duration::ZERO).unwrap();
        let rate = rate(&host.subjects[0], 32, Duration::ZERO).unwrap();
        assert!(rate > 0.0);
    }
}
