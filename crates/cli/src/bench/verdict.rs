//! What the points say to somebody who wants to serve the model.

use std::cmp::Ordering;

use super::point::{Point, Via};
use crate::text::{self, compact, counted, figure};

/// A rate is borne while the 99th percentile stays within so many times the median of a request alone.
const IN_TIME: f64 = 5.0;

/// A queue helps where it gets so many times as much through.
const HELP: f64 = 1.1;

/// What is to be said of the points of one set.
pub fn of(points: &[&Point]) -> Vec<String> {
    let closed = |point: &&&Point| point.offered_per_second.is_none();
    let open: Vec<&Point> = points
        .iter()
        .filter(|point| !closed(point))
        .copied()
        .collect();
    let closed: Vec<&Point> = points.iter().filter(closed).copied().collect();
    let all = match open.is_empty() {
        true => [most(&closed), queue(&closed)],
        false => {
            let borne = |via| borne(&open, &closed, via);
            [borne(Via::Threads), borne(Via::Queue)]
        }
    };
    all.into_iter().flatten().collect()
}

/// Where most rows get through.
fn most(closed: &[&Point]) -> Option<String> {
    let answered = closed.iter().filter(|point| point.requests > 0);
    let by_rows =
        |one: &&&Point, other: &&&Point| one.rows_per_second.total_cmp(&other.rows_per_second);
    let best = *answered.clone().max_by(by_rows)?;
    let rate = compact(best.rows_per_second);
    let mut text = format!(
        "The highest throughput is with {}: {rate} rows/s",
        best.setting()
    );
    if let Some(p50) = best.latency_seconds.p50 {
        text += &format!(", half of the requests within {}", text::time(p50));
    }
    if let Some(p99) = best.latency_seconds.p99 {
        text += &format!(", 99 in 100 within {}", text::time(p99));
    }
    let one = answered.filter(|point| is_alone(point));
    if let Some(one) = one.min_by_key(|point| point.rows)
        && *one != best
    {
        let times = figure(best.rows_per_second / one.rows_per_second);
        let of = counted(one.rows as u64, "row");
        text += &format!("; that is {times} times the rows/s of one thread with {of}");
    }
    Some(text + ".")
}

/// Whether the queue gets more through than the same threads without.
fn queue(closed: &[&Point]) -> Option<String> {
    let gain = |queue: &Point| {
        let others = closed.iter().filter(|other| other.via == Via::Threads);
        let mut like = others.filter(|other| other.is_like(queue) && other.requests > 0);
        Some(queue.rows_per_second / like.next()?.rows_per_second)
    };
    let queues = closed.iter().filter(|point| point.via == Via::Queue);
    let gains = queues.filter_map(|point| Some((gain(point)?, *point)));
    let (gain, at) = gains.max_by(|one, other| one.0.total_cmp(&other.0))?;
    let (who, times) = (at.setting(), figure(gain));
    Some(match gain >= HELP {
        true => format!(
            "The queue helps most with {who}: {times} times the rows/s of the same threads without it."
        ),
        false => format!(
            "The queue does not help here: at best, with {who}, it reaches {times} times the rows/s of the same threads \
             without it."
        ),
    })
}

/// Up to which rate requests are answered in good time.
fn borne(open: &[&Point], closed: &[&Point], via: Via) -> Option<String> {
    let points: Vec<&Point> = open
        .iter()
        .filter(|point| point.via == via)
        .copied()
        .collect();
    if points.is_empty() {
        return None;
    }
    let how = match via {
        Via::Threads => "With each thread running the model",
        Via::Queue => "Through the queue",
    };
    let alone = |point: &Point| {
        let mut alone = closed.iter().filter(|one| is_alone(one));
        alone
            .find(|one| one.rows == point.rows)?
            .latency_seconds
            .p50
    };
    let lateness = |point: &&Point| Some(point.latency_seconds.p99? / alone(point)?);
    if !points.iter().any(|point| lateness(point).is_some()) {
        return Some(format!(
            "{how}, there were too few requests at each rate for a 99th percentile. Increase --seconds."
        ));
    }
    let in_time = |point: &&Point| {
        let whole = point.failed == 0 && point.given_up == 0;
        whole && lateness(point).is_some_and(|times| times <= IN_TIME)
    };
    let rows = |point: &Point| point.offered_per_second.unwrap_or_default() * point.rows as f64;
    // Where the same rate was borne in several settings, the one that answered soonest.
    let order = |one: &&Point, other: &&Point| {
        let late = other
            .latency_seconds
            .p99
            .partial_cmp(&one.latency_seconds.p99);
        rows(one)
            .total_cmp(&rows(other))
            .then(late.unwrap_or(Ordering::Equal))
    };
    let Some(best) = points.into_iter().filter(in_time).max_by(order) else {
        return Some(format!(
            "{how}, the 99th percentile stays within {IN_TIME} times the median of a single request at none of these \
             rates."
        ));
    };
    let (rate, p99) = (best.offered_per_second?, best.latency_seconds.p99?);
    Some(format!(
        "{how}, up to {rate} requests/s with {} are answered in time: the 99th percentile, {}, is within {IN_TIME} \
         times the median of a single request, {}.",
        best.setting(),
        text::time(p99),
        text::time(alone(best)?),
    ))
}

/// Whether nobody else asks at the same time.
fn is_alone(point: &Point) -> bool {
    (point.via, point.threads) == (Via::Threads, 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::point::tests::point;
    use crate::latencies::Percentiles;

    fn with(point: Point, rows_per_second: f64, p99: Option<f64>) -> Point {
        Point {
            rows_per_second,
            latency_seconds: Percentiles {
                p99,
                ..point.latency_seconds
            },
            ..point
        }
    }

    fn said(points: &[Point]) -> Vec<String> {
        of(&points.iter().collect::<Vec<_>>())
    }

    #[test]
    fn the_best_is_told_beside_one_alone() {
        let alone = with(point(Via::Threads, 1, 1, None), 100.0, None);
        let many = with(point(Via::Threads, 8, 32, None), 450.0, Some(0.05));
        assert_eq!(
            said(&[alone.clone(), many]),
            [
                "The highest throughput is with 8 threads and 32 rows per request: 450 rows/s, half of the requests within 10.0 ms, \
                 99 in 100 within 50.0 ms; that is \
                 4.50 times the rows/s of one thread with 1 row."
            ]
        );
        assert_eq!(
            said(&[alone]),
            [
                "The highest throughput is with 1 thread and 1 row per request: 100 rows/s, half of the requests within 10.0 ms."
            ]
        );
    }

    #[test]
    fn the_queue_helps_or_does_not() {
        let pair = |queue| {
            let own = with(point(Via::Threads, 8, 1, None), 200.0, None);
            said(&[own, with(point(Via::Queue, 8, 1, None), queue, None)]).remove(1)
        };
        assert_eq!(
            pair(500.0),
            "The queue helps most with 8 threads at the queue and 1 row per request: 2.50 times the rows/s of the same threads without it."
        );
        assert!(pair(210.0).starts_with("The queue does not help here: at best"));
    }

    #[test]
    fn a_rate_is_borne_while_requests_are_answered_in_good_time() {
        let alone = point(Via::Threads, 1, 1, None);
        let at = |rate: f64, p99| with(point(Via::Threads, 8, 1, Some(rate)), rate, p99);
        let told = said(&[
            alone.clone(),
            at(50.0, Some(0.02)),
            at(100.0, Some(0.05)),
            at(200.0, Some(0.06)),
        ]);
        assert_eq!(
            told,
            [
                "With each thread running the model, up to 100 requests/s with 8 threads and 1 row per request are answered in time: \
                 the 99th percentile, 50.0 ms, is within 5 times the median of a single request, 10.0 ms."
            ]
        );
        let none = said(&[alone.clone(), at(50.0, Some(0.2))]);
        assert!(none[0].contains("at none of these rates"), "{none:?}");
        let few = said(&[alone.clone(), at(50.0, None)]);
        assert!(few[0].contains("Increase --seconds"), "{few:?}");
        let failed = Point {
            failed: 1,
            ..at(50.0, Some(0.02))
        };
        let failed = said(&[alone, failed]);
        assert!(failed[0].contains("at none of these rates"), "{failed:?}");
    }
}
