//! Encoding: from an op over buffers to a command on the stream's queue. The one place of this crate that
//! answers for the device contract's safety.

#![expect(unsafe_code, reason = "vouches to the device for the memory of an op")]

use std::iter;

use smallvec::SmallVec;
use streampool_device::{Access, Element, Flush, HostSlice, Op, Progress, Queue, Span, Tick};

use crate::budget::{self, Budget};
use crate::clock::Stamp;
use crate::lane::Flushed;
use crate::memory::{Buffer, Operand};
use crate::order::{self, Obstructed, Ordered, Touch};
use crate::{Error, Result, Stream, faults};

/// More than this is uploaded in pieces: a device may copy while the stream is locked, and others wait for the lock.
const LONGEST_UPLOAD: usize = 16 << 20;

/// Host memory that a download writes. When this is dropped, the download is over or writes nothing there any more.
struct Lent<'a> {
    progress: &'a dyn Progress,
    tick: Tick,
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        if self.progress.completed() < self.tick {
            self.progress.withdraw(self.tick);
        }
    }
}

/// Why an op was not encoded.
enum Unencoded {
    Failed(Error),
    /// It has to be prepared first, which takes long: others use the stream meanwhile.
    Unprepared,
}

impl<E: Into<Error>> From<E> for Unencoded {
    fn from(error: E) -> Self {
        Unencoded::Failed(error.into())
    }
}

/// A wait until the deadline of a budget that ended without success.
fn in_time(error: Error) -> Error {
    match error {
        Error::Device(streampool_device::Error::Timeout(_)) => Error::Deadline,
        other => other,
    }
}

impl Stream {
    /// Encodes an op. What it reads on other streams it waits for, what it writes waits for whoever still
    /// uses it; memory stays until it is done with. It returns the op's place in the stream's order.
    ///
    /// An op that is refused leaves nothing behind, and the error names the operand and what would fit.
    #[inline]
    pub fn encode(&self, op: Op<Operand<'_>>) -> Result<Stamp> {
        self.core().check()?;
        let kind = op.kind();
        let mut touches = SmallVec::<[Touch<'_>; 4]>::new();
        let op = op.try_map(|argument, access, operand| {
            if access == Access::Write && !operand.is_writable() {
                return Err(Error::NotWritable { op: kind, argument });
            }
            operand.buffer().belongs_to(self.pool_id())?;
            touches.push(Touch {
                marks: operand.buffer().marks(),
                access,
                is_partial: access == Access::Write && !operand.is_whole(),
            });
            Ok(*operand.view())
        })?;
        budget::spend(|| op.work())?;
        let mut prepared = None;
        let stamp = loop {
            let encode = |queue: &mut dyn Queue| {
                // SAFETY: `append` holds the order and keeps the memory; an operand's view lies within its buffer, and a
                // written one is borrowed exclusively. What was prepared was made of this op.
                let tick = unsafe { queue.encode_ready(&op, prepared.take()) }?;
                tick.ok_or(Unencoded::Unprepared)
            };
            match self.append(touches.iter().copied(), encode) {
                Ok(stamp) => break stamp,
                Err(Unencoded::Unprepared) => prepared = self.core().device.prepare(&op)?,
                Err(Unencoded::Failed(error)) => return Err(error),
            }
        };
        if budget::is_far_ahead() {
            self.wait_until(stamp, Budget::current_deadline())
                .map_err(in_time)?;
        }
        Ok(stamp)
    }

    /// Copies `values` to the start of `buffer`. They are taken before this returns.
    pub fn upload<T: Element>(&self, buffer: &mut Buffer, values: &[T]) -> Result<Stamp> {
        self.core().check()?;
        buffer.belongs_to(self.pool_id())?;
        let bytes: &[u8] = bytemuck::cast_slice(values);
        if bytes.len() > buffer.bytes() {
            return Err(Error::WrongLength {
                what: "the data to upload",
                got: bytes.len(),
                expected: format!("at most {}, the size of the buffer", buffer.bytes()),
            });
        }
        let whole = buffer.span();
        let touch = Touch {
            is_partial: bytes.len() < buffer.bytes(),
            ..Touch::whole(buffer.marks(), Access::Write)
        };
        let mut offset = 0;
        loop {
            let (piece, rest) = bytes[offset..].split_at(LONGEST_UPLOAD.min(bytes.len() - offset));
            let span = whole.part(offset, piece.len())?;
            let stamp = self.append(iter::once(touch), |queue| {
                // SAFETY: `append` holds the order and keeps the memory.
                Ok::<_, Error>(unsafe { queue.upload(span, piece) }?)
            })?;
            if rest.is_empty() {
                return Ok(stamp);
            }
            offset += piece.len();
        }
    }

    /// Copies the start of `buffer` into `values`, and waits for it.
    pub fn download_into<T>(&self, buffer: &Buffer, values: &mut [T]) -> Result<()>
    where
        T: Element + bytemuck::AnyBitPattern,
    {
        self.download_bytes(buffer, bytemuck::cast_slice_mut(values))
    }

    /// The values of `buffer`, after waiting for them.
    pub fn download<T: Element>(&self, buffer: &Buffer) -> Result<Vec<T>> {
        let size = T::DTYPE.size();
        let count = buffer.bytes() / size;
        let (mut bytes, mut values) = (room(count * size)?, room(count)?);
        bytes.resize(count * size, 0);
        self.download_bytes(buffer, &mut bytes)?;
        // All at once, where the bytes lie as values do; one by one, it is found out what is wrong.
        if let Ok(all) = bytemuck::checked::try_cast_slice(&bytes) {
            values.extend_from_slice(all);
            return Ok(values);
        }
        for value in bytes.chunks_exact(size) {
            let value = bytemuck::checked::try_pod_read_unaligned(value);
            values.push(value.map_err(|error| Error::NotOfType {
                dtype: T::DTYPE,
                why: error.to_string(),
            })?);
        }
        Ok(values)
    }

    /// Waits until what wrote `buffer` last is over, on whatever stream that was; what else was encoded is not waited for. Fails
    /// with the fault if one hit that.
    pub fn wait_for_buffer(&self, buffer: &Buffer) -> Result<()> {
        self.core().check()?;
        buffer.belongs_to(self.pool_id())?;
        faults::written(self.core(), buffer.marks())
    }

    fn download_bytes(&self, buffer: &Buffer, bytes: &mut [u8]) -> Result<()> {
        self.core().check()?;
        buffer.belongs_to(self.pool_id())?;
        if bytes.len() > buffer.bytes() {
            return Err(Error::WrongLength {
                what: "the place for the download",
                got: bytes.len(),
                expected: format!("at most {}, the size of the buffer", buffer.bytes()),
            });
        }
        self.wait_in_time(buffer)?;
        let span = Span {
            bytes: bytes.len(),
            ..buffer.span()
        };
        let touch = Touch::whole(buffer.marks(), Access::Read);
        let into = HostSlice {
            pointer: bytes.as_mut_ptr(),
            bytes: bytes.len(),
        };
        let stamp = self.append(iter::once(touch), |queue| {
            // SAFETY: `append` holds the order and keeps the memory; `bytes` is borrowed until `_lent` is dropped, when
            // the command is over or withdrawn, on every way out of this function.
            Ok::<_, Error>(unsafe { queue.download(span, into) }?)
        })?;
        let _lent = Lent {
            progress: &*self.lane().progress,
            tick: stamp.tick,
        };
        // A pool that shuts down meanwhile completes what was encoded: there is something to wait for.
        let flushed = self.core().flush(self.lane(), Flush::ForWaiter);
        let flushed = flushed.unwrap_or(Flushed::at(stamp.tick));
        self.core().wait_for(self.lane(), stamp.tick, flushed, None)
    }

    /// Where there is a deadline, waits until then for all that a download of `buffer` comes after: what it lends memory to,
    /// it has to wait for without one.
    fn wait_in_time(&self, buffer: &Buffer) -> Result<()> {
        let Some(deadline) = Budget::current_deadline() else {
            return Ok(());
        };
        let core = self.core();
        let elsewhere = |stamp: &Stamp| stamp.stream != self.index();
        let written = buffer.marks().last_write().filter(elsewhere);
        for stamp in written.into_iter().chain([self.position()]) {
            let lane = core.lane(stamp.stream)?;
            let waited = core
                .flush_by(lane, Flush::ForWaiter, Some(deadline))
                .and_then(|flushed| core.wait_for(lane, stamp.tick, flushed, Some(deadline)));
            // What failed is told by the download.
            if let Err(Error::Deadline) = waited.map_err(in_time) {
                return Err(Error::Deadline);
            }
        }
        Ok(())
    }

    /// Appends a command that touches `touches`, ordered after all it conflicts with, and marks it on them.
    /// The marks keep the memory from being reused before the command is complete.
    #[inline]
    fn append<'a, E: From<Error>>(
        &self,
        touches: impl Iterator<Item = Touch<'a>> + Clone,
        command: impl FnOnce(&mut dyn Queue) -> Result<Tick, E>,
    ) -> Result<Stamp, E> {
        let (core, lane) = (self.core(), self.lane());
        let ordered = order::unobstructed(core, || order::lock_after(core, lane, touches.clone()))?;
        self.append_to(ordered, touches, command)
    }

    /// As [`append`](Self::append), for who holds a lock: it waits for nothing, and may fail because something is to be waited for.
    pub(crate) fn try_append<'a>(
        &self,
        touches: impl Iterator<Item = Touch<'a>> + Clone,
        command: impl FnOnce(&mut dyn Queue) -> Result<Tick>,
    ) -> Result<Stamp, Obstructed> {
        let ordered = order::lock_after(self.core(), self.lane(), touches.clone())?;
        Ok(self.append_to(ordered, touches, command)?)
    }

    #[inline]
    fn append_to<'a, E: From<Error>>(
        &self,
        ordered: Ordered<'_>,
        touches: impl Iterator<Item = Touch<'a>>,
        command: impl FnOnce(&mut dyn Queue) -> Result<Tick, E>,
    ) -> Result<Stamp, E> {
        let (core, lane) = (self.core(), self.lane());
        let Ordered {
            mut encoder,
            unsettled,
        } = ordered;
        let tick = command(encoder.queue()?)?;
        for stamp in unsettled {
            order::consume(core, lane, &mut encoder, stamp, tick);
        }
        encoder.counts.ops += 1;
        let stamp = lane.appended(&mut encoder, tick);
        for touch in touches {
            touch.mark(stamp);
        }
        Ok(stamp)
    }
}

/// An empty list with room for so many: a device may hold more than the host.
fn room<T>(count: usize) -> Result<Vec<T>> {
    let mut list = Vec::new();
    match list.try_reserve_exact(count) {
        Ok(()) => Ok(list),
        Err(_) => Err(Error::WrongLength {
            what: "what is downloaded",
            got: count.saturating_mul(size_of::<T>()),
            expected: "as many bytes as the host has memory for".to_owned(),
        }),
    }
}
