//! First answers: of a thread that starts, of inputs of new sizes, of a model that is loaded.

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde::Serialize;
use streampool::model::{Session, SessionOptions};
use streampool::{Array, DType, Pool};

use super::mlp;
use crate::latencies::Latencies;
use crate::text::time;
use crate::{Failure, Result};

/// How often each is done on an idle device, after a few to warm up: so often that the slowest in a hundred is known.
const IDLE: usize = 200;
const WARM_UP: usize = 3;

/// The numbers of rows that new sizes have. With fewer, other kernels compute.
const ROWS: Range<usize> = 17..317;

/// Who comes to a session that others run: for the first time, with new sizes, or with a model.
pub struct Newcomers<'a> {
    pool: &'a Pool,
    session: &'a Session,
    small: Vec<u8>,
    sizes: Mutex<Sizes>,
}

/// A session, and how many rows the next one with new sizes brings to it.
struct Sizes {
    session: Arc<Session>,
    rows: Range<usize>,
}

/// What a newcomer brings.
#[derive(Debug, Clone, Copy)]
pub enum News {
    Thread,
    Sizes,
    Model,
}

impl News {
    pub const ALL: [News; 3] = [News::Thread, News::Sizes, News::Model];
}

/// How long first answers took, in seconds.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct First {
    pub count: usize,
    pub median: f64,
    pub p99: Option<f64>,
    pub longest: f64,
    /// For so much of the longest its thread was ready to run, and no processor was free. It needs `/proc`.
    pub longest_in_run_queue: Option<f64>,
    /// How long after the first of its kind was asked for the longest was: at first, the crowd starts itself.
    pub longest_after: Option<f64>,
}

/// A first answer: how long it took, and for how much of that no processor was free.
#[derive(Debug, Clone, Copy)]
pub struct Took {
    asked: Instant,
    time: Duration,
    in_run_queue: Option<Duration>,
}

/// Those of each kind.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Firsts {
    pub thread: First,
    pub sizes: First,
    pub model: First,
}

impl First {
    fn of(all: &[Took]) -> First {
        let times = Latencies::new(all.iter().map(|took| took.time).collect());
        let longest = all.iter().max_by_key(|took| took.time);
        let first = all.iter().map(|took| took.asked).min();
        First {
            count: times.count(),
            median: times.at(0.5).as_secs_f64(),
            p99: times.percentiles().p99,
            longest: times.at(1.0).as_secs_f64(),
            longest_in_run_queue: longest.and_then(|took| Some(took.in_run_queue?.as_secs_f64())),
            longest_after: longest.and_then(|took| Some((took.asked - first?).as_secs_f64())),
        }
    }

    fn cell(&self) -> String {
        match self.count {
            0 => String::new(),
            _ => format!("{}, {}", time(self.median), time(self.longest)),
        }
    }
}

impl Firsts {
    /// Those among `times`.
    pub fn of(times: &[(News, Took)]) -> Firsts {
        let of = |is_it: fn(&News) -> bool| {
            let times = times.iter().filter(|(news, _)| is_it(news));
            First::of(&times.map(|(_, took)| *took).collect::<Vec<_>>())
        };
        Firsts {
            thread: of(|news| matches!(news, News::Thread)),
            sizes: of(|news| matches!(news, News::Sizes)),
            model: of(|news| matches!(news, News::Model)),
        }
    }

    /// A row of a table.
    pub fn cells(&self, name: &str) -> [String; 4] {
        [
            name.to_owned(),
            self.thread.cell(),
            self.sizes.cell(),
            self.model.cell(),
        ]
    }
}

/// An input of so many rows.
pub fn input(rows: usize) -> Array {
    Array::zeros(DType::F32, &[rows, mlp::INPUTS]).expect("rows are few")
}

/// A session of the model that the crowd runs, which has never run.
fn fresh(pool: &Pool) -> Result<Arc<Session>> {
    let session = Session::from_bytes(pool, mlp::onnx()?, &SessionOptions::default())?;
    Ok(Arc::new(session))
}

impl<'a> Newcomers<'a> {
    pub fn new(pool: &'a Pool, session: &'a Session) -> Result<Newcomers<'a>> {
        // Sizes differ in which kernels they need. Those are compiled now: it takes as long on an idle device.
        let other = fresh(pool)?;
        for rows in std::iter::once(1).chain(ROWS) {
            other.run([("x", &input(rows))])?;
        }
        let session_of_sizes = fresh(pool)?;
        Ok(Newcomers {
            pool,
            session,
            small: mlp::small_onnx()?,
            sizes: Mutex::new(Sizes {
                session: session_of_sizes,
                rows: ROWS,
            }),
        })
    }

    /// First answers while nothing else runs.
    pub fn idle(&self) -> Result<Firsts> {
        let mut times = Vec::new();
        for round in 0..WARM_UP + IDLE {
            for news in News::ALL {
                let took = self.first(news)?;
                if round >= WARM_UP {
                    times.push((news, took));
                }
            }
        }
        Ok(Firsts::of(&times))
    }

    /// How long it takes to the first answer.
    pub fn first(&self, news: News) -> Result<Took> {
        match news {
            News::Thread => std::thread::scope(|scope| {
                let thread = scope.spawn(|| self.timed(self.session, &input(1)));
                let ended = thread.join();
                ended.map_err(|_| Failure::from("a thread panicked"))?
            }),
            News::Sizes => {
                let (session, rows) = self.new_sizes()?;
                self.timed(&session, &input(rows))
            }
            News::Model => {
                let begun = Begun::now();
                let options = SessionOptions::default();
                let session = Session::from_bytes(self.pool, self.small.clone(), &options)?;
                session.run([("x", &input(1))])?;
                Ok(begun.took())
            }
        }
    }

    /// A session, and a number of rows that it was never given.
    fn new_sizes(&self) -> Result<(Arc<Session>, usize)> {
        let mut sizes = self.sizes.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(rows) = sizes.rows.next() {
                return Ok((sizes.session.clone(), rows));
            }
            let session = fresh(self.pool)?;
            session.run([("x", &input(1))])?;
            *sizes = Sizes {
                session,
                rows: ROWS,
            };
        }
    }

    fn timed(&self, session: &Session, input: &Array) -> Result<Took> {
        let begun = Begun::now();
        session.run([("x", input)])?;
        Ok(begun.took())
    }
}

/// When a first answer was asked for.
struct Begun {
    at: Instant,
    in_run_queue: Option<Duration>,
}

impl Begun {
    fn now() -> Begun {
        let in_run_queue = in_run_queue();
        Begun {
            at: Instant::now(),
            in_run_queue,
        }
    }

    fn took(self) -> Took {
        let time = self.at.elapsed();
        let queued = |from| in_run_queue()?.checked_sub(from);
        Took {
            asked: self.at,
            time,
            in_run_queue: self.in_run_queue.and_then(queued),
        }
    }
}

/// How long this thread was ready to run so far while no processor was free.
fn in_run_queue() -> Option<Duration> {
    let figures = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    let nanoseconds = figures.split_whitespace().nth(1)?.parse().ok()?;
    Some(Duration::from_nanos(nanoseconds))
}
