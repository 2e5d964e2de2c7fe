//! What the schedule promises, with times that are made up.

mod costs;
mod fairness;
mod model;
mod order;
mod pace;
mod times;

use std::time::{Duration, Instant};

use super::*;

const MS: Duration = Duration::from_millis(1);

/// At most so many rows, no waiting, and sizes that nothing limits.
fn limits(rows: usize) -> Limits {
    Limits {
        rows,
        wait: Duration::ZERO,
        passes: 8,
        adaptive: false,
        objective: None,
    }
}

/// Nothing waits. Tenants 1, 2 and so on have these weights.
fn schedule(limits: Limits, weights: &[f64]) -> Schedule<u32, u32> {
    let names: Vec<String> = (1..=weights.len())
        .map(|number| number.to_string())
        .collect();
    let weights = weights.iter().copied();
    let tenants = names.iter().map(String::as_str).zip(weights);
    Schedule::new(limits, Tenants::new(tenants))
}

/// One row of the nameless tenant.
fn entry(job: u32, arrived: Instant) -> Entry<u32> {
    Entry {
        job,
        rows: 1,
        bytes: 10,
        tenant: 0,
        priority: Priority::Normal,
        deadline: None,
        behind: None,
        arrived,
    }
}

/// The batch that goes next, if one can. It is over at once.
fn take(schedule: &mut Schedule<u32, u32>, now: Instant, closing: bool) -> Option<Group<u32>> {
    let group = schedule.take(now, closing)?;
    schedule.over(group.bucket, group.rows, None);
    Some(group)
}

/// The batch that goes next, which is there.
#[track_caller]
fn next(schedule: &mut Schedule<u32, u32>, now: Instant) -> Group<u32> {
    assert!(schedule.is_ready(now, false));
    take(schedule, now, false).expect("what is ready can go")
}

fn jobs(group: &Group<u32>) -> Vec<u32> {
    group.entries.iter().map(|entry| entry.job).collect()
}
