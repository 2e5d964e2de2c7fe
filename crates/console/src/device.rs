//! The device that a command is told to use.

use clap::ValueEnum;
use streampool::Pool;
use streampool::device::DeviceKind;

use crate::Result;

/// A device that can be asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum On {
    /// The processors.
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
