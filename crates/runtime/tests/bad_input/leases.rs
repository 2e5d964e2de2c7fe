//! Leases of a pool that has none to give.

use std::time::Duration;

use streampool_host::{HostDevice, HostOptions};
use streampool_runtime::{Pool, Settings, WhenExhausted};

#[test]
fn a_pool_of_the_default_stream_alone_waits_for_nobody() {
    let device = HostDevice::new(HostOptions::default().threads(1)).unwrap();
    let settings = Settings::builder()
        .without_environment()
        .streams(1)
        .exhaustion(WhenExhausted::Wait(None));
    let pool = Pool::with_settings(device, settings.build().unwrap()).unwrap();
    let error = pool.lease().unwrap_err().to_string();
    assert!(error.contains("STREAMPOOL_STREAMS"), "{error}");
    pool.default_stream().unwrap().synchronize().unwrap();
}

#[test]
fn an_exhausted_pool_names_its_limit() {
    let device = HostDevice::new(HostOptions::default().threads(1)).unwrap();
    for (policy, says) in [
        (WhenExhausted::Fail, "all 1 worker streams are in use"),
        (
            WhenExhausted::Wait(Some(Duration::from_millis(5))),
            "stayed in use for 5ms",
        ),
    ] {
        let settings = Settings::builder()
            .without_environment()
            .streams(2)
            .exhaustion(policy);
        let pool = Pool::with_settings(device.clone(), settings.build().unwrap()).unwrap();
        let lease = pool.lease().unwrap();
        let error = pool.lease().unwrap_err().to_string();
        assert!(
            error.contains(says) && error.contains("STREAMPOOL_STREAMS"),
            "{error}"
        );
        drop(lease);
        pool.lease().unwrap().synchronize().unwrap();
    }
}
