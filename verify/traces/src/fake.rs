//! A device that executes nothing: it notes what it is given, and goes on whenever it is asked for something. It may fail at an op.

use std::any::Any;
use std::cell::RefCell;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use device::commands::outcome;
use device::{
    Access, CacheReport, Error, Event, EventStatus, Fault, Flush, Handler, HostSlice, Memory,
    MemoryUse, OpKind, Program, Progress, Properties, Queue, QueueOptions, Quirk, Result, Space,
    Span, Tick, Trace,
};
use streampool_runtime::{Pool, Settings};

thread_local! {
    static DRAWN: RefCell<u64> = const { RefCell::new(0) };
}

pub fn below(count: u64) -> u64 {
    DRAWN.with_borrow_mut(|state| {
        *state ^= *state << 13;
        *state ^= *state >> 7;
        *state ^= *state << 17;
        *state % count
    })
}

pub fn sow(seed: u64) {
    DRAWN.set((seed + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
}

pub enum Command {
    Op(String),
    Mark,
    Wait(usize, Tick),
}

/// One queue of the device.
#[derive(Default)]
pub struct Given {
    pub commands: Vec<Command>,
    pub done: Tick,
    pub fault: Option<Fault>,
    /// What its thread heard last.
    pub heard: &'static str,
}

/// What the device was given and has done.
pub struct Seen {
    /// By the number of their stream. Nothing goes on 0.
    pub queues: Vec<Given>,
    /// How far it goes at a time, at most.
    pub pace: u64,
    pub blocks: Vec<Span>,
    /// So many ops of stream 1 may still fail.
    pub faults: usize,
    /// How an op shows that reads or writes a block.
    pub op: fn(Access, usize) -> String,
    pub show: fn(&Given) -> String,
    pub looks: Option<Vec<String>>,
}

impl Seen {
    pub fn note(&mut self) {
        let queues: Vec<String> = self.queues[1..].iter().map(self.show).collect();
        let look = queues.join(" ");
        if let Some(looks) = &mut self.looks
            && looks.last() != Some(&look)
        {
            looks.push(look);
        }
    }

    /// Executes the next command of a stream, unless that waits for what is not done. The waits before an op go with it.
    fn go_on(&mut self, stream: usize) {
        let given = &self.queues[stream];
        let behind = &given.commands[given.done as usize..];
        let is_ready = match behind.first() {
            None => false,
            Some(Command::Wait(of, tick)) => {
                let is_wait = |command: &Command| matches!(command, Command::Wait(..));
                self.queues[*of].done >= *tick && !behind.iter().all(is_wait)
            }
            Some(_) => true,
        };
        if !is_ready {
            return;
        }
        let may_fail = stream == 1
            && self.faults > 0
            && given.fault.is_none()
            && matches!(behind[0], Command::Op(_));
        let given = &mut self.queues[stream];
        given.done += 1;
        if may_fail && below(2) == 0 {
            let name = format!("stream {stream}");
            let fault = Fault::new(&name, given.done, OpKind::Fill, "on purpose");
            given.fault = Some(fault);
            self.faults -= 1;
        }
        self.note();
    }

    /// A poisoned queue takes no more.
    fn append(&mut self, stream: usize, command: Command) -> Result<Tick> {
        let given = &mut self.queues[stream];
        if let Some(fault) = &given.fault {
            return Err(Error::Poisoned(fault.clone()));
        }
        if matches!(command, Command::Op(_)) {
            given.heard = "";
        }
        let shows = !matches!(command, Command::Wait(..));
        given.commands.push(command);
        let tick = given.commands.len() as Tick;
        if shows {
            self.note();
        }
        Ok(tick)
    }
}

#[derive(Clone)]
pub struct Shared(pub Arc<Mutex<Seen>>);

impl Shared {
    /// Others run, and the device goes on, before what is done.
    pub fn with<R>(&self, change: impl FnOnce(&mut Seen) -> R) -> R {
        (0..below(3)).for_each(|_| std::thread::yield_now());
        let mut seen = self.0.lock().unwrap();
        let streams = seen.queues.len() as u64 - 1;
        (0..below(1 + seen.pace)).for_each(|_| seen.go_on(1 + below(streams) as usize));
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

impl device::Device for Fake {
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
    unsafe fn encode(&mut self, op: &device::Op) -> Result<Tick> {
        self.0.with(|seen| {
            let mut shown = String::new();
            op.for_each_operand(|_, access, view| {
                if let Some(block) = seen.blocks.iter().position(|&span| span == view.span()) {
                    shown = (seen.op)(access, block);
                }
            });
            seen.append(self.1, Command::Op(shown))
        })
    }
    unsafe fn upload(&mut self, _: Span, _: &[u8]) -> Result<Tick> {
        none()
    }
    unsafe fn download(&mut self, _: Span, _: HostSlice) -> Result<Tick> {
        none()
    }
    fn record(&mut self, event: &dyn Event) -> Result<Tick> {
        let event: &Recorded = event.as_any().downcast_ref().expect("one of its own");
        self.0.with(|seen| {
            let tick = seen.append(self.1, Command::Mark)?;
            *event.0.lock().unwrap() = (self.1, tick);
            Ok(tick)
        })
    }
    fn wait(&mut self, event: &dyn Event) -> Result<Tick> {
        let event: &Recorded = event.as_any().downcast_ref().expect("one of its own");
        self.0.with(|seen| {
            let (stream, tick) = *event.0.lock().unwrap();
            seen.append(self.1, Command::Wait(stream, tick))
        })
    }
    fn on_complete(&mut self, _: Handler) -> Result<Tick> {
        none()
    }
    fn flush(&mut self, _: Flush) -> Result<Tick> {
        Ok(self
            .0
            .with(|seen| seen.queues[self.1].commands.len() as Tick))
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
        self.0.with(|seen| {
            seen.queues[self.1].fault = None;
            seen.note();
        });
        Ok(())
    }
}

impl Progress for Far {
    fn completed(&self) -> Tick {
        self.0.with(|seen| seen.queues[self.1].done)
    }
    fn fault(&self) -> Option<Fault> {
        self.0.with(|seen| seen.queues[self.1].fault.clone())
    }
    fn wait(&self, tick: Tick, _: Option<Instant>) -> Result<()> {
        while self.completed() < tick {}
        outcome(tick, self.fault())
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

/// A pool of so many streams beside stream 0 over such a device, and what that sees.
pub fn pool(
    streams: usize,
    pace: u64,
    op: fn(Access, usize) -> String,
    show: fn(&Given) -> String,
) -> (Pool, Shared) {
    let shared = Shared(Arc::new(Mutex::new(Seen {
        queues: (0..=streams).map(|_| Given::default()).collect(),
        pace,
        blocks: Vec::new(),
        faults: 0,
        op,
        show,
        looks: None,
    })));
    let properties = Properties {
        name: "fake".to_owned(),
        kind: device::DeviceKind::Host,
        hardware: String::new(),
        features: Vec::new(),
        compute_units: 1,
        alignment: 256,
        memory_capacity: 1 << 30,
        unified_memory: false,
    };
    let settings = Settings::builder()
        .without_environment()
        .streams(streams + 1)
        .build();
    let device = Arc::new(Fake(shared.clone(), properties));
    (
        Pool::with_settings(device, settings.unwrap()).unwrap(),
        shared,
    )
}

impl Shared {
    /// What shows from now on is noted.
    pub fn begin(&self, blocks: Vec<Span>, faults: usize) {
        let mut seen = self.0.lock().unwrap();
        (seen.blocks, seen.faults, seen.looks) = (blocks, faults, Some(Vec::new()));
        seen.note();
    }

    /// All that was noted. What is left is done, and no longer seen: that pools end is not the scenarios'.
    pub fn end(&self) -> Vec<String> {
        let mut seen = self.0.lock().unwrap();
        (seen.pace, seen.faults) = (2, 0);
        seen.looks.take().unwrap_or_default()
    }
}
