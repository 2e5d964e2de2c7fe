//! Runs that are under way while their caller does something else.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use super::blame::{by_itself, is_of_another};
use super::input::Input;
use super::options::RunOptions;
use super::outputs::Outputs;
use super::prepared::Prepared;
use super::under_way::{Run, RunState};
use crate::error::{Error, Result};

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
    Begun(Arc<Prepared>, Arc<Run>),
    /// Over before it was returned.
    Over(Result<Outputs>),
    /// Taken.
    Taken,
}

impl Pending {
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
            State::Begun(model, run) => model.take(&run),
            State::Over(outputs) => Some(outputs),
            State::Taken => None,
        }
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if let State::Begun(model, run) = &self.0 {
            model.abandon(run);
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

impl Prepared {
    /// As [`run_arrays`](Self::run_arrays), without waiting; or the run that has to be over first.
    pub fn submit_arrays(
        self: &Arc<Self>,
        inputs: &[Input<'_>],
        options: &RunOptions,
    ) -> Result<std::result::Result<Pending, Arc<Run>>> {
        options.check()?;
        if self.check_closed().is_err() {
            // What a string's number means is known to the run alone, and so is read there.
            let outputs = self.run_arrays(inputs, options);
            return Ok(Ok(Pending(State::Over(outputs))));
        }
        let stream = self.pool().current()?;
        if let Some(oldest) = self.under_way.in_the_way(stream) {
            return Ok(Err(oldest));
        }
        let begun = self.spend(options, || {
            by_itself(stream, options, || {
                let ends = self.array_ends();
                let Some(mut ready) = self.ready(stream, inputs, ends, None)? else {
                    return Ok(None);
                };
                let stamp = self.start(stream, &mut ready, inputs)?;
                Ok(Some(Run::new(stream, ready, stamp, self.event_on(stream)?)))
            })
        });
        let Some(run) = begun? else {
            let outputs = self.spend(options, || {
                by_itself(stream, options, || {
                    self.run_parts_to_arrays(stream, inputs, options)
                })
            });
            return Ok(Ok(Pending(State::Over(outputs))));
        };
        self.under_way.add(run.clone());
        Ok(Ok(Pending(State::Begun(self.clone(), run))))
    }

    /// Waits until a run is over and reads its outputs, so that its program serves another. Where it was not executed, because
    /// another run on its stream failed, it is set to work once more.
    pub fn settle(&self, run: &Run) {
        while let Some((stamp, event)) = run.event() {
            // The run of another may have failed before this one, and the stream been recovered before the event was recorded;
            // or it failed between the two. So what the event says is not asked.
            let _ = event.wait();
            let waited = run.stream.wait_until(stamp, None).map_err(Error::from);
            let is_skipped = waited
                .as_ref()
                .is_err_and(|error| is_of_another(&run.stream, error, stamp));
            let is_again = is_skipped && run.stream.recover().is_ok();
            let mut state = run.state.lock();
            let mut ready = match std::mem::replace(&mut *state, RunState::Taken) {
                RunState::Running(ready, _, current) if Arc::ptr_eq(&current, &event) => ready,
                // Another thread was faster.
                other => {
                    *state = other;
                    continue;
                }
            };
            if is_again {
                let repeated = self.replay_bound(&run.stream, &mut ready);
                let noted = repeated.and_then(|stamp| Ok((stamp, self.event_on(&run.stream)?)));
                let again = match noted {
                    Ok(again) => Some(again),
                    // By now yet another run has failed there.
                    Err(error) => error.on_stream().map(|_| (stamp, event.clone())),
                };
                if let Some((stamp, event)) = again {
                    *state = RunState::Running(ready, stamp, event);
                    continue;
                }
            }
            let is_good = waited.is_ok();
            // What is known is read from a stream, too.
            let mut read = || {
                let stream = self.weights.known().current()?;
                by_itself(stream, &RunOptions::default(), || {
                    self.read_outputs(&mut ready)
                })
            };
            *state = RunState::Over(waited.and_then(|()| read()));
            drop(state);
            drop(event);
            // After a fault nobody knows what it left behind. Who comes next gets a stream without it.
            match is_good {
                true => self.give(&run.stream, *ready),
                false => drop(run.stream.recover()),
            }
        }
    }

    /// The outputs of a run, once it is over. They are there once.
    fn take(&self, run: &Run) -> Option<Result<Outputs>> {
        self.settle(run);
        match std::mem::replace(&mut *run.state.lock(), RunState::Taken) {
            RunState::Over(outputs) => Some(outputs),
            RunState::Running(..) | RunState::Taken => None,
        }
    }

    /// Lets a run go on to its end unseen.
    fn abandon(&self, run: &Run) {
        let before = std::mem::replace(&mut *run.state.lock(), RunState::Taken);
        // Who writes its inputs next waits until this run no longer reads them.
        if let RunState::Running(mut ready, _, event) = before
            && run.stream.fault().is_none()
        {
            ready.under_way(event);
            self.give(&run.stream, *ready);
        }
    }
}

#[cfg(test)]
mod tests {
    use streampool_runtime::Stamp;
    use streampool_tensor::{Array, DType};

    use super::*;
    use crate::onnx::writer::Graph;
    use crate::session::programs::Ready;
    use crate::session::{Session, SessionOptions};

    #[test]
    fn a_run_is_made_again_though_its_stream_was_recovered_before_its_event() {
        let model = Graph::default()
            .input("x", DType::F32, "n")
            .input("places", DType::I64, "m")
            .node("Add x x = twice", &[])
            .node("Gather twice places = y", &[])
            .outputs("y")
            .model(&[("", 18)]);
        let pool = crate::testing::host_pool();
        let session = Session::from_bytes(&pool, model, &SessionOptions::default()).unwrap();
        let model = &session.model;
        let x = Array::new(&[1f32, 2.0, 3.0], &[3]).unwrap();
        let [good, other, bad] =
            [[2i64, 0], [1, 1], [2, 3]].map(|places| Array::new(&places, &[2]).unwrap());
        let stream = pool.stream(1).unwrap();
        let begun = |places: &Array| {
            let inputs = [Input::from(&x), Input::from(places)];
            let mut ready = model
                .ready(stream, &inputs, model.array_ends(), None)
                .unwrap()
                .expect("it is one program");
            let stamp = model.start(stream, &mut ready, &inputs).unwrap();
            (ready, stamp)
        };
        let over = |(ready, stamp): (Ready, Stamp)| {
            let run = Run::new(stream, ready, stamp, model.event_on(stream).unwrap());
            model.take(&run).expect("nobody else takes it")
        };
        for (places, y) in [(&other, [4f32, 4.0]), (&good, [6.0, 2.0])] {
            let _failed = begun(&bad);
            let begun = begun(places);
            stream.recover().unwrap();
            let outputs = over(begun).unwrap();
            assert_eq!(outputs.at(0), Some(&Array::new(&y, &[2]).unwrap()));
        }
    }
}
