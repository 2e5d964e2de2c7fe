//! Many intervals in a few figures.

use std::time::{Duration, Instant};

/// How often something ran, and for how long.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Summary {
    /// How often.
    pub count: usize,
    /// All times together.
    pub total: Duration,
    /// The shortest.
    pub min: Duration,
    /// The one in the middle; of an even count, the mean of the two there.
    pub median: Duration,
    /// The longest.
    pub max: Duration,
    /// The fraction of the profile's duration during which at least one was running.
    pub busy: f64,
}

impl Summary {
    /// The summary of these begins and ends, sorted by begin, within a profile of this duration; `None` of
    /// nothing. An end before its begin counts as no time.
    pub(super) fn of(times: &[(Instant, Instant)], duration: Duration) -> Option<Summary> {
        let mut lengths: Vec<Duration> = times
            .iter()
            .map(|(begin, end)| end.saturating_duration_since(*begin))
            .collect();
        lengths.sort_unstable();
        let (&min, &max) = (lengths.first()?, lengths.last()?);
        let (below, above) = (lengths[(lengths.len() - 1) / 2], lengths[lengths.len() / 2]);
        let busy = if duration.is_zero() {
            0.0
        } else {
            covered(times).as_secs_f64() / duration.as_secs_f64()
        };
        Some(Summary {
            count: lengths.len(),
            total: lengths.iter().sum(),
            min,
            median: below + (above - below) / 2,
            max,
            busy,
        })
    }
}

/// The time during which at least one of these, sorted by begin, was running.
fn covered(times: &[(Instant, Instant)]) -> Duration {
    let mut covered = Duration::ZERO;
    let mut until: Option<Instant> = None;
    for &(begin, end) in times {
        let from = until.map_or(begin, |until| begin.max(until));
        covered += end.saturating_duration_since(from);
        until = Some(until.map_or(end, |until| end.max(until)));
    }
    covered
}

#[cfg(test)]
mod tests {
    use streampool_device::{Interval, OpKind, Trace};

    use super::super::Profiler;
    use super::*;

    const fn us(count: u64) -> Duration {
        Duration::from_micros(count)
    }

    #[test]
    fn figures_of_a_known_profile() {
        let start = Instant::now();
        let profiler = Profiler::new(100);
        // Recorded in no order; stream 3's last two overlap by 5 µs.
        for (queue, op, begin, end) in [
            (3, OpKind::Map, 50, 65),
            (3, OpKind::MatMul, 60, 80),
            (3, OpKind::Map, 0, 10),
            (9, OpKind::Map, 0, 100),
        ] {
            profiler.op(Interval {
                queue,
                tick: 1,
                op,
                begin: start + us(begin),
                end: start + us(end),
            });
        }
        let profile = profiler.finish("host");
        assert_eq!(profile.duration(), us(100));

        let streams = profile.per_stream();
        assert_eq!(streams.iter().map(|s| s.0).collect::<Vec<_>>(), [3, 9]);
        let third = streams[0].1;
        assert_eq!((third.count, third.total), (3, us(45)));
        assert_eq!(
            (third.min, third.median, third.max),
            (us(10), us(15), us(20))
        );
        assert!((third.busy - 0.4).abs() < 1e-9, "{}", third.busy);
        assert!((streams[1].1.busy - 1.0).abs() < 1e-9);

        let ops = profile.per_op();
        assert_eq!(
            ops.iter().map(|s| (s.0, s.1.count)).collect::<Vec<_>>(),
            [(OpKind::Map, 3), (OpKind::MatMul, 1)]
        );
        assert_eq!(ops[0].1.total, us(125));
        assert!((ops[0].1.busy - 1.0).abs() < 1e-9, "{}", ops[0].1.busy);
    }

    #[test]
    fn even_counts_enclosed_intervals_and_clocks_that_go_back() {
        let start = Instant::now() + us(1000);
        let at = |offset| start + us(offset);
        let times = [
            (at(0), at(10)),
            (at(2), at(6)),
            (at(8), at(3)),
            (at(8), at(14)),
        ];
        let summary = Summary::of(&times, us(28)).unwrap();
        assert_eq!((summary.count, summary.total), (4, us(20)));
        assert_eq!((summary.min, summary.median), (us(0), us(5)));
        assert!((summary.busy - 0.5).abs() < 1e-9, "{}", summary.busy);
        assert_eq!(Summary::of(&[], us(1)), None);
        let empty = Summary::of(&[(start, start)], Duration::ZERO).unwrap();
        assert_eq!(empty.busy, 0.0);
    }
}
