//! Imitated driver defects. A violation is seen when two threads really are where the driver could not
//! bear them; while one is there it yields, so that others get the chance to meet it.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::thread::ThreadId;

use streampool_device::lock::Mutex;
use streampool_device::{Op, OpKind, Quirk, Tick};

use crate::ranks;
use crate::strand::Strand;

/// How often a thread inside a tender place lets others run.
const YIELDS: usize = 4;

/// The defects of one device.
pub(crate) struct Imitation {
    quirks: Vec<Quirk>,
    violations: AtomicU64,
    matmuls: Occupancy,
    encoders: Occupancy,
    flushes: Occupancy,
    copies: Occupancy,
    norm_thread: OnceLock<ThreadId>,
    /// Weak, because a strand keeps its device alive, and this belongs to the device.
    buffers: Mutex<Vec<(Weak<Strand>, Tick)>>,
}

/// How many threads are inside a place.
#[derive(Default)]
struct Occupancy(AtomicUsize);

struct Inside<'a> {
    place: &'a Occupancy,
    others: usize,
}

impl Occupancy {
    fn enter(&self) -> Inside<'_> {
        Inside {
            others: self.0.fetch_add(1, Ordering::SeqCst),
            place: self,
        }
    }

    fn is_occupied(&self) -> bool {
        self.0.load(Ordering::SeqCst) > 0
    }
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.place.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Imitation {
    pub(crate) fn new(quirks: Vec<Quirk>) -> Self {
        Imitation {
            quirks,
            violations: AtomicU64::new(0),
            matmuls: Occupancy::default(),
            encoders: Occupancy::default(),
            flushes: Occupancy::default(),
            copies: Occupancy::default(),
            norm_thread: OnceLock::new(),
            buffers: Mutex::new(ranks::BUFFERS, Vec::new()),
        }
    }

    /// Whether there is anything to imitate.
    pub(crate) fn is_on(&self) -> bool {
        !self.quirks.is_empty()
    }

    pub(crate) fn quirks(&self) -> &[Quirk] {
        &self.quirks
    }

    pub(crate) fn violations(&self) -> u64 {
        self.violations.load(Ordering::Relaxed)
    }

    /// Passes through the driver's eager encoding of `op`.
    pub(crate) fn encode(&self, op: OpKind) -> Result<(), String> {
        let encoding = self
            .has(Quirk::EncoderFreedInUse)
            .then(|| self.encoders.enter());
        let matmul = (op == OpKind::MatMul && self.has(Quirk::SharedMatMulState))
            .then(|| self.matmuls.enter());
        if encoding.is_some() || matmul.is_some() {
            linger();
        }
        if encoding.is_some() && self.flushes.is_occupied() {
            return Err(self.violation(Quirk::EncoderFreedInUse, "another queue flushed meanwhile"));
        }
        if matmul.is_some_and(|inside| inside.others > 0) {
            return Err(self.violation(
                Quirk::SharedMatMulState,
                "another thread was encoding a matrix product",
            ));
        }
        if op == OpKind::Norm && self.has(Quirk::NormBoundToThread) {
            let current = std::thread::current().id();
            let first = *self.norm_thread.get_or_init(|| current);
            if first != current {
                return Err(self.violation(
                    Quirk::NormBoundToThread,
                    &format!("bound to {first:?}, encoded on {current:?}"),
                ));
            }
        }
        Ok(())
    }

    /// Passes through the driver's flush of what `strand` holds up to `last`.
    pub(crate) fn flush(&self, strand: &Arc<Strand>, last: Tick) -> Result<(), String> {
        if self.has(Quirk::EncoderFreedInUse) {
            let _flushing = self.flushes.enter();
            linger();
            if self.encoders.is_occupied() {
                return Err(self.violation(Quirk::EncoderFreedInUse, "another queue was encoding"));
            }
        }
        let limit = self.quirks.iter().find_map(|quirk| match quirk {
            Quirk::BuffersInFlight(limit) => Some(*limit),
            _ => None,
        });
        if let Some(limit) = limit {
            let mut buffers = self.buffers.lock();
            buffers.retain(|(strand, last)| {
                strand
                    .upgrade()
                    .is_some_and(|strand| !strand.is_over(*last))
            });
            buffers.push((Arc::downgrade(strand), last));
            let in_flight = buffers.len();
            drop(buffers);
            if in_flight > limit {
                return Err(self.violation(
                    Quirk::BuffersInFlight(limit),
                    &format!("{in_flight} in flight, at most {limit} allowed"),
                ));
            }
        }
        Ok(())
    }

    /// Executes `op` in the driver's scratch area, if it uses it.
    pub(crate) fn execute(
        &self,
        op: &Op,
        kernel: impl FnOnce() -> Result<(), String>,
    ) -> Result<(), String> {
        let strided = match op {
            Op::Copy { src, dst } => !src.layout().is_contiguous() || !dst.layout().is_contiguous(),
            _ => false,
        };
        if !strided || !self.has(Quirk::StridedCopyRace) {
            return kernel();
        }
        let inside = self.copies.enter();
        linger();
        let done = kernel();
        if inside.others > 0 {
            return Err(
                self.violation(Quirk::StridedCopyRace, "another strided copy was executing")
            );
        }
        done
    }

    fn has(&self, quirk: Quirk) -> bool {
        self.quirks.contains(&quirk)
    }

    fn violation(&self, quirk: Quirk, what: &str) -> String {
        self.violations.fetch_add(1, Ordering::Relaxed);
        format!("quirk violated: {quirk}: {what}")
    }
}

fn linger() {
    for _ in 0..YIELDS {
        std::thread::yield_now();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;
    use std::time::{Duration, Instant};

    use streampool_device::{
        Error, Flush, Layout, MatMul, Norm, NormKind, Queue, Result as DeviceResult, View,
    };

    use super::*;
    use crate::testing::{Buffer, FOREVER, encode, end_capture, queue};
    use crate::{HostDevice, HostOptions};

    fn device(quirk: Quirk) -> Arc<HostDevice> {
        HostDevice::new(
            HostOptions::default()
                .threads(2)
                .capacity(1 << 24)
                .quirks([quirk]),
        )
        .unwrap()
    }

    /// Works on two queues in two threads until `work` has met the quirk, or it is clear that it never does.
    fn meets(
        device: &Arc<HostDevice>,
        work: impl Fn(usize, &mut dyn Queue, &Buffer) + Sync,
    ) -> bool {
        let begun = Instant::now();
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for index in 0..2 {
                let (work, over) = (&work, &over);
                scope.spawn(move || {
                    let mut queue = queue(device, index as u32);
                    let buffer = Buffer::new(device, 64);
                    while !over.load(Ordering::Relaxed) {
                        work(index, &mut *queue, &buffer);
                        let tick = queue.flush(Flush::ForWaiter).unwrap();
                        if let Err(error) = queue.progress().wait(tick, None) {
                            assert!(error.to_string().contains("quirk violated"), "{error}");
                            queue.recover().unwrap();
                        }
                        if device.violations() > 0 || begun.elapsed() > FOREVER {
                            over.store(true, Ordering::Relaxed);
                        }
                    }
                });
            }
        });
        device.violations() > 0
    }

    fn matmul(buffer: &Buffer) -> Op {
        let square = |part: usize| {
            let span = buffer.span().part(part * 16, 16).unwrap();
            View::new(
                span,
                buffer.view().dtype(),
                Layout::contiguous(&[2, 2]).unwrap(),
            )
            .unwrap()
        };
        Op::MatMul(MatMul {
            a: square(0),
            b: square(1),
            out: square(2),
            bias: None,
            activation: Default::default(),
            alpha: 1.0,
        })
    }

    fn norm(buffer: &Buffer) -> Op {
        Op::Norm(Norm {
            added: None,
            kind: NormKind::Rms,
            src: buffer.view(),
            dst: buffer.view(),
            scale: None,
            bias: None,
            axis: 0,
            epsilon: 1e-5,
        })
    }

    fn try_encode(queue: &mut dyn Queue, op: &Op) -> DeviceResult<Tick> {
        // SAFETY: the tests keep the buffers, and each is one queue's.
        unsafe { queue.encode(op) }
    }

    #[test]
    fn two_threads_in_the_matmul_state_meet() {
        let device = device(Quirk::SharedMatMulState);
        assert!(meets(&device, |_, queue, buffer| {
            encode(queue, &buffer.fill(1.0));
            encode(queue, &matmul(buffer));
        }));
    }

    #[test]
    fn a_flush_meets_another_queues_encoding() {
        let device = device(Quirk::EncoderFreedInUse);
        assert!(meets(&device, |_, queue, _| {
            encode(queue, &Op::Nop);
        }));
    }

    #[test]
    fn two_strided_copies_meet_and_plain_ones_do_not() {
        let device = device(Quirk::StridedCopyRace);
        let half = |buffer: &Buffer| {
            let span = buffer.span().part(0, 128).unwrap();
            View::new(
                span,
                buffer.view().dtype(),
                Layout::contiguous(&[32]).unwrap(),
            )
            .unwrap()
        };
        let other = Buffer::new(&device, 64);
        let mut lane = queue(&device, 9);
        encode(&mut *lane, &other.fill(1.0));
        other.read(&mut *lane);
        let strided = |queue: &mut dyn Queue, buffer: &Buffer| {
            let (src, dst) = (other.strided(), half(buffer));
            encode(queue, &Op::Copy { src, dst });
        };
        assert!(meets(&device, |_, queue, buffer| strided(queue, buffer)));
    }

    #[test]
    fn a_norm_is_bound_to_its_first_thread_unless_captured() {
        let device = device(Quirk::NormBoundToThread);
        let mut lane = queue(&device, 0);
        let buffer = Buffer::new(&device, 4);
        encode(&mut *lane, &buffer.fill(1.0));
        encode(&mut *lane, &norm(&buffer));
        buffer.read(&mut *lane);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut lane = queue(&device, 1);
                let buffer = Buffer::new(&device, 4);
                lane.begin_capture().unwrap();
                encode(&mut *lane, &buffer.fill(1.0));
                encode(&mut *lane, &norm(&buffer));
                let program = end_capture(&mut *lane, &[]);
                // SAFETY: the buffer outlives the wait.
                let tick = unsafe { lane.replay(&program, &[]).unwrap() };
                assert_eq!(lane.progress().wait(tick, None), Ok(()));
                let tick = try_encode(&mut *lane, &norm(&buffer)).unwrap();
                let fault = match lane.progress().wait(tick, None) {
                    Err(Error::Fault(fault)) => fault,
                    other => panic!("expected a violation, got {other:?}"),
                };
                assert_eq!((fault.op(), fault.tick()), (OpKind::Norm, tick));
                assert!(
                    fault
                        .message()
                        .starts_with("quirk violated: norm-bound-to-thread")
                );
            });
        });
        assert_eq!(device.violations(), 1);
    }

    #[test]
    fn buffers_in_flight_are_counted_until_they_are_over() {
        let device = device(Quirk::BuffersInFlight(2));
        let mut lanes: Vec<_> = (0..3).map(|index| queue(&device, index)).collect();
        for lane in &mut lanes {
            let tick = encode(&mut **lane, &Op::Nop);
            lane.flush(Flush::ForWaiter).unwrap();
            lane.progress().wait(tick, None).unwrap();
        }
        assert_eq!(device.violations(), 0);
        device.injector().delay_queue(0, Duration::from_millis(50));
        for lane in &mut lanes[..2] {
            encode(&mut **lane, &Op::Nop);
            lane.flush(Flush::ForWaiter).unwrap();
            // Nothing new is handed over, so this is no buffer.
            lane.flush(Flush::ForWaiter).unwrap();
        }
        assert_eq!(device.violations(), 0);
        encode(&mut *lanes[2], &Op::Nop);
        let last = lanes[2].flush(Flush::ForWaiter).unwrap();
        assert_eq!(device.violations(), 1);
        assert!(lanes[2].progress().wait(last, None).is_err());
    }
}
