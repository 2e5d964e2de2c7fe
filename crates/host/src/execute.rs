//! Executing commands.

use std::sync::Arc;
use std::time::Instant;

use streampool_device::foreign::{self, Panic};
use streampool_device::{Activation, Fault, HostSlice, Interval, Op, OpKind, Span, Tick};

use crate::cost;
use crate::crew::Crew;
use crate::given_up::{Stopped, Watch};
use crate::kernels::scratch::NoRoom;
use crate::kernels::{self, Prepared, Then};
use crate::program::{Replay, Step};
use crate::strand::{Command, Strand};
use crate::team::{Solo, Team};

impl Strand {
    /// Executes the command at `tick`, or skips it if the strand is poisoned, and publishes that it is over.
    ///
    /// That operands are alive and not raced for is what the caller of `Queue::encode` and its like
    /// guaranteed, until the tick that is published here.
    pub(crate) fn execute(self: &Arc<Self>, command: Command, tick: Tick) {
        match command {
            Command::Record(recording) => {
                recording.note(self.fault());
                self.publish(tick);
                return recording.release();
            }
            Command::Handler(handler) => self.call_soon(handler, self.fault().map_or(Ok(()), Err)),
            // Dropped before the tick is over: from then on the memory that a program knows may change.
            command if self.is_poisoned() => drop(command),
            Command::Wait(_) => {}
            _ if self.given_up.includes(tick) => {
                self.poison_on(tick, command.kind(), Err(Stopped.to_string()));
                drop(command);
            }
            Command::Nop => self.guarded(tick, OpKind::Nop, || Ok(())),
            Command::Op(op) => self.guarded(tick, op.kind(), || self.kernel(tick, &op)),
            Command::Upload(dst, bytes) => self.guarded(tick, OpKind::Upload, || {
                // SAFETY: by the guarantees of `Queue::upload`; that it fits was checked there.
                unsafe {
                    std::ptr::copy_nonoverlapping(bytes.as_ptr(), pointer(&dst), bytes.len())
                };
                Ok(())
            }),
            Command::Download(src, into) => self.guarded(tick, OpKind::Download, || {
                let HostSlice { pointer: to, bytes } = into;
                // SAFETY: by the guarantees of `Queue::download`; the sizes were compared there.
                unsafe { std::ptr::copy_nonoverlapping(pointer(&src), to, bytes) };
                Ok(())
            }),
            Command::Replay(replay) => {
                let injected = self
                    .core
                    .injector
                    .before(self.options.index, OpKind::Replay);
                let done = injected.and_then(|()| self.replay(tick, &replay));
                self.poison_on(tick, OpKind::Replay, done);
            }
        }
        self.publish(tick);
    }

    /// Does one op's work; if it fails, so does the strand.
    pub(crate) fn guarded(
        &self,
        tick: Tick,
        op: OpKind,
        work: impl FnOnce() -> Result<(), String>,
    ) {
        let done = self.timed(tick, op, work);
        self.poison_on(tick, op, done);
    }

    fn poison_on(&self, tick: Tick, op: OpKind, done: Result<(), String>) {
        if let Err(why) = done {
            self.poison(Fault::new(&self.options.label, tick, op, why));
        }
    }

    /// Does one op's work as the injector and the tracer want it. A panic counts as its failure.
    fn timed(
        &self,
        tick: Tick,
        op: OpKind,
        work: impl FnOnce() -> Result<(), String>,
    ) -> Result<(), String> {
        self.core.injector.before(self.options.index, op)?;
        let begin = self.core.tracing.is_on().then(Instant::now);
        foreign::call(work).unwrap_or_else(|panic| Err(why(&panic)))?;
        if let Some(begin) = begin {
            self.core.tracing.send(Interval {
                queue: self.options.index,
                tick,
                op,
                begin,
                end: Instant::now(),
            });
        }
        Ok(())
    }

    /// Calls `work`, which may take long, where kernels ask whether the command at `tick` was given up.
    fn watched<R>(&self, tick: Tick, work: impl FnOnce() -> R) -> R {
        let watch = Watch {
            given_up: self.given_up.clone(),
            tick,
        };
        watch.within(work)
    }

    /// Executes the ops of a program. Meanwhile the thread counts as busy also between its large ops, so that nobody
    /// relies on the processor it is on.
    fn replay(&self, tick: Tick, replay: &Replay) -> Result<(), String> {
        let crew = (replay.cost() >= cost::WORTH_SPLITTING).then(|| Crew::new(&self.core.pool));
        let execute = || {
            replay.execute(|step, after| {
                if self.given_up.includes(tick) {
                    return Err(Stopped.to_string());
                }
                let ((op, captured), next) = (step, after.map(|(_, next)| next));
                let is_large = captured.is_large || next.is_some_and(|next| next.is_large);
                let team: &dyn Team = match &crew {
                    Some(crew) if is_large => crew,
                    _ => &Solo,
                };
                self.timed(tick, captured.kind, || match after {
                    Some(after) => self.launch_both(step, after, team),
                    None => self.launch(op, &captured.prepared, team),
                })?;
                // Its time is that of the op before.
                next.map_or(Ok(()), |next| self.timed(tick, next.kind, || Ok(())))
            })
        };
        match &crew {
            Some(_) => self.watched(tick, execute),
            None => execute(),
        }
    }

    fn kernel(&self, tick: Tick, op: &Op) -> Result<(), String> {
        if cost::estimate(op) < cost::WORTH_SPLITTING {
            return self.launch(op, &Prepared::Plain, &Solo);
        }
        let crew = Crew::new(&self.core.pool);
        self.watched(tick, || self.launch(op, &Prepared::Plain, &crew))
    }

    /// Executes a convolution and the elementwise op that follows it part by part.
    fn launch_both(
        &self,
        (op, first): Step<'_>,
        (map, second): Step<'_>,
        team: &dyn Team,
    ) -> Result<(), String> {
        let (Op::Conv(conv), Some(ready)) = (op, first.prepared.conv()) else {
            return Err(format!("{} does not lead another op", first.kind));
        };
        let (
            Op::Map {
                inputs, outputs, ..
            },
            Prepared::Map(program),
        ) = (map, &second.prepared)
        else {
            return Err(format!("{} does not follow another op", second.kind));
        };
        let within = program
            .bounds()
            .filter(|_| outputs[..] == [conv.dst] && conv.activation == Activation::None)
            .filter(|_| !conv.is_of_bytes());
        // SAFETY: by the guarantees of `Queue::encode`; each element is computed once, after what it is made of.
        unsafe {
            if let Some(bounds) = within {
                kernels::convolve_then(conv, ready, team, Then::Keep(bounds));
                return Ok(());
            }
            program.in_parts(inputs, outputs, |then| {
                kernels::convolve_then(conv, ready, team, Then::Call(then))
            })
        }
    }

    fn launch(&self, op: &Op, prepared: &Prepared, team: &dyn Team) -> Result<(), String> {
        match (op, prepared) {
            (Op::Nop, _) => Ok(()),
            (
                Op::Map {
                    inputs, outputs, ..
                },
                Prepared::Map(program),
            ) => {
                // SAFETY: by the guarantees of `Queue::encode`; the op was validated there.
                unsafe { program.execute(inputs, outputs, team) }
            }
            (
                Op::Map {
                    expr,
                    inputs,
                    outputs,
                },
                _,
            ) => {
                // SAFETY: as above.
                unsafe { self.core.expressions.execute(expr, inputs, outputs, team) }
            }
            // SAFETY: as above.
            _ => unsafe { kernels::execute(op, prepared, team) },
        }
    }
}

fn pointer(span: &Span) -> *mut u8 {
    std::ptr::with_exposed_provenance_mut(span.handle as usize + span.offset)
}

/// Why the op ended that this came of.
fn why(panic: &Panic) -> String {
    if let Some(no_room) = panic.payload::<NoRoom>() {
        return no_room.to_string();
    }
    match panic.payload::<Stopped>() {
        Some(stopped) => stopped.to_string(),
        None => format!("the kernel panicked: {}", panic.message()),
    }
}
