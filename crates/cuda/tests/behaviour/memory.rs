//! Memory of a GPU that is really short.

use streampool_device::Device;
use streampool_runtime::Error;

use crate::gpu::*;

#[test]
fn a_gpu_that_is_really_full_says_so_and_goes_on() {
    with_device(|device| {
        let capacity = device.properties().memory_capacity;
        let pool = pool(&device, 4);
        let stream = pool.stream(1).unwrap();
        // The context itself takes some of it: the driver refuses what the account would bear.
        let error = stream.allocate(capacity).map(drop).unwrap_err();
        let Error::OutOfMemory {
            requested, limit, ..
        } = error
        else {
            panic!("{error}");
        };
        assert_eq!((requested, limit), (capacity, capacity));
        let small = filled(stream, 1.0);
        assert_eq!(value_of(stream, &small), Ok(1.0));
    });
}
