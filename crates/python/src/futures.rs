//! Runs and requests under way as futures of Python.
//!
//! One thread polls them all: each wakes it when it may be over, and it tells Python's futures, many at a time.

use std::collections::{BTreeSet, HashMap};
use std::future::Future;
use std::pin::Pin;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::JoinHandle;
use std::time::Instant;

use pyo3::intern;
use pyo3::prelude::*;

use crate::errors::raise;
use crate::inbox::{Finished, Inbox};

/// What makes an answer for Python of what a run gave.
pub type Finish<T> = Box<dyn FnOnce(Python<'_>, T) -> PyResult<Py<PyAny>> + Send>;

/// How far an answer is.
type Polled = Poll<Finished>;

/// Who is told.
pub enum Answer {
    /// A future of `concurrent.futures`.
    Future(Py<PyAny>),
    /// A future of an event loop.
    Task(Py<Inbox>, Py<PyAny>),
}

impl Answer {
    /// The answer to a future of an event loop's if there is an inbox for it.
    pub fn to(future: Py<PyAny>, inbox: Option<Py<Inbox>>) -> Answer {
        match inbox {
            Some(inbox) => Answer::Task(inbox, future),
            None => Answer::Future(future),
        }
    }
}

/// So many futures are told before other threads have their turn with the interpreter.
const MOST: usize = 16;

/// A run or a request under way, whatever its type.
trait UnderWay: Send {
    fn poll(&mut self, context: &mut Context<'_>) -> Polled;
}

struct Run<F, T> {
    future: Pin<Box<F>>,
    finish: Option<Finish<T>>,
}

/// What the thread knows of one.
struct Entry {
    run: Box<dyn UnderWay>,
    answer: Answer,
    /// When it is not waited for any longer.
    deadline: Option<Instant>,
}

impl<T, E, F> UnderWay for Run<F, T>
where
    T: Send + 'static,
    E: Into<streampool::Error> + Send + 'static,
    F: Future<Output = Result<T, E>> + Send,
{
    fn poll(&mut self, context: &mut Context<'_>) -> Polled {
        let Poll::Ready(result) = self.future.as_mut().poll(context) else {
            return Poll::Pending;
        };
        let Some(finish) = self.finish.take() else {
            unreachable!("it is not polled again once it is over");
        };
        Poll::Ready(Box::new(move |py| match result {
            Ok(given) => finish(py, given),
            Err(error) => Err(raise(py, error)),
        }))
    }
}

enum Message {
    New(u64, Entry),
    Wake(u64),
    Cancel(u64),
    Stop,
}

/// The thread that polls, and how it is told.
struct Poller {
    sender: Sender<Message>,
    thread: Option<JoinHandle<()>>,
    next: u64,
}

static POLLER: Mutex<Option<Poller>> = Mutex::new(None);

fn with_poller<R>(work: impl FnOnce(&mut Poller) -> R) -> std::io::Result<R> {
    let mut poller = POLLER.lock().unwrap_or_else(PoisonError::into_inner);
    if poller.is_none() {
        let (sender, receiver) = channel();
        let own = sender.clone();
        let thread = std::thread::Builder::new()
            .name("streampool-futures".to_owned())
            .spawn(move || poll_all(&own, &receiver))?;
        *poller = Some(Poller {
            sender,
            thread: Some(thread),
            next: 0,
        });
    }
    Ok(work(
        poller.get_or_insert_with(|| unreachable!("it was just made")),
    ))
}

/// Completes `answer`, a future of Python's, when `run` is over, or fails it at the deadline. The number withdraws it.
pub fn complete<T, E, F>(
    run: F,
    answer: Answer,
    deadline: Option<Instant>,
    finish: Finish<T>,
) -> PyResult<u64>
where
    T: Send + 'static,
    E: Into<streampool::Error> + Send + 'static,
    F: Future<Output = Result<T, E>> + Send + 'static,
{
    let run = Run {
        future: Box::pin(run),
        finish: Some(finish),
    };
    let entry = Entry {
        run: Box::new(run),
        answer,
        deadline,
    };
    let id = with_poller(|poller| {
        poller.next += 1;
        // The thread ends only when it is told to, and then nothing is added.
        let _ = poller.sender.send(Message::New(poller.next, entry));
        poller.next
    })?;
    Ok(id)
}

/// Drops a run or a request that its future was cancelled for: a request that has not begun never does.
#[pyfunction]
pub fn cancel(id: u64) {
    let poller = POLLER.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(poller) = poller.as_ref() {
        let _ = poller.sender.send(Message::Cancel(id));
    }
}

struct Woken {
    id: u64,
    sender: Mutex<Sender<Message>>,
}

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        let sender = self.sender.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = sender.send(Message::Wake(self.id));
    }
}

/// What is under way, and when it is given up.
#[derive(Default)]
struct AllUnderWay {
    entries: HashMap<u64, Entry>,
    deadlines: BTreeSet<(Instant, u64)>,
}

impl AllUnderWay {
    fn add(&mut self, id: u64, entry: Entry) {
        self.deadlines
            .extend(entry.deadline.map(|deadline| (deadline, id)));
        self.entries.insert(id, entry);
    }

    fn remove(&mut self, id: u64) -> Option<Answer> {
        let entry = self.entries.remove(&id)?;
        if let Some(deadline) = entry.deadline {
            self.deadlines.remove(&(deadline, id));
        }
        Some(entry.answer)
    }

    /// Takes out one whose deadline is over.
    fn late(&mut self) -> Option<Answer> {
        let &(deadline, id) = self.deadlines.first()?;
        (deadline <= Instant::now())
            .then(|| self.remove(id))
            .flatten()
    }

    /// The next message; none if a deadline is over before it.
    fn next(&self, receiver: &Receiver<Message>) -> Result<Option<Message>, RecvTimeoutError> {
        let Some((deadline, _)) = self.deadlines.first() else {
            return Ok(Some(receiver.recv()?));
        };
        match receiver.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Err(RecvTimeoutError::Timeout) => Ok(None),
            message => message.map(Some),
        }
    }
}

fn poll_all(sender: &Sender<Message>, receiver: &Receiver<Message>) {
    let mut under_way = AllUnderWay::default();
    let (mut over, mut to_ring) = (Vec::new(), Vec::new());
    while let Ok(first) = under_way.next(receiver) {
        let mut answered = |finish: Finished, answer: Answer| match answer {
            Answer::Future(future) => over.push((finish, future)),
            Answer::Task(inbox, future) => {
                if inbox.get().put(finish, future) {
                    to_ring.push(inbox);
                }
            }
        };
        for message in first.into_iter().chain(receiver.try_iter()) {
            let id = match message {
                Message::New(id, entry) => {
                    under_way.add(id, entry);
                    id
                }
                Message::Wake(id) => id,
                Message::Cancel(id) => {
                    under_way.remove(id);
                    continue;
                }
                Message::Stop => return,
            };
            let Some(entry) = under_way.entries.get_mut(&id) else {
                continue;
            };
            let waker = Waker::from(Arc::new(Woken {
                id,
                sender: Mutex::new(sender.clone()),
            }));
            if let Poll::Ready(finish) = entry.run.poll(&mut Context::from_waker(&waker))
                && let Some(answer) = under_way.remove(id)
            {
                answered(finish, answer);
            }
        }
        while let Some(answer) = under_way.late() {
            answered(
                Box::new(|py| Err(raise(py, streampool::model::Error::Deadline))),
                answer,
            );
        }
        if over.is_empty() && to_ring.is_empty() {
            continue;
        }
        // The interpreter may be ending: then nobody waits.
        let told = Python::try_attach(|py| {
            for inbox in to_ring.drain(..) {
                Inbox::ring(inbox.bind(py));
            }
            while !over.is_empty() {
                for (finish, future) in over.drain(..over.len().min(MOST)) {
                    let future = future.into_bound(py);
                    if let Err(why) = tell(&future, finish(py)) {
                        why.write_unraisable(py, Some(&future));
                    }
                }
                py.detach(|| {});
            }
        });
        if told.is_none() {
            return;
        }
    }
}

/// Completes a future of Python's.
pub fn tell(answer: &Bound<'_, PyAny>, result: PyResult<Py<PyAny>>) -> PyResult<()> {
    let py = answer.py();
    // False if the caller has cancelled it.
    if !answer
        .call_method0(intern!(py, "set_running_or_notify_cancel"))?
        .is_truthy()?
    {
        return Ok(());
    }
    match result {
        Ok(value) => answer.call_method1(intern!(py, "set_result"), (value,))?,
        Err(error) => answer.call_method1(intern!(py, "set_exception"), (error.into_value(py),))?,
    };
    Ok(())
}

/// Ends the thread. The package calls it when the interpreter ends.
#[pyfunction]
pub fn stop(py: Python<'_>) {
    let poller = POLLER.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(mut poller) = poller {
        let _ = poller.sender.send(Message::Stop);
        if let Some(thread) = poller.thread.take() {
            let _ = py.detach(|| thread.join());
        }
    }
}

/// Forgets the thread, which a forked child does not have.
#[pyfunction]
pub fn forget_after_fork() {
    if let Ok(mut poller) = POLLER.try_lock() {
        std::mem::forget(poller.take());
    }
}
