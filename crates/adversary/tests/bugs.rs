//! What meets a bug, what does not, and what a queue does after it met one. That threads meet each is shown where the
//! workarounds are, in `crates/runtime/tests/host/quirks.rs`.

use std::sync::Arc;
use std::time::Duration;

use streampool_adversary::Adversary;
use streampool_device::{
    DType, Device, Error, Flush, Layout, Memory, Norm, NormKind, Op, OpKind, Queue, QueueOptions,
    Quirk, Space, Tick, View,
};
use streampool_host::{HostDevice, HostOptions};

/// How long an op takes that has to be under way when others come, also where threads wait for a processor.
const UNDER_WAY: Duration = Duration::from_secs(1);

/// The adversary, and the host that it wraps.
fn devices(quirk: Quirk) -> (Arc<Adversary>, Arc<HostDevice>) {
    let host = HostDevice::new(HostOptions::default().threads(2).capacity(1 << 24)).unwrap();
    (Adversary::new(host.clone(), [quirk]), host)
}

fn queue(device: &Adversary, index: u32) -> Box<dyn Queue> {
    let label = format!("queue {index}");
    let options = QueueOptions {
        label,
        index,
        ..QueueOptions::default()
    };
    device.create_queue(options).unwrap()
}

/// Four floats. They live as long as the device.
fn four_floats(device: &Adversary) -> View {
    let memory: Memory = device.allocate(16, Space::Device).unwrap();
    let layout = Layout::contiguous(&[2, 2]).unwrap();
    View::new(memory.span(), DType::F32, layout).unwrap()
}

fn fill(dst: View) -> Op {
    let value = 1.0.into();
    Op::Fill { dst, value }
}

fn norm(values: View) -> Op {
    Op::Norm(Norm {
        added: None,
        sum: None,
        kind: NormKind::Rms,
        src: values,
        dst: values,
        scale: None,
        bias: None,
        axis: 0,
        epsilon: 1e-5,
    })
}

fn try_encode(queue: &mut dyn Queue, op: &Op) -> Result<Tick, Error> {
    // SAFETY: the memory lives as long as the device, and each queue has its own.
    unsafe { queue.encode(op) }
}

fn encode(queue: &mut dyn Queue, op: &Op) -> Tick {
    try_encode(queue, op).unwrap()
}

#[test]
fn a_norm_is_bound_to_its_first_thread_unless_captured() {
    let (device, _) = devices(Quirk::NormBoundToThread);
    let mut first = queue(&device, 0);
    let values = four_floats(&device);
    encode(&mut *first, &fill(values));
    let tick = encode(&mut *first, &norm(values));
    first.progress().wait(tick, None).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut queue = queue(&device, 1);
            let values = four_floats(&device);
            encode(&mut *queue, &fill(values));
            queue.begin_capture().unwrap();
            encode(&mut *queue, &norm(values));
            // SAFETY: there are no constants.
            let program = unsafe { queue.end_capture(&[], &[]).unwrap() };
            // SAFETY: the memory lives as long as the device.
            let before = unsafe { queue.replay(&program, &[]).unwrap() };
            assert_eq!(queue.progress().wait(before, None), Ok(()));

            let tick = encode(&mut *queue, &norm(values));
            let fault = queue.progress().fault().unwrap();
            assert_eq!((fault.queue(), fault.op()), ("queue 1", OpKind::Norm));
            assert_eq!(fault.tick(), tick);
            let expected = "quirk violated: norm-bound-to-thread";
            assert!(fault.message().starts_with(expected), "{fault}");
            // It is poisoned as by any fault.
            let poisoned = Error::Poisoned(fault.clone());
            assert_eq!(
                queue.progress().wait(tick, None),
                Err(Error::Fault(fault.clone()))
            );
            assert_eq!(queue.progress().wait(before, None), Ok(()));
            assert_eq!(try_encode(&mut *queue, &Op::Nop), Err(poisoned.clone()));
            let event = device.create_event(false).unwrap();
            assert_eq!(queue.record(&*event), Err(poisoned.clone()));
            assert_eq!(queue.on_complete(Box::new(|_| ())), Err(poisoned));
            queue.recover().unwrap();
            assert_eq!(queue.progress().fault(), None);
            let tick = encode(&mut *queue, &Op::Nop);
            assert_eq!(queue.progress().wait(tick, None), Ok(()));
        });
    });
    assert_eq!(device.violations(), 1);
}

#[test]
fn buffers_in_flight_are_counted_until_they_are_over() {
    let (device, host) = devices(Quirk::BuffersInFlight(2));
    let mut queues: Vec<_> = (0..3).map(|index| queue(&device, index)).collect();
    for queue in &mut queues {
        let tick = encode(&mut **queue, &Op::Nop);
        queue.flush(Flush::ForWaiter).unwrap();
        queue.progress().wait(tick, None).unwrap();
    }
    assert_eq!(device.violations(), 0);
    host.injector().delay_queue(0, UNDER_WAY);
    host.injector().delay_queue(1, UNDER_WAY);
    for queue in &mut queues[..2] {
        encode(&mut **queue, &Op::Nop);
        queue.flush(Flush::ForWaiter).unwrap();
        // Nothing new is handed over, so this is no buffer.
        queue.flush(Flush::ForWaiter).unwrap();
    }
    assert_eq!(device.violations(), 0);
    let good = encode(&mut *queues[2], &Op::Nop);
    let last = queues[2].flush(Flush::ForWaiter).unwrap();
    assert_eq!(device.violations(), 1);
    // What was flushed may be known to be good by then.
    assert_eq!(queues[2].progress().wait(good, None), Ok(()));
    assert!(queues[2].progress().wait(last, None).is_err());
}

#[test]
fn strided_copies_of_two_queues_meet_also_in_programs() {
    let (device, host) = devices(Quirk::StridedCopyRace);
    let [mut one, mut other] = [0, 1].map(|index| queue(&device, index));
    let [a, b, c] = [(); 3].map(|()| four_floats(&device));
    for values in [a, b, c] {
        let tick = encode(&mut *one, &fill(values));
        one.progress().wait(tick, None).unwrap();
    }
    let layout = a.layout().permute(&[1, 0]).unwrap();
    let src = View::new(a.span(), DType::F32, layout).unwrap();
    host.injector().delay_queue(0, UNDER_WAY);
    encode(&mut *one, &Op::Copy { src, dst: b });
    encode(&mut *one, &Op::Copy { src, dst: b });
    encode(&mut *other, &Op::Copy { src: a, dst: c });
    assert_eq!(
        device.violations(),
        0,
        "one queue is in order, and a plain copy needs no scratch"
    );
    other.begin_capture().unwrap();
    encode(&mut *other, &Op::Copy { src, dst: c });
    // SAFETY: there are no constants.
    let program = unsafe { other.end_capture(&[], &[]).unwrap() };
    assert_eq!(device.violations(), 0, "nothing is executed");
    // SAFETY: the memory lives as long as the device.
    let tick = unsafe { other.replay(&program, &[]).unwrap() };
    assert_eq!(device.violations(), 1);
    let fault = other.progress().fault().unwrap();
    assert_eq!((fault.tick(), fault.op()), (tick, OpKind::Replay));
}
