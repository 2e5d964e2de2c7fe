//! Many callers with one row each: threads of their own, or through a queue.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use serde_json::json;
use streampool::batch::{BatchQueue, Request, Shutdown, Ticket};
use streampool::{Array, DType, ForSession, Pool};

use super::ROWS;
use crate::Result;
use crate::machine::processors;
use crate::plot::{Axis, Plot, Scale, Series};
use crate::story::chapter::{Check, Drawing};
use crate::story::correctness::errors;
use crate::story::rates::{self, ROUNDS, best, handed_over};
use crate::story::setting::Subject;
use crate::story::sheet::{Cell, Sheet};
use crate::text::count;
use crate::threads::{per_second, together};

/// Callers at a time.
pub const CALLERS: [usize; 4] = [1, 4, 16, 64];

/// How far what a caller gets from a batch may be off what it gets alone, as a part of the largest value: sums are taken in
/// another order.
const APART: f64 = 1e-3;

/// Requests of each caller that are compared.
const COMPARED: usize = 8;

/// The rates for so many callers.
pub struct Point {
    pub callers: usize,
    /// Each is a thread that runs the session itself.
    pub apart: f64,
    /// Each is a thread that asks the queue.
    pub threads: f64,
    /// Each is a ticket, held by one of as many threads as there are processors.
    pub tickets: f64,
    /// How many rows a batch of these had.
    pub rows: f64,
}

impl Point {
    /// What threads without a queue would get if each run took 5 us of a processor more: what queues are compared with.
    fn handed_over(&self) -> f64 {
        handed_over(self.apart, processors())
    }

    /// Which part of that threads get from a queue.
    pub fn part_of_threads(&self) -> f64 {
        self.threads / self.handed_over()
    }

    /// Which part of that tickets get.
    pub fn part_of_tickets(&self) -> f64 {
        self.tickets / self.handed_over()
    }
}

fn queue(subject: &Subject) -> Result<BatchQueue> {
    let builder = BatchQueue::builder().max_batch_size(ROWS[ROWS.len() - 1]);
    Ok(BatchQueue::for_session(&subject.session, builder)?)
}

/// Whether all callers of a queue get what is theirs.
pub fn answers(subject: &Subject, pool: &Pool, now: &dyn Fn(&str)) -> Result<Check> {
    let name = &subject.name;
    now(&format!("{name}, what callers get"));
    let alone = subject.alone()?;
    let queue = queue(subject)?;
    let callers = CALLERS[CALLERS.len() - 1];
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
    let done = together(0..callers, Ok, || (), ask)?.done;
    queue.shutdown(Shutdown::Drain);
    let wrong = done.iter().filter(|&&most| most > APART).count();
    let compared = (callers * COMPARED) as u64;
    Ok(Check {
        name: format!("{name}-answers"),
        what: format!("answers to {callers} callers of {name}"),
        ok: wrong == 0,
        figures: format!("{} compared, {wrong} callers wrong", count(compared)),
        numbers: json!({ "compared": compared, "callers": callers, "wrong_callers": wrong }),
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
    let right: Vec<f64> = values(right)?.into_iter().map(f64::from).collect();
    let errors = errors(&values(got)?, &right).into_iter();
    Ok(errors.fold(0.0, f64::max))
}

/// The rates for each number of callers.
pub fn measure(subject: &Subject, slice: Duration, now: &dyn Fn(&str)) -> Result<Vec<Point>> {
    let point = |callers: usize| -> Result<Point> {
        let (for_threads, for_tickets) = (queue(subject)?, queue(subject)?);
        let (mut apart, mut threads, mut tickets) = (Vec::new(), Vec::new(), Vec::new());
        for round in 1..=ROUNDS {
            let name = &subject.name;
            now(&format!(
                "{name}, {callers} callers, round {round} of {ROUNDS}"
            ));
            let sessions = vec![&subject.session; callers];
            apart.push(rates::of_threads(subject, &sessions, slice)?);
            threads.push(of_threads(subject, &for_threads, callers, slice)?);
            tickets.push(of_tickets(subject, &for_tickets, callers, slice)?);
        }
        let rows = for_tickets.statistics().batch_rows.mean();
        for_threads.shutdown(Shutdown::Drain);
        for_tickets.shutdown(Shutdown::Drain);
        Ok(Point {
            callers,
            apart: best(&apart)?,
            threads: best(&threads)?,
            tickets: best(&tickets)?,
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
    per_second(&mut callers, slice / ROUNDS as u32)
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
    per_second(&mut holders, slice / ROUNDS as u32)
}

/// The rates as a table.
pub fn sheet(points: &[Point]) -> Sheet {
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
    Sheet {
        head: &[
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
pub fn drawing(name: &str, points: &[Point]) -> Drawing {
    let line = |rate: fn(&Point) -> f64| {
        let point = move |point: &Point| (point.callers as f64, rate(point));
        points.iter().map(point)
    };
    Drawing::Lines(Plot {
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
