//! Random ops of every kind on the host and on a GPU: the same results.

use streampool_conformance::cases::Case;
use streampool_host::{HostDevice, HostOptions};
use streampool_runtime::{Buffer, Pool, Result, Stream};

use super::*;
use crate::DOUBLES;

const CASES: u64 = 12 * Case::KINDS;
const THREADS: usize = 8;

/// All bytes of each operand, after the op, on this stream.
fn execute(stream: &Stream, case: &Case) -> Result<Vec<Vec<u8>>> {
    let (mut places, mut buffers) = (Vec::new(), Vec::new());
    for (dtype, layout, bytes) in case.operands() {
        let mut buffer = stream.allocate(bytes.len())?;
        stream.upload(&mut buffer, bytes)?;
        places.push((dtype, layout));
        buffers.push(buffer);
    }
    let targets = case.targets();
    let (mut read, mut written) = (Vec::new(), Vec::new());
    for (index, buffer) in buffers.iter_mut().enumerate() {
        match targets.contains(&index) {
            true => (read.push(None), written.push(Some(buffer))),
            false => (read.push(Some(&*buffer)), written.push(None)),
        };
    }
    let op = case.op().try_map(|_, _, &index| {
        let (dtype, layout) = places[index];
        match (read[index], written[index].take()) {
            (Some(buffer), _) => buffer.read_as(dtype, layout),
            (None, buffer) => buffer.expect("it is written once").write_as(dtype, layout),
        }
    })?;
    stream.encode(op)?;
    let download = |buffer: &Buffer| stream.download::<u8>(buffer);
    buffers.iter().map(download).collect()
}

#[test]
fn random_ops_come_to_the_same_on_the_host_and_on_the_gpu() {
    with_device(|device| {
        let host = HostDevice::new(HostOptions::default()).unwrap();
        let host = Pool::with_settings(host, settings().build().unwrap()).unwrap();
        let gpu = pool(&device, THREADS + 1);
        on_threads(THREADS, |thread| {
            for number in (thread as u64..CASES).step_by(THREADS) {
                let case = Case::random(number);
                if !DOUBLES && format!("{case:?}").contains("F64") {
                    continue;
                }
                let on = |pool: &Pool| {
                    let memory = execute(pool.current().unwrap(), &case)
                        .unwrap_or_else(|error| panic!("case {number}: {error}: {case:?}"));
                    case.written(&memory)
                        .unwrap_or_else(|why| panic!("case {number}: {why}"))
                };
                case.compare(&on(&host), &on(&gpu))
                    .unwrap_or_else(|why| panic!("case {number}, the host and the GPU: {why}"));
            }
        });
        assert_all_returned(&gpu);
    });
}
