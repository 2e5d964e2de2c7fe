//! Runs that are under way while their caller does something else.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use super::under_way::Run;
use super::{Inner, Outputs};
use crate::error::Result;

/// A run under way. It is a future of the outputs, and can be waited for, too. Dropped, it runs to its end unseen.
///
/// Once its program is wanted for another run on its stream it holds only its outputs.
///
/// One that is forgotten (`mem::forget`) keeps its program from others until then, which is when as many runs are under way
/// on the stream as may be, and its outputs for as long as the process lives.
#[must_use = "a run under way is waited for, or awaited"]
pub struct Pending(State);

enum State {
    /// Begun, and perhaps over.
    Begun(Arc<Inner>, Arc<Run>),
    /// Over before it was returned.
    Over(Result<Outputs>),
    /// Taken.
    Taken,
}

impl Pending {
    pub(super) fn begun(inner: Arc<Inner>, run: Arc<Run>) -> Pending {
        Pending(State::Begun(inner, run))
    }

    pub(super) fn over(outputs: Result<Outputs>) -> Pending {
        Pending(State::Over(outputs))
    }

    /// Waits for the outputs; the waiting thread may do the work itself.
    pub fn wait(mut self) -> Result<Outputs> {
        self.take()
            .unwrap_or_else(|| unreachable!("it is taken by value, or by the poll that was ready"))
    }

    /// Whether the outputs are there. Never blocks.
    pub fn is_ready(&self) -> bool {
        match &self.0 {
            State::Begun(_, run) => run.is_over(),
            State::Over(_) | State::Taken => true,
        }
    }

    fn take(&mut self) -> Option<Result<Outputs>> {
        match std::mem::replace(&mut self.0, State::Taken) {
            State::Begun(inner, run) => run.take(&inner),
            State::Over(outputs) => Some(outputs),
            State::Taken => None,
        }
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if let State::Begun(inner, run) = &self.0 {
            run.abandon(inner);
        }
    }
}

impl Future for Pending {
    type Output = Result<Outputs>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<Outputs>> {
        if let State::Begun(_, run) = &self.0
            && !run.is_over()
            && !run.wake(context.waker())
        {
            return Poll::Pending;
        }
        match self.take() {
            Some(outputs) => Poll::Ready(outputs),
            None => panic!("polled after it was ready"),
        }
    }
}
