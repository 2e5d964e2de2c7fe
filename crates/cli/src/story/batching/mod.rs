//! The chapter on batching: what batches gain here, and a queue that gathers requests beside a thread for each.

mod callers;

use std::time::Duration;

use streampool::model::ValueInfo;
use streampool::model::graph::Dim;
use streampool::{Array, Session};

use super::chapter::{Chapter, Check, Drawing, Found};
use super::rates::{ROUNDS, best};
use super::setting::{Setting, Subject};
use super::sheet::{Cell, Sheet};
use crate::Result;
use crate::device::On;
use crate::inputs::refer;
use crate::plot::{Axis, Plot, Scale, Series};
use crate::text::figure;
use crate::threads::per_second;
use callers::{CALLERS, Point};

/// Rows of one run.
const ROWS: [usize; 4] = [1, 4, 16, 64];

/// From so many callers on there is something to gather.
const MANY: usize = 16;

/// The least of a queue beside threads that run the session themselves, with each run handed over.
const AS_GOOD: f64 = 0.7;

/// The least on a GPU of the most callers' tickets beside one caller without a queue.
const TOGETHER: f64 = 2.0;

/// The chapter.
pub fn chapter(on: On) -> Chapter {
    Chapter {
        name: "batching",
        claim: match on {
            On::Host => format!(
                "A queue gathers what many callers ask for, and finds out by itself whether batches pay here. {MANY} callers or more \
                 get at least {AS_GOOD} of what they get as threads that run the model themselves, with 5 us of a processor \
                 allowed for each request."
            ),
            On::Cuda | On::Metal => format!(
                "A queue gathers what many callers ask for into batches. Tickets of {} callers get at least {TOGETHER} times what \
                 one caller gets alone, and {MANY} callers or more at least {AS_GOOD} of what they get as threads that run the \
                 model on streams of their own, with 5 us of a processor allowed for each request.",
                CALLERS[CALLERS.len() - 1]
            ),
        },
        how: format!(
            "First one thread runs batches of 1 to {} rows. Then callers have one row each: as threads that run the session \
             themselves, as threads that ask a queue over the session, and as tickets of the queue, held by as many threads as \
             there are processors, as a server does. All are measured in turn, and the best of {ROUNDS} rounds counts. What \
             callers get from batches is compared with what they get alone. For a request that goes through a queue 5 us of a \
             processor are allowed: threads and tickets stand beside the rate without a queue if each run took so much more.",
            ROWS[ROWS.len() - 1]
        ),
        tell,
    }
}

fn tell(setting: &Setting, now: &dyn Fn(&str)) -> Result<Found> {
    let mut found = Found::default();
    let (mut gains, mut sums) = (Vec::new(), Vec::new());
    for subject in &setting.subjects {
        let name = &subject.name;
        if !takes_batches(&subject.session) {
            sums.push(format!("{name} takes no batches and was left out"));
            continue;
        }
        let rates = curve(subject, setting.slice, now)?;
        let one = rates.first().copied().unwrap_or(f64::NAN);
        let points = ROWS.iter().zip(&rates);
        gains.push(Series::new(
            name,
            points.map(|(&rows, rate)| (rows as f64, rate / one)),
        ));
        found
            .tables
            .push((format!("{name}, one thread"), sheet_of_rows(&rates)));
        found
            .checks
            .push(callers::answers(subject, &setting.pool, now)?);
        let points = callers::measure(subject, setting.slice, now)?;
        found.tables.push((
            format!("{name}, one row for each caller, rows per second"),
            callers::sheet(&points),
        ));
        found.drawings.push(callers::drawing(name, &points));
        let (checks, sum) = judge(setting.on, subject, &points);
        found.checks.extend(checks);
        sums.push(sum);
    }
    found.drawings.insert(
        0,
        Drawing::Lines(Plot {
            title: "Batching: rows in a run".to_owned(),
            x: Axis::new("rows", Scale::Log2),
            y: Axis::new("times the rows per second of single ones", Scale::Linear),
            series: gains,
        }),
    );
    found.sum = format!(
        "What callers got was right. With {MANY} callers or more, and 5 us allowed, {}.",
        sums.join("; ")
    );
    Ok(found)
}

type Part = fn(&Point) -> f64;

/// Whether many callers get enough out of a queue.
fn judge(on: On, subject: &Subject, points: &[Point]) -> (Vec<Check>, String) {
    let name = &subject.name;
    let ways: [(&str, Part); 2] = [
        ("threads", Point::part_of_threads),
        ("tickets", Point::part_of_tickets),
    ];
    let mut checks = Vec::new();
    for (way, part) in ways {
        checks.push(Check::at_least(
            format!("{name}-{way}"),
            format!("{name} by {way}, least part with 5 us"),
            least(points, part),
            AS_GOOD,
        ));
    }
    let [threads, tickets] = ways.map(|(_, part)| least(points, part));
    let rows = points.last().map_or(f64::NAN, |point| point.rows);
    let mut sum = format!(
        "{name} reached {threads:.2} of the rate without a queue or more by threads, and {tickets:.2} by tickets, in batches of {} \
         rows where callers are most",
        figure(rows)
    );
    if let (On::Cuda | On::Metal, [one, .., most]) = (on, points) {
        let together = most.tickets / one.apart;
        checks.push(Check::at_least(
            format!("{name}-together"),
            format!("{name} by tickets of many, beside one caller"),
            together,
            TOGETHER,
        ));
        sum += &format!(" and get {together:.1} times what one gets");
    }
    (checks, sum)
}

/// The least figure among many callers.
fn least(points: &[Point], figure: impl Fn(&Point) -> f64) -> f64 {
    let many = points.iter().filter(|point| point.callers >= MANY);
    many.map(figure).fold(f64::INFINITY, f64::min)
}

/// Whether a model leaves open how many rows it takes.
fn takes_batches(session: &Session) -> bool {
    let open = |port: &ValueInfo| {
        let first = port.shape.as_ref().and_then(|shape| shape.first());
        first.is_some_and(|first| !matches!(first, Dim::Fixed(_)))
    };
    session.inputs().iter().all(open) && session.outputs().iter().all(open)
}

/// Rows per second of one thread, for each number of rows in a run.
fn curve(subject: &Subject, slice: Duration, now: &dyn Fn(&str)) -> Result<Vec<f64>> {
    let batches = ROWS.map(|rows| batch_of(subject, rows));
    let batches = batches.into_iter().collect::<Result<Vec<_>>>()?;
    let mut rates = vec![Vec::new(); ROWS.len()];
    for round in 1..=ROUNDS {
        for ((rates, batch), rows) in rates.iter_mut().zip(&batches).zip(ROWS) {
            now(&format!(
                "{}, {rows} rows, round {round} of {ROUNDS}",
                subject.name
            ));
            let run = || {
                subject.session.run_positional(&refer(batch))?;
                Ok(rows as u64)
            };
            rates.push(per_second(&mut [run], slice / ROUNDS as u32)?);
        }
    }
    rates.iter().map(|rates| best(rates)).collect()
}

/// The inputs of so many single runs as those of one.
fn batch_of(subject: &Subject, rows: usize) -> Result<Vec<Array>> {
    let joined = |place: usize| {
        let parts: Vec<&Array> = (0..rows).map(|row| &subject.arrays(row)[place]).collect();
        Ok(Array::join(&parts)?)
    };
    (0..subject.arrays(0).len()).map(joined).collect()
}

fn sheet_of_rows(rates: &[f64]) -> Sheet {
    let one = rates.first().copied().unwrap_or(f64::NAN);
    let row = |(&rows, &rate): (&usize, &f64)| {
        vec![
            Cell::count(rows),
            Cell::rate(rate),
            Cell::figure(rate / one),
        ]
    };
    Sheet {
        head: &["rows", "rows/s", "beside one row"],
        rows: ROWS.iter().zip(rates).map(row).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_callers_decide() {
        let host = Setting::new(On::Host, None, &[], Duration::ZERO).unwrap();
        let subject = &host.subjects[1];
        assert!(takes_batches(&subject.session));
        let point = |callers, threads, tickets| Point {
            callers,
            apart: 1000.0,
            threads,
            tickets,
            rows: 2.0,
        };
        let held = |points: [Point; 2], on| {
            let (checks, _) = judge(on, subject, &points);
            checks.iter().map(|check| check.ok).collect::<Vec<_>>()
        };
        let few = || point(4, 10.0, 10.0);
        assert_eq!(
            held([few(), point(16, 710.0, 680.0)], On::Host),
            [true, false]
        );
        assert_eq!(
            held([few(), point(64, 680.0, 2000.0)], On::Host),
            [false, true]
        );
        assert_eq!(
            held([few(), point(64, 710.0, 1900.0)], On::Cuda),
            [true, true, false]
        );
        assert_eq!(
            held([few(), point(64, 680.0, 2000.0)], On::Cuda),
            [false, true, true]
        );
    }

    #[test]
    fn a_batch_holds_the_inputs_of_all_its_runs() {
        let host = Setting::new(On::Host, None, &[], Duration::ZERO).unwrap();
        let subject = &host.subjects[0];
        let batch = batch_of(subject, 3).unwrap();
        assert_eq!(batch[0].row_count(), 3);
        for row in 0..3 {
            assert_eq!(batch[0].rows(row..row + 1).unwrap(), subject.arrays(row)[0]);
        }
    }
}
