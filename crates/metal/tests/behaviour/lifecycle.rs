//! The end of queues and devices with work in flight.

use std::sync::mpsc::channel;

use streampool_device::{Device, Op, QueueOptions};

use crate::common::{Stage, device};
use crate::gpu::*;

#[test]
fn queues_and_their_device_are_dropped_with_work_that_nobody_flushed() {
    let _stage = Stage::new();
    for commands in [1, 7, 8, 9, 100] {
        let Some(device) = device() else { return };
        within(FOREVER, || {
            let (send, receive) = channel();
            for _ in 0..8 {
                let mut queue = device.create_queue(QueueOptions::default()).unwrap();
                for _ in 0..commands {
                    // SAFETY: it touches no memory.
                    unsafe { queue.encode(&Op::Nop).unwrap() };
                }
                let send = send.clone();
                queue
                    .on_complete(Box::new(move |outcome| send.send(outcome).unwrap()))
                    .unwrap();
            }
            drop((send, device));
            let outcomes: Vec<_> = receive.into_iter().collect();
            assert_eq!(outcomes, vec![Ok(()); 8]);
        });
    }
}

#[cfg(metal_sim)]
#[test]
fn the_number_of_cores_is_the_registrys_where_that_can_be_true() {
    let stage = Stage::new();
    for (told, expected) in [
        (Some(10), 10),
        (Some(80), 80),
        (None, 16),
        (Some(0), 16),
        (Some(-1), 16),
        (Some(1 << 33), 16),
    ] {
        stage.0.gpu_cores(told);
        let device = device().unwrap();
        assert_eq!(device.properties().compute_units, expected, "{told:?}");
    }
}
