//! The driver by itself, with nothing of the device in between: what nothing on top of it can be faster than. The story and
//! the benchmarks measure the device beside it.

use std::ffi::CStr;
use std::sync::Arc;

use cudarc::driver::sys::{
    self, CUdevice, CUevent, CUevent_flags, CUfunction, CUgraphExec, CUmodule, CUresult, CUstream,
    CUstream_flags, CUstreamCaptureMode,
};
use streampool_device::Result;

use crate::context::{Context, Failure};

/// Kernels in the graph of a stream.
pub const GRAPH_NODES: usize = 10;

/// A kernel `nothing` that does nothing. Its target is as old as drivers still translate: it runs on every GPU that they do.
pub const TEXT: &CStr = c".version 6.0
.target sm_50
.address_size 64
.visible .entry nothing() { ret; }
";

/// The kernel, loaded.
struct Kernel {
    context: Arc<Context>,
    module: CUmodule,
    function: CUfunction,
}

// SAFETY: the driver's handles may be used from any thread.
unsafe impl Send for Kernel {}
// SAFETY: as above; nothing here changes.
unsafe impl Sync for Kernel {}

impl Kernel {
    fn load(context: &Arc<Context>) -> Result<Kernel, Failure> {
        let _bound = context.bind()?;
        let _alone = context.alone();
        let mut kernel = Kernel {
            context: context.clone(),
            module: std::ptr::null_mut(),
            function: std::ptr::null_mut(),
        };
        // SAFETY: the context is bound; the text ends with a zero, and one handle is written.
        let result = unsafe { sys::cuModuleLoadData(&mut kernel.module, TEXT.as_ptr().cast()) };
        context.check("cuModuleLoadData", result)?;
        let (function, module) = (&raw mut kernel.function, kernel.module);
        // SAFETY: the module was just loaded; the name ends with a zero, and one handle is written.
        let result = unsafe { sys::cuModuleGetFunction(function, module, c"nothing".as_ptr()) };
        context.check("cuModuleGetFunction", result)?;
        Ok(kernel)
    }
}

impl Drop for Kernel {
    fn drop(&mut self) {
        if let (false, Ok(_bound)) = (self.module.is_null(), self.context.bind()) {
            // SAFETY: it was loaded by `load`; the streams that launch it keep it alive.
            unsafe { sys::cuModuleUnload(self.module) };
        }
    }
}

/// A stream of the driver's with an event and a graph, for one thread at a time, in the context that all users of the GPU in
/// this process share.
pub struct BareStream {
    context: Arc<Context>,
    kernel: Arc<Kernel>,
    stream: CUstream,
    event: CUevent,
    graph: CUgraphExec,
}

// SAFETY: the driver's handles may be used from any thread.
unsafe impl Send for BareStream {}

impl BareStream {
    /// So many streams of the GPU of this number.
    pub fn open(ordinal: usize, count: usize) -> Result<Vec<BareStream>> {
        let context = Context::open(ordinal)?;
        let open = || {
            let kernel = Arc::new(Kernel::load(&context)?);
            let streams = (0..count).map(|_| BareStream::new(&context, &kernel));
            streams.collect::<Result<_, Failure>>()
        };
        open().map_err(|failure| context.error(failure))
    }

    fn new(context: &Arc<Context>, kernel: &Arc<Kernel>) -> Result<BareStream, Failure> {
        let _bound = context.bind()?;
        let mut bare = BareStream {
            context: context.clone(),
            kernel: kernel.clone(),
            stream: std::ptr::null_mut(),
            event: std::ptr::null_mut(),
            graph: std::ptr::null_mut(),
        };
        let _alone = context.alone();
        let flags = CUstream_flags::CU_STREAM_NON_BLOCKING as u32;
        // SAFETY: the context is bound; one handle is written.
        let result = unsafe { sys::cuStreamCreate(&mut bare.stream, flags) };
        context.check("cuStreamCreate", result)?;
        let flags = CUevent_flags::CU_EVENT_DISABLE_TIMING as u32;
        // SAFETY: as above.
        let result = unsafe { sys::cuEventCreate(&mut bare.event, flags) };
        context.check("cuEventCreate", result)?;
        bare.graph = bare.captured()?;
        Ok(bare)
    }

    /// A graph of as many empty kernels as [`GRAPH_NODES`] says.
    fn captured(&mut self) -> Result<CUgraphExec, Failure> {
        let mode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        // SAFETY: the stream is alive and idle.
        let result = unsafe { sys::cuStreamBeginCapture_v2(self.stream, mode) };
        self.context.check("cuStreamBeginCapture", result)?;
        let launched = (0..GRAPH_NODES).try_for_each(|_| {
            // SAFETY: the context is bound, and the stream this one's own.
            let result = unsafe { self.launch_on(self.stream) };
            self.context.check("cuLaunchKernel", result)
        });
        let (mut graph, mut executable) = (std::ptr::null_mut(), std::ptr::null_mut());
        // SAFETY: the capture was begun above; one handle is written.
        let result = unsafe { sys::cuStreamEndCapture(self.stream, &mut graph) };
        launched?;
        self.context.check("cuStreamEndCapture", result)?;
        // SAFETY: the graph was just captured; one handle is written.
        let result = unsafe { sys::cuGraphInstantiateWithFlags(&mut executable, graph, 0) };
        // SAFETY: nobody else has the graph, and the executable does not need it.
        unsafe { sys::cuGraphDestroy(graph) };
        self.context.check("cuGraphInstantiateWithFlags", result)?;
        Ok(executable)
    }

    /// Launches the empty kernel so often, and waits.
    pub fn launch(&mut self, times: usize) -> Result<()> {
        // SAFETY: `repeat` binds the context, and the stream is this one's own.
        let launch = |bare: &Self| unsafe { bare.launch_on(bare.stream) };
        self.repeat(times, "cuLaunchKernel", launch)
    }

    /// Launches the graph so often, and waits.
    pub fn replay(&mut self, times: usize) -> Result<()> {
        // SAFETY: graph and stream are alive.
        let launch = |bare: &Self| unsafe { sys::cuGraphLaunch(bare.graph, bare.stream) };
        self.repeat(times, "cuGraphLaunch", launch)
    }

    /// Records the event so often, and waits.
    pub fn record(&mut self, times: usize) -> Result<()> {
        // SAFETY: event and stream are alive.
        let record = |bare: &Self| unsafe { sys::cuEventRecord(bare.event, bare.stream) };
        self.repeat(times, "cuEventRecord", record)
    }

    #[inline]
    fn repeat(
        &mut self,
        times: usize,
        name: &'static str,
        call: impl Fn(&Self) -> CUresult,
    ) -> Result<()> {
        let _bound = self.bind()?;
        (0..times).try_for_each(|_| self.check(name, call(self)))?;
        // SAFETY: the stream is alive.
        self.check("cuStreamSynchronize", unsafe {
            sys::cuStreamSynchronize(self.stream)
        })
    }

    /// Launches the empty kernel on `stream`, with as few threads as the hardware runs together.
    ///
    /// # Safety
    /// The context is bound, and the stream is alive and one of it.
    #[inline]
    pub unsafe fn launch_on(&self, stream: CUstream) -> CUresult {
        const THREADS: u32 = 32;
        let (function, none) = (self.kernel.function, std::ptr::null_mut());
        // SAFETY: kernel and stream are alive, and the kernel takes no arguments.
        unsafe {
            sys::cuLaunchKernel(
                function,
                1,
                1,
                1,
                THREADS,
                1,
                1,
                0,
                stream,
                none,
                none.cast(),
            )
        }
    }

    /// Makes the context the thread's until the result is dropped, for other calls of the driver.
    #[inline]
    pub fn bind(&self) -> Result<impl Drop + use<>> {
        self.context
            .bind()
            .map_err(|failure| self.context.error(failure))
    }

    /// What a call of the driver came to.
    #[inline]
    pub fn check(&self, call: &'static str, result: CUresult) -> Result<()> {
        let checked = self.context.check(call, result);
        checked.map_err(|failure| self.context.error(failure))
    }

    /// Waits while somebody has launches held up, as the device does before each of its own.
    pub fn pass(&self) {
        self.context.pass();
    }

    /// Holds launches up until the result is dropped, as the device does for calls that need the driver's lock alone.
    pub fn alone(&self) -> impl Sized + '_ {
        self.context.alone()
    }

    /// The driver's handle of the stream.
    pub fn stream(&self) -> CUstream {
        self.stream
    }

    /// The driver's handle of the empty kernel.
    pub fn function(&self) -> CUfunction {
        self.kernel.function
    }

    /// The driver's handle of the GPU.
    pub fn device(&self) -> CUdevice {
        self.context.device()
    }
}

impl Drop for BareStream {
    fn drop(&mut self) {
        let Ok(_bound) = self.context.bind() else {
            return;
        };
        // SAFETY: each was made by `new`, or is null if that failed; nothing uses them any more, since every user waits for
        // what it asked for.
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

impl std::fmt::Debug for BareStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "BareStream({})", self.context.name)
    }
}
