//! Shares of tenants.

use proptest::prelude::*;

use super::*;

/// Rows that each of tenants 1 and 2 got, in the course of batches.
struct Served {
    schedule: Schedule<u32, u32>,
    now: Instant,
    rows: [usize; 2],
    /// How many of their requests wait.
    waiting: [usize; 2],
}

impl Served {
    fn new(weights: &[f64; 2], rows: usize) -> Served {
        let limits = Limits {
            passes: u32::MAX,
            ..limits(rows)
        };
        Served {
            schedule: schedule(limits, weights),
            now: Instant::now(),
            rows: [0; 2],
            waiting: [0; 2],
        }
    }

    fn add(&mut self, tenant: TenantId, rows: usize) {
        self.enter(Entry {
            tenant,
            rows,
            ..entry(0, self.now)
        });
    }

    fn enter(&mut self, entry: Entry<u32>) {
        self.waiting[entry.tenant - 1] += 1;
        self.schedule.add(&0, entry);
    }

    fn serve(&mut self) -> Group<u32> {
        let group = next(&mut self.schedule, self.now);
        for entry in &group.entries {
            self.rows[entry.tenant - 1] += entry.rows;
            self.waiting[entry.tenant - 1] -= 1;
        }
        group
    }

    /// How far the first is ahead, in rows of weight 1.
    fn ahead(&self, weights: &[f64; 2]) -> f64 {
        self.rows[0] as f64 / weights[0] - self.rows[1] as f64 / weights[1]
    }
}

proptest! {
    #![proptest_config(model::cases(200))]

    /// Whatever the weights, and however many rows a request has, nobody is further ahead than one request.
    #[test]
    fn who_always_has_requests_gets_a_share_by_weight(
        weights in (0.1..20.0f64, 0.1..20.0f64),
        sizes in prop::collection::vec((1usize..5, 1usize..5), 1..20),
        batch in 1usize..40,
    ) {
        let weights = [weights.0, weights.1];
        let mut served = Served::new(&weights, batch);
        let most = |tenant: usize| sizes.iter().map(|&(a, b)| [a, b][tenant]).max().unwrap_or(0) as f64;
        let bound = most(0) / weights[0] + most(1) / weights[1];
        let mut sizes = sizes.iter().cycle();
        for _ in 0..300 {
            while served.waiting.iter().any(|&waiting| waiting < batch) {
                let &(first, second) = sizes.next().unwrap();
                for (tenant, rows) in [(1, first), (2, second)] {
                    if served.waiting[tenant - 1] < batch {
                        served.add(tenant, rows);
                    }
                }
            }
            served.serve();
            let ahead = served.ahead(&weights);
            prop_assert!(ahead.abs() <= bound + 1e-3, "{ahead} for {bound}");
        }
    }
}

#[test]
fn a_batch_that_takes_a_late_turn_along_costs_others_none() {
    let now = Instant::now();
    let mut schedule = schedule(limits(2), &[1.0, 1.0]);
    let of = |tenant, job| Entry {
        tenant,
        ..entry(job, now)
    };
    // The last request of the first kind goes with the first, though a hundred of another are before it.
    schedule.add(&0, of(1, 0));
    for _ in 0..100 {
        schedule.add(&1, of(1, 0));
    }
    schedule.add(&0, of(1, 0));
    assert_eq!(next(&mut schedule, now).rows, 2);
    // Who sends one at a time has a turn at each of the other's.
    for request in 1..=20 {
        schedule.add(&2, of(2, request));
        let served = (0..2).find(|_| jobs(&next(&mut schedule, now)) == [request]);
        assert!(served.is_some(), "request {request} waits");
    }
}

#[test]
fn a_thousand_requests_of_one_do_not_hold_up_another() {
    let mut served = Served::new(&[1.0, 1.0], 4);
    for _ in 0..1000 {
        served.add(1, 1);
    }
    for _ in 0..50 {
        served.serve();
    }
    served.add(2, 1);
    served.serve();
    assert_eq!(served.rows[1], 1, "it is in the very next batch");
}

/// Full batches of the one go first, but not for long.
#[test]
fn a_thousand_requests_of_one_kind_do_not_hold_up_another_kind() {
    let now = Instant::now();
    let mut schedule = schedule(limits(8), &[1.0, 1.0]);
    let of = |tenant, job| Entry {
        tenant,
        ..entry(job, now)
    };
    for job in 0..1000 {
        schedule.add(&0, of(1, job));
    }
    for _ in 0..10 {
        next(&mut schedule, now);
    }
    schedule.add(&1, of(2, 1000));
    let batches = (0..10).map(|_| jobs(&next(&mut schedule, now)));
    let at = batches.into_iter().position(|jobs| jobs == [1000]);
    assert!(at <= Some(2), "{at:?}");
}

#[test]
fn shares_hold_between_kinds() {
    let now = Instant::now();
    let mut schedule = schedule(limits(8), &[1.0, 10.0]);
    let mut rows = [0; 3];
    let of = |tenant, job| Entry {
        tenant,
        ..entry(job, now)
    };
    // The first has much waiting; the second has never more than three, which fill no batch.
    for job in 0..4000 {
        schedule.add(&0, of(1, job));
    }
    for round in 0..200 {
        for job in 0..3 {
            schedule.add(&1, of(2, 10_000 + 3 * round + job));
        }
        loop {
            let group = next(&mut schedule, now);
            let tenant = group.entries[0].tenant;
            rows[tenant] += group.rows;
            if tenant == 2 {
                break;
            }
        }
    }
    // It is behind by no more than the batch that may go first.
    assert!(rows[1] <= 2 * 8 * 200, "{rows:?}");
    assert_eq!(rows[2], 600);
}

/// One of many goes before its turn, because it is urgent. That does not put off who comes later.
#[test]
fn what_is_urgent_does_not_move_the_queue_on() {
    let mut served = Served::new(&[1.0, 1.0], 1);
    for _ in 0..300 {
        served.add(1, 1);
    }
    served.enter(Entry {
        tenant: 1,
        rows: 1,
        priority: Priority::High,
        ..entry(0, served.now)
    });
    served.serve();
    served.add(2, 1);
    let gone = (0..3).map(|_| served.serve().entries[0].tenant);
    assert!(gone.into_iter().any(|tenant| tenant == 2));
}

#[test]
fn who_comes_back_gets_no_credit_for_idling() {
    let weights = [1.0, 1.0];
    let mut served = Served::new(&weights, 4);
    served.add(2, 1);
    served.serve();
    for _ in 0..1000 {
        served.add(1, 1);
    }
    for _ in 0..100 {
        served.serve();
    }
    served.rows = [0; 2];
    for _ in 0..300 {
        served.add(2, 1);
    }
    for _ in 0..100 {
        served.serve();
        assert!(served.ahead(&weights).abs() <= 2.0, "{:?}", served.rows);
    }
}

/// One asks for ten times what there is, and most of that expires; what does not run does not count against it.
#[test]
fn what_never_ran_is_not_paid_for() {
    let mut served = Served::new(&[1.0, 1.0], 4);
    for _ in 0..500 {
        while served.waiting[1] < 10 {
            served.add(2, 1);
        }
        for _ in 0..40 {
            served.enter(Entry {
                tenant: 1,
                deadline: Some(served.now + 5 * MS),
                ..entry(0, served.now)
            });
        }
        served.serve();
        served.now += MS;
        served.waiting[0] -= served.schedule.expired(served.now).len();
    }
    // A little less than half, for what has come last expires last.
    let [hasty, patient] = served.rows;
    assert_eq!(hasty + patient, 2000);
    assert!((800..=1000).contains(&hasty), "{hasty}");
}

#[test]
fn priorities_come_before_shares() {
    let mut served = Served::new(&[1.0, 100.0], 1);
    for _ in 0..10 {
        served.add(2, 1);
    }
    served.enter(Entry {
        tenant: 1,
        rows: 5,
        priority: Priority::High,
        ..entry(0, served.now)
    });
    assert_eq!(served.serve().rows, 5);
}

#[test]
fn names_are_told_apart_until_there_are_too_many() {
    let mut tenants = Tenants::new([("a", 2.0), ("a", 3.0)]);
    let (a, b) = (tenants.named("a"), tenants.named("b"));
    assert_eq!((a, b, tenants.named("")), (1, 2, 0));
    assert_eq!(&**tenants.name(b), "b");
    // The last weight that was said counts.
    let turns = [
        tenants.turn(a, Priority::Normal, 3),
        tenants.turn(a, Priority::Normal, 3),
        tenants.turn(b, Priority::Normal, 1),
        tenants.turn(b, Priority::Normal, 1),
    ];
    assert_eq!(turns[1], turns[3]);
    let many: Vec<TenantId> = (0..2000)
        .map(|name| tenants.named(&name.to_string()))
        .collect();
    assert_eq!(many[0], 3);
    assert_eq!(many[1999], 0, "they share the nameless account");
    assert_eq!(tenants.named("0"), 3);
}

/// What it takes counts a thousand times. However long that goes on, turns tell who is next.
#[test]
fn a_tenant_of_tiny_weight_does_not_use_up_the_turns() {
    let mut served = Served::new(&[0.001, 1.0], 1);
    for _ in 0..2 {
        served.add(1, 1 << 35);
        served.serve();
    }
    for _ in 0..100 {
        served.add(1, 1);
    }
    served.add(2, 1);
    assert_eq!(served.serve().entries[0].tenant, 2);
}

/// Of the room, too: those who have something waiting share it, and one more who may come.
#[test]
fn room_is_shared_by_weight() {
    let mut tenants = Tenants::new([("a", 3.0), ("b", 1.0)]);
    let now = Instant::now();
    let of = |tenant| Entry {
        tenant,
        ..entry(0, now)
    };
    let mut fill = |tenant, requests, bytes| {
        let mut count = 0;
        while tenants.is_within_share(tenant, requests, bytes) {
            tenants.came(&of(tenant), 0);
            count += 1;
        }
        count
    };
    assert_eq!(fill(2, 100, usize::MAX), 50, "one more may come");
    assert_eq!(fill(1, 100, usize::MAX), 60, "three of five parts");
    assert_eq!(fill(2, 1000, 6000), 70, "of the bytes, each has ten");
}
