//! Events.

use cudarc::driver::sys::CUresult::{self, *};

use crate::driver::{How, call, state, told};
use crate::gpu::{self};
use crate::handle::{Handle, Out, find, given, put};
use crate::objects::{Event, Latest};
use crate::settings::{may_free, may_wait};

const DISABLE_TIMING: u32 = 2;

#[unsafe(no_mangle)]
pub extern "C" fn cuEventCreate(event: Out<'_, Handle>, flags: u32) -> CUresult {
    call(How::Alone, |state| {
        let to = given(event)?;
        let handle = state.handle();
        let made = Event {
            timing: flags & DISABLE_TIMING == 0,
            latest: Latest::Never,
        };
        state.events.insert(handle, made);
        to.write(handle);
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuEventDestroy_v2(event: Handle) -> CUresult {
    call(How::Alone, |state| {
        find(&mut state.events, "event", event)?;
        may_free()?;
        state.events.remove(&event);
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuEventRecord(event: Handle, stream: Handle) -> CUresult {
    call(How::Shared, |state| state.record(event, stream))
}

#[unsafe(no_mangle)]
pub extern "C" fn cuStreamWaitEvent(stream: Handle, event: Handle, _flags: u32) -> CUresult {
    call(How::Shared, |state| state.wait_event(stream, event))
}

#[unsafe(no_mangle)]
pub extern "C" fn cuEventQuery(event: Handle) -> CUresult {
    call(How::Free, |state| match state.ask_event(event)? {
        Some(recording) if !recording.is_over() => Err(CUDA_ERROR_NOT_READY),
        _ => Ok(()),
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuEventSynchronize(event: Handle) -> CUresult {
    let mut recording = None;
    let asked = call(How::Free, |state| {
        let latest = state.ask_event(event)?;
        may_wait()?;
        recording = latest;
        Ok(())
    });
    match recording {
        Some(recording) => told(gpu::wait(state(), |_| recording.is_over()).1),
        None => asked,
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn cuEventElapsedTime_v2(
    milliseconds: Out<'_, f32>,
    start: Handle,
    end: Handle,
) -> CUresult {
    call(How::Free, |state| {
        let mut at = |event| {
            let event = find(&mut state.events, "event", event)?;
            match &event.latest {
                Latest::Recorded(recording) if event.timing => recording.at(),
                _ => Err(CUDA_ERROR_INVALID_HANDLE),
            }
        };
        let (start, end) = (at(start)?, at(end)?);
        let later = end.saturating_duration_since(start).as_secs_f64();
        let earlier = start.saturating_duration_since(end).as_secs_f64();
        put(milliseconds, ((later - earlier) * 1e3) as f32)
    })
}
