//! Ops that take a device long to prepare: their stream is free meanwhile.

use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::common::{buffer, copy, device, filled, pool, until, value_of};
use streampool_device::{
    CacheReport, Device, Event, Flush, Handler, HostSlice, Memory, MemoryUse, OpKind, Prepared,
    Progress, Properties, Queue, QueueOptions, Quirk, Space, Span, Tick, Trace, View,
};
use streampool_device::{Program as DeviceProgram, Result};
use streampool_host::HostDevice;
use streampool_runtime::Op;

/// A device on which copies have to be prepared. To prepare one takes until somebody has encoded another op.
#[derive(Debug)]
struct Slow {
    device: Arc<HostDevice>,
    state: Arc<State>,
}

#[derive(Debug, Default)]
struct State {
    is_preparing: AtomicBool,
    was_encoded: AtomicBool,
    is_prepared: AtomicBool,
}

struct SlowQueue {
    queue: Box<dyn Queue>,
    state: Arc<State>,
}

impl State {
    fn prepare(&self) {
        self.is_preparing.store(true, Ordering::Release);
        let begun = Instant::now();
        while !self.was_encoded.load(Ordering::Acquire) {
            let waited = begun.elapsed();
            assert!(waited < Duration::from_secs(20), "the stream is not free");
            std::thread::yield_now();
        }
        self.is_prepared.store(true, Ordering::Release);
    }
}

impl Device for Slow {
    fn properties(&self) -> &Properties {
        self.device.properties()
    }
    fn supports(&self, op: OpKind) -> bool {
        self.device.supports(op)
    }
    fn allocate(&self, bytes: usize, space: Space) -> Result<Memory> {
        self.device.allocate(bytes, space)
    }
    unsafe fn free(&self, memory: Memory) {
        // SAFETY: the caller's guarantee, handed on.
        unsafe { self.device.free(memory) }
    }
    fn host_address(&self, memory: &Memory) -> Result<NonNull<u8>> {
        self.device.host_address(memory)
    }
    fn memory_use(&self) -> MemoryUse {
        self.device.memory_use()
    }
    fn prepare(&self, _op: &Op<View>) -> Result<Option<Prepared>> {
        self.state.prepare();
        Ok(Some(Box::new(())))
    }
    fn create_queue(&self, options: QueueOptions) -> Result<Box<dyn Queue>> {
        Ok(Box::new(SlowQueue {
            queue: self.device.create_queue(options)?,
            state: self.state.clone(),
        }))
    }
    fn create_event(&self, timing: bool) -> Result<Box<dyn Event>> {
        self.device.create_event(timing)
    }
    fn quirks(&self) -> Vec<Quirk> {
        Vec::new()
    }
    fn caches(&self) -> Vec<CacheReport> {
        Vec::new()
    }
    fn set_trace(&self, trace: Option<Arc<dyn Trace>>) {
        self.device.set_trace(trace);
    }
}

impl Queue for SlowQueue {
    fn progress(&self) -> Arc<dyn Progress> {
        self.queue.progress()
    }
    unsafe fn encode(&mut self, op: &Op<View>) -> Result<Tick> {
        if op.kind() == OpKind::Copy && !self.state.is_prepared.load(Ordering::Acquire) {
            self.state.prepare();
        }
        // SAFETY: the caller's guarantee, handed on.
        unsafe { self.queue.encode(op) }
    }
    unsafe fn encode_ready(
        &mut self,
        op: &Op<View>,
        prepared: Option<Prepared>,
    ) -> Result<Option<Tick>> {
        if op.kind() == OpKind::Copy && prepared.is_none() {
            return Ok(None);
        }
        // SAFETY: the caller's guarantee, handed on.
        unsafe { self.queue.encode(op) }.map(Some)
    }
    unsafe fn upload(&mut self, dst: Span, bytes: &[u8]) -> Result<Tick> {
        // SAFETY: the caller's guarantee, handed on.
        unsafe { self.queue.upload(dst, bytes) }
    }
    unsafe fn download(&mut self, src: Span, into: HostSlice) -> Result<Tick> {
        // SAFETY: the caller's guarantee, handed on.
        unsafe { self.queue.download(src, into) }
    }
    fn record(&mut self, event: &dyn Event) -> Result<Tick> {
        self.queue.record(event)
    }
    fn wait(&mut self, event: &dyn Event) -> Result<Tick> {
        self.queue.wait(event)
    }
    fn on_complete(&mut self, handler: Handler) -> Result<Tick> {
        self.queue.on_complete(handler)
    }
    fn flush(&mut self, when: Flush) -> Result<Tick> {
        self.queue.flush(when)
    }
    fn begin_capture(&mut self) -> Result<()> {
        self.queue.begin_capture()
    }
    unsafe fn end_capture(
        &mut self,
        slots: &[Span],
        constants: &[Span],
    ) -> Result<Arc<dyn DeviceProgram>> {
        // SAFETY: the caller's guarantee, handed on.
        unsafe { self.queue.end_capture(slots, constants) }
    }
    unsafe fn replay(&mut self, program: &Arc<dyn DeviceProgram>, slots: &[Span]) -> Result<Tick> {
        // SAFETY: the caller's guarantee, handed on.
        unsafe { self.queue.replay(program, slots) }
    }
    fn recover(&mut self) -> Result<()> {
        self.queue.recover()
    }
}

#[test]
fn a_stream_is_free_while_an_op_of_it_is_prepared() {
    let state = Arc::new(State::default());
    let device = Arc::new(Slow {
        device: device(),
        state: state.clone(),
    });
    let pool = pool(&device, 4);
    let stream = pool.stream(1).unwrap();
    let src = filled(stream, 3.0);
    let mut dst = buffer(stream);
    std::thread::scope(|scope| {
        scope.spawn(|| copy(stream, &src, &mut dst).unwrap());
        until("the copy is prepared", || {
            state.is_preparing.load(Ordering::Acquire)
        });
        filled(stream, 1.0);
        state.was_encoded.store(true, Ordering::Release);
    });
    assert_eq!(value_of(stream, &dst), Ok(3.0));
}
