//! Models behind queues: requests of many callers become batches of a session.

use std::sync::atomic::{AtomicUsize, Ordering};

use streampool_batch::{self as batch, Batch, BatchQueue, BatchQueueBuilder, InferAll, Request};
use streampool_device::DeviceKind;
use streampool_model::graph::Dim;
use streampool_model::{Array, Input, Rows, RunOptions, Session};

use crate::batch_stream::OwnStream;
use crate::error::{Error, Result};

/// Makes a [`BatchQueue`] in front of a session.
pub trait ForSession: Sized {
    /// A queue in front of a session, whose inputs and outputs all have their rows along the first axis.
    ///
    /// The queue leases one stream. Batches that run beside each other take further ones while they run, if there are any, and else
    /// wait for the first. So a device has room for as many queues as it has streams. On a GPU, eight batches are in flight by default,
    /// and they are filled up to a few sizes, so that few programs serve all. Requests that the model does not take are refused when they
    /// come.
    ///
    /// ```no_run
    /// use streampool::prelude::*;
    ///
    /// let session = Session::load(&streampool::host_pool()?, "model.onnx")?;
    /// let queue = BatchQueue::for_session(&session, BatchQueue::builder().max_batch_size(16))?;
    /// std::thread::scope(|scope| {
    ///     for _ in 0..64 {
    ///         scope.spawn(|| {
    ///             let row = Array::new(&[0.5f32; 16], &[1, 16]).expect("16 elements");
    ///             println!("{:?}", queue.infer(row));
    ///         });
    ///     }
    /// });
    /// # Ok::<(), streampool::Error>(())
    /// ```
    fn for_session(session: &Session, settings: BatchQueueBuilder) -> Result<Self>;
}

impl ForSession for BatchQueue {
    fn for_session(session: &Session, settings: BatchQueueBuilder) -> Result<BatchQueue> {
        for (input, port) in session.inputs().iter().enumerate() {
            let shape = port.shape.as_deref();
            if let Some([] | [Dim::Fixed(_), ..]) = shape {
                let sizes = shape.unwrap_or_default().iter().map(Dim::to_string);
                return Err(batch::Error::Request {
                    input,
                    got: format!(
                        "{:?} of [{}]",
                        port.name,
                        sizes.collect::<Vec<_>>().join(", ")
                    ),
                    expected: "any number of rows along a first axis".to_owned(),
                }
                .into());
            }
        }
        let is_gpu = session.pool().device().properties().kind != DeviceKind::Host;
        let settings = match is_gpu {
            true => settings.max_in_flight_by_default(GPU_IN_FLIGHT),
            false => settings,
        };
        let own = OwnStream::new(session.pool())?;
        let most = settings.most_rows();
        let checked = session.clone();
        let settings = settings.accepts(move |inputs| check(&checked, inputs));
        let session = session.clone();
        let row_bytes = AtomicUsize::new(0);
        let queue = settings.build(move |batch: Batch| -> batch::Result<Batch> {
            streampool_device::span!("batch", rows = batch.rows(), lane = batch.lane());
            let rows = match is_gpu {
                true => filled_up(batch.rows()).min(most.max(batch.rows())),
                false => batch.rows(),
            };
            let stream = own.for_batch(session.pool(), batch.deadline());
            let stream = stream.ok_or(batch::Error::Expired)?;
            let outputs = session
                .pool()
                .with_stream(&stream, || run(&session, &batch, rows, &row_bytes));
            let outputs = outputs.map_err(batch::Error::failed).flatten();
            if outputs.is_err() && stream.fault().is_some() {
                // What failed is told to its callers; the stream serves those who come next.
                stream.recover().map_err(batch::Error::unavailable)?;
            }
            outputs
        });
        Ok(queue?)
    }
}

/// Refuses inputs that the session would refuse.
fn check(session: &Session, inputs: &[Array]) -> batch::Result<()> {
    let given: Vec<Input<'_>> = inputs.iter().map(Input::from).collect();
    session.check(&given).map_err(|error| match error {
        streampool_model::Error::Input {
            name,
            got,
            expected,
        } => {
            let place = session.inputs().iter().position(|port| port.name == name);
            batch::Error::Request {
                input: place.unwrap_or(session.inputs().len()),
                got,
                expected: match place {
                    Some(_) => format!("{expected} for {name:?}"),
                    None => format!("no more than {}", session.inputs().len()),
                },
            }
        }
        other => batch::Error::failed(other),
    })
}

/// A GPU takes several small batches at once, and while callers are few they need not wait for each other.
const GPU_IN_FLIGHT: usize = 8;

/// Rows of at least so many bytes are copied to their callers' arrays at once. Smaller ones are copied for all together, and by
/// each caller for itself: that takes less memory to be allocated here.
const LARGE_ROW: usize = 16 << 10;

/// Runs a batch as one of so many rows.
fn run(
    session: &Session,
    batch: &Batch,
    rows: usize,
    row_bytes: &AtomicUsize,
) -> batch::Result<Batch> {
    let inputs = (0..batch.inputs()).map(|input| Rows::new(batch.parts(input), rows));
    let inputs: Vec<Rows<'_>> = inputs
        .collect::<Result<_, _>>()
        .map_err(batch::Error::failed)?;
    let inputs: Vec<Input<'_>> = inputs.iter().map(Input::from).collect();
    let divided = row_bytes.load(Ordering::Relaxed) >= LARGE_ROW;
    let own: Vec<usize> = match divided {
        true => batch
            .requests()
            .map(|arrays| arrays.first().map_or(0, Array::row_count))
            .collect(),
        false => vec![batch.rows()],
    };
    // A lane is free again when nobody wants what it computes.
    let options = RunOptions {
        deadline: batch.deadline(),
        ..RunOptions::default()
    };
    let outputs = session.run_batch_with(&inputs, &own, &options);
    let outputs = outputs.map_err(|error| match error {
        streampool_model::Error::Deadline => batch::Error::Expired,
        other => batch::Error::failed(other),
    })?;
    let bytes = outputs.iter().flatten().map(|array| array.bytes().len());
    row_bytes.store(bytes.sum::<usize>() / batch.rows(), Ordering::Relaxed);
    Batch::divided(outputs)
}

/// The next of few sizes: four between a power of two and the next.
fn filled_up(rows: usize) -> usize {
    rows.next_multiple_of((rows.next_power_of_two() / 8).max(1))
}

/// Runs a model on a list of inputs, in batches: outputs come in the order of the inputs, however many these are, with only
/// some under way at a time.
///
/// ```no_run
/// use streampool::prelude::*;
///
/// let session = Session::load(&streampool::host_pool()?, "model.onnx")?;
/// let inputs = (0..1000).map(|_| Array::new(&[0.5f32; 16], &[1, 16]).expect("16 elements"));
/// for outputs in streampool::batch_inference(&session, inputs).batch_size(8) {
///     println!("{:?}", outputs?[0].shape());
/// }
/// # Ok::<(), streampool::Error>(())
/// ```
pub fn batch_inference<I>(session: &Session, inputs: I) -> BatchInference<I::IntoIter>
where
    I: IntoIterator,
    I::Item: Into<Request>,
{
    BatchInference {
        session: session.clone(),
        batch_size: 8,
        progress: None,
        done: 0,
        stage: Stage::Ready(inputs.into_iter()),
    }
}

/// The outputs of a list of inputs, in order.
pub struct BatchInference<I> {
    session: Session,
    batch_size: usize,
    progress: Option<Box<dyn FnMut(usize) + Send>>,
    done: usize,
    stage: Stage<I>,
}

enum Stage<I> {
    Ready(I),
    Running(InferAll<I>),
    Over,
}

impl<I> BatchInference<I> {
    /// The most rows that run together, at least 1; 8 by default.
    pub fn batch_size(mut self, rows: usize) -> Self {
        self.batch_size = rows;
        self
    }

    /// Is told how many inputs are done, after each.
    pub fn progress(mut self, tell: impl FnMut(usize) + Send + 'static) -> Self {
        self.progress = Some(Box::new(tell));
        self
    }
}

impl<I> Iterator for BatchInference<I>
where
    I: Iterator,
    I::Item: Into<Request>,
{
    type Item = Result<Vec<Array>>;

    fn next(&mut self) -> Option<Self::Item> {
        self.stage = match std::mem::replace(&mut self.stage, Stage::Over) {
            Stage::Ready(_) if self.batch_size == 0 => {
                let error = batch::Error::Setting {
                    setting: "batch_size",
                    got: "0".to_owned(),
                    expected: "at least 1",
                };
                return Some(Err(error.into()));
            }
            Stage::Ready(inputs) => {
                // How much is under way is bounded by what asks for it.
                let settings = BatchQueue::builder()
                    .max_batch_size(self.batch_size)
                    .capacity(usize::MAX);
                match BatchQueue::for_session(&self.session, settings) {
                    Ok(queue) => Stage::Running(queue.infer_all(inputs)),
                    Err(error) => return Some(Err(error)),
                }
            }
            stage => stage,
        };
        let Stage::Running(outputs) = &mut self.stage else {
            return None;
        };
        let outputs = outputs.next()?;
        self.done += 1;
        if let Some(tell) = &mut self.progress {
            tell(self.done);
        }
        Some(outputs.map_err(Error::from))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_are_filled_up_to_few_sizes() {
        let sizes: Vec<usize> = (1..=33).map(filled_up).collect();
        assert_eq!(sizes[..8], [1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(sizes[8..12], [10, 10, 12, 12]);
        assert_eq!(sizes[32], 40);
        assert!((1..2000).all(|rows| filled_up(rows) >= rows && filled_up(rows) * 4 <= rows * 5));
    }
}
