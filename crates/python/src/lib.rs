//! The part of the Python package that is Rust. `python/streampool` is the part that users see.

mod arrays;
mod binding;
mod bound;
mod capsule;
mod devices;
mod errors;
mod futures;
mod inbox;
mod lent;
#[allow(
    unsafe_op_in_unsafe_fn,
    reason = "what PyO3 makes of methods that a macro of ours has listed"
)]
mod operators;
mod profiler;
mod queue;
mod random;
mod session;
mod signals;
mod streams;
mod strings;
mod tensor;
mod torch;
mod weights;

use pyo3::prelude::*;

/// Streampool's engine.
#[pymodule]
mod _streampool {
    use pyo3::prelude::*;

    #[pymodule_export]
    use crate::binding::Binding;
    #[pymodule_export]
    use crate::bound::BoundSession;
    #[pymodule_export]
    use crate::devices::{
        configure, device_count, devices, empty_cache, memory_snapshot, memory_stats,
        release_current_stream, set_per_process_memory_fraction, synchronize,
    };
    #[pymodule_export]
    use crate::futures::{cancel, forget_after_fork, stop};
    #[pymodule_export]
    use crate::inbox::Inbox;
    #[pymodule_export]
    use crate::profiler::{Recording, record_device, record_session};
    #[pymodule_export]
    use crate::queue::Queue;
    #[pymodule_export]
    use crate::session::{Session, ValueInfo};
    #[pymodule_export]
    use crate::streams::{Event, Stream, current_stream, default_stream, stream_was_chosen};

    #[pymodule_export]
    use crate::random::{draw, get_rng_state, manual_seed, set_rng_state};
    #[pymodule_export]
    use crate::tensor::Tensor;

    /// Does what the program `streampool` does with these arguments, the first of which names it; its exit code.
    #[pyfunction]
    fn run_program(py: Python<'_>, arguments: Vec<std::ffi::OsString>) -> i32 {
        let code = py.detach(|| streampool_cli::run_program(arguments));
        i32::from(code != std::process::ExitCode::SUCCESS)
    }

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
