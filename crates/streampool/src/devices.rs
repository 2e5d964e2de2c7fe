//! The devices of this machine, and why any of them cannot be used.

use std::fmt;
use std::sync::Arc;

#[cfg(feature = "cuda")]
use streampool_cuda::{CudaDevice, CudaOptions};
use streampool_device::{Device, DeviceKind};
use streampool_host::{HostDevice, HostOptions};
#[cfg(feature = "metal")]
use streampool_metal::{MetalDevice, MetalOptions};
use streampool_runtime::Pool;

use crate::error::Result;
use crate::set::DeviceSet;

/// One device, as this build finds it on this machine.
#[derive(Debug, Clone)]
pub struct DeviceStatus {
    /// Its kind.
    pub kind: DeviceKind,
    /// What tells it from the others: `host`, `cuda`, `cuda:1`.
    pub name: String,
    /// The device, or why it cannot be used.
    pub device: Result<Arc<dyn Device>, Unusable>,
    /// The other GPUs whose memory it reaches without the host.
    pub reaches: Vec<String>,
}

/// Why a device cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unusable {
    /// There is none: this machine or this build lacks it.
    Absent(String),
    /// Something is wrong with it, or with how it is set up.
    Broken(String),
}

impl fmt::Display for Unusable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unusable::Absent(why) | Unusable::Broken(why) => f.write_str(why),
        }
    }
}

/// Every device that Streampool knows, usable or not. A kind of which there is none has one entry, which
/// says why. The usable ones are open as long as the list lives.
pub fn devices() -> Vec<DeviceStatus> {
    let host = open_host().map_err(|error| Unusable::Broken(error.to_string()));
    let mut all = vec![status(DeviceKind::Host, 0, host)];
    all.extend(cuda_devices());
    all.extend(metal_devices());
    all
}

fn status(
    kind: DeviceKind,
    number: usize,
    device: Result<Arc<dyn Device>, Unusable>,
) -> DeviceStatus {
    DeviceStatus {
        kind,
        name: name(kind, number),
        device,
        reaches: Vec::new(),
    }
}

fn name(kind: DeviceKind, number: usize) -> String {
    match number {
        0 => kind.name().to_owned(),
        other => format!("{}:{other}", kind.name()),
    }
}

/// A pool on the host CPU, set up by the environment.
pub fn host_pool() -> Result<Pool> {
    Ok(Pool::new(open_host()?)?)
}

/// So many host devices, one at least, which share the processors and the memory that the environment gives to one.
pub fn host_set(count: usize) -> Result<DeviceSet> {
    let whole = HostOptions::from_env()?;
    let part = |all: usize| (all / count.max(1)).max(1);
    let (threads, capacity) = (part(whole.threads), part(whole.capacity));
    let pools = (0..count.max(1)).map(|_| {
        let options = whole.clone().threads(threads).capacity(capacity);
        Ok(Pool::new(HostDevice::new(options)?)?)
    });
    DeviceSet::new(pools.collect::<Result<Vec<_>>>()?)
}

fn open_host() -> Result<Arc<dyn Device>> {
    Ok(HostDevice::new(HostOptions::from_env()?)?)
}

/// A pool on the NVIDIA GPU that `STREAMPOOL_CUDA_DEVICE` names, by default the first, set up by the
/// environment.
#[cfg(feature = "cuda")]
pub fn cuda_pool() -> Result<Pool> {
    Ok(Pool::new(CudaDevice::new(CudaOptions::from_env()?)?)?)
}

/// All NVIDIA GPUs that the driver shows, each with a pool, set up by the environment.
#[cfg(feature = "cuda")]
pub fn cuda_set() -> Result<DeviceSet> {
    let options = CudaOptions::from_env()?;
    let pools = (0..CudaDevice::count()?).map(|ordinal| {
        Ok(Pool::new(CudaDevice::new(
            options.clone().ordinal(ordinal),
        )?)?)
    });
    DeviceSet::new(pools.collect::<Result<Vec<_>>>()?)
}

/// A pool on the Apple GPU that `STREAMPOOL_METAL_DEVICE` names, by default the one that the system prefers, set up
/// by the environment.
#[cfg(feature = "metal")]
pub fn metal_pool() -> Result<Pool> {
    Ok(Pool::new(MetalDevice::new(MetalOptions::from_env()?)?)?)
}

#[cfg(feature = "cuda")]
fn cuda_devices() -> Vec<DeviceStatus> {
    let options = CudaOptions::from_env().map(|options| (options.ordinal, options));
    let open = |options: &CudaOptions, ordinal| -> streampool_device::Result<Arc<dyn Device>> {
        Ok(CudaDevice::new(options.clone().ordinal(ordinal))?)
    };
    let none = "the NVIDIA driver shows no GPU";
    let mut found = gpus(DeviceKind::Cuda, options, CudaDevice::count, none, open);
    let count = found.len();
    for (from, status) in found.iter_mut().enumerate() {
        let others = (0..count).filter(|&to| to != from);
        let reached = others.filter(|&to| CudaDevice::can_reach(from, to) == Ok(true));
        status.reaches = reached.map(|to| name(DeviceKind::Cuda, to)).collect();
    }
    found
}

#[cfg(feature = "metal")]
fn metal_devices() -> Vec<DeviceStatus> {
    let options = MetalOptions::from_env().map(|options| (options.ordinal, options));
    let open = |options: &MetalOptions, ordinal| -> streampool_device::Result<Arc<dyn Device>> {
        Ok(MetalDevice::new(options.clone().ordinal(ordinal))?)
    };
    let none = "Metal shows no GPU";
    gpus(DeviceKind::Metal, options, MetalDevice::count, none, open)
}

/// Every GPU of this kind, each opened with the options; `none` says what it means that there are none.
#[cfg(any(feature = "cuda", feature = "metal"))]
fn gpus<O>(
    kind: DeviceKind,
    options: streampool_device::Result<(usize, O)>,
    count: impl FnOnce() -> streampool_device::Result<usize>,
    none: &str,
    open: impl Fn(&O, usize) -> streampool_device::Result<Arc<dyn Device>>,
) -> Vec<DeviceStatus> {
    let unusable = |why| vec![status(kind, 0, Err(why))];
    // A bad setting is told even where there is no GPU: it is in force nowhere.
    let (asked_for, options) = match options {
        Ok(options) => options,
        Err(error) => return unusable(Unusable::Broken(error.to_string())),
    };
    let count = match count() {
        Ok(0) => return unusable(Unusable::Absent(none.to_owned())),
        Ok(count) => count,
        Err(error) => return unusable(Unusable::Absent(reason(error))),
    };
    // The one that was asked for is listed even if it is not there.
    let asked_for = (asked_for >= count).then_some(asked_for);
    let open = |ordinal| {
        let opened = open(&options, ordinal);
        opened.map_err(|error| Unusable::Broken(reason(error)))
    };
    (0..count)
        .chain(asked_for)
        .map(|ordinal| status(kind, ordinal, open(ordinal)))
        .collect()
}

/// What is missing, without the name of the device, which is told anyway.
#[cfg(any(feature = "cuda", feature = "metal"))]
fn reason(error: streampool_device::Error) -> String {
    match error {
        streampool_device::Error::Unavailable { why, .. } => why,
        other => other.to_string(),
    }
}

#[cfg(not(feature = "cuda"))]
fn cuda_devices() -> Vec<DeviceStatus> {
    let why = "this program was built without the feature `cuda`".to_owned();
    vec![status(DeviceKind::Cuda, 0, Err(Unusable::Absent(why)))]
}

#[cfg(not(feature = "metal"))]
fn metal_devices() -> Vec<DeviceStatus> {
    let why = "this program was built without the feature `metal`".to_owned();
    vec![status(DeviceKind::Metal, 0, Err(Unusable::Absent(why)))]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_is_listed_and_what_cannot_be_used_says_why() {
        let all = devices();
        for kind in [DeviceKind::Host, DeviceKind::Cuda, DeviceKind::Metal] {
            let first = all.iter().find(|status| status.kind == kind);
            assert_eq!(first.unwrap().name, kind.name());
        }
        for status in &all {
            match &status.device {
                Ok(device) => {
                    assert_eq!(device.properties().kind, status.kind);
                    // Another test of this process may have the first device of the host.
                    let name = &device.properties().name;
                    let (name, number) = name.split_once(':').unwrap_or((name, ""));
                    assert_eq!(name, status.name.split(':').next().unwrap_or_default());
                    assert!(status.kind == DeviceKind::Host || status.name.ends_with(number));
                }
                Err(unusable) => assert!(!unusable.to_string().is_empty()),
            }
        }
        assert!(all[0].device.is_ok(), "{:?}", all[0]);
    }

    #[test]
    fn several_of_a_kind_are_told_apart() {
        let none = || Err(Unusable::Absent("none".to_owned()));
        let names = [0, 1, 12].map(|number| status(DeviceKind::Cuda, number, none()).name);
        assert_eq!(names, ["cuda", "cuda:1", "cuda:12"]);
    }

    #[cfg(any(feature = "cuda", feature = "metal"))]
    #[test]
    fn a_reason_comes_without_the_name_of_the_device() {
        let error = streampool_device::Error::Unavailable {
            device: "cuda".to_owned(),
            why: "the driver is on holiday".to_owned(),
        };
        assert_eq!(reason(error), "the driver is on holiday");
        let lost = streampool_device::Error::DeviceLost("gone".to_owned());
        assert_eq!(reason(lost), "device lost: gone");
    }
}
