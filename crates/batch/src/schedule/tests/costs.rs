//! How large batches become, for durations that are made up.

use super::*;

/// Requests of one row, always more than a batch takes, and batches that take what a function says.
struct Saturated {
    schedule: Schedule<u32, u32>,
    now: Instant,
}

/// Seconds by rows.
type Cost = fn(f64) -> f64;

const LINEAR: Cost = |rows| 1e-3 * rows;
const FIXED: Cost = |_| 1e-3;

impl Saturated {
    /// After requests that came one at a time, as they do at first.
    fn new(limits: Limits, cost: Cost) -> Saturated {
        let mut saturated = Saturated {
            schedule: schedule(limits, &[]),
            now: Instant::now(),
        };
        for _ in 0..4 {
            saturated.schedule.add(&0, entry(0, saturated.now));
            saturated.serve(cost);
        }
        saturated
    }

    fn serve(&mut self, cost: Cost) -> (usize, Reason) {
        let group = next(&mut self.schedule, self.now);
        let took = Duration::from_secs_f64(cost(group.rows as f64));
        self.schedule.learn_of(&0, group.rows, took);
        self.now += took;
        (group.rows, group.reason)
    }

    /// The sizes of so many batches, one after the other.
    fn sizes(&mut self, batches: usize, cost: Cost) -> Vec<usize> {
        let more = 2 * self.schedule.limits.rows;
        let size = |_| {
            while self.schedule.requests() < more {
                self.schedule.add(&0, entry(0, self.now));
            }
            self.serve(cost).0
        };
        (0..batches).map(size).collect()
    }

    /// The size of nearly all batches after so many; now and then the next larger one is tried.
    #[track_caller]
    fn settled(&mut self, after: usize, cost: Cost) -> usize {
        self.sizes(after, cost);
        let sizes = self.sizes(200, cost);
        let mut sorted = sizes.clone();
        sorted.sort_unstable();
        let usual = sorted[100];
        let others = sizes.iter().filter(|&&size| size != usual);
        assert!(others.clone().all(|&size| size == 2 * usual), "{sizes:?}");
        assert!(others.count() <= sizes.len() / 10, "{sizes:?}");
        usual
    }
}

fn adaptive(rows: usize) -> Limits {
    Limits {
        adaptive: true,
        ..limits(rows)
    }
}

#[test]
fn batches_are_as_large_as_pays() {
    let cases: [(&str, Cost, usize); 5] = [
        ("each row takes its time", LINEAR, 1),
        ("all rows take the time of one", FIXED, 32),
        (
            "larger ones take longer for each",
            |rows| 1e-3 * rows.powf(1.2),
            1,
        ),
        (
            "a fixed time and a little for each",
            |rows| 1e-3 + 1e-4 * rows,
            32,
        ),
        (
            "eight run side by side",
            |rows| 1e-3 * (rows / 8.0).ceil(),
            8,
        ),
    ];
    for (what, cost, size) in cases {
        let got = Saturated::new(adaptive(32), cost).settled(100, cost);
        assert_eq!(got, size, "{what}");
    }
}

#[test]
fn a_gain_of_a_few_hundredths_is_no_reason_for_larger_batches() {
    // Of 256 rows each takes 0.0539 ms, and of 512 each takes 0.0520.
    let cost: Cost = |rows| 1e-3 + 5e-5 * rows;
    assert_eq!(Saturated::new(adaptive(512), cost).settled(100, cost), 256);
}

#[test]
fn sizes_are_tried_one_after_the_other() {
    let sizes = Saturated::new(adaptive(32), FIXED).sizes(7, FIXED);
    assert_eq!(sizes, [2, 4, 8, 16, 32, 32, 32]);
    let sizes = Saturated::new(adaptive(12), LINEAR).sizes(7, LINEAR);
    assert_eq!(sizes, [2, 4, 8, 12, 1, 1, 1], "also where they do not pay");
}

#[test]
fn what_costs_is_learned_anew_when_it_changes() {
    let mut saturated = Saturated::new(adaptive(32), FIXED);
    assert_eq!(saturated.settled(100, FIXED), 32);
    // Dearer than small ones ever were.
    let dear: Cost = |rows| 2e-3 * rows;
    let size = saturated.settled(1000, dear);
    assert!(size <= 2, "{size}");
    assert_eq!(saturated.settled(2000, FIXED), 32);
}

#[test]
fn a_few_slow_batches_change_nothing() {
    let mut saturated = Saturated::new(adaptive(32), FIXED);
    saturated.sizes(100, FIXED);
    for _ in 0..10 {
        saturated.sizes(1, |_| 1.0);
        assert_eq!(saturated.sizes(7, FIXED), [32; 7]);
    }
}

#[test]
fn why_a_batch_is_small_is_told() {
    let mut saturated = Saturated::new(adaptive(32), LINEAR);
    saturated.sizes(20, LINEAR);
    let small = (1, Reason::NoGain);
    assert!((0..2).any(|_| saturated.serve(LINEAR) == small));
    saturated.schedule.clear();
    saturated.schedule.add(&0, entry(0, saturated.now));
    assert_eq!(saturated.serve(LINEAR), (1, Reason::Free));
}

#[test]
fn an_objective_keeps_batches_within_its_time() {
    let limits = Limits {
        objective: Some(10 * MS),
        ..limits(32)
    };
    let mut saturated = Saturated::new(limits, LINEAR);
    // All have come just now, whenever a batch goes.
    let mut serve = |waited: Duration| {
        saturated.schedule.clear();
        let arrived = saturated.now;
        for _ in 0..64 {
            saturated.schedule.add(&0, entry(0, arrived));
        }
        saturated.now += waited;
        saturated.serve(LINEAR)
    };
    for size in [2, 4, 8, 16] {
        assert_eq!(serve(Duration::ZERO).0, size, "it is tried");
    }
    // 16 took too long, and so 32 are not tried.
    assert_eq!(serve(Duration::ZERO), (8, Reason::Objective));
    assert_eq!(serve(7 * MS), (2, Reason::Objective));
    // Nothing helps any more, and small batches would make it worse for all.
    assert_eq!(serve(9 * MS + MS / 2), (32, Reason::Full));
}

#[test]
fn what_waits_is_estimated_by_what_was_learned() {
    let now = Instant::now();
    let mut schedule = schedule(limits(8), &[]);
    schedule.add(&0, entry(0, now));
    assert_eq!(schedule.backlog(), Duration::ZERO, "nothing is known");
    next(&mut schedule, now);
    schedule.learn_of(&0, 8, 16 * MS);
    for job in 0..20 {
        schedule.add(&0, entry(job, now));
    }
    let backlog = schedule.backlog();
    assert!(backlog.abs_diff(40 * MS) < MS / 10, "{backlog:?}");
    // Five of a higher priority are over when a fifth of all is.
    for job in 20..25 {
        let high = Priority::High;
        schedule.add(
            &0,
            Entry {
                priority: high,
                ..entry(job, now)
            },
        );
    }
    let [high, normal, all] = [Priority::High, Priority::Normal, Priority::Low]
        .map(|priority| schedule.backlog_until(priority));
    assert!(high.abs_diff(10 * MS) < MS / 10, "{high:?}");
    assert_eq!([normal, all], [schedule.backlog(); 2]);
}

#[test]
fn kinds_learn_by_themselves() {
    let now = Instant::now();
    let mut schedule = schedule(adaptive(4), &[]);
    for _ in 0..4 {
        for kind in [0, 1] {
            for rows in [1, 2, 4] {
                for job in 0..rows {
                    schedule.add(&kind, entry(job, now));
                }
                let group = take(&mut schedule, now, false).unwrap();
                let took = if kind == 0 {
                    MS
                } else {
                    group.rows as u32 * MS
                };
                schedule.learn_of(&kind, group.rows, took);
                schedule.clear();
            }
        }
    }
    for (kind, rows) in [(0, 4), (1, 1)] {
        for job in 0..4 {
            schedule.add(&kind, entry(job, now));
        }
        assert_eq!(next(&mut schedule, now).rows, rows);
        schedule.clear();
    }
}
