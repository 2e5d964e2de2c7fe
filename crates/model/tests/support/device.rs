//! Which device is tested.

use streampool_cuda::{CudaDevice, CudaOptions};
use streampool_host::{HostDevice, HostOptions};
use streampool_model::testing::host_pool;
use streampool_races::Races;
use streampool_tensor::Pool;

/// `cuda` for the GPU, `races` for a host that is watched for races; by default it is the host.
const DEVICE: &str = "TEST_DEVICE";

/// A pool on the device that is tested; or why there is none here.
pub fn pool() -> Result<Pool, String> {
    let device = std::env::var(DEVICE).unwrap_or_else(|_| "host".to_owned());
    match &device[..] {
        "host" => Ok(host_pool()),
        "cuda" => CudaDevice::new(CudaOptions::from_env().expect("settings that are good"))
            .map(|device| Pool::new(device).expect("a pool on the GPU"))
            .map_err(|error| error.to_string()),
        "races" => {
            let host = HostDevice::new(HostOptions::default()).expect("every machine is a host");
            Ok(Pool::new(Races::new(host)).expect("a pool on the host"))
        }
        other => panic!("{DEVICE} is {other:?}, expected host, races or cuda"),
    }
}
