//! The driver itself, its one GPU, and contexts.

use std::collections::BTreeMap;
use std::ffi::{CString, c_char, c_int, c_void};
use std::sync::{Mutex, PoisonError};

use cudarc::driver::sys::CUdevice_attribute_enum as Attribute;
use cudarc::driver::sys::CUresult::{self, *};

use crate::driver::{
    CALLS, How, Live, MODE, call, current_context, pop_context, push_context, state, told,
};
use crate::gpu;
use crate::handle::{Handle, Out, Outcome, given, put};
use crate::memory::capacity;
use crate::module::MOST_SHARED;
use crate::settings::settings;

const VERSION: c_int = 13_000;
const NAME: &[u8] = b"Imitation GPU\0";

#[unsafe(no_mangle)]
pub extern "C" fn cuInit(flags: u32) -> CUresult {
    // As where it names no GPU.
    if std::env::var("CUDA_VISIBLE_DEVICES").is_ok_and(|visible| visible.is_empty()) {
        return CUDA_ERROR_NO_DEVICE;
    }
    match flags {
        0 => {
            state().started = true;
            CUDA_SUCCESS
        }
        _ => CUDA_ERROR_INVALID_VALUE,
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn cuDriverGetVersion(version: Out<'_, c_int>) -> CUresult {
    told(put(version, VERSION))
}

/// The text of a result, which stays for ever.
fn text(result: CUresult, words: bool) -> *const c_char {
    static TEXTS: Mutex<BTreeMap<(i32, bool), CString>> = Mutex::new(BTreeMap::new());
    let mut texts = TEXTS.lock().unwrap_or_else(PoisonError::into_inner);
    let text = texts.entry((result as i32, words)).or_insert_with(|| {
        let name = format!("{result:?}");
        let said = name
            .trim_start_matches("CUDA_")
            .trim_start_matches("ERROR_");
        let said = said.replace('_', " ").to_lowercase();
        CString::new(if words { said } else { name }).unwrap_or_default()
    });
    text.as_ptr()
}

#[unsafe(no_mangle)]
pub extern "C" fn cuGetErrorName(result: CUresult, name: Out<'_, *const c_char>) -> CUresult {
    told(put(name, text(result, false)))
}

#[unsafe(no_mangle)]
pub extern "C" fn cuGetErrorString(result: CUresult, words: Out<'_, *const c_char>) -> CUresult {
    told(put(words, text(result, true)))
}

/// Fails before the driver is started, and for other GPUs than the one there is.
fn known(device: c_int) -> Outcome {
    match (state().started, device) {
        (false, _) => Err(CUDA_ERROR_NOT_INITIALIZED),
        (true, 0) => Ok(()),
        _ => Err(CUDA_ERROR_INVALID_DEVICE),
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn cuDeviceGetCount(count: Out<'_, c_int>) -> CUresult {
    told(known(0).and_then(|()| put(count, 1)))
}

#[unsafe(no_mangle)]
pub extern "C" fn cuDeviceGet(device: Out<'_, c_int>, ordinal: c_int) -> CUresult {
    told(known(ordinal).and_then(|()| put(device, ordinal)))
}

#[unsafe(no_mangle)]
pub extern "C" fn cuDeviceGetName(name: *mut u8, length: c_int, device: c_int) -> CUresult {
    if let Err(why) = known(device) {
        return why;
    }
    if name.is_null() || (length as usize) < NAME.len() || length < 0 {
        return CUDA_ERROR_INVALID_VALUE;
    }
    // SAFETY: the caller has room for `length` bytes, and there are fewer.
    unsafe { name.copy_from_nonoverlapping(NAME.as_ptr(), NAME.len()) };
    CUDA_SUCCESS
}

#[unsafe(no_mangle)]
pub extern "C" fn cuDeviceTotalMem_v2(bytes: Out<'_, usize>, device: c_int) -> CUresult {
    told(known(device).and_then(|()| put(bytes, settings().memory)))
}

#[unsafe(no_mangle)]
pub extern "C" fn cuDeviceGetAttribute(
    value: Out<'_, c_int>,
    attribute: Attribute,
    device: c_int,
) -> CUresult {
    let number = match attribute {
        Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR => 9,
        Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR => 0,
        Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT => 4,
        Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK => MOST_SHARED as c_int,
        Attribute::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK => 1024,
        Attribute::CU_DEVICE_ATTRIBUTE_WARP_SIZE => 32,
        Attribute::CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING => 1,
        Attribute::CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED => 1,
        _ => 0,
    };
    told(known(device).and_then(|()| put(value, number)))
}

#[unsafe(no_mangle)]
pub extern "C" fn cuDeviceCanAccessPeer(
    can: Out<'_, c_int>,
    device: c_int,
    peer: c_int,
) -> CUresult {
    let both = known(device).and_then(|()| known(peer));
    told(both.and_then(|()| put(can, 0)))
}

#[unsafe(no_mangle)]
pub extern "C" fn cuCtxEnablePeerAccess(_peer: Handle, _flags: u32) -> CUresult {
    CUDA_ERROR_PEER_ACCESS_UNSUPPORTED
}

#[unsafe(no_mangle)]
pub extern "C" fn cuDevicePrimaryCtxRetain(context: Out<'_, Handle>, device: c_int) -> CUresult {
    let retain = || {
        known(device)?;
        let context = given(context)?;
        gpu::start();
        let mut state = state();
        if state.retained == 0 {
            state.context = state.handle();
        }
        state.retained += 1;
        context.write(state.context);
        Ok(())
    };
    told(retain())
}

#[unsafe(no_mangle)]
pub extern "C" fn cuDevicePrimaryCtxRelease_v2(device: c_int) -> CUresult {
    let release = || {
        known(device)?;
        let mut state = state();
        if state.retained == 0 {
            return Err(CUDA_ERROR_INVALID_CONTEXT);
        }
        if state.retained == 1 {
            let idle = gpu::wait(state, |state| {
                state.streams.values().all(|one| one.is_idle())
            });
            state = idle.0;
            // After a loss something may still run, and all is gone with the process.
            if idle.1.is_ok() {
                state.end_context();
            }
        }
        state.retained -= 1;
        Ok(())
    };
    told(release())
}

/// There is no context beside the primary one.
#[unsafe(no_mangle)]
pub extern "C" fn cuCtxCreate_v4(
    _context: Out<'_, Handle>,
    _params: *const c_void,
    _flags: u32,
    _device: c_int,
) -> CUresult {
    CUDA_ERROR_NOT_SUPPORTED
}

#[unsafe(no_mangle)]
pub extern "C" fn cuCtxGetCurrent(context: Out<'_, Handle>) -> CUresult {
    told(put(context, current_context().unwrap_or(0)))
}

#[unsafe(no_mangle)]
pub extern "C" fn cuCtxSetCurrent(context: Handle) -> CUresult {
    if context != 0 && context != state().context {
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    }
    pop_context();
    told(push_context(context))
}

#[unsafe(no_mangle)]
pub extern "C" fn cuCtxPushCurrent_v2(context: Handle) -> CUresult {
    if context == 0 || context != state().context {
        return CUDA_ERROR_INVALID_CONTEXT;
    }
    told(push_context(context))
}

#[unsafe(no_mangle)]
pub extern "C" fn cuCtxPopCurrent_v2(context: Out<'_, Handle>) -> CUresult {
    match pop_context() {
        None => CUDA_ERROR_INVALID_CONTEXT,
        // Nobody has to want it.
        Some(popped) => {
            context.map(|to| to.write(popped));
            CUDA_SUCCESS
        }
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn cuCtxGetStreamPriorityRange(
    least: Out<'_, c_int>,
    greatest: Out<'_, c_int>,
) -> CUresult {
    call(How::Free, |_| {
        // Nobody has to want either.
        least.map(|to| to.write(0));
        greatest.map(|to| to.write(-5));
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuThreadExchangeStreamCaptureMode(mode: Option<&mut u32>) -> CUresult {
    told(match mode {
        Some(mode) if *mode <= crate::objects::RELAXED => {
            *mode = MODE.replace(*mode);
            Ok(())
        }
        _ => Err(CUDA_ERROR_INVALID_VALUE),
    })
}

/// How many calls the calling thread has made; the driver has no such function.
#[unsafe(no_mangle)]
pub extern "C" fn cudaSimCalls() -> u64 {
    CALLS.get()
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemGetInfo_v2(free: Out<'_, usize>, total: Out<'_, usize>) -> CUresult {
    call(How::Free, |state| {
        put(free, capacity() - state.memory.used)?;
        put(total, settings().memory)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuPointerGetAttribute(
    value: *mut c_void,
    attribute: u32,
    address: usize,
) -> CUresult {
    const CONTEXT: u32 = 1;
    const MEMORY_TYPE: u32 = 2;
    const ADDRESSES: std::ops::RangeInclusive<u32> = 3..=4;
    call(How::Free, |state| {
        let place = state.memory.place(address, 1);
        let place = place.filter(|_| !value.is_null());
        let place = place.ok_or(CUDA_ERROR_INVALID_VALUE)?;
        // SAFETY: the caller has room for the attribute, whose size is its kind's.
        unsafe {
            match attribute {
                CONTEXT => value.cast::<usize>().write(state.context),
                MEMORY_TYPE => value
                    .cast::<u32>()
                    .write(2 - u32::from(place.kind.is_host())),
                number if ADDRESSES.contains(&number) => value.cast::<usize>().write(address),
                _ => return Err(CUDA_ERROR_NOT_SUPPORTED),
            }
        }
        Ok(())
    })
}

/// How many objects live: of the imitation only.
#[unsafe(no_mangle)]
pub extern "C" fn cudaSimLive(live: Out<'_, Live>) -> CUresult {
    told(put(live, state().live()))
}

/// Loses the GPU: of the imitation only.
#[unsafe(no_mangle)]
pub extern "C" fn cudaSimLose() {
    gpu::lose();
}
