//! The chapter on batching: what batches gain here, and a queue that gathers requests beside a thread for each.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use serde_json::json;
use streampool::batch::{BatchQueue, Request, Shutdown, Ticket};
use streampool::model::ValueInfo;
use streampool::{Array, DType, ForSession, Pool, Session};
use streampool_model::graph::Dim;

use super::chapter::{Chapter, Check, Found, Now, Seen};
use super::rates::{self, ROUNDS, best_of_rounds, handed_over, in_a_round};
use super::setting::{Setting, Subject, least};
use crate::Result;
use crate::device::On;
use crate::errors::difference;
use crate::inputs::refer;
use crate::machine::processors;
use crate::page::{Cell, Part, Table};
use crate::plot::{Axis, Plot, Scale, Series};
use crate::text::{count, figure};
use crate::threads::together;

/// Rows of one run.
const ROWS: [usize; 4] = [1, 4, 16, 64];

/// From so many callers on there is something to gather.
const MANY: usize = 16;

/// The least of a queue beside threads that run the session themselves, with each run handed over.
const AS_GOOD: f64 = 0.7;

/// The least on a GPU of the most callers' tickets beside one caller without a queue.
const TOGETHER: f64 = 2.0;

/// Callers at a time.
const CALLERS: [usize; 4] = [1, 4, 16, MOST_CALLERS];
const MOST_CALLERS: usize = 64;

/// How far what a caller gets from a batch may be off what it gets alone, as a part of the largest value: sums are taken in
/// another order.
const APART: f64 = 1e-3;

/// Requests of each caller that are compared.
const COMPARED: usize = 8;

/// The chapter.
pub fn chapter(on: On) -> Chapter {
    Chapter {
        name: "batching",
        claim: match on {
            On::Host => format!(
                "A queue combines the requests of many callers, and determines by itself whether batches help. With {MANY} callers or \
                 more, it reaches at least {AS_GOOD} of the rate of threads that run the model themselves plus 5 us of processor time \
                 per request."
            ),
            On::Cuda | On::Metal => format!(
                "A queue combines the requests of many callers into batches. Tickets of {} callers reach at least {TOGETHER} times the \
                 rate of one caller. With {MANY} callers or more, the queue reaches at least {AS_GOOD} of the rate of threads that \
                 run the model on their own streams plus 5 us of processor time per request.",
                MOST_CALLERS
            ),
        },
        how: format!(
            "First, one thread runs batches of 1 to {} rows. Then callers with one row each run in three ways: as threads that run \
             the session themselves, as threads that use a queue, and via async tickets of the queue, with one thread per \
             processor, as in a server. All are measured in turn, and the best of {ROUNDS} rounds counts. Outputs of batches are \
             compared with outputs of single requests. The rate without a queue is adjusted as if each run took 5 us longer, which \
             allows for the handover to the queue.",
            ROWS[ROWS.len() - 1]
        ),
        tell,
    }
}

fn tell(setting: &Setting, now: Now<'_>) -> Result<Found> {
    let mut found = Found::default();
    let (mut gains, mut sums) = (Vec::new(), Vec::new());
    for subject in &setting.subjects {
        let name = &subject.name;
        if !takes_batches(&subject.session) {
            sums.push(format!("{name} does not support batches and was left out"));
            continue;
        }
        let rates = curve(subject, setting.slice, now)?;
        let one = rates.first().copied().unwrap_or(f64::NAN);
        let points = ROWS.iter().zip(&rates);
        let points = points.map(|(&rows, rate)| (rows as f64, rate / one));
        gains.push(Series::new(name, points));
        let what = format!("{name}, one thread");
        found.tables.push((what, table_of_rows(&rates)));
        let what = format!("answers to {MOST_CALLERS} callers of {name}");
        let answers = || answers(subject, &setting.pool);
        let check = Check::tried(now, format!("{name}-answers"), what, answers);
        found.checks.push(check);
        let points = measure(subject, setting.slice, now)?;
        let what = format!("{name}, one row for each caller, rows per second");
        found.tables.push((what, table_of_callers(&points)));
        found.drawings.push(drawing(name, &points));
        let (checks, sum) = judge(setting.on, subject, &points);
        found.checks.extend(checks);
        sums.push(sum);
    }
    found.drawings.insert(
        0,
        Part::Plot(Plot {
            title: "Batching: rows in a run".to_owned(),
            x: Axis::new("rows", Scale::Log2),
            y: Axis::new("rows per second, relative to single rows", Scale::Linear),
            series: gains,
        }),
    );
    found.sum = format!(
        "All answers were right. With {MANY} callers or more, and 5 us allowed per request, {}.",
        sums.join("; ")
    );
    Ok(found)
}

/// Whether many callers get enough out of a queue.
fn judge(on: On, subject: &Subject, points: &[Point]) -> (Vec<Check>, String) {
    let name = &subject.name;
    let threads = least_of_many(points, Point::part_of_threads);
    let tickets = least_of_many(points, Point::part_of_tickets);
    let mut checks = Vec::new();
    for (way, least) in [("threads", threads), ("tickets", tickets)] {
        let what = format!("lowest rate of {name} by {way}, vs no queue plus 5 us");
        let check = Check::at_least(format!("{name}-{way}"), what, least, AS_GOOD);
        checks.push(check);
    }
    let rows = points.last().map_or(f64::NAN, |point| point.rows);
    let mut sum = format!(
        "{name} reached at least {threads:.2} of the rate without a queue by threads, and {tickets:.2} by tickets, in batches of {} \
         rows with the most callers",
        figure(rows)
    );
    if let (On::Cuda | On::Metal, [one, .., most]) = (on, points) {
        let together = most.tickets / one.apart;
        let what = format!("{name} by tickets of many callers, vs one caller");
        let check = Check::at_least(format!("{name}-together"), what, together, TOGETHER);
        checks.push(check);
        sum += &format!(", at {together:.1} times the rate of one caller");
    }
    (checks, sum)
}

/// The least figure among many callers.
fn least_of_many(points: &[Point], figure: impl Fn(&Point) -> f64) -> f64 {
    let many = points.iter().filter(|point| point.callers >= MANY);
    least(&many.map(figure).collect::<Vec<_>>())
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
fn curve(subject: &Subject, slice: Duration, now: Now<'_>) -> Result<Vec<f64>> {
    let batches = ROWS.map(|rows| batch_of(subject, rows));
    let batches = batches.into_iter().collect::<Result<Vec<_>>>()?;
    let cases: Vec<_> = batches.iter().zip(ROWS).collect();
    let told = |case: &(_, usize)| format!("{} rows", case.1);
    best_of_rounds(&cases, subject, now, told, |&(batch, rows)| {
        let run = || {
            subject.session.run_positional(&refer(batch))?;
            Ok(rows as u64)
        };
        in_a_round(&mut [run], slice)
    })
}

/// The inputs of so many single runs as those of one.
fn batch_of(subject: &Subject, rows: usize) -> Result<Vec<Array>> {
    let joined = |place: usize| {
        let parts: Vec<&Array> = (0..rows).map(|row| &subject.arrays(row)[place]).collect();
        Ok(Array::join(&parts)?)
    };
    (0..subject.arrays(0).len()).map(joined).collect()
}

fn table_of_rows(rates: &[f64]) -> Table {
    let one = rates.first().copied().unwrap_or(f64::NAN);
    let row = |(&rows, &rate): (&usize, &f64)| {
        vec![
            Cell::count(rows),
            Cell::rate(rate),
            Cell::figure(rate / one),
        ]
    };
    Table {
        head: vec!["rows", "rows/s", "vs one row"],
        rows: ROWS.iter().zip(rates).map(row).collect(),
    }
}

/// The rates for so many callers.
struct Point {
    callers: usize,
    /// Each is a thread that runs the session itself.
    apart: f64,
    /// Each is a thread that asks the queue.
    threads: f64,
    /// Each is a ticket, held by one of as many threads as there are processors.
    tickets: f64,
    /// How many rows a batch of these had.
    rows: f64,
}

impl Point {
    /// What threads without a queue would get if each run took 5 us of a processor more: what queues are compared with.
    fn handed_over(&self) -> f64 {
        handed_over(self.apart, processors())
    }

    /// Which part of that threads get from a queue.
    fn part_of_threads(&self) -> f64 {
        self.threads / self.handed_over()
    }

    /// Which part of that tickets get.
    fn part_of_tickets(&self) -> f64 {
        self.tickets / self.handed_over()
    }
}

fn queue(subject: &Subject) -> Result<BatchQueue> {
    let builder = BatchQueue::builder().max_batch_size(ROWS[ROWS.len() - 1]);
    Ok(BatchQueue::for_session(&subject.session, builder)?)
}

/// Whether all callers of a queue get what is theirs.
fn answers(subject: &Subject, pool: &Pool) -> Result<Seen> {
    let alone = subject.alone()?;
    let queue = queue(subject)?;
    let ask = |caller: usize, _: Instant| -> Result<f64> {
        let mut most = 0f64;
        for request in 0..COMPARED {
            let number = caller + request;
            let got = queue.infer(subject.arrays(number).to_vec())?;
            let right = alone[number % alone.len()].iter();
            for (got, right) in got.iter().zip(right.flat_map(|(_, arrays)| arrays)) {
                most = most.max(apart(got, right, pool)?);
            }
        }
        Ok(most)
    };
    let done = together(0..MOST_CALLERS, Ok, || (), ask)?.done;
    queue.shutdown(Shutdown::Drain);
    let wrong = done.iter().filter(|&&most| most > APART).count();
    let compared = (MOST_CALLERS * COMPARED) as u64;
    Ok(Seen {
        ok: wrong == 0,
        figures: format!("{} compared, {wrong} callers wrong", count(compared)),
        numbers: json!({ "compared": compared, "callers": MOST_CALLERS, "wrong_callers": wrong }),
        ..Seen::default()
    })
}

/// How far two arrays are apart, as a part of the largest value.
fn apart(got: &Array, right: &Array, pool: &Pool) -> Result<f64> {
    if got == right {
        return Ok(0.0);
    }
    let values = |array: &Array| -> Result<Vec<f32>> {
        Ok(array.tensor(pool)?.to_dtype(DType::F32)?.to_vec::<f32>()?)
    };
    Ok(difference(&values(got)?, &values(right)?))
}

/// The rates for each number of callers.
fn measure(subject: &Subject, slice: Duration, now: Now<'_>) -> Result<Vec<Point>> {
    let point = |callers: usize| -> Result<Point> {
        let (for_threads, for_tickets) = (queue(subject)?, queue(subject)?);
        let sessions = vec![&subject.session; callers];
        let told = |_: &u8| format!("{callers} callers");
        let best = best_of_rounds(&[0, 1, 2], subject, now, told, |way| match way {
            0 => rates::of_threads(subject, &sessions, slice),
            1 => of_threads(subject, &for_threads, callers, slice),
            _ => of_tickets(subject, &for_tickets, callers, slice),
        })?;
        let rows = for_tickets.statistics().batch_rows.mean();
        for_threads.shutdown(Shutdown::Drain);
        for_tickets.shutdown(Shutdown::Drain);
        Ok(Point {
            callers,
            apart: best[0],
            threads: best[1],
            tickets: best[2],
            rows,
        })
    };
    CALLERS.into_iter().map(point).collect()
}

/// Requests per second of threads that each wait for theirs.
fn of_threads(
    subject: &Subject,
    queue: &BatchQueue,
    callers: usize,
    slice: Duration,
) -> Result<f64> {
    let caller = |number| {
        move || {
            queue.infer(subject.arrays(number).to_vec())?;
            Ok(1)
        }
    };
    let mut callers: Vec<_> = (0..callers).map(caller).collect();
    in_a_round(&mut callers, slice)
}

/// Requests per second of a few threads that hold a ticket for each caller, as a server does, and wait for the oldest.
fn of_tickets(
    subject: &Subject,
    queue: &BatchQueue,
    callers: usize,
    slice: Duration,
) -> Result<f64> {
    let threads = processors().min(callers);
    let holder = |thread| {
        let mut held: VecDeque<Ticket> = VecDeque::new();
        move || {
            while held.len() < callers / threads {
                let inputs = subject.arrays(thread + held.len()).to_vec();
                held.push_back(queue.submit(Request::new(inputs))?);
            }
            let oldest = held.pop_front().ok_or("a thread holds no ticket")?;
            oldest.wait()?;
            Ok(1)
        }
    };
    let mut holders: Vec<_> = (0..threads).map(holder).collect();
    in_a_round(&mut holders, slice)
}

/// The rates as a table.
fn table_of_callers(points: &[Point]) -> Table {
    let row = |point: &Point| {
        vec![
            Cell::count(point.callers),
            Cell::rate(point.apart),
            Cell::rate(point.handed_over()),
            Cell::rate(point.threads),
            Cell::figure(point.part_of_threads()),
            Cell::rate(point.tickets),
            Cell::figure(point.part_of_tickets()),
            Cell::figure(point.rows),
        ]
    };
    Table {
        head: vec![
            "callers",
            "no queue",
            "+ 5 us",
            "threads",
            "thread part",
            "tickets",
            "ticket part",
            "rows",
        ],
        rows: points.iter().map(row).collect(),
    }
}

/// The rates as a drawing.
fn drawing(name: &str, points: &[Point]) -> Part {
    let line = |rate: fn(&Point) -> f64| {
        let point = move |point: &Point| (point.callers as f64, rate(point));
        points.iter().map(point)
    };
    Part::Plot(Plot {
        title: format!("Batching: {name}, one row for each caller"),
        x: Axis::new("callers", Scale::Log2),
        y: Axis::new("rows per second", Scale::Linear),
        series: vec![
            Series::new("threads, no queue", line(|point| point.apart)),
            Series::new("threads, queued", line(|point| point.threads)),
            Series::new("tickets, queued", line(|point| point.tickets)),
        ],
    })
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
            checks.iter().map(|check| check.seen.ok).collect::<Vec<_>>()
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
