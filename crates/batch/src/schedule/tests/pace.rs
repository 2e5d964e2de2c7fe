//! The pace of a tenant that has much waiting.

use super::*;

/// Two lanes, batches of 4 rows that take 8 ms, and much of tenant 1.
fn crowded(now: Instant) -> Schedule<u32, u32> {
    let mut schedule = schedule(limits(4), &[1.0, 1.0]);
    schedule.on_lanes(2);
    schedule.learn_of(&0, 4, 8 * MS);
    for job in 0..100 {
        schedule.add(&0, of(1, job, now));
    }
    schedule
}

fn of(tenant: TenantId, job: u32, now: Instant) -> Entry<u32> {
    Entry {
        tenant,
        ..entry(job, now)
    }
}

#[test]
fn lanes_begin_one_after_the_other_while_somebody_may_come() {
    let now = Instant::now();
    let mut schedule = crowded(now);
    schedule.add(&0, of(2, 100, now));
    assert!(jobs(&next(&mut schedule, now)).contains(&100));
    // It may come again: half of a batch's time and an eighth go by between two batches of the other.
    let due = now + 8 * MS * 5 / 8;
    assert!(!schedule.is_ready(due - MS, false));
    assert_eq!(schedule.paced_until(now), Some(due));
    // It finds a lane free.
    schedule.add(&0, of(2, 101, now));
    assert!(jobs(&next(&mut schedule, now + MS)).contains(&101));
    let due = due + MS;
    assert_eq!(schedule.paced_until(now), Some(due));
    assert_eq!(next(&mut schedule, due).reason, Reason::Full);
    assert!(!schedule.is_ready(due, false));
    assert!(schedule.is_ready(due, true), "a close waits for nobody");
}

#[test]
fn who_is_alone_or_has_little_waiting_keeps_no_distance() {
    let now = Instant::now();
    let mut alone = crowded(now);
    for _ in 0..3 {
        next(&mut alone, now);
    }
    let mut little = crowded(now);
    little.add(&1, of(2, 100, now));
    while little.rows() > 4 {
        assert!(take(&mut little, now, true).is_some());
    }
    assert!(little.is_ready(now, false));
    // Who has not come for long is not waited for.
    let mut long = crowded(now);
    long.add(&0, of(2, 100, now));
    let mut at = now;
    for job in 0..130 {
        at += 5 * MS;
        next(&mut long, at);
        for _ in 0..4 {
            long.add(&0, of(1, job, now));
        }
    }
    assert_eq!(long.paced_until(at), None);
}

#[test]
fn the_distance_is_of_batches_and_what_their_lanes_are_taken_for_beside() {
    let now = Instant::now();
    let mut schedule = crowded(now);
    schedule.add(&0, of(2, 100, now));
    // Its answers take as long to be given as the batch takes to run.
    (0..100).for_each(|_| schedule.held(8 * MS));
    assert!(jobs(&next(&mut schedule, now)).contains(&100));
    let due = schedule.paced_until(now).unwrap();
    assert!(due > now + 9 * MS && due <= now + 10 * MS);
}
