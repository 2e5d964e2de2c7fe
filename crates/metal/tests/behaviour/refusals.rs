//! Calls that return nil are errors of who made them, and of nobody before.

use std::sync::Arc;
use std::sync::mpsc::channel;

use streampool_device::{
    Device, Error, Flush, HostSlice, Interval, Memory, Op, Queue, QueueOptions, Space, Tick, Trace,
};
use streampool_metal::{MetalDevice, MetalOptions};
use streampool_metal_sim::Refusal;

use crate::common::{self, Stage, device, fill_op, queue};
use crate::gpu::*;

const LABEL: &str = "refused";

#[test]
fn where_the_system_prefers_no_gpu_it_is_the_first_of_all() {
    let stage = Stage::new();
    stage.0.refuse(Refusal::PreferredDevice);
    let device = MetalDevice::new(MetalOptions::default()).unwrap();
    assert!(device.properties().hardware.contains("Apple GPU"));
}

/// A buffer in flight with a download, a sealed one behind it, and behind that one for which there is no encoder.
/// Returns the last tick of each.
///
/// # Safety
/// As for [`Queue::encode`] and [`Queue::download`]: both live until all is over.
unsafe fn refuse_the_third(
    stage: &Stage,
    device: &MetalDevice,
    queue: &mut dyn Queue,
    memory: &Memory,
    into: HostSlice,
) -> [Tick; 3] {
    let event = device.create_event(false).unwrap();
    // SAFETY: the caller vouches for both.
    unsafe {
        stage.0.pause();
        queue.encode(&fill_op(memory, 1.0)).unwrap();
        let first = queue.download(memory.span(), into).unwrap();
        queue.flush(Flush::Start).unwrap();
        let second = queue.encode(&fill_op(memory, 2.0)).unwrap();
        queue.record(&*event).unwrap();
        stage.0.refuse(Refusal::Encoder);
        let third = queue.encode(&fill_op(memory, 3.0)).unwrap();
        stage.0.resume();
        [first, second, third]
    }
}

fn fault_at(outcome: Result<(), Error>) -> Tick {
    match outcome {
        Err(Error::Fault(fault)) => fault.tick(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_is_before_a_refused_encoder_is_executed() {
    let stage = Stage::new();
    let Some(device) = device() else { return };
    within(FOREVER, || {
        let memory = device.allocate(4 * N, Space::Staging).unwrap();
        let host = device.host_address(&memory).unwrap().cast::<f32>();
        let mut queue = queue(&device, LABEL);
        let mut values = [0f32; N];
        // SAFETY: all is over before the memory is freed and `values` is looked at.
        unsafe {
            let into = HostSlice {
                pointer: values.as_mut_ptr().cast(),
                bytes: 4 * N,
            };
            let ticks = refuse_the_third(&stage, &device, &mut *queue, &memory, into);
            let progress = queue.progress();
            assert_eq!(fault_at(progress.wait(ticks[2], None)), ticks[2]);
            assert_eq!(progress.wait(ticks[0], None), Ok(()));
            assert_eq!(progress.wait(ticks[1], None), Ok(()));
            assert_eq!(values, [1.0; N], "the download landed");
            assert_eq!(host.read(), 2.0, "what was sealed was executed");
            queue.recover().unwrap();
            device.free(memory);
        }
    });
}

#[test]
fn a_fault_before_a_refused_encoder_is_told_of_what_it_hit() {
    let stage = Stage::new();
    let Some(device) = device() else { return };
    within(FOREVER, || {
        let memory = device.allocate(4 * N, Space::Staging).unwrap();
        let host = device.host_address(&memory).unwrap().cast::<f32>();
        let mut queue = queue(&device, LABEL);
        let mut values = [0f32; N];
        // SAFETY: all is over before the memory is freed and `values` is looked at.
        unsafe {
            host.write(0.5);
            let into = HostSlice {
                pointer: values.as_mut_ptr().cast(),
                bytes: 4 * N,
            };
            common::fail_next(&*device, LABEL);
            let ticks = refuse_the_third(&stage, &device, &mut *queue, &memory, into);
            for tick in ticks.iter().rev() {
                assert!(fault_at(queue.progress().wait(*tick, None)) <= ticks[0]);
            }
            assert_eq!((values, host.read()), ([0.0; N], 0.5));
            queue.recover().unwrap();
            device.free(memory);
        }
    });
}

#[test]
fn small_uploads_and_downloads_take_no_encoder_of_their_own() {
    let stage = Stage::new();
    let Some(device) = device() else { return };
    within(FOREVER, || {
        let memory = device.allocate(4 * N, Space::Device).unwrap();
        let mut queue = queue(&device, LABEL);
        for bytes in [4 * N, 4 * N - 3] {
            let (sent, mut values) = (vec![7u8; bytes], vec![0u8; bytes]);
            // SAFETY: all is over before the memory is freed and `values` is looked at.
            unsafe {
                stage.0.pause();
                queue.encode(&Op::Nop).unwrap();
                queue.flush(Flush::Start).unwrap();
                queue.encode(&fill_op(&memory, 1.0)).unwrap();
                // Whoever asks for another encoder now gets none.
                stage.0.refuse(Refusal::Encoder);
                let span = memory.span().part(0, bytes).unwrap();
                queue.upload(span, &sent).unwrap();
                let into = HostSlice {
                    pointer: values.as_mut_ptr(),
                    bytes,
                };
                let last = queue.download(span, into).unwrap();
                queue.flush(Flush::Start).unwrap();
                stage.0.resume();
                assert_eq!(queue.progress().wait(last, None), Ok(()));
                assert_eq!(values, sent);
                // It was not asked for until now.
                let refused = queue.encode(&Op::Nop);
                assert!(
                    matches!(refused, Err(Error::Driver { .. })) || {
                        let tick = refused.unwrap();
                        queue.progress().wait(tick, None).is_err()
                    }
                );
                queue.recover().unwrap();
            }
        }
        // SAFETY: all is over.
        unsafe { device.free(memory) };
    });
}

/// Receives intervals and does nothing with them.
struct Ignored;

impl Trace for Ignored {
    fn op(&self, _: Interval) {}
}

#[test]
fn a_record_that_is_refused_leaves_nothing_behind() {
    for traced in [false, true] {
        let stage = Stage::new();
        let Some(device) = device() else { return };
        within(FOREVER, || {
            if traced {
                device.set_trace(Some(Arc::new(Ignored)));
            }
            let mut queue = queue(&device, LABEL);
            let event = device.create_event(true).unwrap();
            // SAFETY: it touches no memory.
            let mut nop = || unsafe { queue.encode(&Op::Nop).unwrap() };
            nop();
            let before = nop();
            let before = queue.flush(Flush::Start).unwrap().max(before);
            queue.progress().wait(before, None).unwrap();
            for refusal in [Refusal::Encoder, Refusal::CommandBuffer] {
                stage.0.refuse(refusal);
                let refused = queue.record(&*event);
                assert!(matches!(refused, Err(Error::Driver { .. })), "{refused:?}");
                // SAFETY: as above.
                let next = unsafe { queue.encode(&Op::Nop).unwrap() };
                queue.flush(Flush::Start).unwrap();
                assert_eq!(queue.progress().wait(next, None), Ok(()));
                assert!(queue.progress().completed() >= next);
            }
            queue.record(&*event).unwrap();
            assert_eq!(event.wait(None), Ok(()));
            device.set_trace(None);
        });
    }
}

#[test]
fn what_is_sealed_before_a_refused_command_buffer_goes_on() {
    let stage = Stage::new();
    let Some(device) = device() else { return };
    within(FOREVER, || {
        let (mut one, mut other) = (queue(&device, LABEL), queue(&device, LABEL));
        let event = device.create_event(false).unwrap();
        stage.0.pause();
        // SAFETY: they touch no memory.
        unsafe { one.encode(&Op::Nop).unwrap() };
        one.record(&*event).unwrap();
        // SAFETY: as above.
        unsafe { other.encode(&Op::Nop).unwrap() };
        let (send, receive) = channel();
        let called = move |outcome| send.send(outcome).unwrap();
        other.on_complete(Box::new(called)).unwrap();
        // It seals what is there first.
        stage.0.refuse(Refusal::CommandBuffer);
        let refused = other.wait(&*event);
        assert!(matches!(refused, Err(Error::Driver { .. })), "{refused:?}");
        stage.0.resume();
        assert_eq!(receive.recv_timeout(FOREVER), Ok(Ok(())), "nobody asked");
        other.wait(&*event).unwrap();
        let last = other.flush(Flush::ForWaiter).unwrap();
        assert_eq!(other.progress().wait(last, None), Ok(()));
    });
}

#[test]
fn a_queue_that_cannot_be_made_is_an_error() {
    let stage = Stage::new();
    let Some(device) = device() else { return };
    stage.0.refuse(Refusal::Queue);
    let refused = device.create_queue(QueueOptions::default()).map(drop);
    assert!(matches!(refused, Err(Error::Driver { .. })), "{refused:?}");
    assert_eq!(
        device.create_queue(QueueOptions::default()).map(drop),
        Ok(())
    );
}

#[test]
fn a_queue_that_cannot_be_made_anew_leaves_the_fault_to_be_recovered_from_later() {
    let stage = Stage::new();
    let Some(device) = device() else { return };
    within(FOREVER, || {
        let mut queue = queue(&device, LABEL);
        common::fail_next(&*device, LABEL);
        // SAFETY: it touches no memory.
        let failed = unsafe { queue.encode(&Op::Nop).unwrap() };
        assert_eq!(fault_at(queue.progress().wait(failed, None)), failed);
        stage.0.refuse(Refusal::Queue);
        let refused = queue.recover();
        assert!(matches!(refused, Err(Error::Driver { .. })), "{refused:?}");
        assert!(queue.progress().fault().is_some());
        queue.recover().unwrap();
        // SAFETY: as above.
        let good = unsafe { queue.encode(&Op::Nop).unwrap() };
        assert_eq!(queue.progress().wait(good, None), Ok(()));
    });
}
