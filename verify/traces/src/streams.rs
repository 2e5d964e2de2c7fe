//! Threads that share a block on three streams: the scenario of `Streams.tla`. The runtime is the shipped one, whole; what is seen is what it
//! gives its device, and how far that is. The device executes nothing, and goes on whenever it is asked for something.

use std::any::Any;
use std::cell::RefCell;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex, RwLock};
use std::time::{Duration, Instant};

use streampool_device::{
    Access, CacheReport, Error, Event, EventStatus, Fault, Flush, Handler, HostSlice, Memory,
    MemoryUse, Program, Progress, Properties, Queue, QueueOptions, Quirk, Result, Space, Span,
    Tick, Trace,
};
use streampool_runtime::{Buffer, DType, Op, OpKind, Pool, Settings, Stream};

/// As in the graph.
const STREAMS: usize = 3;

thread_local! {
    static DRAWN: RefCell<u64> = const { RefCell::new(0) };
}

fn below(count: u64) -> u64 {
    DRAWN.with_borrow_mut(|state| {
        *state ^= *state << 13;
        *state ^= *state >> 7;
        *state ^= *state << 17;
        *state % count
    })
}

fn sow(seed: u64) {
    DRAWN.set((seed + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
}

/// What the device was given and has done.
#[derive(Default)]
struct Seen {
    /// Each command as it is shown, with what a wait is for.
    queues: [Vec<(String, Option<(usize, Tick)>)>; STREAMS + 1],
    done: [Tick; STREAMS + 1],
    /// How far it goes at a time, at most.
    pace: u64,
    block: Option<Span>,
    looks: Option<Vec<String>>,
}

impl Seen {
    fn note(&mut self) {
        let Some(looks) = &mut self.looks else { return };
        let shown = self.queues[1..].iter().zip(&self.done[1..]);
        // Waits show with the op that they are for.
        let queues: Vec<String> = shown
            .map(|(queue, done)| {
                let last = queue.iter().rposition(|(_, wait)| wait.is_none());
                let all = queue[..last.map_or(0, |last| last + 1)].iter();
                let all: String = all.map(|(shown, _)| &shown[..]).collect();
                format!("{all}/{done}")
            })
            .collect();
        let look = queues.join(" ");
        if looks.last() != Some(&look) {
            looks.push(look);
        }
    }

    /// Executes the next command of a stream, unless that waits for what is not done. The waits before an op go with it.
    fn go_on(&mut self, stream: usize) {
        let done = self.done[stream];
        let behind = &self.queues[stream][done as usize..];
        let is_ready = match behind.first() {
            None => false,
            Some((_, None)) => true,
            Some((_, Some((of, tick)))) => {
                self.done[*of] >= *tick && behind.iter().any(|(_, wait)| wait.is_none())
            }
        };
        if is_ready {
            self.done[stream] += 1;
            self.note();
        }
    }

    fn append(&mut self, stream: usize, shown: String, wait: Option<(usize, Tick)>) -> Tick {
        let is_wait = wait.is_some();
        self.queues[stream].push((shown, wait));
        if !is_wait {
            self.note();
        }
        self.queues[stream].len() as Tick
    }
}

#[derive(Clone)]
struct Shared(Arc<Mutex<Seen>>);

impl Shared {
    /// Others run, and the device goes on, before what is done.
    fn with<R>(&self, change: impl FnOnce(&mut Seen) -> R) -> R {
        (0..below(3)).for_each(|_| std::thread::yield_now());
        let mut seen = self.0.lock().unwrap();
        (0..below(1 + seen.pace)).for_each(|_| seen.go_on(1 + below(STREAMS as u64) as usize));
        change(&mut seen)
    }
}

struct Fake(Shared, Properties);
struct Lane(Shared, usize);
struct Far(Shared, usize);
struct Recorded(Mutex<(usize, Tick)>);

impl std::fmt::Debug for Fake {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Fake")
    }
}

fn none<T>() -> Result<T> {
    Err(Error::NotCapturing)
}

impl streampool_device::Device for Fake {
    fn properties(&self) -> &Properties {
        &self.1
    }
    fn supports(&self, _: OpKind) -> bool {
        true
    }
    fn allocate(&self, bytes: usize, space: Space) -> Result<Memory> {
        static HANDLES: AtomicUsize = AtomicUsize::new(1);
        let handle = HANDLES.fetch_add(1, Ordering::Relaxed) as u64;
        Ok(Memory {
            handle,
            bytes,
            space,
        })
    }
    // SAFETY: there is no memory behind it.
    unsafe fn free(&self, _: Memory) {}
    fn host_address(&self, _: &Memory) -> Result<NonNull<u8>> {
        none()
    }
    fn memory_use(&self) -> MemoryUse {
        MemoryUse::default()
    }
    fn create_queue(&self, options: QueueOptions) -> Result<Box<dyn Queue>> {
        Ok(Box::new(Lane(self.0.clone(), options.index as usize)))
    }
    fn create_event(&self, _: bool) -> Result<Box<dyn Event>> {
        Ok(Box::new(Recorded(Mutex::new((0, 0)))))
    }
    fn quirks(&self) -> Vec<Quirk> {
        Vec::new()
    }
    fn caches(&self) -> Vec<CacheReport> {
        Vec::new()
    }
    fn set_trace(&self, _: Option<Arc<dyn Trace>>) {}
}

impl Queue for Lane {
    fn progress(&self) -> Arc<dyn Progress> {
        Arc::new(Far(self.0.clone(), self.1))
    }
    unsafe fn encode(&mut self, op: &streampool_device::Op) -> Result<Tick> {
        Ok(self.0.with(|seen| {
            let mut shown = "";
            op.for_each_operand(|_, access, view| {
                if seen.block == Some(view.span()) {
                    shown = match access {
                        Access::Read => "r",
                        Access::Write => "w",
                    };
                }
            });
            seen.append(self.1, shown.to_owned(), None)
        }))
    }
    unsafe fn upload(&mut self, _: Span, _: &[u8]) -> Result<Tick> {
        none()
    }
    unsafe fn download(&mut self, _: Span, _: HostSlice) -> Result<Tick> {
        none()
    }
    fn record(&mut self, event: &dyn Event) -> Result<Tick> {
        let event: &Recorded = event.as_any().downcast_ref().expect("one of its own");
        Ok(self.0.with(|seen| {
            let tick = seen.append(self.1, "m".to_owned(), None);
            *event.0.lock().unwrap() = (self.1, tick);
            tick
        }))
    }
    fn wait(&mut self, event: &dyn Event) -> Result<Tick> {
        let event: &Recorded = event.as_any().downcast_ref().expect("one of its own");
        Ok(self.0.with(|seen| {
            let (stream, tick) = *event.0.lock().unwrap();
            seen.append(self.1, format!("({stream}.{tick})"), Some((stream, tick)))
        }))
    }
    fn on_complete(&mut self, _: Handler) -> Result<Tick> {
        none()
    }
    fn flush(&mut self, _: Flush) -> Result<Tick> {
        Ok(self.0.with(|seen| seen.queues[self.1].len() as Tick))
    }
    fn begin_capture(&mut self) -> Result<()> {
        none()
    }
    unsafe fn end_capture(&mut self, _: &[Span], _: &[Span]) -> Result<Arc<dyn Program>> {
        none()
    }
    unsafe fn replay(&mut self, _: &Arc<dyn Program>, _: &[Span]) -> Result<Tick> {
        none()
    }
    fn recover(&mut self) -> Result<()> {
        Ok(())
    }
}

impl Progress for Far {
    fn completed(&self) -> Tick {
        self.0.with(|seen| seen.done[self.1])
    }
    fn fault(&self) -> Option<Fault> {
        None
    }
    fn wait(&self, tick: Tick, _: Option<Instant>) -> Result<()> {
        while self.completed() < tick {}
        Ok(())
    }
}

impl Event for Recorded {
    fn as_any(&self) -> &dyn Any {
        self
    }
    fn query(&self) -> Result<EventStatus> {
        none()
    }
    fn wait(&self, _: Option<Instant>) -> Result<()> {
        none()
    }
    fn elapsed_since(&self, _: &dyn Event) -> Result<Duration> {
        none()
    }
}

/// The block as its users have it: lent to all who read or to one who writes; or free.
struct Block {
    buffer: Option<Buffer>,
    is_written: bool,
    span: Span,
    /// Other memory that was given instead, because the block is still in use.
    others: Vec<Buffer>,
}

/// What one thread does with the block on its stream.
fn uses(pool: &Pool, stream: &Stream, block: &RwLock<Block>, ops: &AtomicUsize, most: usize) {
    let mut own = stream.allocate(256).unwrap();
    let begins = || {
        let more = |count| (count < most).then_some(count + 1);
        ops.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more)
            .is_ok()
    };
    for _ in 0..12 {
        (0..below(4)).for_each(|_| std::thread::yield_now());
        match below(8) {
            0..3 => {
                let Ok(mut block) = block.try_write() else {
                    continue;
                };
                if let Some(buffer) = &mut block.buffer
                    && begins()
                {
                    let dst = buffer.write(DType::F32, &[64]).unwrap();
                    let value = 1.0.into();
                    stream.encode(Op::Fill { dst, value }).unwrap();
                    block.is_written = true;
                }
            }
            3..6 => {
                let Ok(block) = block.try_read() else {
                    continue;
                };
                if let Some(buffer) = block.buffer.as_ref().filter(|_| block.is_written)
                    && begins()
                {
                    let src = buffer.read(DType::F32, &[64]).unwrap();
                    let dst = own.write(DType::F32, &[64]).unwrap();
                    stream.encode(Op::Copy { src, dst }).unwrap();
                }
            }
            6 => {
                let Ok(mut block) = block.try_write() else {
                    continue;
                };
                if ops.load(Ordering::Relaxed) < most {
                    block.buffer = None;
                    block.is_written = false;
                }
            }
            _ => {
                let Ok(mut block) = block.try_write() else {
                    continue;
                };
                if block.buffer.is_none() {
                    let buffer = pool.stream(1).unwrap().allocate(256).unwrap();
                    match buffer.span() == block.span {
                        true => block.buffer = Some(buffer),
                        false => block.others.push(buffer),
                    }
                }
            }
        }
    }
}

/// One execution of so many ops: all that was seen.
pub fn execution(seed: u64, most: usize) -> Vec<String> {
    sow(seed);
    let shared = Shared(Arc::default());
    let properties = Properties {
        name: "fake".to_owned(),
        kind: streampool_device::DeviceKind::Host,
        hardware: String::new(),
        features: Vec::new(),
        compute_units: 1,
        alignment: 256,
        memory_capacity: 1 << 30,
        unified_memory: false,
    };
    let settings = Settings::builder()
        .without_environment()
        .streams(STREAMS + 1)
        .build();
    let device = Arc::new(Fake(shared.clone(), properties));
    let pool = Pool::with_settings(device, settings.unwrap()).unwrap();
    let streams: Vec<&Stream> = (1..=STREAMS)
        .map(|index| pool.stream(index).unwrap())
        .collect();
    let buffer = streams[0].allocate(256).unwrap();
    let span = buffer.span();
    let block = RwLock::new(Block {
        buffer: Some(buffer),
        is_written: false,
        span,
        others: Vec::new(),
    });
    let ops = AtomicUsize::new(0);
    {
        let mut seen = shared.0.lock().unwrap();
        (seen.block, seen.looks, seen.pace) = (Some(span), Some(Vec::new()), seed % 3);
        seen.note();
    }
    let together = Barrier::new(STREAMS);
    std::thread::scope(|scope| {
        for &stream in &streams {
            let (pool, block, ops, together) = (&pool, &block, &ops, &together);
            scope.spawn(move || {
                sow(seed * 4 + u64::from(stream.index()));
                together.wait();
                pool.with_stream(stream, || uses(pool, stream, block, ops, most))
                    .unwrap();
            });
        }
    });
    // What is left is done, and no longer seen: that pools end is not the scenario's.
    let mut seen = shared.0.lock().unwrap();
    let looks = seen.looks.take();
    seen.pace = 2;
    drop(seen);
    looks.unwrap_or_default()
}
