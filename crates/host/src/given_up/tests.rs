//! What is given up ends, and who waits for it goes on.

use std::time::{Duration, Instant};

use streampool_device::{
    Activation, DType, Error, Flush, MatMul, Op, OpKind, Queue, Result, Tick, View,
};

use super::*;
use crate::testing::{Buffer, FOREVER, device, encode, end_capture, queue};

/// A product over so many steps, all of the same two numbers.
fn product(a: &Buffer, out: &Buffer, steps: usize) -> Op {
    let one = |shape: &[usize]| {
        let layout = a.view().layout().broadcast_to(shape).unwrap();
        View::new(a.span(), DType::F32, layout).unwrap()
    };
    let view = out.view();
    let layout = streampool_device::Layout::contiguous(&[1, 1]).unwrap();
    Op::MatMul(MatMul {
        a: one(&[1, steps]),
        b: one(&[steps, 1]),
        out: View::new(view.span(), DType::F32, layout).unwrap(),
        bias: None,
        activation: Activation::None,
        alpha: 1.0,
    })
}

fn wait(queue: &dyn Queue, tick: Tick, time: Duration) -> Result<()> {
    queue
        .progress()
        .wait(tick, Instant::now().checked_add(time))
}

#[test]
fn work_of_days_ends_when_it_is_given_up() {
    let device = device(2);
    let mut queue = queue(&device, 0);
    let [a, out] = [1, 1].map(|elements| Buffer::new(&device, elements));
    let days = product(&a, &out, 1 << 46);
    encode(&mut *queue, &a.fill(1.0));
    for captured in [false, true] {
        let before = queue.progress().completed();
        let tick = match captured {
            false => encode(&mut *queue, &days),
            true => {
                queue.begin_capture().unwrap();
                encode(&mut *queue, &days);
                let program = end_capture(&mut *queue, &[]);
                // SAFETY: the buffers live until the work is over.
                unsafe { queue.replay(&program, &[]).unwrap() }
            }
        };
        let late = wait(&*queue, tick, Duration::from_millis(30));
        assert!(matches!(late, Err(Error::Timeout(_))), "{late:?}");
        queue.progress().give_up(before.max(1), tick);
        let ended = wait(&*queue, tick, FOREVER);
        let Err(Error::Fault(fault)) = ended else {
            panic!("{ended:?}");
        };
        let op = if captured {
            OpKind::Replay
        } else {
            OpKind::MatMul
        };
        assert_eq!((fault.op(), fault.tick()), (op, tick));
        assert!(fault.message().contains("given up"), "{fault}");
        queue.recover().unwrap();
    }
    encode(&mut *queue, &product(&a, &out, 4));
    assert_eq!(out.read(&mut *queue), [4.0]);
}

#[test]
fn what_has_not_begun_is_not_begun() {
    let device = device(1);
    let mut queue = queue(&device, 0);
    let [a, out] = [1, 1].map(|elements| Buffer::new(&device, elements));
    encode(&mut *queue, &out.fill(3.0));
    let first = encode(&mut *queue, &a.fill(1.0));
    let last = encode(&mut *queue, &product(&a, &out, 1 << 46));
    queue.progress().give_up(first, last);
    assert!(matches!(wait(&*queue, last, FOREVER), Err(Error::Fault(_))));
    queue.recover().unwrap();
    assert_eq!(out.read(&mut *queue), [3.0]);
}

#[test]
fn nobody_is_kept_beyond_a_deadline_by_work_of_days() {
    let device = device(1);
    let buffers: Vec<[Buffer; 2]> = (0..3)
        .map(|_| [1, 1].map(|elements| Buffer::new(&device, elements)))
        .collect();
    let mut queues: Vec<_> = (0..3).map(|index| queue(&device, index)).collect();
    let mut ticks = Vec::new();
    for (queue, [a, out]) in queues.iter_mut().zip(&buffers) {
        encode(&mut **queue, &a.fill(1.0));
        ticks.push(encode(&mut **queue, &product(a, out, 1 << 46)));
        queue.flush(Flush::Start).unwrap();
    }
    // There is one worker: the others would have to be executed by who waits.
    for (queue, tick) in queues.iter().zip(&ticks) {
        let late = wait(&**queue, *tick, Duration::from_millis(50));
        assert!(matches!(late, Err(Error::Timeout(_))), "{late:?}");
    }
    for (queue, tick) in queues.iter().zip(&ticks) {
        queue.progress().give_up(0, *tick);
    }
    for (queue, tick) in queues.iter().zip(&ticks) {
        assert!(matches!(
            wait(&**queue, *tick, FOREVER),
            Err(Error::Fault(_))
        ));
    }
}

#[test]
fn only_what_was_given_up_is_included() {
    let given_up = GivenUp::default();
    assert!(!given_up.includes(1));
    given_up.add(2, 4, 0);
    let included = |ticks: std::ops::Range<u64>| -> Vec<bool> {
        ticks.map(|tick| given_up.includes(tick)).collect()
    };
    assert_eq!(included(2..6), [false, true, true, false]);
    // Both stretches are under way.
    given_up.add(6, 7, 1);
    assert_eq!(included(2..9), [false, true, true, true, true, true, false]);
    // The first is over.
    given_up.add(9, 9, 8);
    assert_eq!(included(6..10), [false; 4]);
}

#[test]
fn a_kernel_is_told() {
    let given_up = Arc::new(GivenUp::default());
    let watch = Watch {
        given_up: given_up.clone(),
        tick: 1,
    };
    watch.clone().within(check);
    given_up.add(0, 1, 0);
    let stopped = streampool_device::foreign::call(|| watch.within(check));
    assert!(stopped.unwrap_err().payload::<Stopped>().is_some());
    check();
}

/// Calls its function when the thread that has it ends.
struct AtExit(Option<Box<dyn FnOnce()>>);

impl Drop for AtExit {
    fn drop(&mut self) {
        if let Some(call) = self.0.take() {
            call();
        }
    }
}

thread_local! {
    static AT_EXIT: RefCell<AtExit> = const { RefCell::new(AtExit(None)) };
}

#[test]
fn a_thread_that_ends_still_finishes_its_work() {
    let device = device(1);
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let mut queue = queue(&device, 0);
        let [a, out] = [1, 1].map(|elements| Buffer::new(&device, elements));
        encode(&mut *queue, &a.fill(1.0));
        // Locals go in the order opposite to that of their first use: the watch before this.
        AT_EXIT.with_borrow_mut(|at_exit| {
            let large = product(&a, &out, 1 << 24);
            at_exit.0 = Some(Box::new(move || {
                let tick = encode(&mut *queue, &large);
                let waited = wait(&*queue, tick, FOREVER);
                drop((a, out));
                let _ = sender.send(waited);
            }));
        });
        assert!(Watch::current().is_none());
    })
    .join()
    .unwrap();
    receiver.recv().unwrap().unwrap();
}
