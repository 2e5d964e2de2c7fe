//! The chapter on scaling: threads get out of the device what there is in it.

use std::time::Duration;

use streampool::Session;
use streampool::cuda::CudaOptions;
use streampool::host::{HostDevice, HostOptions};
use streampool_cuda::ceiling::BareStream;

use super::chapter::{Chapter, Check, Found, Now};
use super::rates::{self, ROUNDS, best_of_rounds, in_a_round};
use super::setting::{MOST_THREADS, Setting, Subject, least, pool};
use crate::Result;
use crate::device::On;
use crate::machine::processors;
use crate::page::{Cell, Part, Table};
use crate::plot::{Axis, Plot, Scale, Series};
use crate::text::counted;

/// From how many threads at a time.
const THREADS: [usize; 6] = [1, 2, 4, 8, 16, MOST_THREADS];

/// The least part of the ceiling that is good on the host, and on a GPU, where a request also carries its values to the device
/// and back, which a bare graph does not.
const OF_COPIES: f64 = 0.7;
const OF_GRAPHS: f64 = 0.5;

/// Where nothing is known that bounds a model: no number of threads may be slower than one, but for what rates vary by.
const OF_ONE_THREAD: f64 = 0.9;

/// The chapter.
pub fn chapter(on: On) -> Chapter {
    let (least, against) = match on {
        On::Cuda => (
            format!(
                "at least {OF_GRAPHS} of the launch rate of the bare driver for the linear layer, and at least {OF_ONE_THREAD} of the \
                 rate of one thread for the other model"
            ),
            "The ceiling of the linear layer is the rate of the bare driver with at most as many threads, each of which launches a \
             graph of empty kernels and waits for it. The other model has no known ceiling and is compared with one thread.",
        ),
        On::Metal => (
            format!("at least {OF_ONE_THREAD} of the rate of one thread"),
            "There is no known ceiling. Several threads are compared with one thread.",
        ),
        On::Host => (
            format!("at least {OF_COPIES} of the rate of threads that share nothing"),
            "The ceiling is the rate of at most as many threads that share nothing: each has its own device, pool, copy of the \
             model, and share of the processors. Threads that share weights also share caches, so they may exceed the ceiling.",
        ),
    };
    Chapter {
        name: "scaling",
        claim: format!(
            "With 1 to 31 threads that share one device, one pool and one session, the rate of runs is {least}."
        ),
        how: format!(
            "Threads run the same session as often as they can, each on its own inputs, from host memory to host memory. {against} \
             The two are measured in turn, and the best of {ROUNDS} rounds counts."
        ),
        tell,
    }
}

/// The rate of so many threads.
struct Point {
    threads: usize,
    ours: f64,
    /// The best that as many threads, or fewer, reach without us.
    ceiling: Option<f64>,
}

fn tell(setting: &Setting, now: Now<'_>) -> Result<Found> {
    let mut found = Found::default();
    let mut sums = Vec::new();
    for (place, subject) in setting.subjects.iter().enumerate() {
        let mut ceiling = match setting.on {
            On::Host => Ceiling::copies(subject, &THREADS)?,
            On::Cuda if place == 0 => Ceiling::Driver(BareStream::open(
                CudaOptions::from_env()?.ordinal,
                MOST_THREADS,
            )?),
            On::Cuda | On::Metal => Ceiling::None,
        };
        let points = measure(setting, subject, &mut ceiling, now)?;
        let what = format!("{}, runs per second", subject.name);
        found.tables.push((what, table(&points)));
        found.drawings.push(drawing(&subject.name, &points));
        let (check, sum) = judge(subject, &points, setting.on);
        found.checks.push(check);
        sums.push(sum);
    }
    found.sum = format!("With 1 to 31 threads, {}.", sums.join("; "));
    Ok(found)
}

/// The most that a device gives to threads, measured without what they share with us.
enum Ceiling {
    /// Threads with a device, a pool and a session each; those for so many threads have the processors divided among them.
    Copies(Vec<Vec<Session>>),
    /// Bare graphs of the GPU's driver.
    Driver(Vec<BareStream>),
    /// Nothing is known.
    None,
}

/// The most memory for copies.
const MEMORY: usize = 1 << 30;

impl Ceiling {
    /// Copies of a model on devices of their own, for each of these numbers of threads that there is memory for.
    fn copies(subject: &Subject, threads: &[usize]) -> Result<Ceiling> {
        let cores = processors();
        let own = |workers| {
            let options = HostOptions::default().threads(workers);
            subject.again(&pool(HostDevice::new(options)?)?)
        };
        let each = own(cores)?.pool().snapshot()?.memory.reserved;
        let affordable = |&&threads: &&usize| threads == 1 || threads * each <= MEMORY;
        let mut groups: Vec<Vec<Session>> = Vec::new();
        for &threads in threads.iter().filter(affordable) {
            let workers = (cores / threads).max(1);
            // Devices with one processor serve more threads as they do fewer.
            let mut group = match groups.last() {
                Some(fewer) if cores / fewer.len() <= 1 => fewer.clone(),
                _ => Vec::new(),
            };
            while group.len() < threads {
                group.push(own(workers)?);
            }
            groups.push(group);
        }
        Ok(Ceiling::Copies(groups))
    }

    /// Whether the rate of so many threads can be measured.
    fn is_known(&self, threads: usize) -> bool {
        match self {
            Ceiling::Copies(groups) => groups.iter().any(|group| group.len() == threads),
            Ceiling::Driver(_) => true,
            Ceiling::None => false,
        }
    }

    /// The rate of so many threads.
    fn rate(&mut self, subject: &Subject, threads: usize, slice: Duration) -> Result<f64> {
        match self {
            Ceiling::Copies(groups) => {
                let group = groups.iter().find(|group| group.len() == threads);
                let group = group.into_iter().flatten().collect::<Vec<_>>();
                rates::of_threads(subject, &group, slice)
            }
            Ceiling::Driver(streams) => {
                let streams = streams[..threads].iter_mut();
                let workers = streams.map(|bare| move || Ok(bare.replay(1).map(|()| 1)?));
                in_a_round(&mut workers.collect::<Vec<_>>(), slice)
            }
            Ceiling::None => Ok(f64::NAN),
        }
    }
}

fn measure(
    setting: &Setting,
    subject: &Subject,
    ceiling: &mut Ceiling,
    now: Now<'_>,
) -> Result<Vec<Point>> {
    // Ours, then what bounds it, of one number of threads after the other.
    let sides = |&threads: &usize| {
        let theirs = ceiling.is_known(threads).then_some((threads, false));
        std::iter::once((threads, true)).chain(theirs)
    };
    let cases: Vec<(usize, bool)> = THREADS.iter().flat_map(sides).collect();
    let told = |case: &(usize, bool)| counted(case.0 as u64, "thread");
    let best = best_of_rounds(&cases, subject, now, told, |&(threads, ours)| match ours {
        true => rates::of_threads(subject, &vec![&subject.session; threads], setting.slice),
        false => ceiling.rate(subject, threads, setting.slice),
    })?;
    let mut points: Vec<Point> = Vec::new();
    let mut most: Option<f64> = None;
    for (&(threads, ours), rate) in cases.iter().zip(best) {
        if ours {
            points.push(Point {
                threads,
                ours: rate,
                ceiling: most,
            });
        } else if let Some(point) = points.last_mut() {
            most = Some(rate.max(most.unwrap_or(0.0)));
            point.ceiling = most;
        }
    }
    Ok(points)
}

fn table(points: &[Point]) -> Table {
    let one = points.first().map_or(f64::NAN, |point| point.ours);
    let row = |point: &Point| {
        let (ceiling, part) = match point.ceiling {
            Some(ceiling) => (Cell::rate(ceiling), Cell::figure(point.ours / ceiling)),
            None => (Cell::none(), Cell::none()),
        };
        vec![
            Cell::count(point.threads),
            Cell::rate(point.ours),
            Cell::figure(point.ours / one),
            ceiling,
            part,
        ]
    };
    Table {
        head: vec![
            "threads",
            "shared",
            "vs one thread",
            "ceiling",
            "efficiency",
        ],
        rows: points.iter().map(row).collect(),
    }
}

fn drawing(name: &str, points: &[Point]) -> Part {
    let ours = points
        .iter()
        .map(|point| (point.threads as f64, point.ours));
    let ceiling = points
        .iter()
        .filter_map(|point| Some((point.threads as f64, point.ceiling?)));
    let mut series = vec![Series::new("one session, shared", ours)];
    let ceiling = Series::new("the device's ceiling", ceiling);
    if !ceiling.points.is_empty() {
        series.push(ceiling);
    }
    Part::Plot(Plot {
        title: format!("Scaling: {name}"),
        x: Axis::new("threads", Scale::Log2),
        y: Axis::new("runs per second", Scale::Linear),
        series,
    })
}

/// Whether the worst number of threads is good enough.
fn judge(subject: &Subject, points: &[Point], on: On) -> (Check, String) {
    let name = &subject.name;
    let parts = |of: &dyn Fn(&Point) -> f64| -> Vec<f64> {
        points.iter().map(|point| point.ours / of(point)).collect()
    };
    if points.iter().all(|point| point.ceiling.is_some()) {
        let least = least(&parts(&|point| point.ceiling.unwrap_or(f64::INFINITY)));
        let wanted = if on == On::Cuda { OF_GRAPHS } else { OF_COPIES };
        let what = format!("lowest efficiency of {name}");
        let check = Check::at_least(format!("{name}-efficiency"), what, least, wanted);
        return (
            check,
            format!("{name} reached at least {least:.2} of the ceiling"),
        );
    }
    let one = points.first().map_or(f64::INFINITY, |point| point.ours);
    let gains = parts(&|_| one);
    let (least, most) = (least(&gains), gains.iter().copied().fold(0.0, f64::max));
    let what = format!("lowest rate of {name} vs one thread");
    (
        Check::at_least(format!("{name}-threads"), what, least, OF_ONE_THREAD),
        format!("{name} reached {least:.2} to {most:.1} times the rate of one thread"),
    )
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn the_worst_number_of_threads_decides() {
        let host = Setting::new(On::Host, None, &[], Duration::ZERO).unwrap();
        let subject = &host.subjects[0];
        let point = |threads, ours, ceiling| Point {
            threads,
            ours,
            ceiling,
        };
        let bounded = |last| [point(1, 90.0, Some(100.0)), point(8, last, Some(200.0))];
        assert!(judge(subject, &bounded(141.0), On::Host).0.seen.ok);
        assert!(!judge(subject, &bounded(139.0), On::Host).0.seen.ok);
        assert!(judge(subject, &bounded(101.0), On::Cuda).0.seen.ok);
        let free = |last| [point(1, 100.0, None), point(8, last, None)];
        assert!(judge(subject, &free(91.0), On::Cuda).0.seen.ok);
        assert!(!judge(subject, &free(89.0), On::Cuda).0.seen.ok);
    }

    #[test]
    fn each_thread_has_a_device_of_its_own() {
        let host = Setting::new(On::Host, None, &[], Duration::ZERO).unwrap();
        let Ceiling::Copies(groups) = Ceiling::copies(&host.subjects[0], &[1, 2, 5]).unwrap()
        else {
            unreachable!("they are copies")
        };
        assert_eq!(groups.iter().map(Vec::len).collect::<Vec<_>>(), [1, 2, 5]);
        for group in groups {
            for (number, one) in group.iter().enumerate() {
                let device = one.pool().device();
                let shared = |other: &Session| Arc::ptr_eq(other.pool().device(), device);
                assert!(!group[..number].iter().any(shared));
            }
        }
    }
}
