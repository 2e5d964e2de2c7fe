//! Memory and copies.

use std::ffi::c_void;

use cudarc::driver::sys::CUresult::{self, *};

use crate::driver::{How, State, call, state, told};
use crate::gpu::{self};
use crate::handle::{Handle, Out, Outcome, given, put};
use crate::memory::Kind;
use crate::objects::{Command, Copy, Task, Work};
use crate::settings::may_free;

fn allocate(to: Out<'_, usize>, bytes: usize, kind: Kind) -> CUresult {
    call(How::Alone, |state| {
        state.unsafe_call()?;
        let to = given(to)?;
        to.write(state.memory.allocate(bytes, kind)?);
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemAlloc_v2(address: Out<'_, usize>, bytes: usize) -> CUresult {
    allocate(address, bytes, Kind::Device)
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemHostAlloc(address: Out<'_, usize>, bytes: usize, _flags: u32) -> CUresult {
    allocate(address, bytes, Kind::Pinned)
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemFree_v2(address: usize) -> CUresult {
    call(How::Alone, |state| {
        state.unsafe_call()?;
        if address == 0 {
            return Ok(());
        }
        may_free()?;
        state.memory.free(address, &[Kind::Device, Kind::Pooled])
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemFreeHost(address: usize) -> CUresult {
    call(How::Alone, |state| {
        state.unsafe_call()?;
        may_free()?;
        state.memory.free(address, &[Kind::Pinned])
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemHostRegister_v2(memory: *mut c_void, bytes: usize, _flags: u32) -> CUresult {
    let address = memory.expose_provenance();
    call(How::Alone, |state| {
        state.unsafe_call()?;
        if address == 0 || bytes == 0 {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        if state
            .memory
            .place(address, 0)
            .is_some_and(|place| place.bytes > 0)
        {
            return Err(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
        }
        state.memory.add(address, bytes, Kind::Registered);
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemHostUnregister(memory: *mut c_void) -> CUresult {
    call(How::Alone, |state| {
        state.unsafe_call()?;
        let freed = state.memory.free(memory.addr(), &[Kind::Registered]);
        freed.map_err(|_| CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED)
    })
}

/// Whether `address` is the host's own, which the GPU does not reach.
fn is_pageable(state: &State, address: usize, bytes: usize) -> Outcome<bool> {
    match state.memory.place(address, bytes) {
        Some(place) if !place.kind.is_host() => Err(CUDA_ERROR_INVALID_VALUE),
        place => Ok(place.is_none()),
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemcpyHtoDAsync_v2(
    to: usize,
    from: *const u8,
    bytes: usize,
    stream: Handle,
) -> CUresult {
    let address = from.expose_provenance();
    call(How::Shared, |state| {
        let task = match is_pageable(state, address, bytes)? {
            false => Task::Copy {
                to,
                from: address,
                bytes,
            },
            true => {
                if from.is_null() {
                    return Err(CUDA_ERROR_INVALID_VALUE);
                }
                state.not_captured(stream)?;
                // SAFETY: the caller gives so many bytes, which are taken before the call returns.
                let bytes = unsafe { std::slice::from_raw_parts(from, bytes) };
                Task::Staged {
                    to,
                    bytes: bytes.to_vec(),
                }
            }
        };
        state.append(stream, task)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemcpyDtoHAsync_v2(
    to: *mut u8,
    from: usize,
    bytes: usize,
    stream: Handle,
) -> CUresult {
    let address = to.expose_provenance();
    let mut last = None;
    let outcome = call(How::Shared, |state| {
        if !is_pageable(state, address, bytes)? {
            return state.append(
                stream,
                Task::Copy {
                    to: address,
                    from,
                    bytes,
                },
            );
        }
        state.not_captured(stream)?;
        let place = state.memory.place(from, bytes);
        let place = place.filter(|_| address != 0);
        let copy = Copy {
            to: address,
            from,
            bytes,
            staged: None,
            _kept: [Some(place.ok_or(CUDA_ERROR_INVALID_VALUE)?), None],
        };
        let stream = state.stream(stream)?;
        stream.append(Command::Work(Work::Copy(copy)));
        last = Some(stream.progress()[0]);
        Ok(())
    });
    // Bytes for memory that the GPU does not reach are waited for.
    match last {
        Some(last) => told(wait_for(stream, last)),
        None => outcome,
    }
}

/// Waits until the stream has done so much.
pub(super) fn wait_for(handle: Handle, count: u64) -> Outcome {
    let over = |state: &State| {
        let stream = state.streams.get(&handle);
        stream.is_none_or(|stream| stream.progress()[1] >= count)
    };
    gpu::wait(state(), over).1
}

/// Between memory that was allocated or registered: what else an address may stand for is not known.
#[unsafe(no_mangle)]
pub extern "C" fn cuMemcpyAsync(to: usize, from: usize, bytes: usize, stream: Handle) -> CUresult {
    let task = Task::Copy { to, from, bytes };
    call(How::Shared, |state| state.append(stream, task))
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemcpyDtoDAsync_v2(
    to: usize,
    from: usize,
    bytes: usize,
    stream: Handle,
) -> CUresult {
    cuMemcpyAsync(to, from, bytes, stream)
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemAllocAsync(
    address: Out<'_, usize>,
    bytes: usize,
    stream: Handle,
) -> CUresult {
    call(How::Shared, |state| {
        state.not_captured(stream)?;
        let memory = state.memory.allocate(bytes, Kind::Pooled)?;
        put(address, memory)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemFreeAsync(address: usize, stream: Handle) -> CUresult {
    call(How::Shared, |state| {
        state.not_captured(stream)?;
        state.memory.leave(address)?;
        state.stream(stream)?.append(Command::Free(address));
        Ok(())
    })
}
