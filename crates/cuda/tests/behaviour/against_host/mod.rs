//! Random ops on the host and on a GPU: the same results.

mod case;
mod random;

use streampool_device::{Access, DType};
use streampool_host::{HostDevice, HostOptions};
use streampool_runtime::{Buffer, Pool, Result, Stream};

use crate::common::device;
use crate::work::*;
use crate::{PATIENCE, pool};
use case::{Case, values};

const CASES: u64 = 600;
const THREADS: usize = 8;

/// What the op writes, all bytes of the memory it lies in, on this stream.
fn execute(stream: &Stream, case: &Case) -> Result<Vec<Vec<u8>>> {
    let uploaded = |bytes: &Vec<u8>| {
        let mut buffer = stream.allocate(bytes.len())?;
        stream.upload(&mut buffer, bytes)?;
        Ok(buffer)
    };
    let inputs: Vec<Buffer> = case.reads.iter().map(uploaded).collect::<Result<_>>()?;
    let mut outputs: Vec<Buffer> = case.writes.iter().map(uploaded).collect::<Result<_>>()?;
    let (mut reads, mut writes) = (inputs.iter(), outputs.iter_mut());
    let op = case.op.try_map(|_, access, plan| match access {
        Access::Read => reads.next().unwrap().read_as(plan.dtype, plan.layout),
        Access::Write => writes.next().unwrap().write_as(plan.dtype, plan.layout),
    })?;
    stream.encode(op)?;
    outputs
        .iter()
        .map(|output| stream.download::<u8>(output))
        .collect()
}

/// How far apart two values may be: absolutely, and for each unit of size.
fn tolerance(dtype: DType) -> (f64, f64) {
    match dtype {
        DType::F64 => (1e-9, 1e-9),
        DType::F32 => (1e-3, 1e-4),
        DType::F16 => (2e-2, 4e-3),
        DType::BF16 => (1e-1, 2e-2),
        _ => (0.0, 0.0),
    }
}

fn agree(dtype: DType, host: f64, gpu: f64) -> bool {
    let (absolute, relative) = tolerance(dtype);
    host == gpu
        || (host.is_nan() && gpu.is_nan())
        || (host - gpu).abs() <= absolute + relative * host.abs()
}

fn compare(seed: u64, case: &Case, host: &[Vec<u8>], gpu: &[Vec<u8>]) {
    for (number, (dtype, (host, gpu))) in case.written().zip(host.iter().zip(gpu)).enumerate() {
        let pairs = values(dtype, host).into_iter().zip(values(dtype, gpu));
        for (place, (host, gpu)) in pairs.enumerate() {
            assert!(
                agree(dtype, host, gpu),
                "case {seed}: element {place} of output {number} is {host} on the host and {gpu} on \
                 the GPU: {:?}",
                case.op
            );
        }
    }
}

#[test]
fn random_ops_come_to_the_same_on_the_host_and_on_the_gpu() {
    let Some(device) = device() else { return };
    within(PATIENCE, || {
        let host = HostDevice::new(HostOptions::default()).unwrap();
        let host = Pool::with_settings(host, settings().build().unwrap()).unwrap();
        let gpu = pool(&device, THREADS + 1);
        on_threads(THREADS, |number| {
            for seed in (number as u64..CASES).step_by(THREADS) {
                let case = Case::random(seed);
                let on = |pool: &Pool| {
                    execute(pool.current().unwrap(), &case)
                        .unwrap_or_else(|error| panic!("case {seed}: {error}: {:?}", case.op))
                };
                compare(seed, &case, &on(&host), &on(&gpu));
            }
        });
        assert_all_returned(&gpu);
    });
}
