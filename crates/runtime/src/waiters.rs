//! Slots that a thread or a task can wait for, first come, first served.

use std::collections::VecDeque;
// Not loom's in a model: nothing hangs on this count, and loom's cannot be dropped while it reports a deadlock.
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use crate::slots::SlotSet;
use crate::sync::{AtomicU8, Condvar, Mutex, MutexGuard, Ordering, lock, wait, wait_timeout};

/// A [`SlotSet`] with a queue of the threads that wait for a slot.
///
/// While threads wait, and after closing, the set is shut: claims get nothing and so overtake nobody, and
/// a release comes here and hands its slot to the longest waiter. As long as nobody waits, neither a claim
/// nor a release takes the lock.
#[derive(Debug)]
pub(crate) struct Slots {
    set: SlotSet,
    // The set is shut if and only if the queue is not empty or is closed; both change under this lock.
    queue: Mutex<Queue>,
}

#[derive(Debug)]
struct Queue {
    // The longest waiter is in front. Who leaves the queue otherwise than by its own timing out has been
    // given its outcome before.
    waiters: VecDeque<Waiting>,
    closed: bool,
    /// When a slot last went to a waiter, or one gave up for want of patience.
    moved: Instant,
}

/// A waiter's place in the queue, and whom to wake if it is a task.
#[derive(Debug)]
struct Waiting {
    waiter: Arc<Waiter>,
    waker: Option<Waker>,
}

/// What waiting came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Waited {
    /// The caller has this slot.
    Slot(u8),
    /// The time is up.
    Late,
    /// Nothing moved for too long.
    Stuck,
    /// There are no slots any more.
    Closed,
}

/// A thread that waits.
#[derive(Debug)]
struct Waiter {
    // PENDING, CLOSED, or the slot that it was handed. Used under the lock of the queue only, which orders it.
    outcome: AtomicU8,
    woken: Condvar,
}

const PENDING: u8 = u8::MAX;
const CLOSED: u8 = u8::MAX - 1;

impl Slots {
    /// Slots of which those in `mask` are free. Slot 0, the default stream's, is never among them.
    pub(crate) fn new(mask: u64) -> Self {
        Slots {
            set: SlotSet::new(mask),
            queue: Mutex::new(Queue {
                waiters: VecDeque::new(),
                closed: false,
                moved: Instant::now(),
            }),
        }
    }

    /// Takes the lowest free slot, unless there is none, or threads wait, or it is closed.
    #[inline]
    pub(crate) fn try_claim(&self) -> Option<u8> {
        self.set.claim()
    }

    /// As [`try_claim`](Self::try_claim): `own` if it is free, else one that is not among `others`, if there is one.
    #[inline]
    pub(crate) fn try_claim_preferring(&self, own: Option<u8>, others: u64) -> Option<u8> {
        self.set.claim_preferring(own, others)
    }

    /// Whether threads wait, or it is closed.
    #[inline]
    pub(crate) fn is_wanted(&self) -> bool {
        self.set.is_shut()
    }

    /// Takes the lowest free slot; waits for one, behind those that wait already, until the deadline. Who has `patience`
    /// waits only as long as slots go to waiters, one at least in that time.
    pub(crate) fn claim_wait(
        &self,
        deadline: Option<Instant>,
        patience: Option<Duration>,
    ) -> Waited {
        if let Some(slot) = self.set.claim() {
            return Waited::Slot(slot);
        }
        let mut queue = lock(&self.queue);
        if queue.closed {
            return Waited::Closed;
        }
        // Shuts the set at the look that finds it empty, so that every later release comes to the queue.
        // If others wait it is shut already.
        if let Some(slot) = self.set.claim_or_shut() {
            return Waited::Slot(slot);
        }
        let came = patience.map(|_| Instant::now());
        let waiter = Arc::new(Waiter::new());
        queue.waiters.push_back(Waiting {
            waiter: waiter.clone(),
            waker: None,
        });
        loop {
            match waiter.outcome() {
                PENDING => {}
                CLOSED => return Waited::Closed,
                slot => return Waited::Slot(slot),
            }
            let standstill = came.zip(patience);
            let standstill = standstill.map(|(came, patience)| came.max(queue.moved) + patience);
            let until = [deadline, standstill].into_iter().flatten().min();
            // An outcome goes before a deadline: a slot that was handed over is never lost.
            queue = match waiter.sleep(queue, until) {
                Ok(queue) => queue,
                Err(mut queue) => {
                    queue
                        .waiters
                        .retain(|other| !Arc::ptr_eq(&other.waiter, &waiter));
                    let is_late = until == deadline;
                    if !is_late {
                        // The others wait as long again: this one may have been what all waited for.
                        queue.moved = Instant::now();
                    }
                    self.open_if_idle(&queue);
                    return if is_late { Waited::Late } else { Waited::Stuck };
                }
            };
        }
    }

    /// Gives a slot back: to the longest waiter, or to the free ones.
    #[inline]
    pub(crate) fn release(&self, slot: u8) {
        if !self.set.release_if_open(slot) {
            self.hand_over(slot);
        }
    }

    #[cold]
    fn hand_over(&self, slot: u8) {
        let mut queue = lock(&self.queue);
        match queue.waiters.pop_front() {
            Some(place) => {
                queue.moved = Instant::now();
                place.waiter.give(slot);
                self.open_if_idle(&queue);
                // So that the woken thread does not run into the lock.
                drop(queue);
                place.wake();
            }
            // The last waiter's time was up meanwhile, or it is closed.
            None => self.set.release(slot),
        }
    }

    fn open_if_idle(&self, queue: &MutexGuard<'_, Queue>) {
        if queue.waiters.is_empty() && !queue.closed {
            self.set.open();
        }
    }

    /// Ends all waiting, now and later, with `None`. Slots can still be given back.
    pub(crate) fn close(&self) {
        let mut queue = lock(&self.queue);
        queue.closed = true;
        self.set.shut();
        let waiters = std::mem::take(&mut queue.waiters);
        for place in &waiters {
            place.waiter.give(CLOSED);
        }
        drop(queue);
        waiters.into_iter().for_each(Waiting::wake);
    }

    /// A turn of a task, which takes its place in the queue when it is first polled.
    pub(crate) fn turn(&self) -> Turn<'_> {
        Turn {
            slots: self,
            waiter: None,
        }
    }

    /// How many threads and tasks wait.
    pub(crate) fn waiting(&self) -> usize {
        lock(&self.queue).waiters.len()
    }

    /// How many slots are free.
    pub(crate) fn free(&self) -> u32 {
        self.set.free()
    }
}

impl Waiting {
    /// Wakes who waits, without a lock: a waker may do anything.
    fn wake(self) {
        self.waiter.woken.notify_one();
        if let Some(waker) = self.waker {
            waker.wake();
        }
    }
}

/// A task's wait for a slot. Dropping it leaves the queue, and gives back a slot that nobody has taken.
#[derive(Debug)]
pub(crate) struct Turn<'a> {
    slots: &'a Slots,
    waiter: Option<Arc<Waiter>>,
}

impl Turn<'_> {
    /// A slot, or `Closed`; or nothing yet, and the task is woken when it is to ask again.
    pub(crate) fn poll(&mut self, context: &Context<'_>) -> Poll<Waited> {
        let waker = Some(context.waker().clone());
        let mut queue = lock(&self.slots.queue);
        let Some(waiter) = &self.waiter else {
            if queue.closed {
                return Poll::Ready(Waited::Closed);
            }
            if let Some(slot) = self.slots.set.claim_or_shut() {
                return Poll::Ready(Waited::Slot(slot));
            }
            let waiter = self.waiter.insert(Arc::new(Waiter::new())).clone();
            queue.waiters.push_back(Waiting { waiter, waker });
            return Poll::Pending;
        };
        let waited = match waiter.outcome() {
            PENDING => {
                let own = |waiting: &&mut Waiting| Arc::ptr_eq(&waiting.waiter, waiter);
                let last = queue.waiters.iter_mut().find(own);
                let last = last.map(|place| std::mem::replace(&mut place.waker, waker));
                drop(queue);
                // The code of an executor, as the others.
                drop(last);
                return Poll::Pending;
            }
            CLOSED => Waited::Closed,
            slot => Waited::Slot(slot),
        };
        self.waiter = None;
        Poll::Ready(waited)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let Some(waiter) = self.waiter.take() else {
            return;
        };
        let mut queue = lock(&self.slots.queue);
        let own = |waiting: &Waiting| Arc::ptr_eq(&waiting.waiter, &waiter);
        let left = queue.waiters.iter().position(own);
        let left = left.and_then(|place| queue.waiters.remove(place));
        self.slots.open_if_idle(&queue);
        drop(queue);
        match waiter.outcome() {
            PENDING | CLOSED => drop(left),
            slot => self.slots.release(slot),
        }
    }
}

impl Waiter {
    fn new() -> Self {
        Waiter {
            outcome: AtomicU8::new(PENDING),
            woken: Condvar::new(),
        }
    }

    fn outcome(&self) -> u8 {
        self.outcome.load(Ordering::Relaxed)
    }

    fn give(&self, outcome: u8) {
        self.outcome.store(outcome, Ordering::Relaxed);
    }

    /// Sleeps until woken (or for no reason); `Err` if the deadline has passed already.
    fn sleep<'a>(
        &self,
        queue: MutexGuard<'a, Queue>,
        deadline: Option<Instant>,
    ) -> Result<MutexGuard<'a, Queue>, MutexGuard<'a, Queue>> {
        let Some(deadline) = deadline else {
            return Ok(wait(&self.woken, queue));
        };
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(queue);
        }
        Ok(wait_timeout(&self.woken, queue, left))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::Mutex as StdMutex;
    use std::sync::atomic::AtomicBool;
    use std::thread;
    use std::time::Duration;

    fn claim_wait(slots: &Slots, deadline: Option<Instant>) -> Option<u8> {
        match slots.claim_wait(deadline, None) {
            Waited::Slot(slot) => Some(slot),
            Waited::Late | Waited::Stuck | Waited::Closed => None,
        }
    }

    fn until(condition: impl Fn() -> bool) {
        while !condition() {
            thread::yield_now();
        }
    }

    fn soon() -> Option<Instant> {
        Some(Instant::now() + Duration::from_millis(1))
    }

    #[test]
    fn without_waiters_it_is_a_set() {
        let slots = Slots::new(0b110);
        assert_eq!(slots.try_claim(), Some(1));
        assert_eq!(claim_wait(&slots, None), Some(2));
        assert_eq!(slots.try_claim(), None);
        assert_eq!((slots.free(), slots.waiting()), (0, 0));
        slots.release(2);
        assert_eq!(claim_wait(&slots, soon()), Some(2));
    }

    #[test]
    fn a_deadline_ends_the_waiting_and_leaves_no_trace() {
        let slots = Slots::new(0b10);
        assert_eq!(slots.try_claim(), Some(1));
        assert_eq!(claim_wait(&slots, Some(Instant::now())), None);
        assert_eq!(claim_wait(&slots, soon()), None);
        assert_eq!(slots.waiting(), 0);
        slots.release(1);
        assert_eq!(slots.try_claim(), Some(1));
    }

    #[test]
    fn waiters_are_served_in_the_order_of_their_coming() {
        let slots = Slots::new(0b10);
        let served = StdMutex::new(Vec::new());
        assert_eq!(slots.try_claim(), Some(1));
        thread::scope(|scope| {
            for place in 0..10 {
                let (slots, served) = (&slots, &served);
                scope.spawn(move || {
                    let slot = claim_wait(slots, None);
                    lock(served).push(place);
                    slots.release(slot.unwrap());
                });
                until(|| slots.waiting() == place + 1);
            }
            slots.release(1);
        });
        assert_eq!(*lock(&served), (0..10).collect::<Vec<_>>());
        assert_eq!(slots.free(), 1);
    }

    /// Counts how often a task is woken.
    #[derive(Default)]
    struct Woken(std::sync::atomic::AtomicUsize);

    impl std::task::Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        }
    }

    #[test]
    fn tasks_wait_in_the_same_queue_as_threads() {
        let slots = Slots::new(0b10);
        assert_eq!(slots.try_claim(), Some(1));
        let woken = Arc::new(Woken::default());
        let waker = Waker::from(woken.clone());
        let context = Context::from_waker(&waker);
        let (mut first, mut given_up, mut last) = (slots.turn(), slots.turn(), slots.turn());
        assert!(first.poll(&context).is_pending());
        assert!(given_up.poll(&context).is_pending());
        thread::scope(|scope| {
            let waiter = scope.spawn(|| claim_wait(&slots, None));
            until(|| slots.waiting() == 3);
            assert!(last.poll(&context).is_pending());
            drop(given_up);
            slots.release(1);
            assert_eq!(woken.0.load(Ordering::Relaxed), 1);
            assert!(last.poll(&context).is_pending());
            assert_eq!(first.poll(&context), Poll::Ready(Waited::Slot(1)));
            slots.release(1);
            assert_eq!(waiter.join().unwrap(), Some(1));
        });
        slots.release(1);
        assert_eq!((woken.0.load(Ordering::Relaxed), slots.free()), (2, 0));
        // It was given the slot, and goes without taking it.
        drop(last);
        assert_eq!((slots.free(), slots.waiting()), (1, 0));
        let mut late = slots.turn();
        slots.close();
        assert_eq!(late.poll(&context), Poll::Ready(Waited::Closed));
    }

    #[test]
    fn nobody_overtakes_a_waiter() {
        let slots = Slots::new(0b110);
        assert_eq!((slots.try_claim(), slots.try_claim()), (Some(1), Some(2)));
        thread::scope(|scope| {
            assert!(!slots.is_wanted(), "nobody waits");
            let waiter = scope.spawn(|| claim_wait(&slots, None));
            until(|| slots.waiting() == 1);
            assert!(slots.is_wanted());
            slots.release(2);
            // The slot has gone to the waiter already, whether it runs or not.
            assert_eq!(slots.try_claim(), None);
            assert_eq!(slots.free(), 0);
            assert_eq!(waiter.join().unwrap(), Some(2));
        });
        slots.release(1);
        assert_eq!(slots.try_claim(), Some(1));
    }

    #[test]
    fn one_waiter_timing_out_does_not_hide_the_next() {
        let slots = Slots::new(0b10);
        assert_eq!(slots.try_claim(), Some(1));
        thread::scope(|scope| {
            let patient = scope.spawn(|| claim_wait(&slots, None));
            until(|| slots.waiting() == 1);
            assert_eq!(claim_wait(&slots, soon()), None);
            assert_eq!(slots.waiting(), 1);
            slots.release(1);
            assert_eq!(patient.join().unwrap(), Some(1));
        });
    }

    #[test]
    fn closing_ends_all_waiting_and_still_takes_slots_back() {
        let slots = Slots::new(0b110);
        assert_eq!((slots.try_claim(), slots.try_claim()), (Some(1), Some(2)));
        thread::scope(|scope| {
            let waiters: Vec<_> = (0..4)
                .map(|_| scope.spawn(|| claim_wait(&slots, None)))
                .collect();
            until(|| slots.waiting() == 4);
            slots.close();
            for waiter in waiters {
                assert_eq!(waiter.join().unwrap(), None);
            }
        });
        slots.release(1);
        slots.release(2);
        assert_eq!(slots.free(), 2);
        assert_eq!((slots.try_claim(), claim_wait(&slots, None)), (None, None));
    }

    #[test]
    fn no_slot_is_lost_or_has_two_holders_under_every_kind_of_claim() {
        let slots = Slots::new(0b1110);
        let held: [AtomicBool; 4] = Default::default();
        let use_slot = |slot: u8| {
            let mine = &held[usize::from(slot)];
            assert!(!mine.swap(true, Ordering::Relaxed), "{slot} held twice");
            thread::yield_now();
            mine.store(false, Ordering::Relaxed);
            slots.release(slot);
        };
        thread::scope(|scope| {
            for kind in 0..12 {
                let (slots, use_slot) = (&slots, &use_slot);
                scope.spawn(move || {
                    for round in 0..1_000 {
                        let slot = match (kind + round) % 4 {
                            0 => slots.try_claim(),
                            1 => {
                                claim_wait(slots, Some(Instant::now() + Duration::from_micros(20)))
                            }
                            _ => Some(claim_wait(slots, None).unwrap()),
                        };
                        slot.into_iter().for_each(use_slot);
                    }
                });
            }
        });
        assert_eq!((slots.free(), slots.waiting()), (3, 0));
    }

    #[test]
    fn who_is_patient_waits_as_long_as_something_moves() {
        let slots = Slots::new(0b10);
        assert_eq!(slots.try_claim(), Some(1));
        // The steps are so long that a thread may wait for a processor in between.
        let patience = Some(Duration::from_secs(1));
        assert_eq!(slots.claim_wait(None, patience), Waited::Stuck);
        assert_eq!(slots.waiting(), 0);
        thread::scope(|scope| {
            let ahead: Vec<_> = (0..4)
                .map(|place| {
                    let ahead = scope.spawn(|| slots.claim_wait(None, None));
                    until(|| slots.waiting() == place + 1);
                    ahead
                })
                .collect();
            let last = scope.spawn(|| slots.claim_wait(None, patience));
            until(|| slots.waiting() == 5);
            for one in ahead {
                thread::sleep(Duration::from_millis(300));
                slots.release(1);
                assert_eq!(one.join().unwrap(), Waited::Slot(1));
            }
            slots.release(1);
            assert_eq!(
                last.join().unwrap(),
                Waited::Slot(1),
                "longer than its patience"
            );
        });
    }

    #[test]
    fn who_gives_up_leaves_the_others_as_long_again() {
        let slots = Slots::new(0b10);
        assert_eq!(slots.try_claim(), Some(1));
        let patience = Duration::from_millis(40);
        let begun = Instant::now();
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| assert_eq!(slots.claim_wait(None, Some(patience)), Waited::Stuck));
            }
        });
        assert!(begun.elapsed() >= 2 * patience);
    }
}
