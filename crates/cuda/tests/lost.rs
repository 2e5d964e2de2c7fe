//! A kernel that runs wild takes the whole device with it: everybody is told, nothing hangs, and the process ends
//! well. It happens in a child process, since nothing on that GPU works there any more.

mod common;
#[path = "../../runtime/tests/common/work.rs"]
#[allow(dead_code, reason = "shared with the runtime's own tests")]
mod work;

use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use common::raw::{copy, download, encode, fill, leaked, patience, plus_one, queue, upload};
use common::{device, is_child, options, run_as_child};
use streampool_cuda::CudaDevice;
use streampool_device::{Device, Error, Event, Flush, Program, Queue, Result, Space, Span};
use streampool_runtime::Pool;
use work::within;

const PATIENCE: Duration = Duration::from_secs(240);
const BYTES: usize = 4096;

/// Memory that nobody ever allocated.
const NOWHERE: Span = Span {
    handle: 0xdead_0000,
    offset: 0,
    bytes: BYTES,
};

fn is_lost<T>(outcome: Result<T>) -> bool {
    matches!(outcome, Err(Error::DeviceLost(why)) if !why.is_empty())
}

/// Runs `child` as the test `name` in a process of its own, on a machine with a GPU.
fn in_a_child(name: &str, child: impl FnOnce(Arc<CudaDevice>)) {
    if is_child(name) {
        let device = CudaDevice::new(options()).expect("the parent has opened it, too");
        within(PATIENCE, || child(device));
    } else if device().is_some() {
        run_as_child(name, |_| {});
    }
}

/// What was made while the device was alive.
struct Before {
    /// A queue on which something is going to go wrong.
    struck: Box<dyn Queue>,
    /// One that has nothing to do with it.
    bystander: Box<dyn Queue>,
    /// Recorded on the bystander, with timing.
    event: Box<dyn Event>,
    program: Arc<dyn Program>,
    slots: [Span; 2],
}

fn prepare(device: &CudaDevice) -> Before {
    let mut struck = queue(device, 1).unwrap();
    let mut bystander = queue(device, 2).unwrap();
    let slots = [leaked(device, BYTES), leaked(device, BYTES)];
    struck.begin_capture().unwrap();
    encode(&mut *struck, &plus_one(slots[0], slots[1])).unwrap();
    // SAFETY: there are no constants.
    let program = unsafe { struck.end_capture(&slots, &[]) }.unwrap();
    encode(&mut *bystander, &fill(slots[0], 1.0)).unwrap();
    let event = device.create_event(true).unwrap();
    let tick = bystander.record(&*event).unwrap();
    bystander.progress().wait(tick, patience()).unwrap();
    Before {
        struck,
        bystander,
        event,
        program,
        slots,
    }
}

/// Strikes, with threads that wait for it in both ways.
fn strike(struck: &mut dyn Queue, good: Span) {
    let (send, receive) = channel();
    let tick = encode(struck, &plus_one(good, NOWHERE)).unwrap();
    // By the time of the call it may be known already.
    let handled = struck.on_complete(Box::new(move |outcome| send.send(outcome).unwrap()));
    let progress = struck.progress();
    std::thread::scope(|scope| {
        let waiting = [None, patience()].map(|deadline| {
            let progress = &progress;
            scope.spawn(move || is_lost(progress.wait(tick, deadline)))
        });
        for waiting in waiting {
            assert!(waiting.join().unwrap(), "who waits is told");
        }
    });
    match handled {
        Ok(_) => assert!(receive.recv_timeout(PATIENCE).unwrap().is_err()),
        Err(error) => assert!(is_lost::<()>(Err(error))),
    }
}

#[test]
fn everybody_is_told_and_nothing_hangs() {
    in_a_child("everybody_is_told_and_nothing_hangs", |device| {
        let other_device = CudaDevice::new(options()).unwrap();
        let mut before = prepare(&device);
        let in_use = device.memory_use();
        strike(&mut *before.struck, before.slots[0]);

        let [one, two] = before.slots;
        for queue in [&mut before.struck, &mut before.bystander] {
            assert!(is_lost(encode(&mut **queue, &plus_one(one, two))));
            assert!(is_lost(encode(&mut **queue, &copy(one, two))));
            assert!(is_lost(upload(&mut **queue, one, &[1.0])));
            assert!(is_lost(download(&mut **queue, one)));
            assert!(is_lost(queue.record(&*before.event)));
            assert!(is_lost(queue.wait(&*before.event)));
            assert!(is_lost(queue.on_complete(Box::new(|_| ()))));
            // SAFETY: nothing is executed any more.
            assert!(is_lost(unsafe {
                queue.replay(&before.program, &before.slots)
            }));
            let last = queue.flush(Flush::Start).unwrap_or(1);
            assert!(is_lost(queue.progress().wait(last, None)));
            assert!(is_lost(queue.progress().wait(last, patience())));
            assert!(queue.progress().completed() >= last, "all is over");
            assert!(matches!(
                queue.recover(),
                Ok(()) | Err(Error::DeviceLost(_))
            ));
        }
        assert!(is_lost(before.event.wait(None)));
        assert!(is_lost(before.event.wait(patience())));
        assert!(is_lost(before.event.query()));
        assert!(is_lost(before.event.elapsed_since(&*before.event)));

        assert!(is_lost(queue(&*device, 3).map(drop)));
        assert!(is_lost(device.allocate(BYTES, Space::Device)));
        assert!(is_lost(device.allocate(BYTES, Space::Staging)));
        device.set_trace(None);
        assert_eq!(device.caches().len(), 4);
        // They share the GPU's context, and so its fate.
        assert!(is_lost(queue(&*other_device, 1).map(drop)));
        assert!(is_lost(other_device.allocate(BYTES, Space::Device)));

        assert_eq!(device.memory_use(), in_use, "memory still counts");
    });
}

#[test]
fn memory_is_given_back_and_everything_dropped() {
    in_a_child("memory_is_given_back_and_everything_dropped", |device| {
        let memory = device.allocate(BYTES, Space::Device).unwrap();
        let mut before = prepare(&device);
        let in_use = device.memory_use();
        strike(&mut *before.struck, before.slots[0]);
        // SAFETY: nothing is executed any more.
        unsafe { device.free(memory) };
        let left = device.memory_use();
        assert_eq!(left.allocations, in_use.allocations - 1);
        assert_eq!(left.in_use, in_use.in_use - BYTES);
        drop(before);
        let weak = Arc::downgrade(&device);
        drop(device);
        work::until("the device is gone", || weak.strong_count() == 0);
    });
}

#[test]
fn a_pool_tells_every_thread_and_shuts_down() {
    in_a_child("a_pool_tells_every_thread_and_shuts_down", |device| {
        let settings = work::settings().streams(8).build().unwrap();
        let pool = Pool::with_settings(device.clone(), settings).unwrap();
        let good = work::filled(pool.stream(1).unwrap(), 1.0);
        pool.synchronize().unwrap();
        // SAFETY: that this memory does not exist is the point: whoever uses it loses the device.
        let mut nowhere = unsafe { pool.adopt(NOWHERE, || ()) }.unwrap();
        work::on_thread(|| {
            let stream = pool.current().unwrap();
            work::add(stream, &good, &mut nowhere, 1.0).unwrap();
            assert!(is_lost_to_the_pool(stream.synchronize()));
        });
        work::on_threads(6, |_| {
            // A stream that was never made cannot be made any more.
            let lost = match pool.current() {
                Ok(stream) => {
                    let mut own = stream.allocate(64);
                    let used = own
                        .as_mut()
                        .map_or(Ok(()), |own| stream.upload(own, &[1f32]).map(drop));
                    is_lost_to_the_pool(used.and(stream.synchronize()))
                }
                Err(error) => is_lost_to_the_pool::<()>(Err(error)),
            };
            assert!(lost);
        });
        assert!(is_lost_to_the_pool(pool.synchronize()));
        pool.snapshot().unwrap();
        drop((good, nowhere));
        drop(pool);
        let left = device.memory_use();
        assert_eq!((left.in_use, left.allocations), (0, 0));
    });
}

fn is_lost_to_the_pool<T>(outcome: streampool_runtime::Result<T>) -> bool {
    match outcome {
        Err(streampool_runtime::Error::Device(error)) => is_lost::<()>(Err(error)),
        _ => false,
    }
}
