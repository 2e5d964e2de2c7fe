//! Which requests go first, and which go together.

use std::collections::BTreeSet;

use super::*;

#[test]
fn a_higher_priority_goes_first_and_the_same_in_the_order_of_coming() {
    let now = Instant::now();
    let mut schedule = schedule(limits(2), &[]);
    let priorities = [Priority::Low, Priority::Normal, Priority::High];
    for (job, priority) in priorities.into_iter().cycle().take(6).enumerate() {
        let entry = Entry {
            priority,
            ..entry(job as u32, now)
        };
        schedule.add(&0, entry);
    }
    let order: Vec<Vec<u32>> = (0..3).map(|_| jobs(&next(&mut schedule, now))).collect();
    assert_eq!(order, [[2, 5], [1, 4], [0, 3]]);
    assert!(!schedule.is_ready(now, true));
    assert!(take(&mut schedule, now, true).is_none());
}

#[test]
fn another_shape_behind_does_not_cut_a_batch() {
    let now = Instant::now();
    let mut schedule = schedule(limits(4), &[]);
    for job in 0..8 {
        schedule.add(&(job % 2), entry(job, now));
    }
    let first = next(&mut schedule, now);
    assert_eq!(
        (jobs(&first), first.reason),
        (vec![0, 2, 4, 6], Reason::Full)
    );
    let second = next(&mut schedule, now);
    assert_eq!((jobs(&second), second.rows), (vec![1, 3, 5, 7], 4));
    assert_ne!(first.bucket, second.bucket);
}

#[test]
fn a_full_batch_goes_before_an_older_one_that_is_not() {
    let now = Instant::now();
    let mut schedule = schedule(limits(2), &[]);
    schedule.add(&0, entry(0, now));
    schedule.add(&1, entry(1, now));
    schedule.add(&1, entry(2, now));
    assert_eq!(jobs(&next(&mut schedule, now)), [1, 2]);
    let last = next(&mut schedule, now);
    assert_eq!((jobs(&last), last.reason), (vec![0], Reason::Free));
}

#[test]
fn rows_fill_a_batch_and_not_requests() {
    let now = Instant::now();
    let mut schedule = schedule(limits(8), &[]);
    for (job, rows) in [3, 4, 2, 20, 1].into_iter().enumerate() {
        let entry = Entry {
            rows,
            ..entry(job as u32, now)
        };
        schedule.add(&0, entry);
    }
    assert_eq!((schedule.requests(), schedule.rows()), (5, 30));
    let sizes: Vec<(Vec<u32>, usize)> = (0..4)
        .map(|_| next(&mut schedule, now))
        .map(|group| (jobs(&group), group.rows))
        .collect();
    let expected = [(vec![0, 1], 7), (vec![2], 2), (vec![3], 20), (vec![4], 1)];
    assert_eq!(sizes, expected, "one that is too large goes alone");
}

/// One request waits while full batches of another kind go before it, as often as `passes` says.
#[test]
fn the_oldest_is_passed_over_no_more_often_than_it_may() {
    for passes in 0..4 {
        let now = Instant::now();
        let limits = Limits {
            passes,
            ..limits(2)
        };
        let mut schedule = schedule(limits, &[]);
        let low = Entry {
            priority: Priority::Low,
            ..entry(99, now)
        };
        schedule.add(&0, low);
        for job in 0..20 {
            schedule.add(&1, entry(job, now));
        }
        for passed in 0..passes {
            assert_eq!(
                jobs(&next(&mut schedule, now)),
                [2 * passed, 2 * passed + 1]
            );
        }
        let group = next(&mut schedule, now);
        assert_eq!((jobs(&group), group.reason), (vec![99], Reason::PassedOver));
    }
}

#[test]
fn who_was_passed_over_leads_a_batch_that_others_fill() {
    let now = Instant::now();
    let limits = Limits {
        passes: 1,
        ..limits(3)
    };
    let mut schedule = schedule(limits, &[]);
    let low = Entry {
        priority: Priority::Low,
        ..entry(99, now)
    };
    schedule.add(&0, low);
    for job in 0..6 {
        schedule.add(&0, entry(job, now));
    }
    let order: Vec<Vec<u32>> = (0..3).map(|_| jobs(&next(&mut schedule, now))).collect();
    assert_eq!(order, [vec![0, 1, 2], vec![99, 3, 4], vec![5]]);
}

/// Those of the same priority go before it, also those that come later, and it is not passed over: it waits for none of another.
#[test]
fn who_went_behind_the_others_is_served_when_none_of_them_waits() {
    let now = Instant::now();
    let mut schedule = schedule(limits(1), &[]);
    let late = |job, priority, ms: u32| Entry {
        priority,
        behind: Some(now + ms * MS),
        ..entry(job, now)
    };
    let ids = [
        schedule.add(&0, late(90, Priority::Normal, 5)),
        schedule.add(&0, late(91, Priority::Normal, 3)),
        schedule.add(&0, late(92, Priority::Normal, 3)),
        schedule.add(&0, late(93, Priority::Normal, 6)),
    ];
    let low = Entry {
        priority: Priority::Low,
        ..entry(99, now)
    };
    schedule.add(&1, low);
    assert_eq!(jobs(&next(&mut schedule, now)), [90], "it is not late");
    let now = now + 5 * MS;
    for job in 0..7 {
        schedule.add(&(job % 2), entry(job, now));
    }
    // Who is not late goes first, and before all that come later; the oldest that is not late leads when it was passed over.
    let order = |schedule: &mut Schedule<u32, u32>, now| jobs(&next(schedule, now))[0];
    assert_eq!(order(&mut schedule, now), 93);
    assert!(schedule.holds(ids[1]) && schedule.holds(ids[2]));
    assert_eq!(schedule.oldest_arrival(), Some(now - 5 * MS));
    let first: Vec<u32> = (0..7).map(|_| order(&mut schedule, now)).collect();
    assert_eq!(first, [0, 1, 2, 3, 4, 5, 6]);
    assert_eq!(schedule.remove(ids[1]).map(|entry| entry.job), Some(91));
    schedule.add(&0, entry(7, now));
    let rest: Vec<u32> = (0..3).map(|_| order(&mut schedule, now)).collect();
    assert_eq!(rest, [7, 99, 92]);
    assert_eq!(schedule.waiting_of(Priority::Normal), (0, 0));
}

/// Once the oldest is given up, the next oldest has its own count.
#[test]
fn passes_are_counted_for_one_request_only() {
    let now = Instant::now();
    let limits = Limits {
        passes: 2,
        ..limits(1)
    };
    let mut schedule = schedule(limits, &[]);
    let low = |job| Entry {
        priority: Priority::Low,
        ..entry(job, now)
    };
    let first = schedule.add(&0, low(98));
    schedule.add(&0, low(99));
    for job in 0..9 {
        schedule.add(&1, entry(job, now));
    }
    assert_eq!(jobs(&next(&mut schedule, now)), [0]);
    assert_eq!(jobs(&next(&mut schedule, now)), [1]);
    assert_eq!(schedule.remove(first).map(|entry| entry.job), Some(98));
    assert!(schedule.remove(first).is_none(), "it is gone");
    let order: Vec<Vec<u32>> = (0..3).map(|_| jobs(&next(&mut schedule, now))).collect();
    assert_eq!(order, [[2], [3], [99]]);
}

#[test]
fn kinds_beyond_those_that_are_remembered_are_served_all_the_same() {
    let now = Instant::now();
    let mut schedule = schedule(limits(2), &[]);
    // One after the other: those that wait no more are forgotten.
    for kind in 0..3 * MOST_BUCKETS as u32 {
        schedule.add(&kind, entry(kind, now));
        assert_eq!(jobs(&next(&mut schedule, now)), [kind]);
    }
    // All at once: none that waits is forgotten, and none of another kind is among them.
    let kinds = 2 * MOST_BUCKETS as u32;
    let ids: Vec<Id> = (0..2 * kinds)
        .map(|job| schedule.add(&(job % kinds), entry(job, now)))
        .collect();
    assert_eq!(schedule.remove(ids[7]).map(|entry| entry.job), Some(7));
    let mut seen = BTreeSet::from([7]);
    while let Some(group) = take(&mut schedule, now, false) {
        let one_kind = group
            .entries
            .iter()
            .all(|entry| entry.job % kinds == group.entries[0].job % kinds);
        assert!(one_kind, "{group:?}");
        seen.extend(jobs(&group));
    }
    assert!(seen.into_iter().eq(0..2 * kinds));
    assert_eq!(
        (schedule.requests(), schedule.rows(), schedule.bytes()),
        (0, 0, 0)
    );
}

#[test]
fn what_many_kinds_took_up_is_given_back() {
    let now = Instant::now();
    let mut schedule = schedule(limits(2), &[]);
    for kind in 0..20 * MOST_BUCKETS as u32 {
        schedule.add(&kind, entry(kind, now));
    }
    assert_eq!(schedule.waiting.len(), 20 * MOST_BUCKETS);
    while take(&mut schedule, now, false).is_some() {}
    assert!(schedule.waiting.is_empty());
    assert_eq!(schedule.buckets.len(), MOST_BUCKETS);
    assert_eq!(schedule.kinds.len(), MOST_BUCKETS);
    // Nor is a kind of which a batch runs forgotten, until that is over.
    for kind in 0..=MOST_BUCKETS as u32 {
        schedule.add(&(10_000 + kind), entry(kind, now));
    }
    let running: Vec<_> = std::iter::from_fn(|| schedule.take(now, false)).collect();
    assert_eq!(schedule.buckets.len(), MOST_BUCKETS + 1);
    for group in running {
        schedule.over(group.bucket, group.rows, None);
    }
    assert_eq!(schedule.buckets.len(), MOST_BUCKETS);
    // Who asks for what is forgotten finds nothing.
    let id = schedule.add(&7, entry(7, now));
    let gone = Id { bucket: 9999, ..id };
    assert!(!schedule.holds(gone) && schedule.remove(gone).is_none());
    assert!(schedule.holds(id));
}
