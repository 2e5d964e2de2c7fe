//! Runs between the work of another library: its stream computes the inputs, and reads the outputs next.

#![expect(
    unsafe_code,
    reason = "hands the handle of a stream on to the device, for which the caller vouches"
)]

use smallvec::SmallVec;
use streampool_device::Op;
use streampool_runtime::{Budget, Buffer, Stream};
use streampool_tensor::{DType, Tensor};

use super::Session;
use super::blame::by_itself;
use super::compiled::Ends;
use super::counts::Count;
use super::input::Input;
use super::key::{Key, Values};
use super::options::RunOptions;
use super::prepared::Prepared;
use super::programs::Ready;
use crate::error::{Error, NodeError, Result};
use crate::lower::Output;
use crate::nodes::Value;

/// Gives memory for outputs, of which it is told the types and shapes: a buffer of the session's pool for each, in order. It may be
/// asked more than once, if a run is made again because another failed on its stream; the last answer counts.
pub type OutputMemory<'m> = dyn FnMut(&[(DType, &[usize])]) -> Result<Vec<Buffer>> + 'm;

impl Session {
    /// Runs the model between what `external` was given so far and what it is given from now on: a stream of the driver that another
    /// library made, as `torch.cuda.current_stream().cuda_stream` is. Nothing is waited for here: to the other library the run is one
    /// more piece of work on its stream.
    ///
    /// Tensors that fill their memory are read where they are, and outputs are written to the memory that `outputs` gives. The
    /// stream that runs the model is the calling thread's current one.
    ///
    /// # Safety
    /// - `external` is the handle of a stream of this device's driver, which lives until this returns.
    /// - Whoever else uses the memory of inputs and outputs does so on `external`, or ordered with it.
    pub unsafe fn run_on<'a, N, I>(
        &self,
        external: u64,
        inputs: impl IntoIterator<Item = (N, I)>,
        outputs: &mut OutputMemory<'_>,
    ) -> Result<()>
    where
        N: AsRef<str>,
        I: Into<Input<'a>>,
    {
        self.with_inputs(inputs, |model, inputs| {
            model.check_closed()?;
            let stream = model.pool().current()?;
            let options = RunOptions::default();
            model.spend(&options, || {
                by_itself(stream, &options, || {
                    // SAFETY: the caller's guarantee, handed on.
                    unsafe { model.run_beside(stream, external, inputs, outputs) }
                })
            })
        })
    }
}

impl Prepared {
    /// # Safety
    /// As for [`Session::run_on`].
    unsafe fn run_beside(
        &self,
        stream: &Stream,
        external: u64,
        inputs: &[Input<'_>],
        outputs: &mut OutputMemory<'_>,
    ) -> Result<()> {
        if let Some(ready) = self.at_hand(stream, inputs) {
            self.counts.add(stream.index(), Count::Runs);
            // SAFETY: the caller's guarantee, handed on.
            let ran = unsafe { self.replay_beside(stream, external, &ready, inputs, outputs) };
            self.give(stream, ready);
            return ran;
        }
        // Whatever is read of the inputs meanwhile is read from here.
        // SAFETY: the caller vouches for the handle.
        unsafe { stream.wait_for_external(external) }?;
        let ran = self.run_from_here(stream, inputs, outputs);
        // Even if it failed, something may still read the inputs.
        // SAFETY: as above.
        let held = unsafe { stream.hold_external(external) };
        ran?;
        Ok(held?)
    }

    /// A program that a replay alone has to be made of: it asks for no values, and all that it gives it makes.
    fn at_hand(&self, stream: &Stream, inputs: &[Input<'_>]) -> Option<Ready> {
        if self.has_parts() || self.replays.are_noted() || !self.by_value.places(inputs).is_empty()
        {
            return None;
        }
        let no_values = Values::new();
        let is_for = |ready: &Ready| {
            let mut outputs = ready.compiled.plan.outputs.iter();
            ready.compiled.ended.is_none()
                && outputs.all(|(_, output)| matches!(output, Output::Tensor(_)))
                && ready.key.is_for(inputs, &no_values)
        };
        let hash = Key::hash_of(inputs, &no_values);
        self.programs
            .take(stream.index(), Ends::Device, hash, is_for)
    }

    /// # Safety
    /// As for [`Session::run_on`].
    unsafe fn replay_beside(
        &self,
        stream: &Stream,
        external: u64,
        ready: &Ready,
        inputs: &[Input<'_>],
        outputs: &mut OutputMemory<'_>,
    ) -> Result<()> {
        let given = self.given_at_work(ready, inputs)?;
        let given: SmallVec<[&Buffer; 4]> = given.iter().map(Tensor::buffer).collect();
        let kinds: SmallVec<[(DType, &[usize]); 4]> = (ready.compiled.plan.output_ports())
            .map(|port| (port.kind.dtype, &*port.kind.shape))
            .collect();
        let mut buffers = outputs(&kinds)?;
        let mut made: SmallVec<[&mut Buffer; 4]> = buffers.iter_mut().collect();
        Budget::take_work(ready.compiled.plan.work)?;
        // SAFETY: the caller vouches for the handle, and for who uses the memory.
        unsafe { stream.replay_on(external, &ready.program, &given, &mut made) }?;
        self.counts.add(stream.index(), Count::Replays);
        Ok(())
    }

    /// A run of any kind, and copies of what it gave.
    fn run_from_here(
        &self,
        stream: &Stream,
        inputs: &[Input<'_>],
        outputs: &mut OutputMemory<'_>,
    ) -> Result<()> {
        let Some(ready) = self.ready(stream, inputs, Ends::Device, None)? else {
            let values = self.run_parts(stream, inputs, &RunOptions::default())?;
            return copy_out(stream, &values, outputs);
        };
        let given = self.given_at_work(&ready, inputs);
        let made = given.and_then(|given| self.replay_device(stream, &ready, &given));
        self.give(stream, ready);
        let values = made?.into_iter().map(|(_, value)| self.finished(value));
        copy_out(stream, &values.collect::<Result<Vec<_>>>()?, outputs)
    }

    fn given_at_work(&self, ready: &Ready, inputs: &[Input<'_>]) -> Result<SmallVec<[Tensor; 4]>> {
        let bound = ready.key.bound(inputs);
        bound.map(|input| input.at_work(self.pool())).collect()
    }
}

fn copy_out(stream: &Stream, values: &[Value], outputs: &mut OutputMemory<'_>) -> Result<()> {
    let tensors: Vec<&Tensor> = (values.iter().map(Value::tensor))
        .collect::<Result<_, NodeError>>()
        .map_err(Error::Graph)?;
    let kinds: Vec<_> = (tensors.iter())
        .map(|tensor| (tensor.dtype(), tensor.shape()))
        .collect();
    let mut buffers = outputs(&kinds)?;
    for (tensor, buffer) in tensors.iter().zip(&mut buffers) {
        if !tensor.shape().contains(&0) {
            let src = (tensor.buffer()).read_as(tensor.dtype(), *tensor.layout())?;
            let dst = buffer.write(tensor.dtype(), tensor.shape())?;
            stream.encode(Op::Copy { src, dst })?;
        }
    }
    Ok(())
}
