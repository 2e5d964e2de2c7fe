//! What expires never runs, and is told so while others hold the lanes.

use std::thread;
use std::time::{Duration, Instant};

use crate::common::*;
use streampool_batch::{Error, Reason, Request, Shutdown, WhenFull};

/// Long enough for a request to be submitted in time on a busy machine.
const SOON: Duration = Duration::from_millis(500);

fn soon(value: i64) -> Request {
    Request::from(row(value)).within(SOON)
}

#[test]
fn an_expired_request_is_told_while_the_function_is_held() {
    let stand = Stand::new(one_lane(4));
    let first = stand.occupied();
    let late = stand.submit(soon(1)).unwrap();
    let patient = stand.submit(row(2)).unwrap();
    assert_expired(late.wait());
    assert_eq!(stand.stage.inside(), 1, "nobody opened the stage");
    assert_eq!(stand.statistics().queued_requests, 1);
    stand.stage.open();
    assert_eq!(values(patient.wait()), [4]);
    assert_eq!(values(first.wait()), [0]);
    assert_eq!(stand.stage.batches(), [[0], [2]]);
    assert_eq!(stand.statistics().requests.expired, 1);
}

#[test]
fn a_caller_that_waits_in_the_call_is_told_too() {
    let stand = Stand::new(one_lane(4));
    let first = stand.occupied();
    assert_expired(stand.infer(soon(1)));
    let late = stand.submit(soon(2)).unwrap();
    let result = late.wait_timeout(Duration::MAX).expect("there is time");
    assert_expired(result);
    assert_eq!(stand.stage.inside(), 1);
    stand.stage.open();
    drop(first.wait());
}

/// It is still what it was for whoever withdraws it, and a deadline holds behind the others, too.
#[test]
fn who_is_to_go_behind_the_others_is_served_after_them_or_given_up() {
    let stand = Stand::new(one_lane(1));
    let first = stand.occupied();
    let behind = |value| Request::from(row(value)).behind_from(Instant::now());
    let last = stand.submit(behind(1)).unwrap();
    let dropped = stand.submit(behind(2)).unwrap();
    let expired = stand.submit(behind(3).within(SOON)).unwrap();
    let others = stand.submit_many((4..=5).map(row));
    // They have gone behind the others when another batch was taken.
    stand.stage.let_one_out();
    stand.stage.until_called(2);
    drop(dropped);
    assert_expired(expired.wait());
    stand.stage.open();
    assert_eq!(values(last.wait()), [2]);
    drop((first, others));
    assert_eq!(stand.stage.batches().concat(), [0, 4, 5, 1]);
    let requests = stand.statistics().requests;
    assert_eq!((requests.expired, requests.cancelled), (1, 1));
}

#[test]
fn a_deadline_that_is_past_already_is_told_at_once() {
    let stand = Stand::new(one_lane(4));
    for deadline in [Instant::now(), Instant::now() - Duration::from_millis(1)] {
        let request = Request::from(row(1)).deadline(deadline);
        let result = stand.submit(request.clone());
        assert!(matches!(result, Err(Error::Expired)), "{result:?}");
        assert_expired(stand.infer(request));
    }
    assert!(stand.stage.calls().is_empty());
    let requests = stand.statistics().requests;
    assert_eq!((requests.submitted, requests.expired), (4, 4));
}

#[test]
fn a_nearer_deadline_is_kept_although_a_later_one_came_before() {
    let stand = Stand::new(one_lane(4));
    let first = stand.occupied();
    let hour = Duration::from_secs(3600);
    let later = stand.submit(Request::from(row(1)).within(hour)).unwrap();
    let sooner = stand.submit(soon(2)).unwrap();
    assert_expired(sooner.wait());
    stand.stage.open();
    assert_eq!(values(later.wait()), [2]);
    drop(first);
}

#[test]
fn deadlines_that_are_kept_are_no_matter() {
    let stand = Stand::new(one_lane(4));
    let hour = Duration::from_secs(3600);
    for time in [hour, Duration::MAX] {
        let request = Request::from(row(1)).within(time);
        assert_eq!(values(stand.infer(request)), [2]);
    }
    assert_eq!(stand.statistics().requests.completed, 2);
}

/// Others never come, and it goes before it is too late. On a busy machine a quarter of a short time may not be enough.
#[test]
fn who_waits_for_others_does_not_miss_its_deadline() {
    let stand = Stand::new(one_lane(4).max_wait(Duration::MAX));
    let times: &[u64] = if SANITIZED { &[20] } else { &[1, 4, 16] };
    let goes = |seconds: &u64| {
        let request = Request::from(row(1)).within(Duration::from_secs(*seconds));
        match stand.submit(request).unwrap().wait() {
            Err(Error::Expired) => false,
            result => values(result) == [2],
        }
    };
    assert!(times.iter().any(goes));
    stand.shutdown(Shutdown::Drain);
    assert!(stand.statistics().reasons[&Reason::Waited] >= 1);
}

#[test]
fn who_waits_for_room_expires_as_well() {
    let stand = Stand::new(one_lane(4).capacity(1).when_full(WhenFull::Block));
    let first = stand.occupied();
    let queued = stand.submit(row(1)).unwrap();
    assert_expired(stand.infer(soon(2)));
    assert_expired(stand.submit(soon(3)).unwrap().wait());
    assert_eq!(stand.stage.inside(), 1);
    stand.stage.open();
    assert_eq!(values(queued.wait()), [2]);
    drop(first);
    stand.shutdown(Shutdown::Drain);
    assert!(!stand.stage.saw(2) && !stand.stage.saw(3));
    let requests = stand.statistics().requests;
    assert_eq!((requests.expired, requests.over()), (2, 4));
}

/// What expires makes room, and who waits outside for it comes in.
#[test]
fn what_expires_makes_room() {
    let stand = Stand::new(one_lane(4).capacity(1).when_full(WhenFull::Block));
    let first = stand.occupied();
    thread::scope(|scope| {
        let late = stand.submit(soon(1)).unwrap();
        let next = scope.spawn(|| stand.submit(row(2)).unwrap());
        let next = next.join().unwrap();
        assert_expired(late.wait());
        assert_eq!(
            (stand.stage.inside(), stand.statistics().queued_requests),
            (1, 1)
        );
        stand.stage.open();
        assert_eq!(values(next.wait()), [4]);
    });
    drop(first);
}
