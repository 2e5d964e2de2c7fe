//! The queue: the one who appends to a strand.

use std::sync::Arc;

use streampool_device::{
    Error, Event, Flush, Handler, HostSlice, Op, Program, Progress, Queue, QueueOptions, Result,
    Span, Tick, commands,
};

use crate::core::Core;
use crate::cost;
use crate::event::HostEvent;
use crate::kernels;
use crate::program::{HostProgram, Ops, Replay};
use crate::progress::HostProgress;
use crate::strand::{Command, Recording, Strand};

/// A queue of the host device.
pub(crate) struct HostQueue {
    strand: Arc<Strand>,
    last: Tick,
    capture: Option<Ops>,
}

impl HostQueue {
    pub(crate) fn new(core: Arc<Core>, options: QueueOptions) -> Self {
        HostQueue {
            strand: Strand::new(core, options),
            last: 0,
            capture: None,
        }
    }

    /// Whether a command may be appended: not while capturing, not while poisoned.
    fn accepts(&self, what: &'static str) -> Result<()> {
        if self.capture.is_some() {
            return Err(Error::Capturing(what));
        }
        self.strand
            .fault()
            .map_or(Ok(()), |fault| Err(Error::Poisoned(fault)))
    }

    fn append(&mut self, command: Command, cost: u64) -> Tick {
        self.last += 1;
        self.strand.append(command, cost);
        self.last
    }
}

impl Queue for HostQueue {
    fn progress(&self) -> Arc<dyn Progress> {
        Arc::new(HostProgress(Arc::clone(&self.strand)))
    }

    unsafe fn encode(&mut self, op: &Op) -> Result<Tick> {
        op.validate()?;
        if let Op::Conv(conv) = op
            && conv.is_of_bytes()
            && !kernels::has_byte_dots()
        {
            return Err(Error::Unsupported {
                device: self.strand.core.properties.name.clone(),
                op: op.kind(),
                why: "the processor has no instructions that sum products of bytes".to_owned(),
            });
        }
        if let Some(captured) = &mut self.capture {
            captured.push(Box::new(op.clone()));
            return Ok(self.last);
        }
        self.accepts("encode")?;
        Ok(match op {
            Op::Nop => self.append(Command::Nop, 0),
            op => self.append(Command::Op(Box::new(op.clone())), cost::estimate(op)),
        })
    }

    unsafe fn upload(&mut self, dst: Span, bytes: &[u8]) -> Result<Tick> {
        self.accepts("upload")?;
        commands::check_upload(dst, bytes.len())?;
        Ok(self.append(
            Command::Upload(dst, bytes.into()),
            cost::copying(bytes.len()),
        ))
    }

    unsafe fn download(&mut self, src: Span, into: HostSlice) -> Result<Tick> {
        self.accepts("download")?;
        commands::check_download(src, &into)?;
        Ok(self.append(Command::Download(src, into), cost::copying(src.bytes)))
    }

    fn record(&mut self, event: &dyn Event) -> Result<Tick> {
        self.accepts("record")?;
        let event = HostEvent::of(event, &self.strand.core)?;
        let recording = Arc::new(Recording::new(
            Arc::clone(&self.strand),
            self.last + 1,
            event.timing(),
        ));
        let tick = self.append(Command::Record(Arc::clone(&recording)), 0);
        // Only now: a tick that others can see and wait for has been appended.
        event.set_latest(recording);
        Ok(tick)
    }

    fn wait(&mut self, event: &dyn Event) -> Result<Tick> {
        self.accepts("wait")?;
        let recording = HostEvent::of(event, &self.strand.core)?
            .latest()
            .ok_or(Error::NotRecorded)?;
        let in_order = Arc::ptr_eq(recording.strand(), &self.strand) || recording.is_complete();
        Ok(match in_order {
            true => self.append(Command::Nop, 0),
            false => self.append(Command::Wait(recording), 0),
        })
    }

    fn on_complete(&mut self, handler: Handler) -> Result<Tick> {
        self.accepts("on_complete")?;
        Ok(self.append(Command::Handler(handler), 0))
    }

    fn flush(&mut self, when: Flush) -> Result<Tick> {
        if when == Flush::Start && !self.strand.is_over(self.last) {
            self.strand.start();
        }
        Ok(self.last)
    }

    fn begin_capture(&mut self) -> Result<()> {
        match self.capture {
            Some(_) => Err(Error::Capturing("begin_capture")),
            None => {
                self.capture = Some(Vec::new());
                Ok(())
            }
        }
    }

    unsafe fn end_capture(
        &mut self,
        slots: &[Span],
        constants: &[Span],
    ) -> Result<Arc<dyn Program>> {
        let ops = self.capture.take().ok_or(Error::NotCapturing)?;
        let core = Arc::clone(&self.strand.core);
        // SAFETY: passed on from the caller.
        Ok(Arc::new(unsafe {
            HostProgram::new(core, ops, slots, constants)
        }))
    }

    unsafe fn replay(&mut self, program: &Arc<dyn Program>, slots: &[Span]) -> Result<Tick> {
        self.accepts("replay")?;
        let replay = Replay::new(&**program, slots, &self.strand.core)?;
        let cost = replay.cost();
        Ok(self.append(Command::Replay(Box::new(replay)), cost))
    }

    fn recover(&mut self) -> Result<()> {
        if self.strand.is_poisoned() {
            self.strand.reach(self.last, None)?;
            self.strand.recover();
        }
        Ok(())
    }
}

impl Drop for HostQueue {
    fn drop(&mut self) {
        if !self.strand.is_over(self.last) {
            self.strand.start();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use streampool_device::{Device, Fault, OpKind};

    use super::*;
    use crate::testing::{Buffer, device, encode, end_capture, queue};
    use crate::{Injector, OpMatcher};

    fn poison(queue: &mut dyn Queue, injector: &Injector) -> Fault {
        injector.fail_op(OpMatcher::any(), 1, "broken on purpose");
        let tick = encode(queue, &Op::Nop);
        match queue.progress().wait(tick, None) {
            Err(Error::Fault(fault)) => fault,
            other => panic!("expected a fault, got {other:?}"),
        }
    }

    #[test]
    fn commands_execute_in_order() {
        let device = device(2);
        let (a, b) = (Buffer::new(&device, 8), Buffer::new(&device, 8));
        let mut queue = queue(&device, 0);
        encode(&mut *queue, &a.fill(1.0));
        encode(&mut *queue, &b.copy_from(&a));
        encode(&mut *queue, &a.fill(2.0));
        assert_eq!(a.read(&mut *queue), [2.0; 8]);
        assert_eq!(b.read(&mut *queue), [1.0; 8]);
        // SAFETY: the buffer outlives the wait inside `read`.
        unsafe { queue.upload(b.span().part(4, 8).unwrap(), &[0; 8]).unwrap() };
        assert_eq!(
            b.read(&mut *queue),
            [1.0, 0.0, 0.0, 1.0, 1.0, 1.0, 1.0, 1.0]
        );
    }

    #[test]
    fn a_fault_skips_what_follows_until_recovery() {
        let device = device(1);
        let a = Buffer::new(&device, 4);
        let mut queue = queue(&device, 7);
        encode(&mut *queue, &a.fill(1.0));
        device
            .injector()
            .fail_op(OpMatcher::any().on_queue(7).of_kind(OpKind::Nop), 1, "boom");
        let failed = encode(&mut *queue, &Op::Nop);
        let skipped = encode(&mut *queue, &a.fill(2.0));
        let progress = queue.progress();
        assert_eq!(progress.wait(failed - 1, None), Ok(()));
        let fault = Fault::new("queue 7", failed, OpKind::Nop, "boom");
        assert_eq!(
            progress.wait(skipped, None),
            Err(Error::Fault(fault.clone()))
        );
        assert_eq!(progress.wait(failed - 1, None), Ok(()));
        assert_eq!(
            (progress.completed(), progress.fault()),
            (skipped, Some(fault.clone()))
        );
        let event = device.create_event(false).unwrap();
        // SAFETY: nothing is appended.
        unsafe {
            assert_eq!(queue.encode(&Op::Nop), Err(Error::Poisoned(fault.clone())));
            assert_eq!(
                queue.upload(a.span(), &[]),
                Err(Error::Poisoned(fault.clone()))
            );
        }
        assert_eq!(queue.record(&*event), Err(Error::Poisoned(fault)));
        assert_eq!(event.wait(None), Err(Error::NotRecorded));
        queue.recover().unwrap();
        assert_eq!(
            (progress.fault(), progress.wait(skipped, None)),
            (None, Ok(()))
        );
        assert_eq!(a.read(&mut *queue), [1.0; 4]);
    }

    #[test]
    fn recovery_waits_for_what_was_appended() {
        let device = device(1);
        let mut queue = queue(&device, 0);
        poison(&mut *queue, device.injector());
        queue.recover().unwrap();
        device.injector().delay_queue(0, Duration::from_millis(20));
        device.injector().fail_op(OpMatcher::any(), 1, "again");
        encode(&mut *queue, &Op::Nop);
        let last = encode(&mut *queue, &Op::Nop);
        queue.flush(Flush::Start).unwrap();
        while queue.progress().fault().is_none() {
            std::thread::yield_now();
        }
        queue.recover().unwrap();
        assert_eq!(queue.progress().completed(), last);
    }

    #[test]
    fn a_panicking_kernel_is_a_fault() {
        let device = device(1);
        let mut queue = queue(&device, 0);
        let tick = queue.flush(Flush::Start).unwrap();
        assert_eq!(tick, 0);
        let strand = Strand::new(Arc::clone(&device.core), QueueOptions::default());
        strand.guarded(1, OpKind::Fill, || panic!("out of paint"));
        let fault = strand.fault().unwrap();
        assert_eq!(fault.message(), "the kernel panicked: out of paint");
    }

    #[test]
    fn nonsense_is_refused_and_leaves_nothing_behind() {
        let (device, other) = (device(1), device(1));
        let a = Buffer::new(&device, 4);
        let mut queue = queue(&device, 0);
        let foreign = other.create_event(true).unwrap();
        let event = device.create_event(true).unwrap();
        let mut bytes = [0u8; 4];
        let into = HostSlice {
            pointer: bytes.as_mut_ptr(),
            bytes: 4,
        };
        // SAFETY: nothing is appended.
        unsafe {
            assert!(matches!(
                queue.encode(&Op::Softmax {
                    src: a.view(),
                    dst: a.view(),
                    axis: 7,
                    log: false
                }),
                Err(Error::InvalidOp { .. })
            ));
            assert!(matches!(
                queue.upload(a.span(), &[0; 17]),
                Err(Error::InvalidOp { .. })
            ));
            assert!(matches!(
                queue.download(a.span(), into),
                Err(Error::InvalidOp { .. })
            ));
        }
        assert!(matches!(
            queue.record(&*foreign),
            Err(Error::Foreign { .. })
        ));
        assert!(matches!(queue.wait(&*foreign), Err(Error::Foreign { .. })));
        assert_eq!(queue.wait(&*event), Err(Error::NotRecorded));
        // SAFETY: there are no constants.
        let ended = unsafe { queue.end_capture(&[], &[]) };
        assert!(matches!(ended, Err(Error::NotCapturing)));
        assert!(matches!(
            queue.progress().wait(1, None),
            Err(Error::Invalid { .. })
        ));
        assert_eq!(queue.flush(Flush::Start), Ok(0));
    }

    #[test]
    fn capturing_refuses_all_but_ops() {
        let device = device(1);
        let a = Buffer::new(&device, 4);
        let event = device.create_event(false).unwrap();
        let mut queue = queue(&device, 0);
        let before = encode(&mut *queue, &Op::Nop);
        queue.begin_capture().unwrap();
        assert_eq!(encode(&mut *queue, &a.fill(1.0)), before);
        // SAFETY: nothing is appended.
        let upload = unsafe { queue.upload(a.span(), &[]) };
        assert_eq!(upload, Err(Error::Capturing("upload")));
        assert_eq!(queue.record(&*event), Err(Error::Capturing("record")));
        assert_eq!(queue.wait(&*event), Err(Error::Capturing("wait")));
        assert_eq!(
            queue.on_complete(Box::new(|_| ())),
            Err(Error::Capturing("on_complete"))
        );
        assert_eq!(
            queue.begin_capture(),
            Err(Error::Capturing("begin_capture"))
        );
        assert_eq!(end_capture(&mut *queue, &[]).ops(), 1);
        assert_eq!(encode(&mut *queue, &Op::Nop), before + 1);
    }

    #[test]
    fn a_dropped_queue_still_executes() {
        let device = device(1);
        let (sender, receiver) = std::sync::mpsc::channel();
        let mut queue = queue(&device, 0);
        device.injector().delay_queue(0, Duration::from_millis(5));
        encode(&mut *queue, &Op::Nop);
        queue
            .on_complete(Box::new(move |outcome| sender.send(outcome).unwrap()))
            .unwrap();
        drop(queue);
        drop(device);
        assert_eq!(receiver.recv_timeout(crate::testing::FOREVER), Ok(Ok(())));
    }
}
