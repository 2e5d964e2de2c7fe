//! Tickets as futures, on executors that know nothing of queues.

use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::Duration;

use crate::common::*;
use streampool_batch::{Request, Shutdown, Ticket};

#[test]
fn a_task_is_woken_once_when_its_answer_is_there() {
    let stand = Stand::new(one_lane(4));
    let first = stand.occupied();
    let bell = Bell::new();
    let mut ticket = Box::pin(stand.submit(row(1)).unwrap());
    assert!(bell.poll(&mut ticket).is_pending());
    assert!(bell.poll(&mut ticket).is_pending());
    assert_eq!(bell.rings(), 0);
    stand.stage.open();
    until("it is woken", || bell.rings() > 0);
    let Poll::Ready(outputs) = bell.poll(&mut ticket) else {
        panic!("it is there");
    };
    assert_eq!(values(outputs), [2]);
    drop((ticket, first));
    stand.shutdown(Shutdown::Drain);
    assert_eq!(bell.rings(), 1);
}

#[test]
fn only_who_polled_last_is_woken() {
    let stand = Stand::new(one_lane(4));
    let first = stand.occupied();
    let (before, last) = (Bell::new(), Bell::new());
    let mut ticket = Box::pin(stand.submit(row(1)).unwrap());
    assert!(before.poll(&mut ticket).is_pending());
    assert!(last.poll(&mut ticket).is_pending());
    stand.stage.open();
    until("it is woken", || last.rings() > 0);
    assert_eq!(before.rings(), 0);
    drop(first);
}

#[test]
fn a_task_that_is_dropped_is_not_woken_and_its_request_does_not_run() {
    let stand = Stand::new(one_lane(4));
    let first = stand.occupied();
    let bell = Bell::new();
    let mut ticket = Box::pin(stand.submit(row(1)).unwrap());
    assert!(bell.poll(&mut ticket).is_pending());
    drop(ticket);
    stand.stage.open();
    drop(first);
    stand.shutdown(Shutdown::Drain);
    assert_eq!(bell.rings(), 0);
    assert!(!stand.stage.saw(1));
}

#[test]
fn a_ticket_that_was_polled_may_be_waited_for() {
    let stand = Stand::new(one_lane(4));
    let first = stand.occupied();
    let bell = Bell::new();
    let mut ticket = Box::pin(stand.submit(row(1)).unwrap());
    assert!(bell.poll(&mut ticket).is_pending());
    let ticket = *Pin::into_inner(ticket);
    let ticket = ticket
        .wait_timeout(Duration::ZERO)
        .expect_err("the lane is held");
    stand.stage.open();
    assert_eq!(values(ticket.wait()), [2]);
    assert_eq!(bell.rings(), 0, "a thread waited last");
    drop(first);
}

#[test]
fn deadlines_and_the_end_wake_tasks() {
    let stand = Stand::new(one_lane(4));
    let first = stand.occupied();
    let late = Request::from(row(1)).within(Duration::from_millis(500));
    assert_expired(block_on(stand.submit(late).unwrap()));
    let queued = stand.submit(row(2)).unwrap();
    thread::scope(|scope| {
        let waits = scope.spawn(|| block_on(queued));
        until("the task waits", || stand.statistics().queued_requests == 1);
        scope.spawn(|| stand.shutdown(Shutdown::Cancel));
        assert_closed(waits.join().unwrap());
        assert_eq!(stand.stage.inside(), 1);
        stand.stage.open();
    });
    drop(first);
}

#[test]
fn many_tasks_share_two_threads_of_an_executor() {
    let stand = Stand::new(one_lane(16).max_in_flight(2).capacity(20));
    let (tasks, each) = if SANITIZED { (50, 5) } else { (200, 20) };
    let executor = Arc::new(Executor::default());
    let right = Arc::new(AtomicUsize::new(0));
    for task in 0..tasks {
        let (queue, right) = (stand.queue.clone(), right.clone());
        executor.spawn(async move {
            for round in 0..each {
                let value = 1000 * task + round;
                let ticket = queue.submit_when_room(row(value)).await.unwrap();
                assert_eq!(values(ticket.await), [2 * value]);
                right.fetch_add(1, Ordering::SeqCst);
            }
        });
    }
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| executor.run());
        }
    });
    let all = (tasks * each) as usize;
    assert_eq!(right.load(Ordering::SeqCst), all);
    stand.shutdown(Shutdown::Drain);
    let statistics = stand.statistics();
    assert_eq!(statistics.requests.completed as usize, all);
    assert!(
        statistics.batch_rows.max() > 1,
        "tasks that wait go together"
    );
}

/// A task whose executor is gone: to be woken is to be dropped.
struct Orphan(Mutex<Option<Work>>);

impl Wake for Orphan {
    fn wake(self: Arc<Self>) {
        drop(self);
    }
}

/// The only handle of a queue is in a task that nobody but its waker keeps: when that is dropped on a thread of the queue, the
/// queue closes.
#[test]
fn a_queue_may_end_on_a_thread_of_its_own() {
    let _watch = watch();
    // The task has to wait already when its time is over.
    for deadline in [None, Some(Duration::from_secs(1))] {
        let stage = Arc::new(Stage::default());
        let function = stage.clone();
        let queue = one_lane(1)
            .build(move |batch| function.call(&batch))
            .unwrap();
        stage.shut();
        let first = queue.submit(row(0)).unwrap();
        stage.until_inside(1);
        let mut request = Request::from(row(1));
        if let Some(time) = deadline {
            request = request.within(time);
        }
        let (sends_when_dropped, ended) = std::sync::mpsc::channel::<()>();
        let work: Work = Box::pin(async move {
            let ticket: Ticket = queue.submit(request).unwrap();
            let _ = ticket.await;
            drop((queue, sends_when_dropped));
        });
        let orphan = Arc::new(Orphan(Mutex::new(Some(work))));
        let waker = Waker::from(orphan.clone());
        let mut context = Context::from_waker(&waker);
        let mut place = orphan.0.lock().unwrap();
        let work = place.as_mut().unwrap();
        assert!(work.as_mut().poll(&mut context).is_pending());
        drop(place);
        drop((orphan, waker));
        if deadline.is_none() {
            stage.open();
        }
        ended.recv().unwrap_err();
        stage.open();
        assert_eq!(values(first.wait()), [0]);
    }
}
