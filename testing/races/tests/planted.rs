//! Races that were put there are found: between queues, in memory that is used again, in programs, and where the runtime relies
//! on a device that does not do as it says.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use streampool_device::{
    DType, Device, Event, Flush, HostSlice, Layout, Memory, Op, Program, Queue, QueueOptions,
    Result, Space, Span, View,
};
use streampool_host::{HostDevice, HostOptions};
use streampool_races::{Planted, Races};
use streampool_runtime::{Op as Encoded, Pool, Settings};

/// A device on which each op takes at least so long.
fn slow(delay: Duration, planted: impl Into<Option<Planted>>) -> Arc<Races> {
    let host = HostDevice::new(HostOptions::default().threads(4)).unwrap();
    for queue in 0..4 {
        host.injector().delay_queue(queue, delay);
    }
    Races::planted(host, planted)
}

/// The runtime asks what is over. Nothing is by then, also where this thread has to wait for a processor.
const LONG: Duration = Duration::from_millis(500);

/// Two queues and two blocks of memory.
struct Scene {
    device: Arc<Races>,
    one: Box<dyn Queue>,
    other: Box<dyn Queue>,
    a: Memory,
    b: Memory,
}

fn scene(planted: impl Into<Option<Planted>>) -> Scene {
    let device = slow(Duration::from_millis(5), planted);
    let memory = || device.allocate(64, Space::Device).unwrap();
    Scene {
        one: queue(&device, 0, "one"),
        other: queue(&device, 1, "other"),
        a: memory(),
        b: memory(),
        device,
    }
}

fn queue(device: &Races, index: u32, label: &str) -> Box<dyn Queue> {
    let label = label.to_owned();
    let options = QueueOptions {
        label,
        index,
        ..QueueOptions::default()
    };
    device.create_queue(options).unwrap()
}

fn part(memory: &Memory, from: usize, bytes: usize) -> Span {
    memory.span().part(from, bytes).unwrap()
}

fn view(span: Span) -> View {
    View::new(
        span,
        DType::F32,
        Layout::contiguous(&[span.bytes / 4]).unwrap(),
    )
    .unwrap()
}

fn fill(queue: &mut Box<dyn Queue>, span: Span) {
    let (dst, value) = (view(span), 1.0.into());
    // SAFETY: the memory lives until the device is dropped. A race is found before it matters: both write the same.
    unsafe { queue.encode(&Op::Fill { dst, value }) }.unwrap();
}

fn copy(src: Span, dst: Span) -> Op {
    Op::Copy {
        src: view(src),
        dst: view(dst),
    }
}

fn read(queue: &mut Box<dyn Queue>, span: Span) {
    // It is leaked, so that it is there whenever it is written.
    let bytes = Box::leak(vec![0; span.bytes].into_boxed_slice());
    let into = HostSlice {
        pointer: bytes.as_mut_ptr(),
        bytes: bytes.len(),
    };
    // SAFETY: as above.
    unsafe { queue.download(span, into) }.unwrap();
}

/// `to` waits for what was appended to `from`.
fn order(device: &Races, from: &mut Box<dyn Queue>, to: &mut Box<dyn Queue>) -> Box<dyn Event> {
    let event = device.create_event(false).unwrap();
    from.record(&*event).unwrap();
    to.wait(&*event).unwrap();
    event
}

/// What is said of the race that `work` has. What it works on is leaked: a panic has no order of dropping that is safe.
#[track_caller]
fn race(work: impl FnOnce()) -> String {
    let panic = catch_unwind(AssertUnwindSafe(work)).expect_err("there was no race");
    let said = *panic.downcast::<String>().expect("it says what");
    assert!(said.starts_with("race: "), "{said}");
    said
}

#[test]
fn what_events_order_is_no_race() {
    let mut s = scene(None);
    fill(&mut s.one, s.a.span());
    let event = order(&s.device, &mut s.one, &mut s.other);
    read(&mut s.other, s.a.span());
    fill(&mut s.other, s.b.span());
    // In turn, with the same event, and by way of another queue.
    let mut third = queue(&s.device, 2, "third");
    s.other.record(&*event).unwrap();
    third.wait(&*event).unwrap();
    fill(&mut third, s.a.span());
    fill(&mut third, s.b.span());
}

#[test]
fn parts_that_do_not_meet_and_reads_are_no_race() {
    let mut s = scene(None);
    fill(&mut s.one, part(&s.a, 0, 32));
    fill(&mut s.other, part(&s.a, 32, 32));
    fill(&mut s.one, s.b.span());
    order(&s.device, &mut s.one, &mut s.other);
    read(&mut s.one, s.b.span());
    read(&mut s.other, s.b.span());
}

#[test]
fn what_the_host_waited_for_is_no_race() {
    let mut s = scene(None);
    fill(&mut s.one, s.a.span());
    order(&s.device, &mut s.one, &mut s.other);
    let tick = s.other.flush(Flush::Start).unwrap();
    // `other` is over only when what it waited for is.
    s.other.progress().wait(tick, None).unwrap();
    let mut third = queue(&s.device, 2, "third");
    fill(&mut third, s.a.span());
}

#[test]
fn a_missing_wait_is_found_and_both_are_named() {
    let mut s = scene(None);
    fill(&mut s.one, part(&s.a, 0, 32));
    let said = race(|| read(&mut s.other, part(&s.a, 28, 8)));
    for part in [
        "(\"one\")",
        "fill writes dst in bytes 0..32",
        "(\"other\")",
        "download reads src in bytes 28..36",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    // A read before a write, too.
    read(&mut s.one, part(&s.a, 40, 4));
    assert!(race(|| fill(&mut s.other, s.a.span())).contains("nothing orders"));
}

#[test]
fn an_event_orders_what_was_before_it_and_no_more() {
    let mut s = scene(None);
    order(&s.device, &mut s.one, &mut s.other);
    fill(&mut s.one, s.a.span());
    race(|| read(&mut s.other, s.a.span()));
}

#[test]
fn a_recording_that_is_out_of_date_orders_nothing_new() {
    let mut s = scene(None);
    let event = s.device.create_event(false).unwrap();
    s.one.record(&*event).unwrap();
    fill(&mut s.one, s.a.span());
    // Recorded anew, but elsewhere.
    s.other.record(&*event).unwrap();
    s.other.wait(&*event).unwrap();
    race(|| read(&mut s.other, s.a.span()));
}

#[test]
fn memory_that_is_freed_early_is_found() {
    let mut s = scene(None);
    fill(&mut s.one, s.a.span());
    // Only the wrapper looks at it: it panics before the memory is freed.
    let free = |memory: &Memory| Memory {
        handle: memory.handle,
        bytes: memory.bytes,
        space: memory.space,
    };
    let given = free(&s.a);
    // SAFETY: it is not freed.
    let said = race(|| unsafe { s.device.free(given) });
    assert!(
        said.contains("is freed") && said.contains("fill writes dst"),
        "{said}"
    );
    // Once the host has waited it may be.
    fill(&mut s.one, s.b.span());
    let tick = s.one.flush(Flush::Start).unwrap();
    s.one.progress().wait(tick, None).unwrap();
    let given = free(&s.b);
    // SAFETY: it came from there, is freed once, and nothing uses it.
    unsafe { s.device.free(given) };
}

/// A program that copies its first slot to `between` and that to its second slot.
fn program(
    queue: &mut Box<dyn Queue>,
    slots: [Span; 2],
    between: Span,
) -> Result<Arc<dyn Program>> {
    queue.begin_capture()?;
    // SAFETY: as above.
    unsafe {
        queue.encode(&copy(slots[0], between))?;
        queue.encode(&copy(between, slots[1]))?;
        queue.end_capture(&slots, &[])
    }
}

#[test]
fn replays_touch_what_their_slots_are_bound_to() {
    let mut s = scene(None);
    let slots = s.device.allocate(1024, Space::Device).unwrap();
    let slot = |index: usize| part(&slots, 256 * index, 64);
    let program = program(&mut s.one, [slot(0), slot(1)], part(&s.a, 0, 64)).unwrap();
    // SAFETY: as above.
    unsafe { s.one.replay(&program, &[slot(2), slot(3)]) }.unwrap();
    // Those that were captured are not touched.
    fill(&mut s.other, slot(0));
    fill(&mut s.other, s.b.span());
    let said = race(|| fill(&mut s.other, slot(3)));
    assert!(said.contains("copy writes dst"), "{said}");
    // Two replays at the same time write what lies between.
    // SAFETY: as above.
    race(|| drop(unsafe { s.other.replay(&program, &[slot(0), slot(1)]) }));
}

fn pool(device: Arc<Races>) -> Pool {
    let settings = Settings::builder().without_environment().build().unwrap();
    Pool::with_settings(device, settings).unwrap()
}

/// Stream 2 reads what stream 1 writes.
fn hand_over(device: Arc<Races>) {
    let pool = pool(device);
    let (one, other) = (pool.stream(1).unwrap(), pool.stream(2).unwrap());
    let mut buffer = one.allocate(64).unwrap();
    let dst = buffer.write(DType::F32, &[16]).unwrap();
    one.encode(Encoded::Fill {
        dst,
        value: 1.0.into(),
    })
    .unwrap();
    assert_eq!(other.download::<f32>(&buffer).unwrap(), [1.0; 16]);
}

#[test]
fn the_runtime_on_queues_that_do_not_wait() {
    hand_over(slow(LONG, None));
    let said = race(|| hand_over(slow(LONG, Planted::LostWaits)));
    assert!(said.contains("download reads src"), "{said}");
}

/// Stream 1's block is read by stream 2, freed, and allocated on stream 1 again.
fn use_again(device: Arc<Races>) {
    let pool = pool(device);
    let (one, other) = (pool.stream(1).unwrap(), pool.stream(2).unwrap());
    let mut kept = other.allocate(64).unwrap();
    for _ in 0..3 {
        let mut buffer = one.allocate(64).unwrap();
        let dst = buffer.write(DType::F32, &[16]).unwrap();
        one.encode(Encoded::Fill {
            dst,
            value: 1.0.into(),
        })
        .unwrap();
        let src = buffer.read(DType::F32, &[16]).unwrap();
        let dst = kept.write(DType::F32, &[16]).unwrap();
        other.encode(Encoded::Copy { src, dst }).unwrap();
    }
    assert_eq!(other.download::<f32>(&kept).unwrap(), [1.0; 16]);
}

#[test]
fn the_runtime_on_queues_that_say_too_early_that_they_are_done() {
    use_again(slow(LONG, None));
    let said = race(|| use_again(slow(LONG, Planted::EarlyCompletion)));
    assert!(said.contains("nothing orders"), "{said}");
}
