//! Deadlines, and waiting for others.

use super::*;

fn waiting(wait: Duration, rows: usize) -> Schedule<u32, u32> {
    let limits = Limits {
        wait,
        ..limits(rows)
    };
    schedule(limits, &[])
}

#[test]
fn a_request_waits_for_others_and_no_longer_than_it_should() {
    let begun = Instant::now();
    let mut schedule = waiting(10 * MS, 4);
    schedule.add(&0, entry(0, begun));
    schedule.add(&0, entry(1, begun + 9 * MS));
    assert_eq!(schedule.next_time(begun), Some(begun + 10 * MS));
    let early = begun + 10 * MS - Duration::from_nanos(1);
    assert!(!schedule.is_ready(early, false));
    assert!(take(&mut schedule, early, false).is_none());
    let group = next(&mut schedule, begun + 10 * MS);
    assert_eq!((jobs(&group), group.reason), (vec![0, 1], Reason::Waited));
    assert_eq!(schedule.next_time(begun), None);
}

#[test]
fn what_is_full_or_the_last_does_not_wait() {
    let now = Instant::now();
    let mut schedule = waiting(10 * MS, 2);
    schedule.add(&0, entry(0, now));
    schedule.add(&1, entry(1, now));
    schedule.add(&1, entry(2, now));
    let full = next(&mut schedule, now);
    assert_eq!((jobs(&full), full.reason), (vec![1, 2], Reason::Full));
    assert!(take(&mut schedule, now, false).is_none());
    assert!(schedule.is_ready(now, true));
    let last = take(&mut schedule, now, true).expect("the queue is being closed");
    assert_eq!((jobs(&last), last.reason), (vec![0], Reason::Closing));
}

#[test]
fn nobody_waits_for_what_does_not_pay() {
    let now = Instant::now();
    let limits = Limits {
        adaptive: true,
        wait: 10 * MS,
        ..limits(8)
    };
    let mut schedule = schedule(limits, &[]);
    schedule.add(&0, entry(0, now));
    assert!(!schedule.is_ready(now, false), "nothing is known");
    next(&mut schedule, now + 10 * MS);
    schedule.learn_of(&0, 1, MS);
    schedule.learn_of(&0, 2, 2 * MS);
    schedule.add(&0, entry(1, now));
    assert_eq!(jobs(&next(&mut schedule, now)), [1]);
    for _ in 0..8 {
        schedule.learn_of(&0, 2, MS);
    }
    schedule.add(&0, entry(2, now));
    assert!(!schedule.is_ready(now, false), "two pay");
}

#[test]
fn what_has_expired_comes_out_by_its_deadline_and_only_that() {
    let begun = Instant::now();
    let mut schedule = waiting(Duration::ZERO, 4);
    for (job, deadline) in [Some(5), None, Some(3), Some(9)].into_iter().enumerate() {
        let entry = Entry {
            deadline: deadline.map(|ms| begun + ms * MS),
            ..entry(job as u32, begun)
        };
        schedule.add(&(job as u32 % 2), entry);
    }
    assert_eq!(schedule.next_time(begun), Some(begun + 3 * MS));
    assert!(schedule.expired(begun + 2 * MS).is_empty());
    let expired: Vec<u32> = schedule
        .expired(begun + 5 * MS)
        .iter()
        .map(|entry| entry.job)
        .collect();
    assert_eq!(expired, [2, 0]);
    assert_eq!((schedule.requests(), schedule.bytes()), (2, 20));
    assert_eq!(schedule.next_time(begun), Some(begun + 9 * MS));
    // What goes has no deadline any more.
    while take(&mut schedule, begun + 6 * MS, false).is_some() {}
    assert_eq!(schedule.next_time(begun), None);
    assert!(schedule.expired(begun + 10 * MS).is_empty());
}

#[test]
fn the_next_time_is_that_of_the_first_thing_to_happen() {
    let begun = Instant::now();
    let mut schedule = waiting(10 * MS, 4);
    assert_eq!(schedule.next_time(begun), None);
    let late = Entry {
        deadline: Some(begun + 20 * MS),
        ..entry(0, begun + MS)
    };
    let id = schedule.add(&0, late);
    schedule.add(&1, entry(1, begun + 5 * MS));
    assert_eq!(schedule.next_time(begun), Some(begun + 11 * MS));
    // What is due already needs nobody to wake for it.
    assert_eq!(schedule.next_time(begun + 12 * MS), Some(begun + 15 * MS));
    assert_eq!(schedule.next_time(begun + 16 * MS), Some(begun + 20 * MS));
    schedule.remove(id);
    assert_eq!(schedule.next_time(begun), Some(begun + 15 * MS));
    assert_eq!(schedule.clear().len(), 1);
    assert_eq!(schedule.next_time(begun), None);
}

#[test]
fn nobody_waits_for_others_until_it_is_too_late() {
    let begun = Instant::now();
    let hasty = |job| Entry {
        deadline: Some(begun + 40 * MS),
        ..entry(job, begun)
    };
    let mut schedule = waiting(100 * MS, 4);
    schedule.add(&0, entry(0, begun));
    schedule.add(&0, hasty(1));
    // Nothing is known of how long it takes: a quarter of the time is left for it.
    assert_eq!(schedule.next_time(begun), Some(begun + 30 * MS));
    assert!(!schedule.is_ready(begun + 29 * MS, false));
    let group = next(&mut schedule, begun + 30 * MS);
    assert_eq!((jobs(&group), group.reason), (vec![0, 1], Reason::Waited));
    // What it takes is known, and is left twice.
    schedule.learn_of(&0, 1, 15 * MS);
    schedule.add(&0, hasty(2));
    assert_eq!(schedule.next_time(begun), Some(begun + 10 * MS));
    assert_eq!(jobs(&next(&mut schedule, begun + 10 * MS)), [2]);
}

#[test]
fn an_objective_bounds_the_wait() {
    let begun = Instant::now();
    let limits = Limits {
        wait: 100 * MS,
        objective: Some(8 * MS),
        ..limits(4)
    };
    let mut schedule = schedule(limits, &[]);
    schedule.add(&0, entry(0, begun));
    assert_eq!(schedule.next_time(begun), Some(begun + 6 * MS));
    assert!(!schedule.is_ready(begun + 5 * MS, false));
    assert_eq!(jobs(&next(&mut schedule, begun + 6 * MS)), [0]);
}

#[test]
fn what_is_urgent_waits_for_nobody() {
    let now = Instant::now();
    let mut schedule = waiting(100 * MS, 4);
    schedule.add(&0, entry(0, now));
    assert!(!schedule.is_ready(now, false));
    let urgent = Entry {
        priority: Priority::High,
        ..entry(1, now)
    };
    schedule.add(&0, urgent);
    assert_eq!(jobs(&next(&mut schedule, now)), [1, 0]);
}

#[test]
fn a_wait_beyond_all_time_is_one_without_end() {
    let now = Instant::now();
    let mut schedule = waiting(Duration::MAX, 2);
    schedule.add(&0, entry(0, now));
    assert_eq!(schedule.next_time(now), None);
    assert!(!schedule.is_ready(now + 1_000_000 * MS, false));
    schedule.add(&0, entry(1, now));
    assert_eq!(jobs(&next(&mut schedule, now)), [0, 1]);
}
