//! Streams and captures.

use std::ffi::c_int;

use cudarc::driver::sys::CUresult::{self, *};

use super::memory::wait_for;
use crate::driver::{How, call};
use crate::handle::{Handle, Out, given, put};
use crate::objects::Stream;
use crate::settings::{may_free, may_wait};

const NON_BLOCKING: u32 = 1;
const PRIORITIES: std::ops::RangeInclusive<c_int> = -5..=0;

#[unsafe(no_mangle)]
pub extern "C" fn cuStreamCreate(stream: Out<'_, Handle>, flags: u32) -> CUresult {
    cuStreamCreateWithPriority(stream, flags, 0)
}

#[unsafe(no_mangle)]
pub extern "C" fn cuStreamCreateWithPriority(
    stream: Out<'_, Handle>,
    flags: u32,
    priority: c_int,
) -> CUresult {
    call(How::Alone, |state| {
        if flags > NON_BLOCKING {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        let to = given(stream)?;
        let handle = state.handle();
        let priority = priority.clamp(*PRIORITIES.start(), *PRIORITIES.end());
        state.streams.insert(handle, Stream::new(priority));
        to.write(handle);
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuStreamDestroy_v2(stream: Handle) -> CUresult {
    call(How::Alone, |state| {
        state.stream(stream)?;
        may_free()?;
        state.destroy_stream(stream)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuStreamQuery(stream: Handle) -> CUresult {
    call(How::Free, |state| {
        state.ask_stream(stream)?;
        match state.stream(stream)?.is_idle() {
            true => Ok(()),
            false => Err(CUDA_ERROR_NOT_READY),
        }
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuStreamSynchronize(stream: Handle) -> CUresult {
    let mut last = 0;
    let asked = call(How::Free, |state| {
        state.ask_stream(stream)?;
        may_wait()?;
        [last, _] = state.stream(stream)?.progress();
        Ok(())
    });
    match asked {
        CUDA_SUCCESS => wait_for(stream, last).err().unwrap_or(CUDA_SUCCESS),
        other => other,
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn cuStreamBeginCapture_v2(stream: Handle, mode: u32) -> CUresult {
    call(How::Alone, |state| state.begin_capture(stream, mode))
}

#[unsafe(no_mangle)]
pub extern "C" fn cuStreamEndCapture(stream: Handle, graph: Out<'_, Handle>) -> CUresult {
    call(How::Free, |state| {
        let graph = given(graph)?;
        let ended = state.end_capture(stream);
        graph.write(*ended.as_ref().unwrap_or(&0));
        ended.map(drop)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuStreamIsCapturing(stream: Handle, status: Out<'_, u32>) -> CUresult {
    call(How::Free, |state| {
        put(status, state.capture_status(stream)?)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuStreamGetId(stream: Handle, id: Out<'_, u64>) -> CUresult {
    // Handles are not used again here.
    call(How::Free, |state| {
        state.stream(stream)?;
        put(id, stream as u64)
    })
}
