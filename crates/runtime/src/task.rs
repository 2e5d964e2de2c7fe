//! Tasks: a stream that follows a future from thread to thread.

use std::pin::Pin;
use std::task::{Context, Poll};

use crate::binding::{self, Binding};

/// A future with a current stream of its own; made by [`Pool::bind_future`](crate::Pool::bind_future).
///
/// Executors move tasks between threads, so a thread's stream is not a task's. Each poll runs with the
/// task's stream as the thread's current one.
pub struct OnStream<F> {
    binding: Binding,
    future: Pin<Box<F>>,
}

impl<F> OnStream<F> {
    pub(crate) fn new(binding: Binding, future: F) -> Self {
        OnStream {
            binding,
            future: Box::pin(future),
        }
    }
}

impl<F: Future> Future for OnStream<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let _entered = binding::enter(self.binding);
        self.future.as_mut().poll(context)
    }
}
