//! What the tests of the CUDA device have in common: how they open it, and how they skip where there is none.
// Each test file is a crate of its own and uses a part of this.
#![allow(dead_code)]

pub mod raw;

use std::process::Command;
use std::sync::{Arc, OnceLock};

use streampool_cuda::{CudaDevice, CudaOptions};
use streampool_device::Device;

/// Where this is set there is a GPU for sure: a test that would be skipped for want of one fails instead.
const REQUIRED: &str = "REQUIRE_CUDA";

/// The options of most tests: what one process has compiled, the next one finds on disk.
pub fn options() -> CudaOptions {
    CudaOptions {
        cache_dir: Some(std::env::temp_dir().join("streampool-test-kernels")),
        ..CudaOptions::default()
    }
}

/// A device of its own, or why there is none. The GPU's context is kept for the next test: to make it takes
/// long.
pub fn open(options: CudaOptions) -> Result<Arc<CudaDevice>, String> {
    static CONTEXT: OnceLock<Result<Arc<CudaDevice>, String>> = OnceLock::new();
    let open = |options| CudaDevice::new(options).map_err(|error| error.to_string());
    let opened = match CONTEXT.get_or_init(|| open(self::options())) {
        Ok(_) => open(options),
        Err(why) => Err(why.clone()),
    };
    if let Err(why) = &opened {
        assert!(!is_required(), "{REQUIRED} is set, and {why}");
    }
    opened
}

/// Whether there has to be a GPU.
pub fn is_required() -> bool {
    std::env::var_os(REQUIRED).is_some()
}

/// Whether the GPU is the imitation of `ci/cuda-sim.sh`. It executes kernels on the CPU, so tests give it less of what
/// only takes long.
pub fn is_imitated() -> bool {
    static IMITATED: OnceLock<bool> = OnceLock::new();
    *IMITATED.get_or_init(|| {
        open(options()).is_ok_and(|device| device.properties().hardware == "Imitation GPU")
    })
}

/// A device of its own; without one, says why the test is skipped.
pub fn device() -> Option<Arc<CudaDevice>> {
    device_with(options())
}

/// As [`device`], with these options.
pub fn device_with(options: CudaOptions) -> Option<Arc<CudaDevice>> {
    open(options).inspect_err(|why| skip(why)).ok()
}

/// Prints why a test does nothing here.
pub fn skip(why: &str) {
    eprintln!("skipped: {why}");
}

/// Names the test that a process of this very program is to run as a child.
const CHILD: &str = "CUDA_TEST_CHILD";

/// Whether this process was made to run `test` alone.
pub fn is_child(test: &str) -> bool {
    std::env::var_os(CHILD).is_some_and(|child| child == test)
}

/// Runs `test` of this program in a process of its own, set up by `prepare`, and prints what it printed. It
/// has to end well.
pub fn run_as_child(test: &str, prepare: impl FnOnce(&mut Command)) {
    let mut command = Command::new(std::env::current_exe().expect("this program has a path"));
    command
        .args([test, "--exact", "--nocapture", "--test-threads=1"])
        .env(CHILD, test);
    prepare(&mut command);
    let output = command.output().expect("this program runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (said, errors) = (text(&output.stdout), text(&output.stderr));
    assert!(
        output.status.success() && said.contains("1 passed"),
        "{}: {said}{errors}",
        output.status
    );
    eprint!("{errors}");
}
