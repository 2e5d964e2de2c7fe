//! The chapter on scaling: threads get out of the device what there is in it.

mod ceiling;

use streampool::cuda::CudaOptions;
use streampool::cuda::ceiling::BareStream;

use super::chapter::{Chapter, Check, Drawing, Found};
use super::rates::{self, ROUNDS, best};
use super::setting::{MOST_THREADS, Setting, Subject};
use super::sheet::{Cell, Sheet};
use crate::Result;
use crate::device::On;
use crate::plot::{Axis, Plot, Scale, Series};
use crate::text::counted;
use ceiling::Ceiling;

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
                "for the linear layer at least {OF_GRAPHS} of what the bare driver launches, and for a model that computes at least \
                 {OF_ONE_THREAD} of one thread's"
            ),
            "The ceiling of the linear layer is what the bare driver reaches with as many threads, or fewer, each launching a graph \
             of empty kernels and waiting for it. For a model that computes no ceiling is known: threads are compared with one \
             thread.",
        ),
        On::Metal => (
            format!("at least {OF_ONE_THREAD} of one thread's"),
            "No ceiling is known: threads are compared with one thread.",
        ),
        On::Host => (
            format!("at least {OF_COPIES} of what threads reach that share nothing"),
            "The ceiling is what as many threads reach, or fewer, that share nothing: each has a device, a pool and a copy of the \
             model of its own, and its part of the processors. Who shares weights shares caches, too, and may be above it.",
        ),
    };
    Chapter {
        name: "scaling",
        claim: format!(
            "With any number of threads from 1 to 31, all sharing one device, one pool and one session, the rate of runs is {least}."
        ),
        how: format!(
            "Threads run the same session as often as they can, each on inputs of its own, host memory to host memory. {against} \
             Both are measured in turn, and the best of {ROUNDS} rounds counts."
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

fn tell(setting: &Setting, now: &dyn Fn(&str)) -> Result<Found> {
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
        found
            .tables
            .push((format!("{}, runs per second", subject.name), sheet(&points)));
        found.drawings.push(drawing(&subject.name, &points));
        let (check, sum) = judge(subject, &points, setting.on);
        found.checks.push(check);
        sums.push(sum);
    }
    found.sum = format!("From 1 to 31 threads {}.", sums.join("; "));
    Ok(found)
}

fn measure(
    setting: &Setting,
    subject: &Subject,
    ceiling: &mut Ceiling,
    now: &dyn Fn(&str),
) -> Result<Vec<Point>> {
    let mut ours = vec![Vec::new(); THREADS.len()];
    let mut theirs = vec![Vec::new(); THREADS.len()];
    for round in 1..=ROUNDS {
        for (place, &threads) in THREADS.iter().enumerate() {
            let what = counted(threads as u64, "thread");
            now(&format!(
                "{}, {what}, round {round} of {ROUNDS}",
                subject.name
            ));
            let sessions = vec![&subject.session; threads];
            ours[place].push(rates::of_threads(subject, &sessions, setting.slice)?);
            theirs[place].extend(ceiling.rate(subject, threads, setting.slice)?);
        }
    }
    let mut most: Option<f64> = None;
    let point = |((&threads, ours), theirs): ((&usize, &Vec<f64>), &Vec<f64>)| {
        if !theirs.is_empty() {
            most = Some(best(theirs)?.max(most.unwrap_or(0.0)));
        }
        Ok(Point {
            threads,
            ours: best(ours)?,
            ceiling: most,
        })
    };
    THREADS.iter().zip(&ours).zip(&theirs).map(point).collect()
}

fn sheet(points: &[Point]) -> Sheet {
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
    Sheet {
        head: &[
            "threads",
            "shared",
            "beside one thread",
            "ceiling",
            "efficiency",
        ],
        rows: points.iter().map(row).collect(),
    }
}

fn drawing(name: &str, points: &[Point]) -> Drawing {
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
    Drawing::Lines(Plot {
        title: format!("Scaling: {name}"),
        x: Axis::new("threads", Scale::Log2),
        y: Axis::new("runs per second", Scale::Linear),
        series,
    })
}

/// Whether the worst number of threads is good enough.
fn judge(subject: &Subject, points: &[Point], on: On) -> (Check, String) {
    let name = &subject.name;
    let least_of =
        |part: &dyn Fn(&Point) -> f64| points.iter().map(part).fold(f64::INFINITY, f64::min);
    if points.iter().all(|point| point.ceiling.is_some()) {
        let least = least_of(&|point| point.ours / point.ceiling.unwrap_or(f64::INFINITY));
        let wanted = if on == On::Cuda { OF_GRAPHS } else { OF_COPIES };
        let what = format!("least efficiency of {name}");
        let check = Check::at_least(format!("{name}-efficiency"), what, least, wanted);
        return (
            check,
            format!("{name} reached {least:.2} of the ceiling or more"),
        );
    }
    let one = points.first().map_or(f64::INFINITY, |point| point.ours);
    let least = least_of(&|point| point.ours / one);
    let what = format!("least of {name} beside one thread");
    let check = Check::at_least(format!("{name}-threads"), what, least, OF_ONE_THREAD);
    let most = points
        .iter()
        .map(|point| point.ours / one)
        .fold(0.0, f64::max);
    (
        check,
        format!("{name} reached {least:.2} to {most:.1} times the rate of one thread"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_number_of_threads_decides() {
        let host = Setting::new(On::Host, None, &[], std::time::Duration::ZERO).unwrap();
        let subject = &host.subjects[0];
        let point = |threads, ours, ceiling| Point {
            threads,
            ours,
            ceiling,
        };
        let bounded = |last| [point(1, 90.0, Some(100.0)), point(8, last, Some(200.0))];
        assert!(judge(subject, &bounded(141.0), On::Host).0.ok);
        assert!(!judge(subject, &bounded(139.0), On::Host).0.ok);
        assert!(judge(subject, &bounded(101.0), On::Cuda).0.ok);
        let free = |last| [point(1, 100.0, None), point(8, last, None)];
        assert!(judge(subject, &free(91.0), On::Cuda).0.ok);
        assert!(!judge(subject, &free(89.0), On::Cuda).0.ok);
        let rows = sheet(&free(91.0)).table().rows;
        assert_eq!(rows[1], ["8", "91.0", "0.91", "-", "-"]);
    }
}
