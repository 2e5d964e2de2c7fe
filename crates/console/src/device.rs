//! The device, or the devices, that a command is told to use.

use std::str::FromStr;

use clap::ValueEnum;
use streampool::cuda::{CudaDevice, CudaOptions};
use streampool::device::DeviceKind;
use streampool::{DeviceSet, Pool};

use crate::Result;

/// A device that can be asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum On {
    /// The CPU.
    Host,
    /// An NVIDIA GPU.
    Cuda,
    /// An Apple GPU.
    Metal,
}

impl On {
    fn kind(self) -> DeviceKind {
        match self {
            On::Host => DeviceKind::Host,
            On::Cuda => DeviceKind::Cuda,
            On::Metal => DeviceKind::Metal,
        }
    }

    /// A pool on it, set up by the environment.
    pub fn pool(self) -> Result<Pool> {
        if self == On::Cuda {
            return Ok(streampool::cuda_pool()?);
        }
        #[cfg(feature = "metal")]
        if self == On::Metal {
            return Ok(streampool::metal_pool()?);
        }
        let kind = self.kind();
        let found = streampool::devices()
            .into_iter()
            .find(|found| found.kind == kind);
        match found.map(|found| found.device) {
            Some(Ok(device)) => Ok(Pool::new(device)?),
            Some(Err(why)) => {
                Err(format!("the {} device cannot be used: {why}", kind.name()).into())
            }
            None => Err(format!("there is no {} device", kind.name()).into()),
        }
    }
}

/// One or several devices of a kind: `host`, `cuda`, `cuda:1`, `cuda:all`, `host:4`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Devices {
    /// The one that is used if nothing else is said.
    Usual(On),
    /// So many host devices, which share the processors.
    Hosts(usize),
    /// The NVIDIA GPU of this number.
    Gpu(usize),
    /// All NVIDIA GPUs.
    AllGpus,
}

/// The most host devices there may be.
const MOST_HOSTS: usize = 64;

impl FromStr for Devices {
    type Err = String;

    fn from_str(text: &str) -> Result<Devices, String> {
        let (kind, which) = match text.split_once(':') {
            None => (text, None),
            Some((kind, which)) => (kind, Some(which)),
        };
        let number = |least, most| {
            let number = which.and_then(|which| which.parse().ok());
            number.filter(|number| (least..=most).contains(number))
        };
        let devices = match (kind, which) {
            (_, None) => On::from_str(kind, false).ok().map(Devices::Usual),
            ("cuda", Some("all")) => Some(Devices::AllGpus),
            ("cuda", _) => number(0, usize::MAX).map(Devices::Gpu),
            ("host", _) => number(1, MOST_HOSTS).map(Devices::Hosts),
            _ => None,
        };
        devices.ok_or_else(|| {
            format!(
                "expected host, cuda or metal, a GPU such as cuda:1, cuda:all, or up to {MOST_HOSTS} host devices such as host:4"
            )
        })
    }
}

impl Devices {
    /// A pool on each, set up by the environment.
    pub fn set(self) -> Result<DeviceSet> {
        match self {
            Devices::Usual(on) => Ok(on.pool()?.into()),
            Devices::Hosts(count) => Ok(streampool::host_set(count)?),
            Devices::AllGpus => Ok(streampool::cuda_set()?),
            Devices::Gpu(number) => {
                let options = CudaOptions::from_env()?.ordinal(number);
                Ok(Pool::new(CudaDevice::new(options)?)?.into())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_have_names() {
        for (text, devices) in [
            ("host", Some(Devices::Usual(On::Host))),
            ("cuda", Some(Devices::Usual(On::Cuda))),
            ("metal", Some(Devices::Usual(On::Metal))),
            ("cuda:0", Some(Devices::Gpu(0))),
            ("cuda:all", Some(Devices::AllGpus)),
            ("host:3", Some(Devices::Hosts(3))),
            ("host:0", None),
            ("host:65", None),
            ("host:all", None),
            ("metal:all", None),
            ("cuda:", None),
            ("gpu", None),
        ] {
            assert_eq!(text.parse().ok(), devices, "{text}");
        }
        assert_eq!(Devices::Hosts(2).set().unwrap().len(), 2);
    }
}
