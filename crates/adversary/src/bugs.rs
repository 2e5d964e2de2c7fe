//! The bugs: which calls meet one. A thread that is where only one may be yields, so that others get the chance to
//! meet it there.

#![forbid(unsafe_code)]

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::ThreadId;

use streampool_device::lock::Mutex;
use streampool_device::{Op, OpKind, Progress, Quirk, Tick};

use crate::ranks;

/// How often a thread inside a section lets others run.
const YIELDS: usize = 4;

/// The bugs of one device.
#[derive(Debug)]
pub(crate) struct Bugs {
    quirks: Vec<Quirk>,
    violations: AtomicU64,
    products: Section,
    encodings: Section,
    flushes: Section,
    norm_thread: OnceLock<ThreadId>,
    strided_copies: UnderWay,
    buffers: UnderWay,
}

/// A part of the driver that threads are inside of.
#[derive(Debug, Default)]
struct Section(AtomicUsize);

struct Inside<'a> {
    section: &'a Section,
    /// How many were inside before.
    others: usize,
}

impl Section {
    fn enter(&self) -> Inside<'_> {
        let inside = Inside {
            others: self.0.fetch_add(1, Ordering::SeqCst),
            section: self,
        };
        for _ in 0..YIELDS {
            std::thread::yield_now();
        }
        inside
    }

    fn is_occupied(&self) -> bool {
        self.0.load(Ordering::SeqCst) > 0
    }
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.section.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// What was appended to queues and is not over.
struct UnderWay(Mutex<Vec<(Arc<dyn Progress>, Tick)>>);

impl UnderWay {
    fn new() -> Self {
        UnderWay(Mutex::new(ranks::UNDER_WAY, Vec::new()))
    }

    /// Adds what `queue` has at `tick`. Tells how much is under way, and how much of it on other queues.
    fn add(&self, queue: &Arc<dyn Progress>, tick: Tick) -> (usize, usize) {
        let mut all = self.0.lock();
        all.retain(|(queue, tick)| queue.completed() < *tick);
        all.push((queue.clone(), tick));
        let others = all.iter().filter(|(other, _)| !Arc::ptr_eq(other, queue));
        (all.len(), others.count())
    }
}

impl std::fmt::Debug for UnderWay {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} under way", self.0.lock().len())
    }
}

impl Bugs {
    pub fn new(quirks: Vec<Quirk>) -> Self {
        Bugs {
            quirks,
            violations: AtomicU64::new(0),
            products: Section::default(),
            encodings: Section::default(),
            flushes: Section::default(),
            norm_thread: OnceLock::new(),
            strided_copies: UnderWay::new(),
            buffers: UnderWay::new(),
        }
    }

    pub fn quirks(&self) -> &[Quirk] {
        &self.quirks
    }

    pub fn violations(&self) -> u64 {
        self.violations.load(Ordering::Relaxed)
    }

    /// Encodes an op of this kind; fails if that meets a bug.
    pub fn encode<T>(&self, op: OpKind, encode: impl FnOnce() -> T) -> (T, Result<(), String>) {
        let product = op == OpKind::MatMul && self.has(Quirk::SharedMatMulState);
        let product = product.then(|| self.products.enter());
        let encoding = self.has(Quirk::EncoderFreedInUse);
        let encoding = encoding.then(|| self.encodings.enter());
        let encoded = encode();
        if encoding.is_some() && self.flushes.is_occupied() {
            let why = self.violated(Quirk::EncoderFreedInUse, "another queue flushed meanwhile");
            return (encoded, why);
        }
        if product.is_some_and(|inside| inside.others > 0) {
            let what = "another thread was encoding a matrix product";
            return (encoded, self.violated(Quirk::SharedMatMulState, what));
        }
        if op == OpKind::Norm && self.has(Quirk::NormBoundToThread) {
            let current = std::thread::current().id();
            let first = *self.norm_thread.get_or_init(|| current);
            if first != current {
                let what = format!("bound to {first:?}, encoded on {current:?}");
                return (encoded, self.violated(Quirk::NormBoundToThread, &what));
            }
        }
        (encoded, Ok(()))
    }

    /// A strided copy was appended to `queue` at `tick`. It has the scratch area until it is over, also where events
    /// order it after others: the driver does not look at these.
    pub fn copy_strided(&self, queue: &Arc<dyn Progress>, tick: Tick) -> Result<(), String> {
        if !self.has(Quirk::StridedCopyRace) {
            return Ok(());
        }
        let (_, others) = self.strided_copies.add(queue, tick);
        match others {
            0 => Ok(()),
            _ => {
                let what = "another strided copy was under way";
                self.violated(Quirk::StridedCopyRace, what)
            }
        }
    }

    /// `queue` has flushed a buffer that ends at `last`.
    pub fn flushed(&self, queue: &Arc<dyn Progress>, last: Tick) -> Result<(), String> {
        if self.has(Quirk::EncoderFreedInUse) {
            let _flushing = self.flushes.enter();
            if self.encodings.is_occupied() {
                return self.violated(Quirk::EncoderFreedInUse, "another queue was encoding");
            }
        }
        for &quirk in &self.quirks {
            if let Quirk::BuffersInFlight(limit) = quirk {
                let (in_flight, _) = self.buffers.add(queue, last);
                if in_flight > limit {
                    let what = format!("{in_flight} in flight, at most {limit} allowed");
                    return self.violated(quirk, &what);
                }
            }
        }
        Ok(())
    }

    fn has(&self, quirk: Quirk) -> bool {
        self.quirks.contains(&quirk)
    }

    fn violated(&self, quirk: Quirk, what: &str) -> Result<(), String> {
        self.violations.fetch_add(1, Ordering::Relaxed);
        Err(format!("quirk violated: {quirk}: {what}"))
    }
}

/// Whether the driver copies it through its scratch area.
pub(crate) fn is_strided_copy(op: &Op) -> bool {
    match op {
        Op::Copy { src, dst } => !src.layout().is_contiguous() || !dst.layout().is_contiguous(),
        _ => false,
    }
}
