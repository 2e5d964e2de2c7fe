//! One thread's stream, with what it is asked to do.

use std::sync::Arc;

use cudarc::driver::sys::{
    self, CUevent, CUevent_flags, CUgraphExec, CUresult, CUstream, CUstream_flags,
    CUstreamCaptureMode,
};

use super::GRAPH_NODES;
use super::kernel::Kernel;
use crate::context::{Context, Failure};
use crate::memory::DeviceBlock;

/// A stream, an event and a graph, for one thread at a time, which has bound the context.
pub(super) struct Lane {
    context: Arc<Context>,
    kernel: Arc<Kernel>,
    stream: CUstream,
    event: CUevent,
    graph: CUgraphExec,
}

// SAFETY: the driver's handles may be used from any thread.
unsafe impl Send for Lane {}

impl Lane {
    pub fn new(context: &Arc<Context>, kernel: &Arc<Kernel>) -> Result<Lane, Failure> {
        let _bound = context.bind()?;
        let mut lane = Lane {
            context: context.clone(),
            kernel: kernel.clone(),
            stream: std::ptr::null_mut(),
            event: std::ptr::null_mut(),
            graph: std::ptr::null_mut(),
        };
        let _alone = context.alone();
        let flags = CUstream_flags::CU_STREAM_NON_BLOCKING as u32;
        // SAFETY: the context is bound; one handle is written.
        let result = unsafe { sys::cuStreamCreate(&mut lane.stream, flags) };
        context.check("cuStreamCreate", result)?;
        let flags = CUevent_flags::CU_EVENT_DISABLE_TIMING as u32;
        // SAFETY: as above.
        let result = unsafe { sys::cuEventCreate(&mut lane.event, flags) };
        context.check("cuEventCreate", result)?;
        lane.graph = lane.captured()?;
        Ok(lane)
    }

    pub fn stream(&self) -> CUstream {
        self.stream
    }

    fn captured(&mut self) -> Result<CUgraphExec, Failure> {
        let mode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        // SAFETY: the stream is alive and idle.
        let result = unsafe { sys::cuStreamBeginCapture_v2(self.stream, mode) };
        self.check("cuStreamBeginCapture", result)?;
        let launched = (0..GRAPH_NODES).try_for_each(|_| self.launch());
        let (mut graph, mut executable) = (std::ptr::null_mut(), std::ptr::null_mut());
        // SAFETY: the capture was begun above; one handle is written.
        let result = unsafe { sys::cuStreamEndCapture(self.stream, &mut graph) };
        launched?;
        self.check("cuStreamEndCapture", result)?;
        // SAFETY: the graph was just captured; one handle is written.
        let result = unsafe { sys::cuGraphInstantiateWithFlags(&mut executable, graph, 0) };
        // SAFETY: nobody else has the graph, and the executable does not need it.
        unsafe { sys::cuGraphDestroy(graph) };
        self.check("cuGraphInstantiateWithFlags", result)?;
        Ok(executable)
    }

    fn check(&self, call: &'static str, result: CUresult) -> Result<(), Failure> {
        self.context.check(call, result)
    }

    /// Launches the empty kernel.
    #[inline]
    pub fn launch(&mut self) -> Result<(), Failure> {
        let result = self.kernel.launch(self.stream);
        self.check("cuLaunchKernel", result)
    }

    /// Launches the graph.
    #[inline]
    pub fn replay(&mut self) -> Result<(), Failure> {
        // SAFETY: graph and stream are alive.
        let result = unsafe { sys::cuGraphLaunch(self.graph, self.stream) };
        self.check("cuGraphLaunch", result)
    }

    /// Records the event.
    #[inline]
    pub fn record(&mut self) -> Result<(), Failure> {
        // SAFETY: event and stream are alive.
        let result = unsafe { sys::cuEventRecord(self.event, self.stream) };
        self.check("cuEventRecord", result)
    }

    /// Allocates `bytes` in the stream's order and frees them.
    #[inline]
    pub fn allocate_and_free(&mut self, bytes: usize) -> Result<(), Failure> {
        let mut address = 0;
        // SAFETY: the stream is alive; one address is written.
        let result = unsafe { sys::cuMemAllocAsync(&mut address, bytes, self.stream) };
        self.check("cuMemAllocAsync", result)?;
        // SAFETY: it was just allocated, and nothing uses it.
        let result = unsafe { sys::cuMemFreeAsync(address, self.stream) };
        self.check("cuMemFreeAsync", result)
    }

    /// Copies the first `bytes` of one block to another.
    #[inline]
    pub fn copy(
        &mut self,
        src: &DeviceBlock,
        dst: &DeviceBlock,
        bytes: usize,
    ) -> Result<(), Failure> {
        assert!(bytes <= src.bytes().min(dst.bytes()));
        // SAFETY: both blocks are as long, and whoever has them waits before they are freed.
        let result =
            unsafe { sys::cuMemcpyDtoDAsync_v2(dst.address(), src.address(), bytes, self.stream) };
        self.check("cuMemcpyDtoDAsync", result)
    }

    /// Waits for everything asked for so far.
    #[inline]
    pub fn wait(&mut self) -> Result<(), Failure> {
        // SAFETY: the stream is alive.
        let result = unsafe { sys::cuStreamSynchronize(self.stream) };
        self.check("cuStreamSynchronize", result)
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        let Ok(_bound) = self.context.bind() else {
            return;
        };
        // SAFETY: each was made by `new`, or is null if that failed; nothing uses them any more, since every
        // user waits for what it asked for.
        unsafe {
            if !self.graph.is_null() {
                sys::cuGraphExecDestroy(self.graph);
            }
            if !self.event.is_null() {
                sys::cuEventDestroy_v2(self.event);
            }
            if !self.stream.is_null() {
                sys::cuStreamDestroy_v2(self.stream);
            }
        }
    }
}
