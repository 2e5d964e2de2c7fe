//! Programs: ops captured once, replayed on any stream with one call.
//!
//! A capture lists ops over *slots*, bound to buffers at each replay, and over buffers the program holds
//! itself: constants, which it only reads, and scratch, which is its own.

#![expect(
    unsafe_code,
    reason = "vouches to the device for the memory of a replay"
)]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use smallvec::SmallVec;
use streampool_device::lock::Mutex;
use streampool_device::{Access, DType, Layout, Op, Prepared, Queue, Slots, Span, Tick, View};

use crate::clock::Stamp;
use crate::memory::{Buffer, HoldsBuffer, Shared};
use crate::order::{self, Touch};
use crate::{Error, Result, Stream, faults, ranks};

/// A program in the making.
pub struct Capture {
    /// Tells its references from those of other captures.
    number: u64,
    stream: Stream,
    slots: Vec<Slot>,
    /// What stands for the slots while the ops are captured, and the program's own memory.
    memory: Vec<Held>,
    ops: Vec<Listed>,
    keeps_ops: bool,
}

/// An op of a capture. It takes a thousand bytes, which a list would move about.
struct Listed {
    op: Box<Op>,
    /// What the device made of it.
    prepared: Option<Prepared>,
}

/// The memory behind one reference of a capture.
enum Held {
    Slot(Role, Buffer),
    Constant(Arc<dyn HoldsBuffer + Send + Sync>),
    Scratch(Buffer),
    Shared(Shared),
}

impl Held {
    fn buffer(&self) -> &Buffer {
        match self {
            Held::Slot(_, buffer) | Held::Scratch(buffer) => buffer,
            Held::Constant(holder) => holder.held(),
            Held::Shared(shared) => shared.buffer(),
        }
    }

    /// What a replay does with it.
    fn touch(&self) -> Touch<'_> {
        let access = match self {
            Held::Scratch(_) | Held::Shared(_) => Access::Write,
            Held::Slot(..) | Held::Constant(_) => Access::Read,
        };
        Touch::whole(self.buffer().marks(), access)
    }

    fn is_writable(&self) -> bool {
        !matches!(self, Held::Slot(Role::Input, _) | Held::Constant(_))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Slot {
    role: Role,
    bytes: usize,
    /// An output that holds something before, which the ops may read.
    is_updated: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Input,
    Output,
}

/// Memory inside a capture: a slot, a constant or scratch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reference {
    capture: u64,
    place: usize,
    span: Span,
}

impl Reference {
    /// How long it is, in bytes.
    pub fn bytes(&self) -> usize {
        self.span.bytes
    }

    /// A part of it.
    pub fn part(&self, offset: usize, bytes: usize) -> Result<Reference> {
        Ok(Reference {
            span: self.span.part(offset, bytes)?,
            ..*self
        })
    }

    /// The elements of type `dtype` and of this shape at its start.
    pub fn view(&self, dtype: DType, shape: &[usize]) -> Result<Captured> {
        self.view_as(dtype, Layout::contiguous(shape)?)
    }

    /// The elements that `layout` names.
    pub fn view_as(&self, dtype: DType, layout: Layout) -> Result<Captured> {
        Ok(Captured {
            reference: *self,
            view: View::new(self.span, dtype, layout)?,
        })
    }
}

/// An operand of a captured op.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Captured {
    reference: Reference,
    view: View,
}

impl Capture {
    /// Begins a capture; its memory belongs to `stream`, and others may replay it, too.
    pub fn new(stream: &Stream) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Capture {
            number: NEXT.fetch_add(1, Ordering::Relaxed),
            stream: stream.clone(),
            slots: Vec::new(),
            memory: Vec::new(),
            ops: Vec::new(),
            keeps_ops: false,
        }
    }

    /// The program keeps its ops, too, for [`Stream::replay_each`].
    pub fn keep_ops(&mut self) {
        self.keeps_ops = true;
    }

    /// The next input slot: a buffer of at least `bytes` that each replay reads.
    pub fn input(&mut self, bytes: usize) -> Result<Reference> {
        self.slot(Role::Input, bytes, false)
    }

    /// The next output slot: a buffer of at least `bytes` that each replay writes.
    pub fn output(&mut self, bytes: usize) -> Result<Reference> {
        self.slot(Role::Output, bytes, false)
    }

    /// The next output slot, as [`output`](Self::output), of a buffer that holds something: the ops may read it, and what they do
    /// not write stays.
    pub fn updated(&mut self, bytes: usize) -> Result<Reference> {
        self.slot(Role::Output, bytes, true)
    }

    /// A buffer that the program only reads, such as weights. It keeps `holder` alive, which lends the buffer. The device
    /// may read it when the capture is [finished](Self::finish), and keep it in a form that suits its kernels.
    pub fn constant<H>(&mut self, holder: &Arc<H>) -> Result<Reference>
    where
        H: HoldsBuffer + Send + Sync + 'static,
    {
        holder.held().belongs_to(self.stream.pool_id())?;
        Ok(self.hold(Held::Constant(holder.clone())))
    }

    /// Memory of the program's own.
    pub fn scratch(&mut self, bytes: usize) -> Result<Reference> {
        let buffer = self.stream.allocate(bytes)?;
        Ok(self.hold(Held::Scratch(buffer)))
    }

    /// Memory of the program's own that the host reaches, too, through [`Program::shared`]; all zero at first. On a
    /// device without unified memory its ops are best confined to copies.
    pub fn shared(&mut self, bytes: usize) -> Result<Reference> {
        let shared = Shared::new(self.stream.core(), self.stream.lane(), bytes)?;
        Ok(self.hold(Held::Shared(shared)))
    }

    fn slot(&mut self, role: Role, bytes: usize, is_updated: bool) -> Result<Reference> {
        let buffer = self.stream.allocate(bytes)?;
        self.slots.push(Slot {
            role,
            bytes,
            is_updated,
        });
        Ok(self.hold(Held::Slot(role, buffer)))
    }

    fn hold(&mut self, held: Held) -> Reference {
        let reference = Reference {
            capture: self.number,
            place: self.memory.len(),
            span: held.buffer().span(),
        };
        self.memory.push(held);
        reference
    }

    /// Captures an op. Nothing is executed.
    pub fn encode(&mut self, op: Op<Captured>) -> Result<()> {
        let kind = op.kind();
        let op = op.try_map(|argument, access, operand| {
            let reference = operand.reference;
            let held = match self.memory.get(reference.place) {
                Some(held) if reference.capture == self.number => held,
                _ => return Err(Error::ForeignSlot { op: kind, argument }),
            };
            if access == Access::Write && !held.is_writable() {
                return Err(Error::NotWritable { op: kind, argument });
            }
            Ok(operand.view)
        })?;
        op.validate()?;
        // So that the stream is not locked while kernels are compiled.
        let prepared = self.stream.core().device.prepare(&op)?;
        let op = Box::new(op);
        self.ops.push(Listed { op, prepared });
        Ok(())
    }

    /// The program of what was captured. Waits until what writes its constants is over; a fault that hit that is the
    /// error.
    pub fn finish(mut self) -> Result<Program> {
        let core = self.stream.core();
        core.check()?;
        let (mut slots, mut constants) = (Vec::new(), Vec::new());
        for held in &self.memory {
            match held {
                Held::Slot(_, buffer) => slots.push(buffer.span()),
                Held::Constant(holder) => {
                    faults::written(core, holder.held().marks())?;
                    constants.push(holder.held().span());
                }
                Held::Scratch(_) | Held::Shared(_) => {}
            }
        }
        let device_program = {
            let mut encoder = self.stream.lane().lock();
            let queue = encoder.queue()?;
            queue.begin_capture().map_err(Error::from)?;
            let captured = self.ops.iter_mut().try_for_each(|listed| {
                // SAFETY: while it captures, the queue executes nothing, so no memory is touched. Each op was prepared
                // itself.
                unsafe { queue.encode_ready(&listed.op, listed.prepared.take()) }.map(drop)
            });
            // A capture that failed half way has to end all the same.
            // SAFETY: constants are written, as was just waited for. Who writes or frees a buffer has it alone, and
            // these are shared with the program; what replays it is marked on them.
            let program = unsafe { queue.end_capture(&slots, &constants) };
            captured.and(program)?
        };
        let held = self
            .memory
            .into_iter()
            .filter(|held| !matches!(held, Held::Slot(..)))
            .collect();
        let alignment = core.device.properties().alignment;
        let ops = self.keeps_ops.then_some(self.ops);
        Ok(Program {
            pool: self.stream.pool_id(),
            device_program,
            each: ops.map(|ops| (ops, Slots::new(&slots, alignment))),
            slots: self.slots,
            held: Mutex::new(ranks::PROGRAM, held),
        })
    }
}

/// A captured program. Any thread may replay it on any stream of its pool; replays that share its scratch
/// are ordered one after the other by themselves.
pub struct Program {
    pool: u64,
    // Dropped before the memory that it knows.
    device_program: Arc<dyn streampool_device::Program>,
    /// Its ops, if it keeps them, and where in them the slots are.
    each: Option<(Vec<Listed>, Slots)>,
    slots: Vec<Slot>,
    held: Mutex<Vec<Held>>,
}

impl Program {
    /// How many ops it replays.
    pub fn ops(&self) -> usize {
        self.device_program.ops()
    }

    /// The size of each input, in bytes.
    pub fn inputs(&self) -> impl Iterator<Item = usize> {
        self.sizes(Role::Input)
    }

    /// The size of each output, in bytes.
    pub fn outputs(&self) -> impl Iterator<Item = usize> {
        self.sizes(Role::Output)
    }

    /// What its [shared memory](Capture::shared) holds, the pieces in order, once no replay uses them. A piece whose replay
    /// cannot be waited for is an error.
    pub fn shared(&mut self) -> impl Iterator<Item = Result<&mut [u8]>> {
        self.held
            .get_mut()
            .iter_mut()
            .filter_map(|held| match held {
                Held::Shared(shared) => Some(shared.bytes_mut()),
                _ => None,
            })
    }

    /// About how much memory it holds, scratch included, constants not.
    pub fn bytes(&self) -> usize {
        let held = self.held.lock();
        let scratch = held.iter().map(|held| match held {
            Held::Scratch(_) | Held::Shared(_) => held.buffer().bytes(),
            Held::Slot(..) | Held::Constant(_) => 0,
        });
        self.device_program.bytes() + scratch.sum::<usize>()
    }

    fn sizes(&self, role: Role) -> impl Iterator<Item = usize> + Clone {
        self.slots
            .iter()
            .filter(move |slot| slot.role == role)
            .map(|slot| slot.bytes)
    }
}

impl Stream {
    /// Replays `program` with these buffers as its inputs and outputs, in the order of their slots. It is
    /// one command, ordered like any op.
    pub fn replay(
        &self,
        program: &Program,
        inputs: &[&Buffer],
        outputs: &mut [&mut Buffer],
    ) -> Result<Stamp> {
        self.replay_by(program, inputs, outputs, |queue, program, slots| {
            // SAFETY: `replay_by` vouches for the memory.
            unsafe { queue.replay(program, slots) }
        })
    }

    /// Has `replay` append a replay. The memory is ordered and kept as [`Queue::replay`](streampool_device::Queue::replay) asks:
    /// scratch and constants belong to the program, which marks them, and slots are bound to distinct borrows of the right size.
    pub(crate) fn replay_by(
        &self,
        program: &Program,
        inputs: &[&Buffer],
        outputs: &mut [&mut Buffer],
        replay: impl Fn(
            &mut dyn Queue,
            &Arc<dyn streampool_device::Program>,
            &[Span],
        ) -> streampool_device::Result<Tick>,
    ) -> Result<Stamp> {
        let bound = self.bind(program, inputs, outputs)?;
        order::unobstructed(self.core(), || {
            let held = program.held.lock();
            self.try_append(bound.touches(&held), |queue| {
                Ok(replay(queue, &program.device_program, &bound.spans)?)
            })
        })
    }

    /// As [`replay`](Self::replay), each op as a command of its own, for the device to time them one by one; tells the
    /// places of all. A program that has not [kept](Capture::keep_ops) its ops is replayed in one command.
    pub fn replay_each(
        &self,
        program: &Program,
        inputs: &[&Buffer],
        outputs: &mut [&mut Buffer],
    ) -> Result<Vec<Stamp>> {
        let Some((ops, slots)) = &program.each else {
            return Ok(vec![self.replay(program, inputs, outputs)?]);
        };
        let bound = self.bind(program, inputs, outputs)?;
        slots.check(&bound.spans)?;
        order::unobstructed(self.core(), || {
            let held = program.held.lock();
            // What is to be waited for is found at the first op: what the others touch is ordered with it then.
            let each = ops.iter().map(|listed| {
                let op = slots.bind(&listed.op, &bound.spans);
                self.try_append(bound.touches(&held), |queue| {
                    // SAFETY: as for a replay, whose ops these are; each is marked before the next is appended.
                    Ok(unsafe { queue.encode(&op) }?)
                })
            });
            each.collect()
        })
    }

    /// These buffers as the slots of a program, if they fit.
    fn bind<'a>(
        &self,
        program: &Program,
        inputs: &[&'a Buffer],
        outputs: &'a mut [&mut Buffer],
    ) -> Result<Bound<'a>> {
        self.core().check()?;
        if program.pool != self.pool_id() {
            return Err(Error::ForeignProgram);
        }
        let outputs: SmallVec<[&Buffer; 8]> = outputs.iter().map(|buffer| &**buffer).collect();
        let each = [
            ("input", Role::Input, inputs),
            ("output", Role::Output, &outputs),
        ];
        for (what, role, given) in each {
            check_bindings(what, program.sizes(role), given, self.pool_id())?;
        }
        let mut bound = Bound {
            touches: SmallVec::new(),
            spans: SmallVec::new(),
        };
        let (mut inputs, mut outputs) = (inputs.iter(), outputs.iter());
        for slot in &program.slots {
            let (buffer, access) = match slot.role {
                Role::Input => (inputs.next(), Access::Read),
                Role::Output => (outputs.next(), Access::Write),
            };
            if let Some(buffer) = buffer {
                bound.spans.push(buffer.span());
                bound.touches.push(Touch {
                    marks: buffer.marks(),
                    access,
                    is_partial: access == Access::Write
                        && (slot.is_updated || slot.bytes < buffer.bytes()),
                });
            }
        }
        Ok(bound)
    }
}

/// What the slots of a program are bound to.
struct Bound<'a> {
    touches: SmallVec<[Touch<'a>; 8]>,
    spans: SmallVec<[Span; 8]>,
}

impl Bound<'_> {
    /// All memory that a replay touches. The program's own is written by whoever replays: its lock makes finding the order and
    /// marking it one step.
    fn touches<'b>(&'b self, held: &'b [Held]) -> impl Iterator<Item = Touch<'b>> + Clone {
        held.iter()
            .map(Held::touch)
            .chain(self.touches.iter().copied())
    }
}

fn check_bindings(
    what: &'static str,
    wanted: impl Iterator<Item = usize> + Clone,
    given: &[&Buffer],
    pool: u64,
) -> Result<()> {
    let count = wanted.clone().count();
    if count != given.len() {
        return Err(Error::WrongBinding {
            what,
            index: given.len().min(count),
            got: format!("one of {} given", given.len()),
            expected: format!("{count} in all"),
        });
    }
    for (index, (&buffer, bytes)) in given.iter().zip(wanted).enumerate() {
        buffer.belongs_to(pool)?;
        if buffer.bytes() < bytes {
            return Err(Error::WrongBinding {
                what,
                index,
                got: format!("{} bytes long", buffer.bytes()),
                expected: format!("at least {bytes}"),
            });
        }
    }
    Ok(())
}
