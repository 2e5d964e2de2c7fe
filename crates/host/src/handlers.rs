//! Completion handlers: called by workers, one at a time for each queue, in order, with no lock held.

use std::collections::VecDeque;

use streampool_device::lock::Mutex;
use streampool_device::{Fault, Handler};

use crate::ranks;

pub(crate) type Due = (Handler, Result<(), Fault>);

/// The handlers of one strand that are due.
pub(crate) struct Handlers(Mutex<List>);

struct List {
    due: VecDeque<Due>,
    /// Whether a worker is at it, or will be.
    taken: bool,
}

impl Handlers {
    pub(crate) fn new() -> Self {
        let list = List {
            due: VecDeque::new(),
            taken: false,
        };
        Handlers(Mutex::new(ranks::HANDLERS, list))
    }

    /// Adds one; whether a worker has to be asked for it.
    pub(crate) fn add(&self, handler: Handler, outcome: Result<(), Fault>) -> bool {
        let mut list = self.0.lock();
        list.due.push_back((handler, outcome));
        !std::mem::replace(&mut list.taken, true)
    }

    /// The next one; without one, the list is free for another worker.
    pub(crate) fn next(&self) -> Option<Due> {
        let mut list = self.0.lock();
        let next = list.due.pop_front();
        list.taken = next.is_some();
        next
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc::channel;

    use streampool_device::{Device, Flush, Op};

    use super::*;
    use crate::OpMatcher;
    use crate::testing::{FOREVER, device, encode, queue};

    #[test]
    fn they_run_in_order_one_at_a_time_and_a_panic_stops_nothing() {
        let device = device(4);
        let mut queue = queue(&device, 0);
        let (sender, receiver) = channel();
        let inside = Arc::new(AtomicUsize::new(0));
        for number in 0..100 {
            let (sender, inside) = (sender.clone(), Arc::clone(&inside));
            let handler = move |outcome: Result<(), Fault>| {
                assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                std::thread::yield_now();
                inside.fetch_sub(1, Ordering::SeqCst);
                sender.send((number, outcome.is_ok())).unwrap();
                assert_ne!(number, 50, "on purpose");
            };
            queue.on_complete(Box::new(handler)).unwrap();
        }
        queue.flush(Flush::Start).unwrap();
        for number in 0..100 {
            assert_eq!(receiver.recv_timeout(FOREVER), Ok((number, true)));
        }
    }

    #[test]
    fn one_worker_is_enough_for_handlers_that_synchronise() {
        let device = device(1);
        let mut first = queue(&device, 0);
        let (sender, receiver) = channel();
        let inner = Arc::clone(&device);
        let handler = move |_| {
            let (mut a, mut b) = (queue(&inner, 1), queue(&inner, 2));
            let event = inner.create_event(false).unwrap();
            encode(&mut *a, &Op::Nop);
            a.record(&*event).unwrap();
            b.wait(&*event).unwrap();
            let tick = encode(&mut *b, &Op::Nop);
            b.flush(Flush::Start).unwrap();
            let deadline = Some(std::time::Instant::now() + FOREVER);
            sender.send(b.progress().wait(tick, deadline)).unwrap();
        };
        first.on_complete(Box::new(handler)).unwrap();
        let later = encode(&mut *first, &Op::Nop);
        first.flush(Flush::Start).unwrap();
        assert_eq!(first.progress().wait(later, None), Ok(()));
        assert_eq!(receiver.recv_timeout(FOREVER), Ok(Ok(())));
    }

    #[test]
    fn one_that_blocks_the_only_worker_holds_up_no_waiter() {
        let device = device(1);
        let mut queue = queue(&device, 0);
        let (go, gone) = channel::<()>();
        let (sender, entered) = channel();
        let handler = move |_| {
            sender.send(()).unwrap();
            gone.recv().unwrap();
        };
        queue.on_complete(Box::new(handler)).unwrap();
        queue.flush(Flush::Start).unwrap();
        entered.recv_timeout(FOREVER).unwrap();
        let later = encode(&mut *queue, &Op::Nop);
        let deadline = Some(std::time::Instant::now() + FOREVER);
        assert_eq!(queue.progress().wait(later, deadline), Ok(()));
        go.send(()).unwrap();
    }

    #[test]
    fn they_get_the_fault() {
        let device = device(1);
        let mut queue = queue(&device, 0);
        let (sender, receiver) = channel();
        device.injector().fail_op(OpMatcher::any(), 1, "boom");
        encode(&mut *queue, &Op::Nop);
        queue
            .on_complete(Box::new(move |outcome| sender.send(outcome).unwrap()))
            .unwrap();
        queue.flush(Flush::Start).unwrap();
        let outcome = receiver.recv_timeout(FOREVER).unwrap();
        assert_eq!(outcome.unwrap_err().message(), "boom");
    }

    #[test]
    fn one_may_drop_the_last_handle_of_the_device() {
        for _ in 0..100 {
            let device = device(2);
            let mut queue = queue(&device, 0);
            let (go, gone) = channel::<()>();
            let (sender, receiver) = channel();
            let inner = Arc::clone(&device);
            let handler = move |_| {
                gone.recv().unwrap();
                drop(inner);
                sender.send(()).unwrap();
            };
            queue.on_complete(Box::new(handler)).unwrap();
            drop((queue, device));
            go.send(()).unwrap();
            assert_eq!(receiver.recv_timeout(FOREVER), Ok(()));
        }
    }
}
