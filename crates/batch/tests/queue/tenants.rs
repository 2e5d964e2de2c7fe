//! Shares, priorities, and statistics by tenant.

use crate::common::*;
use streampool_batch::{Error, Priority, Request, Shutdown};

fn of(tenant: &str, value: i64) -> Request {
    Request::from(row(value)).tenant(tenant)
}

#[test]
fn a_flood_of_one_does_not_hold_up_another() {
    let stand = Stand::new(one_lane(4));
    let first = stand.occupied();
    let flood = stand.submit_many((1..=100).map(|value| of("many", value)));
    let few = stand.submit(of("few", 1000)).unwrap();
    stand.stage.open();
    assert_eq!(values(few.wait()), [2000]);
    drop(first);
    for ticket in flood {
        ticket.unwrap().wait().unwrap();
    }
    assert!(
        stand.stage.batches()[1].contains(&1000),
        "{:?}",
        stand.stage.batches()[1]
    );
}

#[test]
fn shares_go_by_weight() {
    let builder = one_lane(4).tenant("a", 3.0).max_overtakes(1000);
    let stand = Stand::new(builder);
    let first = stand.occupied();
    let tickets: Vec<_> = ["b", "a"]
        .into_iter()
        .flat_map(|tenant| {
            stand.submit_many(
                (1..=60).map(|value| of(tenant, if tenant == "a" { value } else { 1000 + value })),
            )
        })
        .collect();
    stand.stage.open();
    drop(first);
    for ticket in tickets {
        ticket.unwrap().wait().unwrap();
    }
    // As long as both have requests.
    let batches = stand.stage.batches();
    let (mut a, mut b) = (0, 0);
    for batch in &batches[1..20] {
        a += batch.iter().filter(|value| **value < 1000).count();
        b += batch.iter().filter(|value| **value >= 1000).count();
        assert!(a.abs_diff(3 * b) <= 4, "{a} and {b}: {batches:?}");
    }
}

#[test]
fn a_higher_priority_goes_first_and_a_lower_is_not_forgotten() {
    let stand = Stand::new(one_lane(1).max_overtakes(3));
    let first = stand.occupied();
    let request = |value, priority| Request::from(row(value)).priority(priority);
    let mut tickets = vec![
        stand.submit(request(1, Priority::Low)),
        stand.submit(request(2, Priority::Normal)),
    ];
    tickets.extend((3..10).map(|value| stand.submit(request(value, Priority::High))));
    stand.stage.open();
    drop(first);
    for ticket in tickets {
        ticket.unwrap().wait().unwrap();
    }
    let order = stand.stage.batches().concat();
    // The low one is the oldest, and three go before it; then the normal one is the oldest.
    assert_eq!(order, [0, 3, 4, 5, 1, 6, 7, 8, 2, 9]);
}

#[test]
fn statistics_are_told_apart_by_tenant() {
    let stand = Stand::new(one_lane(4).capacity(4));
    values(stand.infer(of("a", 1)));
    assert_eq!(told(stand.infer(of("a", -1))), "no -1");
    let first = stand.occupied();
    let mut queued = stand.submit_many([of("b", 2), of("b", 3), of("c", 4), of("a", 5)]);
    assert!(stand.submit(of("c", 6)).is_err());
    drop(queued.pop());
    stand.stage.open();
    drop(first.wait());
    for ticket in queued {
        ticket.unwrap().wait().unwrap();
    }
    stand.shutdown(Shutdown::Drain);
    assert_closed(stand.infer(of("b", 7)));
    let statistics = stand.statistics();
    let names: Vec<&str> = statistics.tenants.keys().map(String::as_str).collect();
    assert_eq!(names, ["", "a", "b", "c"]);
    let [nameless, a, b, c] = ["", "a", "b", "c"].map(|name| &statistics.tenants[name]);
    assert_eq!(
        (nameless.requests.submitted, nameless.requests.completed),
        (1, 1)
    );
    let fates = |of: &streampool_batch::RequestCounts| {
        [
            of.submitted,
            of.completed,
            of.failed,
            of.cancelled,
            of.rejected,
            of.closed,
            of.expired,
        ]
    };
    assert_eq!(fates(&a.requests), [3, 1, 1, 1, 0, 0, 0]);
    assert_eq!(fates(&b.requests), [3, 2, 0, 0, 0, 1, 0]);
    assert_eq!(fates(&c.requests), [2, 1, 0, 0, 1, 0, 0]);
    assert_eq!(fates(&statistics.requests), [9, 5, 1, 1, 1, 1, 0]);
    // Who ran has waited: the one that failed as well.
    let waited = [nameless, a, b, c].map(|tenant| tenant.queue_time.count());
    assert_eq!(waited, [1, 2, 2, 1]);
    assert_eq!(statistics.queue_time.count(), 6);
    assert_eq!(statistics.batch_rows.count(), 4);
    assert_eq!(
        statistics.service_time.count(),
        3,
        "what failed is not counted"
    );
    assert_eq!(statistics.reasons.values().sum::<u64>(), 4);
}

#[test]
fn more_tenants_than_are_told_apart_are_served_on_the_nameless_account() {
    let stand = Stand::new(one_lane(64));
    let tickets = stand.submit_many((0..1500).map(|value| of(&format!("tenant {value}"), value)));
    for (value, ticket) in tickets.into_iter().enumerate() {
        assert_eq!(values(ticket.unwrap().wait()), [2 * value as i64]);
    }
    stand.shutdown(Shutdown::Drain);
    let statistics = stand.statistics();
    assert_eq!(statistics.requests.completed, 1500);
    assert!(statistics.tenants.len() <= 1024);
    assert!(statistics.tenants[""].requests.completed >= 476);
}

/// However much one sends, some room is left for those who have less than their share.
#[test]
fn one_tenant_does_not_take_all_the_room() {
    let stand = Stand::new(one_lane(4).capacity(16));
    let few = stand.submit(of("few", 1)).unwrap();
    values(few.wait());
    let first = stand.occupied();
    let flood = stand.submit_many((1..=40).map(|value| of("many", value)));
    let (came_in, refused): (Vec<_>, Vec<_>) = flood.into_iter().partition(Result::is_ok);
    assert_eq!(
        came_in.len(),
        14,
        "what others do not use is lent, but for an eighth"
    );
    assert!(
        refused
            .into_iter()
            .all(|one| matches!(one, Err(Error::Full { .. })))
    );
    let few = [stand.submit(of("few", 1000)), stand.submit(of("few", 1001))];
    assert!(few.iter().all(Result::is_ok), "{few:?}");
    // What is given up goes to who has less than its share.
    drop(came_in.into_iter().take(5).collect::<Vec<_>>());
    assert!(stand.submit(of("many", 41)).is_ok());
    stand.stage.open();
    drop((first, few));
}

#[test]
fn who_has_less_than_its_share_comes_in_before_those_who_have_more() {
    let stand = Stand::new(one_lane(1).capacity(2));
    let first = stand.occupied();
    let queued = stand.submit(of("many", 1)).unwrap();
    let bells = [(); 4].map(|()| Bell::new());
    let outside = [of("many", 2), of("many", 3), of("few", 4), of("few", 5)];
    let mut outside = outside.map(|request| Box::pin(stand.submit_when_room(request)));
    let polls = bells
        .iter()
        .zip(&mut outside)
        .map(|(bell, waits)| bell.poll(waits));
    // Tickets that are dropped would make room.
    let polls: Vec<_> = polls.collect();
    let came_in: Vec<bool> = polls.iter().map(|poll| poll.is_ready()).collect();
    assert_eq!(
        came_in,
        [false, false, true, false],
        "nobody goes past its own"
    );
    stand.stage.open();
    drop((first, queued));
}
