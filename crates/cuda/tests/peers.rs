//! Two GPUs of one machine: the queues of one work on the memory of the other.

mod common;

use std::sync::Arc;

use common::raw::{copy, download, encode, fill, leaked, patience, plus_one, queue, upload};
use common::{open, options, skip};
use streampool_cuda::{CudaDevice, CudaOptions};

const MIB: usize = 1 << 20;

/// Two devices on two GPUs that reach each other; without such, says why the test is skipped.
fn peers() -> Option<[Arc<CudaDevice>; 2]> {
    let count = CudaDevice::count().unwrap_or(0);
    if count < 2 {
        skip(&format!("two GPUs are needed, and there are {count}"));
        return None;
    }
    let [one, two] = [0, 1].map(|ordinal| {
        open(CudaOptions {
            ordinal,
            ..options()
        })
        .unwrap()
    });
    if !one.reach(&two).unwrap() || !two.reach(&one).unwrap() {
        skip("the two GPUs have no way to each other");
        return None;
    }
    Some([one, two])
}

#[test]
fn a_queue_reads_the_memory_of_another_gpu() {
    let Some([here, there]) = peers() else { return };
    let (mut mine, mut theirs) = (queue(&*here, 1).unwrap(), queue(&*there, 1).unwrap());
    for (round, bytes) in [4, 4096, MIB, 64 * MIB].into_iter().enumerate() {
        let value = round as f32 + 1.0;
        let (near, far) = (leaked(&*here, bytes), leaked(&*there, bytes));
        let tick = encode(&mut *theirs, &fill(far, value)).unwrap();
        theirs.progress().wait(tick, patience()).unwrap();
        // A plain copy, and a kernel that reads over there.
        encode(&mut *mine, &copy(far, near)).unwrap();
        let got = download(&mut *mine, near).unwrap();
        assert!(got.iter().all(|got| *got == value), "{bytes} bytes");
        encode(&mut *mine, &plus_one(far, near)).unwrap();
        let got = download(&mut *mine, near).unwrap();
        assert!(got.iter().all(|got| *got == value + 1.0), "{bytes} bytes");
    }
}

#[test]
fn a_queue_writes_the_memory_of_another_gpu() {
    let Some([here, there]) = peers() else { return };
    let (mut mine, mut theirs) = (queue(&*here, 1).unwrap(), queue(&*there, 1).unwrap());
    let (near, far) = (leaked(&*here, MIB), leaked(&*there, MIB));
    let values: Vec<f32> = (0..MIB / 4).map(|place| place as f32).collect();
    upload(&mut *mine, near, &values).unwrap();
    let tick = encode(&mut *mine, &copy(near, far)).unwrap();
    mine.progress().wait(tick, patience()).unwrap();
    assert!(download(&mut *theirs, far).unwrap() == values);
    let tick = encode(&mut *mine, &plus_one(near, far)).unwrap();
    mine.progress().wait(tick, patience()).unwrap();
    let sums: Vec<f32> = values.iter().map(|value| value + 1.0).collect();
    assert!(download(&mut *theirs, far).unwrap() == sums);
}

#[test]
fn reaching_again_changes_nothing_and_a_gpu_reaches_itself() {
    let Some([here, there]) = peers() else { return };
    for _ in 0..3 {
        assert_eq!(here.reach(&there), Ok(true));
        assert_eq!(here.reach(&here), Ok(true));
    }
}
