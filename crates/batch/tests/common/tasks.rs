//! Futures polled by hand, waited for by a thread, and run by a small executor.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

/// A waker that counts.
#[derive(Default)]
pub struct Bell(AtomicUsize);

impl Bell {
    pub fn new() -> Arc<Bell> {
        Arc::default()
    }

    pub fn poll<F: Future + ?Sized>(self: &Arc<Self>, future: &mut Pin<Box<F>>) -> Poll<F::Output> {
        let waker = Waker::from(self.clone());
        future.as_mut().poll(&mut Context::from_waker(&waker))
    }

    /// How often it was woken.
    pub fn rings(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

struct Sleeper(Thread);

impl Wake for Sleeper {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Runs a future on this thread to its end.
pub fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = std::pin::pin!(future);
    let waker = Waker::from(Arc::new(Sleeper(thread::current())));
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}

pub type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Tasks that are run by a few threads, until all are over.
#[derive(Default)]
pub struct Executor {
    ready: Mutex<VecDeque<Arc<Task>>>,
    changed: Condvar,
    left: AtomicUsize,
}

struct Task {
    work: Mutex<Option<Work>>,
    executor: Arc<Executor>,
}

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        let executor = self.executor.clone();
        executor.ready.lock().unwrap().push_back(self);
        executor.changed.notify_one();
    }
}

impl Executor {
    pub fn spawn(self: &Arc<Self>, work: impl Future<Output = ()> + Send + 'static) {
        self.left.fetch_add(1, Ordering::SeqCst);
        let task = Task {
            work: Mutex::new(Some(Box::pin(work))),
            executor: self.clone(),
        };
        Arc::new(task).wake();
    }

    fn next(&self) -> Option<Arc<Task>> {
        let ready = self.ready.lock().unwrap();
        let nothing =
            |ready: &mut VecDeque<_>| ready.is_empty() && self.left.load(Ordering::SeqCst) > 0;
        self.changed.wait_while(ready, nothing).unwrap().pop_front()
    }

    /// What each thread does.
    pub fn run(&self) {
        while let Some(task) = self.next() {
            let mut place = task.work.lock().unwrap();
            let Some(work) = &mut *place else { continue };
            let waker = Waker::from(task.clone());
            if work
                .as_mut()
                .poll(&mut Context::from_waker(&waker))
                .is_ready()
            {
                *place = None;
                if self.left.fetch_sub(1, Ordering::SeqCst) == 1 {
                    let _order = self.ready.lock().unwrap();
                    self.changed.notify_all();
                }
            }
        }
    }
}
