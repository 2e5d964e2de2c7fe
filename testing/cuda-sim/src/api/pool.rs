//! The memory pool, and memory that is mapped to addresses.

use std::collections::BTreeMap;
use std::ffi::{c_int, c_void};
use std::sync::{Mutex, MutexGuard, PoisonError};

use cudarc::driver::sys::CUresult::{self, *};

use crate::driver::{How, call};
use crate::handle::{Handle, Out, Outcome, given, put};
use crate::memory::{Kind, map, open, unmap};

/// The one pool, and the most bytes that it keeps.
const POOL: Handle = 0xb001;
static THRESHOLD: Mutex<u64> = Mutex::new(0);
const RELEASE_THRESHOLD: u32 = 4;

/// What memory is mapped in multiples of.
const GRAIN: usize = 2 << 20;

/// Memory and addresses, before they come together.
struct Parts {
    /// The bytes of each piece of memory that was made and not released.
    memory: BTreeMap<Handle, usize>,
    /// The bytes of each range of addresses.
    addresses: BTreeMap<usize, usize>,
    /// What is mapped: the piece of memory at each address.
    mapped: BTreeMap<usize, (Handle, usize)>,
}

fn parts() -> MutexGuard<'static, Parts> {
    static PARTS: Mutex<Parts> = Mutex::new(Parts {
        memory: BTreeMap::new(),
        addresses: BTreeMap::new(),
        mapped: BTreeMap::new(),
    });
    PARTS.lock().unwrap_or_else(PoisonError::into_inner)
}

#[unsafe(no_mangle)]
pub extern "C" fn cuDeviceGetDefaultMemPool(pool: Out<'_, Handle>, device: c_int) -> CUresult {
    call(How::Free, |_| match device {
        0 => put(pool, POOL),
        _ => Err(CUDA_ERROR_INVALID_DEVICE),
    })
}

fn threshold(
    pool: Handle,
    attribute: u32,
    value: *mut c_void,
    work: impl FnOnce(*mut u64, &mut u64),
) -> CUresult {
    call(How::Free, |_| {
        if pool != POOL || attribute != RELEASE_THRESHOLD || value.is_null() {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        let mut kept = THRESHOLD.lock().unwrap_or_else(PoisonError::into_inner);
        work(value.cast(), &mut kept);
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemPoolGetAttribute(
    pool: Handle,
    attribute: u32,
    value: *mut c_void,
) -> CUresult {
    threshold(pool, attribute, value, |value, kept| {
        // SAFETY: the attribute is one number of 64 bits, for which the caller has room.
        unsafe { value.write(*kept) }
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemPoolSetAttribute(
    pool: Handle,
    attribute: u32,
    value: *mut c_void,
) -> CUresult {
    threshold(pool, attribute, value, |value, kept| {
        // SAFETY: the attribute is one number of 64 bits, which the caller gives.
        *kept = unsafe { value.read() };
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemPoolTrimTo(pool: Handle, _bytes: usize) -> CUresult {
    call(How::Free, |_| match pool {
        // It keeps nothing anyway.
        POOL => Ok(()),
        _ => Err(CUDA_ERROR_INVALID_VALUE),
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemGetAllocationGranularity(
    grain: Out<'_, usize>,
    _kind: *const c_void,
    _option: u32,
) -> CUresult {
    call(How::Free, |_| put(grain, GRAIN))
}

/// Fails unless it is some whole grains.
fn whole(bytes: usize) -> Outcome {
    match bytes > 0 && bytes.is_multiple_of(GRAIN) {
        true => Ok(()),
        false => Err(CUDA_ERROR_INVALID_VALUE),
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemAddressReserve(
    address: Out<'_, usize>,
    bytes: usize,
    _alignment: usize,
    _wanted: usize,
    _flags: u64,
) -> CUresult {
    call(How::Alone, |_| {
        whole(bytes)?;
        let to = given(address)?;
        let first = map(bytes, false).ok_or(CUDA_ERROR_OUT_OF_MEMORY)?;
        parts().addresses.insert(first, bytes);
        to.write(first);
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemAddressFree(address: usize, bytes: usize) -> CUresult {
    call(How::Alone, |_| {
        let mut parts = parts();
        let known = parts.addresses.get(&address) == Some(&bytes);
        if !known || parts.mapped.contains_key(&address) {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        parts.addresses.remove(&address);
        unmap(address, bytes);
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemCreate(
    memory: Out<'_, Handle>,
    bytes: usize,
    _kind: *const c_void,
    _flags: u64,
) -> CUresult {
    call(How::Alone, |state| {
        whole(bytes)?;
        let to = given(memory)?;
        state.memory.take(bytes)?;
        let handle = state.handle();
        parts().memory.insert(handle, bytes);
        to.write(handle);
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemRelease(memory: Handle) -> CUresult {
    call(How::Alone, |state| {
        let mut parts = parts();
        let bytes = parts.memory.remove(&memory);
        let bytes = bytes.ok_or(CUDA_ERROR_INVALID_VALUE)?;
        // A mapping keeps the memory.
        if !parts.mapped.values().any(|(mapped, _)| *mapped == memory) {
            state.memory.used -= bytes;
        }
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemMap(
    address: usize,
    bytes: usize,
    offset: usize,
    memory: Handle,
    _flags: u64,
) -> CUresult {
    call(How::Alone, |_| {
        let mut parts = parts();
        let fits = parts.addresses.get(&address) == Some(&bytes)
            && parts.memory.get(&memory) == Some(&bytes)
            && !parts.mapped.contains_key(&address);
        if !fits || offset != 0 {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        parts.mapped.insert(address, (memory, bytes));
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemSetAccess(
    address: usize,
    bytes: usize,
    _access: *const c_void,
    count: usize,
) -> CUresult {
    call(How::Alone, |state| {
        let mapped = parts().mapped.get(&address).map(|(_, bytes)| *bytes);
        if mapped != Some(bytes) || count != 1 {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        open(address, bytes, true);
        state.memory.add(address, bytes, Kind::Mapped);
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemUnmap(address: usize, bytes: usize) -> CUresult {
    call(How::Alone, |state| {
        let mut parts = parts();
        if parts.mapped.get(&address).map(|(_, bytes)| *bytes) != Some(bytes) {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        if state.memory.place(address, bytes).is_some() {
            state.memory.free(address, &[Kind::Mapped])?;
        }
        open(address, bytes, false);
        if let Some((memory, _)) = parts.mapped.remove(&address)
            && !parts.memory.contains_key(&memory)
        {
            state.memory.used -= bytes;
        }
        Ok(())
    })
}
