//! Modules and launches.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::atomic::Ordering;

use cudarc::driver::sys::CUresult::{self, *};
use streampool_emulated::cuda::Kernel;

use crate::driver::{How, call};
use crate::handle::{Handle, Out, find, given, put};
use crate::module::{Asked, MOST_BROUGHT, load};
use crate::objects::Task;
use crate::settings::may_free;

#[unsafe(no_mangle)]
pub extern "C" fn cuModuleLoadData(module: Out<'_, Handle>, image: *const c_char) -> CUresult {
    if image.is_null() {
        return CUDA_ERROR_INVALID_VALUE;
    }
    let loaded = load(image);
    call(How::Alone, |state| {
        let to = given(module)?;
        to.write(loaded?(state));
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuModuleUnload(module: Handle) -> CUresult {
    call(How::Alone, |state| {
        may_free()?;
        state.unload(module)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuModuleGetFunction(
    function: Out<'_, Handle>,
    module: Handle,
    name: *const c_char,
) -> CUresult {
    call(How::Free, |state| {
        if name.is_null() {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        // SAFETY: names end with a zero.
        let name = unsafe { CStr::from_ptr(name) };
        put(function, state.function(module, name)?)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuFuncLoad(function: Handle) -> CUresult {
    call(How::Alone, |state| {
        find(&mut state.functions, "function", function).map(drop)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuFuncGetAttribute(
    value: Out<'_, c_int>,
    attribute: u32,
    function: Handle,
) -> CUresult {
    const MOST_THREADS: u32 = 0;
    const SHARED_BYTES: u32 = 1;
    call(How::Free, |state| {
        let function = find(&mut state.functions, "function", function)?;
        let kernel = function.kernel.as_ref();
        let number = match attribute {
            MOST_THREADS => kernel.and_then(Kernel::most_threads).unwrap_or(1024) as c_int,
            SHARED_BYTES => kernel.map_or(0, Kernel::shared_bytes) as c_int,
            _ => 0,
        };
        put(value, number)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuFuncSetAttribute(function: Handle, attribute: u32, value: c_int) -> CUresult {
    const MOST_BROUGHT_BYTES: u32 = 8;
    call(How::Free, |state| {
        let function = find(&mut state.functions, "function", function)?;
        let named = function.kernel.as_ref().map_or(0, Kernel::shared_bytes);
        let asked = usize::try_from(value).ok();
        let asked = asked.filter(|asked| {
            attribute == MOST_BROUGHT_BYTES && asked.saturating_add(named) <= MOST_BROUGHT
        });
        let asked = asked.ok_or(CUDA_ERROR_INVALID_VALUE)?;
        function.most_brought.store(asked, Ordering::Relaxed);
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuFuncGetName(name: Out<'_, *const c_char>, function: Handle) -> CUresult {
    call(How::Free, |state| {
        // Functions stay where they are as long as their module is loaded.
        let function = find(&mut state.functions, "function", function)?;
        put(name, function.name.as_ptr())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuOccupancyMaxActiveBlocksPerMultiprocessor(
    blocks: Out<'_, c_int>,
    function: Handle,
    threads: c_int,
    shared: usize,
) -> CUresult {
    const MOST_BLOCKS: usize = 32;
    const MOST_THREADS: usize = 2048;
    const MOST_SHARED: usize = 228 << 10;
    /// What the driver takes for itself.
    const OWN_SHARED: usize = 1 << 10;
    call(How::Free, |state| {
        let function = find(&mut state.functions, "function", function)?;
        let shared = shared + function.kernel.as_ref().map_or(0, Kernel::shared_bytes);
        let threads = usize::try_from(threads).map_err(|_| CUDA_ERROR_INVALID_VALUE)?;
        let threads = MOST_THREADS.checked_div(threads);
        let fit = threads.ok_or(CUDA_ERROR_INVALID_VALUE)?;
        let fit = fit
            .min(MOST_SHARED / (shared + OWN_SHARED))
            .min(MOST_BLOCKS);
        put(blocks, fit as c_int)
    })
}

#[unsafe(no_mangle)]
#[allow(clippy::too_many_arguments, reason = "it is NVIDIA's")]
pub extern "C" fn cuLaunchKernel(
    function: Handle,
    groups_x: u32,
    groups_y: u32,
    groups_z: u32,
    threads_x: u32,
    threads_y: u32,
    threads_z: u32,
    shared: u32,
    stream: Handle,
    arguments: *const *const c_void,
    extra: *const *const c_void,
) -> CUresult {
    let asked = Asked {
        function,
        groups: [groups_x, groups_y, groups_z],
        threads: [threads_x, threads_y, threads_z],
        shared,
        arguments: arguments.expose_provenance(),
    };
    call(How::Shared, |state| {
        if !extra.is_null() {
            return Err(CUDA_ERROR_NOT_SUPPORTED);
        }
        let launch = state.asked(&asked)?;
        state.append(stream, Task::Launch(launch))
    })
}
