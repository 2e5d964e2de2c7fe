//! The host device keeps every promise of the contract: as it is, with a single worker, and with random
//! delays before its commands.

use std::sync::Arc;
use std::time::Duration;

use streampool_conformance::{Subject, suite};
use streampool_device::Device;
use streampool_host::{HostDevice, HostOptions, OpMatcher};

/// A host device with another beside it, and its injector as the way to make it fail.
fn subject(options: HostOptions, prepare: impl FnOnce(&HostDevice)) -> Result<Subject, String> {
    let open = |options| HostDevice::new(options).map_err(|error| error.to_string());
    let (host, other) = (open(options.clone())?, open(options)?);
    prepare(&host);
    let device: Arc<dyn Device> = host.clone();
    let subject = Subject::new(device).with_other(other);
    Ok(subject.with_faults(move |_, queue| {
        let next = OpMatcher::any().on_queue(queue);
        host.injector().fail_op(next, 1, "injected");
    }))
}

mod plain {
    use super::*;
    suite!(|| subject(HostOptions::default(), |_| ()));
}

mod one_worker {
    use super::*;
    suite!(|| subject(HostOptions::default().threads(1), |_| ()));
}

mod delayed {
    use super::*;
    suite!(|| subject(HostOptions::default().threads(4), |host| {
        host.injector().random_delays(7, Duration::from_micros(100));
    }));
}
