//! Threads and a task that lease one or two slots: the scenario of `Leases.tla`.

use std::sync::Arc;
use std::task::{Context, Poll, Wake};
use std::time::{Duration, Instant};

use shuttle::rand::{Rng, thread_rng};
use shuttle::thread;

use crate::waiters::{Slots, Waited};

struct Waker(shuttle::thread::Thread);

impl Wake for Waker {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn chance(one_in: u32) -> bool {
    thread_rng().gen_range(0..one_in) == 0
}

/// Claims twice, with a deadline or not.
fn claims(slots: &Slots, timed: bool) {
    for _ in 0..2 {
        let soon = (timed && chance(2))
            .then(|| Instant::now() + Duration::from_nanos(thread_rng().gen_range(0..20_000)));
        match slots.claim_wait(soon, None) {
            Waited::Slot(slot) => slots.release(slot),
            Waited::Closed => return,
            Waited::Late | Waited::Stuck => {}
        }
    }
}

/// A task that asks for a slot twice, and may give up.
fn polls(slots: &Slots) {
    for _ in 0..2 {
        let waker = Arc::new(Waker(thread::current())).into();
        let mut turn = slots.turn();
        let waited = loop {
            match turn.poll(&Context::from_waker(&waker)) {
                Poll::Ready(waited) => break Some(waited),
                Poll::Pending if chance(3) => break None,
                Poll::Pending => thread::park(),
            }
        };
        drop(turn);
        match waited {
            Some(Waited::Slot(slot)) => slots.release(slot),
            Some(Waited::Closed) => return,
            _ => {}
        }
    }
}

pub fn execution(slots: u32) {
    crate::record::begin(crate::record::Of::Leases);
    let all = Arc::new(Slots::new(((1 << slots) - 1) << 1));
    let spawn = |work: fn(&Slots)| {
        let all = all.clone();
        thread::spawn(move || work(&all))
    };
    let threads = [
        spawn(|slots| claims(slots, false)),
        spawn(|slots| claims(slots, true)),
        spawn(polls),
        spawn(|slots| {
            if chance(2) {
                slots.close();
            }
        }),
    ];
    for thread in threads {
        thread.join().unwrap();
    }
}
