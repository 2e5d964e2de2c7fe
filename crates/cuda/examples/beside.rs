//! Threads of ours for a process of somebody else's: `bench/torch/captures.py` loads this library into Python's, where PyTorch
//! captures graphs meanwhile.
#![cfg(not(loom))]

#[path = "../tests/common/calls.rs"]
mod calls;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use streampool_cuda::{CudaDevice, CudaOptions};
use streampool_runtime::Pool;

static ROUNDS: AtomicU64 = AtomicU64::new(0);

/// Has so many threads make every kind of call for so many seconds. Returns how many of them failed, and says on the standard
/// error why.
#[unsafe(no_mangle)]
pub extern "C" fn beside_run(threads: u32, seconds: u32) -> u32 {
    let device = match CudaDevice::new(CudaOptions::default()) {
        Ok(device) => device,
        Err(error) => {
            eprintln!("{error}");
            return threads;
        }
    };
    let pool = match Pool::new(device.clone()) {
        Ok(pool) => pool,
        Err(error) => {
            eprintln!("{error}");
            return threads;
        }
    };
    let until = Instant::now() + Duration::from_secs(seconds.into());
    let work = |number: u32| {
        let (pool, device): (Pool, Arc<CudaDevice>) = (pool.clone(), device.clone());
        move || {
            for round in 0.. {
                if Instant::now() >= until {
                    break;
                }
                calls::every_kind_of_call(&pool, &device, (number * 1000 + round % 1000) as f32);
                ROUNDS.fetch_add(1, Ordering::Relaxed);
            }
        }
    };
    let threads: Vec<_> = (0..threads)
        .map(|number| thread::spawn(work(number)))
        .collect();
    let ended = threads.into_iter().map(thread::JoinHandle::join);
    ended.filter(Result::is_err).count() as u32
}

/// How often they have made every kind of call so far.
#[unsafe(no_mangle)]
pub extern "C" fn beside_rounds() -> u64 {
    ROUNDS.load(Ordering::Relaxed)
}
