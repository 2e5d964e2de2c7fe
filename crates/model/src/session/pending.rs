//! Runs that are under way while their caller does something else.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

use streampool_runtime::{Event, EventStatus, Stream};

use super::lanes::Ready;
use super::{Inner, Outputs};
use crate::error::Result;

/// A run under way. It is a future of the outputs, and can be waited for, too. Dropped, it runs to its end unseen.
#[must_use = "a run under way is waited for, or awaited"]
pub struct Pending(State);

enum State {
    /// On its stream, with an event recorded behind it.
    Running(Box<Running>),
    /// Over before it was returned.
    Over(Result<Outputs>),
    /// Taken.
    Taken,
}

pub(super) struct Running {
    pub inner: Arc<Inner>,
    pub stream: Stream,
    /// Behind the run.
    pub event: Arc<Event>,
    pub ready: Option<Ready>,
    /// Who is to be woken, once the stream was told to.
    pub waker: Option<Arc<Mutex<Waker>>>,
}

impl Pending {
    pub(super) fn running(running: Running) -> Pending {
        Pending(State::Running(Box::new(running)))
    }

    pub(super) fn over(outputs: Result<Outputs>) -> Pending {
        Pending(State::Over(outputs))
    }

    /// Waits for the outputs; the waiting thread may do the work itself.
    pub fn wait(mut self) -> Result<Outputs> {
        match std::mem::replace(&mut self.0, State::Taken) {
            State::Running(mut running) => {
                running.event.wait()?;
                running.finish()
            }
            State::Over(outputs) => outputs,
            State::Taken => unreachable!("it is taken by value, or by the poll that was ready"),
        }
    }

    /// Whether the outputs are there. Never blocks.
    pub fn is_ready(&self) -> bool {
        match &self.0 {
            State::Running(running) => !matches!(running.event.query(), Ok(EventStatus::Pending)),
            State::Over(_) | State::Taken => true,
        }
    }
}

impl Running {
    fn finish(&mut self) -> Result<Outputs> {
        let mut ready = self
            .ready
            .take()
            .unwrap_or_else(|| unreachable!("it is finished once"));
        let outputs = self.inner.read_outputs(&mut ready)?;
        self.inner.lanes.give(self.stream.index(), ready);
        Ok(outputs)
    }

    /// Has `waker` woken when the run is over.
    fn wake(&mut self, waker: &Waker) -> Result<()> {
        if let Some(known) = &self.waker {
            known
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .clone_from(waker);
            return Ok(());
        }
        let shared = Arc::new(Mutex::new(waker.clone()));
        self.waker = Some(shared.clone());
        self.stream.on_complete(move |_| {
            let waker = shared
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .clone();
            waker.wake();
        })?;
        Ok(())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Who writes its inputs next waits until this run no longer reads them.
        if let Some(mut ready) = self.ready.take()
            && self.stream.fault().is_none()
        {
            ready.under_way(self.event.clone());
            self.inner.lanes.give(self.stream.index(), ready);
        }
    }
}

impl Future for Pending {
    type Output = Result<Outputs>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<Outputs>> {
        let result = match &mut self.0 {
            State::Running(running) => match running.wake(context.waker()) {
                Err(error) => Err(error),
                // Asked after the waker is known: whatever comes in between wakes.
                Ok(()) => match running.event.query() {
                    Ok(EventStatus::Pending) => return Poll::Pending,
                    Ok(_) => running.finish(),
                    Err(error) => Err(error.into()),
                },
            },
            State::Over(_) => match std::mem::replace(&mut self.0, State::Taken) {
                State::Over(outputs) => outputs,
                _ => unreachable!("it was just looked at"),
            },
            State::Taken => panic!("polled after it was ready"),
        };
        self.0 = State::Taken;
        Poll::Ready(result)
    }
}
