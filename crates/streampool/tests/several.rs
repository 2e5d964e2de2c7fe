//! Several devices in one process. They are host devices, or with `TEST_DEVICE=cuda` all GPUs of the machine; where there is only one
//! GPU it is opened twice.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};

use streampool::batch::{self, Batch};
use streampool::device::{self, DeviceKind};
use streampool::model::onnx::writer::Graph;
use streampool::runtime;
use streampool::{
    Array, BatchQueue, DType, DeviceSet, ErrorKind, ForSession, Input, Op, PerDevice, Pool,
    Session, SessionOptions, Tensor,
};

/// Which devices these tests run on.
fn set() -> DeviceSet {
    let set = match std::env::var("TEST_DEVICE").as_deref() {
        #[cfg(feature = "cuda")]
        Ok("cuda") => gpus(),
        Ok(other) if other != "host" => panic!("TEST_DEVICE is {other:?}, expected host or cuda"),
        _ => streampool::host_set(3).expect("host devices"),
    };
    let names = set.status().into_iter().map(|device| device.name);
    let names: Vec<String> = names.collect();
    println!("{} devices: {}", names.len(), names.join(", "));
    set
}

#[cfg(feature = "cuda")]
fn gpus() -> DeviceSet {
    let gpus = streampool::cuda_set().expect("a GPU, since TEST_DEVICE asks for it");
    println!("{} GPUs", gpus.len());
    if gpus.len() > 1 {
        return gpus;
    }
    let pools = gpus.pools().cloned().collect::<Vec<_>>();
    let again = streampool::cuda_pool().expect("the GPU once more");
    DeviceSet::new(pools.into_iter().chain([again])).unwrap()
}

/// y = relu(x w), of small whole numbers: products of them are exact, however they are summed.
fn layer() -> Vec<u8> {
    let weights: Vec<f32> = (0..32).map(|at| (at % 7) as f32 - 3.0).collect();
    let graph = Graph::new()
        .input("x", DType::F32, "batch 8")
        .constant("w", &Array::new(&weights, &[8, 4]).unwrap())
        .node("MatMul x w = h", &[])
        .node("Relu h = y", &[])
        .output("y", DType::F32, "batch 4");
    graph.model(&[("", 18)])
}

fn sessions(set: &DeviceSet) -> PerDevice<Session> {
    let model = layer();
    let load = |pool: &Pool| {
        let options = SessionOptions::default();
        Ok(Session::from_bytes(pool, model.clone(), &options)?)
    };
    set.each(load).unwrap()
}

fn row(seed: usize) -> Array {
    let values: Vec<f32> = (0..8)
        .map(|at| ((at * 5 + seed * 3) % 11) as f32 - 5.0)
        .collect();
    Array::new(&values, &[1, 8]).unwrap()
}

#[test]
fn calls_go_to_all_devices_and_every_device_gives_the_same_bits() {
    let set = set();
    let sessions = sessions(&set);
    let expected: Vec<Vec<Array>> = (0..20)
        .map(|seed| {
            let x = row(seed);
            let each = sessions.iter().map(|session| session.run([("x", &x)]));
            let each: Vec<Vec<Array>> =
                each.map(|outputs| outputs.unwrap().into_arrays()).collect();
            assert!(
                each.iter()
                    .all(|outputs| outputs[0].bytes() == each[0][0].bytes())
            );
            each[0].clone()
        })
        .collect();
    std::thread::scope(|scope| {
        for caller in 0..8 {
            let (sessions, expected) = (&sessions, &expected);
            scope.spawn(move || {
                for round in 0..50 {
                    let seed = (caller + round) % 20;
                    let outputs = sessions.run([("x", &row(seed))]).unwrap();
                    assert_eq!(outputs.into_arrays(), expected[seed]);
                }
            });
        }
    });
    let status = set.status();
    assert_eq!(status.iter().map(|device| device.begun).sum::<u64>(), 400);
    assert!(
        status
            .iter()
            .all(|device| device.under_way == 0 && device.begun > 0)
    );
}

#[test]
fn idle_devices_take_turns() {
    let set = set();
    let sessions = sessions(&set);
    for _ in 0..5 * set.len() {
        sessions.run([("x", &row(1))]).unwrap();
    }
    assert!(
        set.status().iter().all(|device| device.begun == 5),
        "{set:?}"
    );
}

#[test]
fn work_under_way_is_balanced_whoever_comes() {
    const CALLERS: usize = 96;
    let set = set();
    let places = set.each(|_| Ok(())).unwrap();
    let most_apart = AtomicUsize::new(0);
    let (all_in, checked) = (Barrier::new(CALLERS), Barrier::new(CALLERS));
    std::thread::scope(|scope| {
        for caller in 0..CALLERS {
            let (places, most_apart, all_in, checked) = (&places, &most_apart, &all_in, &checked);
            scope.spawn(move || {
                for _ in 0..20 {
                    let place = places.take().unwrap();
                    all_in.wait();
                    if caller == 0 {
                        let status = places.set().status();
                        let counts = status.iter().map(|device| device.under_way);
                        let apart = counts.clone().max().unwrap() - counts.min().unwrap();
                        most_apart.fetch_max(apart, Ordering::Relaxed);
                    }
                    checked.wait();
                    drop(place);
                }
            });
        }
    });
    // All come at once and none leaves meanwhile: that is as even as it can be.
    assert!(most_apart.into_inner() <= 1);
}

#[test]
fn a_queue_for_each_device_answers_every_request_once() {
    let set = set();
    let settings = || BatchQueue::builder().max_batch_size(8);
    let sessions = sessions(&set);
    let queues = sessions.map(|session| BatchQueue::for_session(session, settings()));
    let queues = queues.unwrap();
    let single = sessions.iter().next().unwrap();
    std::thread::scope(|scope| {
        for caller in 0..32 {
            let queues = &queues;
            scope.spawn(move || {
                for round in 0..20 {
                    let x = row(caller * 20 + round);
                    let wanted = single.run([("x", &x)]).unwrap().into_arrays();
                    let got = match round % 2 {
                        0 => queues.infer(x),
                        _ => queues.submit(x).unwrap().wait(),
                    };
                    assert_eq!(got.unwrap(), wanted);
                }
            });
        }
    });
    let completed = queues
        .iter()
        .map(|queue| queue.statistics().requests.completed);
    assert_eq!(completed.sum::<u64>(), 32 * 20);
    assert!(
        set.status()
            .iter()
            .all(|device| device.under_way == 0 && device.begun > 0)
    );
}

#[test]
fn a_ticket_counts_until_it_is_dropped() {
    let set = set();
    let queue = |_: &Pool| {
        Ok(BatchQueue::builder()
            .max_batch_size(4)
            .build(|batch: Batch| Ok::<_, batch::Error>(batch))?)
    };
    let queues = set.each(queue).unwrap();
    let tickets: Vec<_> = (0..2 * set.len())
        .map(|seed| queues.submit(row(seed)).unwrap())
        .collect();
    let on: HashSet<usize> = tickets.iter().map(|ticket| ticket.device()).collect();
    assert_eq!(on.len(), set.len());
    assert!(set.status().iter().all(|device| device.under_way == 2));
    drop(tickets);
    assert!(set.status().iter().all(|device| device.under_way == 0));
}

#[test]
fn state_stays_where_it_is() {
    let set = set();
    let sessions = sessions(&set);
    for (number, pool) in set.pools().enumerate() {
        let x = Tensor::from_slice(pool, &[1.0f32; 8], &[1, 8]).unwrap();
        let before = set.status();
        for _ in 0..3 {
            sessions.run([("x", Input::Tensor(&x))]).unwrap();
        }
        for (other, (before, after)) in before.iter().zip(set.status()).enumerate() {
            let more = if other == number { 3 } else { 0 };
            assert_eq!(after.begun, before.begun + more);
        }
    }
    // Who keeps its place keeps its device, also where others have less to do.
    let place = sessions.take().unwrap();
    let others: Vec<_> = (0..set.len()).map(|_| sessions.take().unwrap()).collect();
    let device = place.device();
    drop(others);
    assert!(place.run([("x", &row(1))]).is_ok());
    assert_eq!(place.device(), device);
    assert_eq!(set.status()[device].under_way, 1);
}

/// A queue that fails as on a lost device once `broken` says so.
fn breakable(broken: &Arc<AtomicBool>) -> BatchQueue {
    let broken = broken.clone();
    let run = move |batch: Batch| match broken.load(Ordering::Relaxed) {
        true => Err(batch::Error::unavailable(device::Error::DeviceLost(
            "struck".to_owned(),
        ))),
        false => Ok(batch),
    };
    BatchQueue::builder().build(run).unwrap()
}

#[test]
fn a_lost_device_is_left_out_and_named() {
    let set = set();
    let broken = Arc::new(AtomicBool::new(false));
    let made = AtomicUsize::new(0);
    let queues = set.each(|_| {
        let first = made.fetch_add(1, Ordering::Relaxed) == 0;
        Ok(breakable(&if first {
            broken.clone()
        } else {
            Arc::default()
        }))
    });
    let queues = queues.unwrap();
    for seed in 0..10 {
        queues.infer(row(seed)).unwrap();
    }
    broken.store(true, Ordering::Relaxed);
    let failed: Vec<batch::Error> = (0..40)
        .filter_map(|seed| queues.infer(row(seed)).err())
        .collect();
    assert_eq!(failed.len(), 1, "one call finds out: {failed:?}");
    let error = streampool::Error::from(failed[0].clone());
    assert_eq!(error.kind(), ErrorKind::DeviceLost);
    let status = set.status();
    assert!(
        status[0]
            .lost
            .as_ref()
            .is_some_and(|why| why.contains("struck")),
        "{status:?}"
    );
    assert!(status[1..].iter().all(|device| device.lost.is_none()));
    assert!(set.is_usable());
    // What is made later is made on what is left.
    assert_eq!(sessions(&set).iter().count(), set.len() - 1);
    sessions(&set).run([("x", &row(1))]).unwrap();
}

#[test]
fn a_set_without_a_device_left_says_why() {
    let set = set();
    let broken = Arc::new(AtomicBool::new(true));
    let queues = set.each(|_| Ok(breakable(&broken))).unwrap();
    for _ in 0..set.len() {
        queues.infer(row(1)).unwrap_err();
    }
    assert!(!set.is_usable());
    let error = streampool::Error::from(queues.infer(row(1)).unwrap_err());
    assert_eq!(error.kind(), ErrorKind::DeviceLost);
    assert!(error.to_string().contains("struck"), "{error}");
    let error = queues.submit(row(1)).map(drop).unwrap_err();
    assert!(matches!(error, batch::Error::Unavailable(_)), "{error}");
    let error = set.each(|_| Ok(())).map(drop).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DeviceLost);
    let error = DeviceSet::new([]).map(drop).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NoDevice);
}

#[test]
fn tensors_streams_and_events_of_one_device_are_refused_on_another() {
    let set = set();
    let pools: Vec<&Pool> = set.pools().collect();
    let (here, there) = (pools[0], pools[1]);
    let x = Tensor::from_slice(here, &[1.0f32, 2.0], &[2]).unwrap();
    let y = Tensor::from_slice(there, &[3.0f32, 4.0], &[2]).unwrap();
    let kind = |error: streampool::Error| error.kind();
    assert_eq!(
        kind(x.add(&y).map(drop).unwrap_err().into()),
        ErrorKind::Misuse
    );
    let session = sessions(&set);
    let far = Tensor::from_slice(there, &[1.0f32; 8], &[1, 8]).unwrap();
    let near = session.iter().next().unwrap();
    let refused = near
        .run([("x", Input::Tensor(&far))])
        .map(drop)
        .unwrap_err();
    assert_eq!(kind(refused.into()), ErrorKind::InvalidInput);
    // A buffer, an event and a stream.
    let (mine, theirs) = (here.lease().unwrap(), there.lease().unwrap());
    let mut buffer = theirs.allocate(64).unwrap();
    let dst = buffer.write(DType::F32, &[16]).unwrap();
    let value = 1.0f32.into();
    let refused = mine.encode(Op::Fill { dst, value }).map(drop).unwrap_err();
    assert_eq!(kind(refused.into()), ErrorKind::Misuse);
    let event = there.event().unwrap();
    theirs.record(&event).unwrap();
    let refused = mine.wait(&event).map(drop).unwrap_err();
    assert_eq!(kind(refused.into()), ErrorKind::Misuse);
    let refused = here.with_stream(&theirs, || ()).unwrap_err();
    assert!(matches!(refused, runtime::Error::ForeignStream));
    // The event can still be waited for by a thread, after which the other device may go on.
    event.wait().unwrap();
    assert_eq!(x.to_vec::<f32>().unwrap(), [1.0, 2.0]);
}

#[test]
fn values_go_from_device_to_device_through_the_host() {
    let set = set();
    const COUNT: usize = 1 << 18;
    let values: Vec<f32> = (0..COUNT).map(|at| at as f32).collect();
    let mut moved = Array::new(&values, &[COUNT]).unwrap();
    for pool in set.pools() {
        let here = Tensor::from_slice(pool, moved.values::<f32>().unwrap(), &[COUNT]).unwrap();
        let sum = here.add(&here).unwrap();
        moved = Array::new(&sum.to_vec::<f32>().unwrap(), &[COUNT]).unwrap();
    }
    let factor = (1 << set.len()) as f32;
    let right = values.iter().map(|value| value * factor);
    assert!(right.eq(moved.values::<f32>().unwrap().iter().copied()));
}

#[test]
fn memory_limits_and_profiles_are_kept_apart() {
    let set = set();
    // A GPU takes some for itself, which counts.
    let is_host = set
        .pools()
        .all(|pool| pool.device().properties().kind == DeviceKind::Host);
    let limit: usize = if is_host { 64 << 20 } else { 1 << 30 };
    let limited = set.pools().map(|pool| {
        let settings = streampool::Settings::builder().memory_limit(Some(limit));
        Pool::with_settings(pool.device().clone(), settings.build().unwrap()).unwrap()
    });
    let limited = DeviceSet::new(limited.collect::<Vec<_>>()).unwrap();
    let pools: Vec<&Pool> = limited.pools().collect();
    let (here, there) = (pools[0], pools[1]);
    let held = here.current().unwrap().allocate(limit * 3 / 4).unwrap();
    let refused = here
        .current()
        .unwrap()
        .allocate(limit / 2)
        .map(drop)
        .unwrap_err();
    assert_eq!(
        streampool::Error::from(refused).kind(),
        ErrorKind::OutOfMemory
    );
    let other = there.current().unwrap().allocate(limit * 3 / 4).unwrap();
    drop((held, other));

    let (recording, silent) = (here.profile(1000).unwrap(), there.profile(1000).unwrap());
    let x = Tensor::from_slice(here, &[1.0f32; 64], &[64]).unwrap();
    assert_eq!(x.add(&x).unwrap().to_vec::<f32>().unwrap(), [2.0; 64]);
    let (full, empty) = (recording.finish().unwrap(), silent.finish().unwrap());
    assert!(!full.intervals().is_empty(), "what ran here was recorded");
    assert!(empty.intervals().is_empty(), "and nothing there");
}

#[test]
fn devices_do_not_wait_for_each_other() {
    let set = set();
    let sessions = sessions(&set);
    sessions
        .iter()
        .for_each(|session| drop(session.run([("x", &row(0))]).unwrap()));
    // One device is kept busy by a caller that holds it; calls on the others end all the same.
    let place = sessions.take().unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                place.run([("x", &row(3))]).unwrap();
            }
        });
        for seed in 0..200 {
            sessions.run([("x", &row(seed))]).unwrap();
        }
        stop.store(true, Ordering::Relaxed);
    });
    let status = set.status();
    assert_eq!(status.iter().map(|device| device.begun).sum::<u64>(), 201);
    assert_eq!(status[place.device()].begun, 1, "{status:?}");
}
