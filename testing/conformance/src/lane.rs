//! A queue whose commands are remembered, so that its memory is freed after them.
//!
//! The unsafe methods of [`Queue`] are wrapped here once. What they ask of the caller is kept by the whole
//! crate: spans come from [`Fixture`](crate::Fixture), which frees them after the last command of its last
//! lane, and every test orders what touches one buffer by one lane, by events or by waiting.

#![expect(unsafe_code, reason = "vouches for the memory that ops name")]

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use streampool_device::{
    DType, Element, Error, Event, Flush, Handler, HostSlice, Op, Program, Progress, Queue, Result,
    Span, Tick, View,
};

use crate::patience::{locked, patience};

/// What was appended to a lane; outlives it.
pub(crate) struct Appended {
    progress: Arc<dyn Progress>,
    last: AtomicU64,
    landings: Mutex<Vec<Arc<[AtomicU8]>>>,
}

impl Appended {
    /// Waits until all of it is over, executed or not.
    pub(crate) fn is_over(&self, deadline: Option<Instant>) -> bool {
        let last = self.last.load(Ordering::Acquire);
        let over = !matches!(self.progress.wait(last, deadline), Err(Error::Timeout(_)));
        if !over {
            // The device may still write there: the bytes must outlive this process's interest in them.
            locked(&self.landings).drain(..).for_each(std::mem::forget);
        }
        over
    }
}

/// Host memory that a download writes.
pub(crate) struct Landing {
    bytes: Arc<[AtomicU8]>,
    progress: Arc<dyn Progress>,
    pub(crate) tick: Tick,
}

impl Landing {
    /// What arrived; the download must be over.
    pub(crate) fn read<T: Element>(&self) -> Vec<T> {
        assert!(
            self.progress.completed() >= self.tick,
            "read before its download is over"
        );
        let bytes: Vec<u8> = self
            .bytes
            .iter()
            .map(|byte| byte.load(Ordering::Relaxed))
            .collect();
        elements(&bytes)
    }
}

/// The elements of `bytes`, each checked to be a valid value of its type.
pub(crate) fn elements<T: Element>(bytes: &[u8]) -> Vec<T> {
    bytes
        .chunks_exact(T::DTYPE.size())
        .map(|chunk| {
            *bytemuck::checked::try_from_bytes(&Aligned::new(chunk).0[..chunk.len()])
                .expect("a valid value of its type")
        })
        .collect()
}

#[repr(align(8))]
struct Aligned([u8; 8]);

impl Aligned {
    fn new(bytes: &[u8]) -> Aligned {
        let mut aligned = Aligned([0; 8]);
        aligned.0[..bytes.len()].copy_from_slice(bytes);
        aligned
    }
}

/// One queue.
pub(crate) struct Lane {
    queue: Box<dyn Queue>,
    appended: Arc<Appended>,
    index: u32,
}

impl Lane {
    pub(crate) fn new(queue: Box<dyn Queue>, index: u32) -> Lane {
        let progress = queue.progress();
        Lane {
            queue,
            appended: Arc::new(Appended {
                progress,
                last: AtomicU64::new(0),
                landings: Mutex::default(),
            }),
            index,
        }
    }

    pub(crate) fn appended(&self) -> &Arc<Appended> {
        &self.appended
    }

    pub(crate) fn index(&self) -> u32 {
        self.index
    }

    pub(crate) fn label(&self) -> String {
        format!("lane-{}", self.index)
    }

    pub(crate) fn progress(&self) -> Arc<dyn Progress> {
        self.queue.progress()
    }

    fn note(&self, tick: Result<Tick>) -> Result<Tick> {
        if let Ok(tick) = tick {
            self.appended.last.fetch_max(tick, Ordering::AcqRel);
        }
        tick
    }

    pub(crate) fn encode(&mut self, op: &Op) -> Result<Tick> {
        // SAFETY: see the front of this file.
        let tick = unsafe { self.queue.encode(op) };
        self.note(tick)
    }

    pub(crate) fn upload(&mut self, dst: Span, bytes: &[u8]) -> Result<Tick> {
        // SAFETY: see the front of this file.
        let tick = unsafe { self.queue.upload(dst, bytes) };
        self.note(tick)
    }

    pub(crate) fn download(&mut self, src: Span) -> Result<Landing> {
        self.download_into(src, src.bytes)
    }

    /// A download into host memory of `bytes`.
    pub(crate) fn download_into(&mut self, src: Span, bytes: usize) -> Result<Landing> {
        let landing: Arc<[AtomicU8]> = (0..bytes).map(|_| AtomicU8::new(0xa5)).collect();
        let into = HostSlice {
            pointer: landing.as_ptr().cast_mut().cast(),
            bytes,
        };
        locked(&self.appended.landings).push(Arc::clone(&landing));
        // SAFETY: for `src` see the front of this file. `into` is kept by `appended`, which the fixture
        // keeps until the command is over, and `Landing` reads it only then.
        let tick = unsafe { self.queue.download(src, into) };
        self.note(tick).map(|tick| Landing {
            bytes: landing,
            progress: self.queue.progress(),
            tick,
        })
    }

    pub(crate) fn record(&mut self, event: &dyn Event) -> Result<Tick> {
        let tick = self.queue.record(event);
        self.note(tick)
    }

    pub(crate) fn wait(&mut self, event: &dyn Event) -> Result<Tick> {
        let tick = self.queue.wait(event);
        self.note(tick)
    }

    pub(crate) fn on_complete(&mut self, handler: Handler) -> Result<Tick> {
        let tick = self.queue.on_complete(handler);
        self.note(tick)
    }

    pub(crate) fn flush(&mut self, when: Flush) -> Result<Tick> {
        self.queue.flush(when)
    }

    pub(crate) fn begin_capture(&mut self) -> Result<()> {
        self.queue.begin_capture()
    }

    pub(crate) fn end_capture(&mut self, slots: &[Span]) -> Result<Arc<dyn Program>> {
        end_capture(&mut *self.queue, slots)
    }

    /// Captures `ops` with memory that is written and, as long as the program lives, no more.
    pub(crate) fn capture_with(
        &mut self,
        ops: &[Op],
        slots: &[Span],
        constants: &[Span],
    ) -> Arc<dyn Program> {
        self.begin_capture().expect("a capture can begin");
        for op in ops {
            self.encode(op).expect("the op can be captured");
        }
        // SAFETY: see the front of this file.
        let program = unsafe { self.queue.end_capture(slots, constants) };
        program.expect("the capture can end")
    }

    /// Captures `ops` with `slots`.
    pub(crate) fn capture(&mut self, ops: &[Op], slots: &[Span]) -> Arc<dyn Program> {
        self.begin_capture().expect("a capture can begin");
        for op in ops {
            self.encode(op).expect("the op can be captured");
        }
        self.end_capture(slots).expect("the capture can end")
    }

    pub(crate) fn replay(&mut self, program: &Arc<dyn Program>, slots: &[Span]) -> Result<Tick> {
        // SAFETY: see the front of this file.
        let tick = unsafe { self.queue.replay(program, slots) };
        self.note(tick)
    }

    pub(crate) fn recover(&mut self) -> Result<()> {
        self.queue.recover()
    }

    /// Flushes and waits for everything; fails with the fault that hit it.
    pub(crate) fn try_sync(&mut self) -> Result<()> {
        let last = self.flush(Flush::ForWaiter)?;
        self.progress().wait(last, patience())
    }

    pub(crate) fn sync(&mut self) {
        self.try_sync().expect("the work succeeds in time");
    }

    /// Appends an op that is right.
    pub(crate) fn run(&mut self, op: &Op) -> Tick {
        match self.encode(op) {
            Ok(tick) => tick,
            Err(error) => panic!("{op:?} was refused: {error}"),
        }
    }

    /// Appends an upload of elements, laid out row-major.
    pub(crate) fn put<T: Element>(&mut self, view: View, values: &[T]) -> Tick {
        assert_eq!(view.dtype(), T::DTYPE);
        self.upload(view.span(), bytemuck::cast_slice(values))
            .expect("the upload is right")
    }

    /// The whole memory of a view once everything appended is complete.
    pub(crate) fn get<T: Element>(&mut self, view: View) -> Vec<T> {
        assert!(view.dtype() == T::DTYPE || T::DTYPE == DType::U8);
        let landing = self.download(view.span()).expect("the download is right");
        self.sync();
        landing.read()
    }
}

/// Ends a capture without constants.
pub(crate) fn end_capture(queue: &mut dyn Queue, slots: &[Span]) -> Result<Arc<dyn Program>> {
    // SAFETY: there are no constants.
    unsafe { queue.end_capture(slots, &[]) }
}
