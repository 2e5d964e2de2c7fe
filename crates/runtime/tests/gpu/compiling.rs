//! When kernels are compiled.

use streampool_device::Device;
use streampool_runtime::{Capture, DType, Op};

use super::*;

#[test]
fn a_capture_compiles_before_it_takes_the_stream() {
    with_device(|device| {
        let pool = pool(&device, 4);
        let stream = pool.stream(1).unwrap();
        let compiled = || -> u64 {
            let caches = device.caches();
            caches
                .iter()
                .map(|cache| cache.compiled + cache.loaded)
                .sum()
        };
        let before = compiled();
        let mut capture = Capture::new(stream);
        let input = capture.input(N * 4).unwrap();
        let output = capture.output(N * 4).unwrap();
        let src = input.view(DType::F32, &[N]).unwrap();
        let dst = output.view(DType::F16, &[N]).unwrap();
        capture.encode(Op::Copy { src, dst }).unwrap();
        let encoded = compiled();
        assert!(encoded > before, "nothing was compiled");
        capture.finish().unwrap();
        assert_eq!(
            compiled(),
            encoded,
            "it was compiled under the stream's lock"
        );
    });
}
