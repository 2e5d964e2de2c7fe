//! Devices side by side on one GPU.

use streampool_runtime::Error;

use crate::common::device;
use crate::gpu::*;

#[test]
fn two_devices_on_one_gpu_keep_apart() {
    let (Some(one), Some(two)) = (device(), device()) else {
        return;
    };
    within(FOREVER, || {
        let (first, second) = (pool(&one, 4), pool(&two, 4));
        let buffer = filled(first.stream(1).unwrap(), 1.0);
        let outcome = value_of(second.stream(1).unwrap(), &buffer);
        assert_eq!(outcome, Err(Error::ForeignBuffer));
        one.refuse_next(1);
        let other = filled(second.stream(1).unwrap(), 2.0);
        assert_eq!(value_of(second.stream(1).unwrap(), &other), Ok(2.0));
        drop((buffer, first));
        assert_all_freed(&one);
        assert_eq!(value_of(second.stream(1).unwrap(), &other), Ok(2.0));
    });
}
