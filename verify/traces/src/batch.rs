//! Callers, a worker, the keeper of time and who closes a queue: the scenario of `Batch.tla`.

use std::fmt::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};

use shuttle::rand::{Rng, thread_rng};
use shuttle::thread;

use crate::engine::{Admission, Capacity, Done, Engine, Full, Job, Parts, Rejected, Shutdown};
use crate::figures::Fate;
use crate::outcome::{Accepted, Outcome, Waiter};
use crate::schedule::{Entry, Limits, Priority, Schedule, Tenants};

/// A request of the caller of this number.
pub struct Call(usize, Arc<Outcome<&'static str>>);

fn put(call: Call, end: &'static str) -> (bool, Option<Waiter>) {
    match call.1.put(end) {
        Accepted::By(waiter) => (true, waiter),
        Accepted::Not => (false, None),
    }
}

impl Job for Call {
    fn refuse(self, why: Rejected) -> Option<Waiter> {
        let end = match why {
            Rejected::Closed => "closed",
            Rejected::Expired => "expired",
            _ => "full",
        };
        put(self, end).1
    }
    fn settles(&self) -> bool {
        true
    }
}

type Queue = Engine<u8, Call>;

/// The pointer, as one to what the mutex has that `of` finds: a type without a name here.
fn typed<T>(_: impl Fn(&Queue) -> &crate::sync::Mutex<T>, pointer: *const ()) -> *const T {
    pointer.cast()
}

/// What the lock guards, as `graph.py` shows it.
pub fn inside(state: *const ()) -> String {
    let state = typed(|queue: &Queue| &queue.state, state);
    // SAFETY: the recorder calls this with the state of the only type of engine here, whose lock is held.
    let state = unsafe { &*state };
    let phase = format!("{:?}", state.phase).to_lowercase();
    let free = state.free.iter().fold(0_u64, |all, lane| all | 1 << lane);
    let mut text = String::new();
    let _ = write!(
        text,
        "{phase} {} {free:x} {} {} {} {} {} [",
        u8::from(state.is_door_open),
        state.turns,
        state.idle,
        state.asleep,
        state.calls,
        state.schedule.requests(),
    );
    for (_, outside) in state.held.iter() {
        let _ = write!(text, "{}", outside.parts[0].job.0);
    }
    text.push(']');
    text
}

fn request(caller: usize) -> (Arc<Outcome<&'static str>>, Parts<Call>) {
    let outcome = Arc::new(Outcome::new());
    let part = Entry {
        job: Call(caller, outcome.clone()),
        rows: 1,
        bytes: 1,
        tenant: 0,
        priority: Priority::Normal,
        deadline: None,
        behind: None,
        arrived: Instant::now(),
    };
    (outcome, std::iter::once(part).collect())
}

fn run(entries: Vec<Entry<Call>>) -> Done {
    let mut done = Done::default();
    for entry in entries {
        let (accepted, waiter) = put(entry.job, "ran");
        done.fates.push((
            0,
            if accepted {
                Fate::Completed
            } else {
                Fate::Cancelled
            },
        ));
        done.waiters.extend(waiter);
    }
    done
}

/// By the door, or by the inbox.
fn by_the_door(queue: &Queue, caller: usize) -> &'static str {
    let (outcome, parts) = request(caller);
    let run = |entries: Vec<_>, _| run(entries);
    if let Err(parts) = queue.run_at_once(&0, parts, &run)
        && let Some(turn) = queue.leave(0, parts, Full::Hold)
    {
        turn.run(&run);
    }
    outcome.wait()
}

fn by_the_lock(queue: &Queue, caller: usize, helper: bool, may_cancel: bool) -> &'static str {
    let (outcome, parts) = request(caller);
    let (mut added, turn) = queue.add([(0, parts)], Full::Hold, helper);
    if let Some(turn) = turn {
        turn.run(&|entries, _| run(entries));
    }
    match added.pop() {
        Some(Ok(Admission::Queued(ids))) if may_cancel && thread_rng().gen_range(0..3) == 0 => {
            queue.cancel(&ids);
            match outcome.abandon() {
                true => "cancelled",
                false => "ran",
            }
        }
        _ => outcome.wait(),
    }
}

pub fn execution(lanes: usize, closes: bool, cancels: bool) {
    crate::record::begin(crate::record::Of::Batch);
    let limits = Limits {
        rows: 2,
        wait: Duration::ZERO,
        passes: 1,
        adaptive: false,
        objective: None,
    };
    let capacity = Capacity {
        requests: 2,
        bytes: 100,
        of_priority: [usize::MAX; Priority::COUNT],
    };
    let queue = Arc::new(Queue::new(
        Schedule::new(limits, Tenants::new([])),
        lanes,
        capacity,
    ));
    let callers: Vec<_> = (1..=3)
        .map(|caller| {
            let queue = queue.clone();
            thread::spawn(move || match caller {
                1 => by_the_door(&queue, 1),
                2 => by_the_lock(&queue, 2, true, cancels),
                _ => by_the_lock(&queue, 3, false, cancels),
            })
        })
        .collect();
    let others = [
        |queue: &Queue| queue.work(&|entries, _| run(entries)),
        Queue::keep_time,
    ]
    .map(|work| {
        let queue = queue.clone();
        thread::spawn(move || work(&queue))
    });
    let closer = closes.then(|| {
        let queue = queue.clone();
        thread::spawn(move || queue.close(Shutdown::Drain))
    });
    for caller in callers {
        let end = caller.join().unwrap();
        assert!(
            end == "ran" || closes && end == "closed" || cancels && end == "cancelled",
            "{end}"
        );
    }
    let Some(closer) = closer else {
        // The record is over: what follows only ends the threads.
        KEPT.with(|kept| kept.replace(crate::record::end()));
        queue.close(Shutdown::Drain);
        others.into_iter().for_each(|other| other.join().unwrap());
        return;
    };
    closer.join().unwrap();
    others.into_iter().for_each(|other| other.join().unwrap());
}

thread_local! {
    static KEPT: std::cell::RefCell<Vec<String>> = const { std::cell::RefCell::new(Vec::new()) };
}

/// What an execution that was not closed has recorded.
pub fn kept() -> Vec<String> {
    KEPT.take()
}
