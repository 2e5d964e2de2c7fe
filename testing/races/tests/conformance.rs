//! The conformance suite has no races, and a device that is watched keeps all promises, too.

use std::time::Duration;

use streampool_conformance::{Subject, suite};
use streampool_host::{HostDevice, HostOptions, OpMatcher};
use streampool_races::Races;

suite!(|| -> Result<Subject, String> {
    let open = || HostDevice::new(HostOptions::default().threads(4)).map_err(|e| e.to_string());
    let (host, other) = (open()?, open()?);
    // What is fast is over before anything could race with it.
    host.injector()
        .random_delays(11, Duration::from_micros(100));
    let (device, other) = (Races::new(host.clone()), Races::new(other));
    let subject = Subject::new(device).with_other(other);
    Ok(subject.with_faults(move |_, queue| {
        let next = OpMatcher::any().on_queue(queue);
        host.injector().fail_op(next, 1, "injected");
    }))
});
