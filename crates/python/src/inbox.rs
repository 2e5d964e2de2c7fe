//! Answers on their way to an event loop of asyncio.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use pyo3::intern;
use pyo3::prelude::*;

/// What is over: it makes the answer for Python.
pub type Finished = Box<dyn FnOnce(Python<'_>) -> PyResult<Py<PyAny>> + Send>;

/// So many answers are told in one round of the loop: others of its tasks have their turn between.
const MOST: usize = 16;

struct Waiting {
    answers: VecDeque<(Finished, Py<PyAny>)>,
    /// Whether the loop is to call `deliver`.
    is_rung: bool,
}

/// Answers to the tasks of one event loop. The loop's own thread makes arrays of them: so no thread takes the interpreter from it.
#[pyclass(frozen, module = "streampool._streampool")]
pub struct Inbox {
    waiting: Mutex<Waiting>,
    call_soon: Py<PyAny>,
    call_soon_threadsafe: Py<PyAny>,
}

impl Inbox {
    /// Adds an answer for a future of the loop's. Says whether the loop has to be rung.
    pub fn put(&self, answer: Finished, future: Py<PyAny>) -> bool {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.answers.push_back((answer, future));
        !std::mem::replace(&mut waiting.is_rung, true)
    }

    /// Has the loop call `deliver`. One that is closed has nobody left who waits.
    pub fn ring(slf: &Bound<'_, Inbox>) {
        let this = slf.get();
        let rung = slf
            .getattr(intern!(slf.py(), "deliver"))
            .and_then(|deliver| this.call_soon_threadsafe.call1(slf.py(), (deliver,)));
        if rung.is_err() {
            this.clear();
        }
    }

    fn clear(&self) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.is_rung = false;
        let answers = std::mem::take(&mut waiting.answers);
        drop(waiting);
        drop(answers);
    }

    fn next(&self) -> Option<(Finished, Py<PyAny>)> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let next = waiting.answers.pop_front();
        waiting.is_rung = next.is_some();
        next
    }
}

#[pymethods]
impl Inbox {
    #[new]
    fn of(event_loop: &Bound<'_, PyAny>) -> PyResult<Inbox> {
        Ok(Inbox {
            waiting: Mutex::new(Waiting {
                answers: VecDeque::new(),
                is_rung: false,
            }),
            call_soon: event_loop.getattr("call_soon")?.unbind(),
            call_soon_threadsafe: event_loop.getattr("call_soon_threadsafe")?.unbind(),
        })
    }

    /// Tells some of the answers. The event loop calls it.
    fn deliver(slf: &Bound<'_, Inbox>) -> PyResult<()> {
        let (py, this) = (slf.py(), slf.get());
        for _ in 0..MOST {
            let Some((finish, future)) = this.next() else {
                return Ok(());
            };
            let future = future.bind(py);
            if let Err(why) = tell(future, finish) {
                why.write_unraisable(py, Some(future));
            }
        }
        let again = slf
            .getattr(intern!(slf.py(), "deliver"))
            .and_then(|deliver| this.call_soon.call1(py, (deliver,)));
        if again.is_err() {
            this.clear();
        }
        Ok(())
    }
}

/// Completes a future of an event loop's.
fn tell(future: &Bound<'_, PyAny>, finish: Finished) -> PyResult<()> {
    let py = future.py();
    // It was cancelled.
    if future.call_method0(intern!(py, "done"))?.is_truthy()? {
        return Ok(());
    }
    let set_exception = |error: PyErr| {
        let exception = (error.into_value(py),);
        future.call_method1(intern!(py, "set_exception"), exception)
    };
    match finish(py) {
        Ok(value) => future.call_method1(intern!(py, "set_result"), (value,))?,
        // A future refuses StopIteration, and says so.
        Err(error) => set_exception(error).or_else(set_exception)?,
    };
    Ok(())
}
