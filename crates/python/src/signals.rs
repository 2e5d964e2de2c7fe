//! Waits that Ctrl-C ends.
//!
//! Python runs handlers of signals on its main thread, and only while that thread has the interpreter. So a wait of the main thread
//! takes it from time to time. A handler that raises ends the wait; what was waited for goes on to its end unseen.

use std::cell::Cell;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::{Duration, Instant};

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

/// So often handlers of signals get their turn.
pub const TURN: Duration = Duration::from_millis(20);

/// Whether this is Python's main thread, which alone handles signals.
pub fn is_main(py: Python<'_>) -> PyResult<bool> {
    thread_local!(static IS_MAIN: Cell<Option<bool>> = const { Cell::new(None) });
    if let Some(known) = IS_MAIN.get() {
        return Ok(known);
    }
    let threading = py.import("threading")?;
    let main: u64 = threading
        .call_method0("main_thread")?
        .getattr("ident")?
        .extract()?;
    let own: u64 = threading.call_method0("get_ident")?.extract()?;
    IS_MAIN.set(Some(main == own));
    Ok(main == own)
}

/// Does without the interpreter what may take long. On the main thread another thread does it, which costs about 50 µs.
pub fn patiently<R: Send + 'static>(
    py: Python<'_>,
    work: impl FnOnce() -> R + Send + 'static,
) -> PyResult<R> {
    if !is_main(py)? {
        return Ok(py.detach(work));
    }
    let (sender, mut receiver) = channel();
    std::thread::Builder::new()
        .name("streampool-wait".to_owned())
        .spawn(move || {
            // Nobody listens after a signal.
            let _ = sender.send(work());
        })?;
    loop {
        let (back, got) = py.detach(move || {
            let got = receiver.recv_timeout(TURN);
            (receiver, got)
        });
        receiver = back;
        match got {
            Ok(done) => return Ok(done),
            Err(RecvTimeoutError::Timeout) => py.check_signals()?,
            Err(RecvTimeoutError::Disconnected) => {
                return Err(PyRuntimeError::new_err("what was waited for panicked"));
            }
        }
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Waits for a future. Dropped after a signal, it is withdrawn.
pub fn block_on<F>(py: Python<'_>, future: F) -> PyResult<F::Output>
where
    F: Future + Send,
    F::Output: Send,
{
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut future = pin!(future);
    loop {
        let done = py.detach(|| {
            let begun = Instant::now();
            loop {
                if let Poll::Ready(done) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
                    return Some(done);
                }
                let left = TURN.checked_sub(begun.elapsed())?;
                std::thread::park_timeout(left);
            }
        });
        match done {
            Some(done) => return Ok(done),
            None => py.check_signals()?,
        }
    }
}
