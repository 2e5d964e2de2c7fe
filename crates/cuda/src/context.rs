//! The context: one GPU as this process uses it, and whether it is still alive.

use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use cudarc::driver::sys::{
    self, CUcontext, CUdevice, CUdevice_attribute as Attribute, CUdeviceptr, CUgraph, CUgraphExec,
    CUresult, CUstream, CUstreamCaptureMode,
};
use streampool_device::{Error, Process, Result};

use crate::driver;
use crate::gate::{Gate, Shut};
use crate::retired::{Object, Retired};

/// The primary context of one GPU, shared with every other user of the driver in this process.
#[derive(Debug)]
pub(crate) struct Context {
    /// The name of the device in messages.
    pub name: String,
    device: CUdevice,
    raw: CUcontext,
    process: Process,
    lost: OnceLock<String>,
    gate: Arc<Gate>,
    retired: Retired,
    /// Bytes of device memory that the device has for its own use.
    pub own: AtomicUsize,
}

/// When more graphs than this are retired, some are destroyed without waiting for the next that is made.
const MOST_RETIRED_GRAPHS: usize = 16;

/// At most so many are given back while the gate is shut once: to free memory takes 60 microseconds, and launches wait.
const MOST_AT_ONCE: usize = 4;

/// While this lives the context is the thread's. Then the thread has the one that it had before, unless that was none: a
/// thread that had none loses nothing by keeping this one.
#[must_use = "the context is the thread's until this is dropped"]
pub(crate) struct Bound(CUcontext);

impl Drop for Bound {
    #[inline]
    fn drop(&mut self) {
        if !self.0.is_null() {
            // SAFETY: it was this thread's context before, and is its owner's to keep alive.
            unsafe { sys::cuCtxSetCurrent(self.0) };
        }
    }
}

/// While this lives launches wait for this thread, which is exempt.
pub(crate) type Alone<'a> = (Shut<'a>, Exempt);

/// While this lives the thread is exempt; then its mode is what it was.
#[must_use = "the thread is exempt until this is dropped"]
pub(crate) struct Exempt(Option<CUstreamCaptureMode>, PhantomData<*const ()>);

impl Drop for Exempt {
    #[inline]
    fn drop(&mut self) {
        if let Some(mut mode) = self.0 {
            // SAFETY: it puts back what was exchanged on this thread.
            unsafe { sys::cuThreadExchangeStreamCaptureMode(&mut mode) };
        }
    }
}

// SAFETY: the driver's handles may be used from any thread.
unsafe impl Send for Context {}
// SAFETY: as above; what is mutable here is a `OnceLock`.
unsafe impl Sync for Context {}

/// Why the driver does not do what it was to do.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Failure {
    /// It was not even asked: what it was to do could not be prepared.
    Unprepared(Error),
    /// The call failed and left everything as it was.
    Call(&'static str, CUresult),
    /// The device is gone.
    Lost(String),
}

impl Context {
    /// Opens the GPU of this number.
    pub fn open(ordinal: usize) -> Result<Arc<Context>> {
        let unavailable = |why: String| Error::Unavailable {
            device: driver::name(ordinal),
            why,
        };
        driver::start().map_err(unavailable)?;
        let count = driver::count().map_err(unavailable)?;
        if ordinal >= count {
            return Err(unavailable(format!(
                "there is no GPU {ordinal}: the driver shows {count}, numbered from 0"
            )));
        }
        let call = |result: CUresult, what: &str| match result {
            CUresult::CUDA_SUCCESS => Ok(()),
            other => Err(unavailable(format!("{what}: {}", driver::message(other)))),
        };
        let (mut device, mut raw) = (0, std::ptr::null_mut());
        // SAFETY: the driver is started and the number is one of its GPUs.
        let result = unsafe { sys::cuDeviceGet(&mut device, ordinal as i32) };
        call(result, "the GPU is not to be had")?;
        let gate = gate_of(device);
        {
            let _alone = gate.shut();
            // SAFETY: the GPU is there; it writes one handle.
            let result = unsafe { sys::cuDevicePrimaryCtxRetain(&mut raw, device) };
            call(result, "the GPU cannot be opened")?;
        }
        Ok(Arc::new(Context {
            name: driver::unused_name(ordinal),
            device,
            raw,
            process: Process::current(),
            lost: OnceLock::new(),
            gate,
            retired: Retired::default(),
            own: AtomicUsize::new(0),
        }))
    }

    /// Makes it this thread's context, what a driver call that names no stream works on, until the result is dropped. Fails
    /// once the device is lost.
    #[inline]
    pub fn bind(&self) -> Result<Bound, Failure> {
        self.check_alive()?;
        let mut current = std::ptr::null_mut();
        // SAFETY: it writes one pointer.
        unsafe { sys::cuCtxGetCurrent(&mut current) };
        if current == self.raw {
            return Ok(Bound(std::ptr::null_mut()));
        }
        // SAFETY: the context is retained as long as this lives.
        let result = unsafe { sys::cuCtxSetCurrent(self.raw) };
        self.check("cuCtxSetCurrent", result)?;
        Ok(Bound(current))
    }

    /// Exempts this thread, until the result is dropped, from what another user of the driver forbids while it captures in
    /// global mode. Without that, calls that ask or wait fail, and spoil the capture.
    #[inline]
    pub fn exempt(&self) -> Exempt {
        let mut mode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
        // SAFETY: it exchanges this thread's mode for the one given.
        let result = unsafe { sys::cuThreadExchangeStreamCaptureMode(&mut mode) };
        let before = (result == CUresult::CUDA_SUCCESS).then_some(mode);
        Exempt(before, PhantomData)
    }

    /// What the driver says of a stream of this context that lives.
    #[inline]
    pub fn query(&self, stream: CUstream) -> CUresult {
        let _exempt = self.exempt();
        // SAFETY: the stream is alive.
        unsafe { sys::cuStreamQuery(stream) }
    }

    /// Comes before a launch: whoever needs the driver's lock alone goes first. The caller holds nothing that a call
    /// with the gate shut waits for.
    #[inline]
    pub fn pass(&self) {
        self.gate.pass();
    }

    /// Whether a call needs the driver's lock alone now.
    pub fn is_shut(&self) -> bool {
        self.gate.is_shut()
    }

    /// Has launches wait until the result is dropped. It is held during calls that need the driver's lock alone
    /// (docs/src/cuda.md has the list), and never while this thread waits for another.
    pub fn alone(&self) -> Alone<'_> {
        (self.gate.shut(), self.exempt())
    }

    /// Frees device memory, when the next is allocated: to free it may wait for the GPU, and not everybody may.
    ///
    /// # Safety
    /// It came from `cuMemAlloc` in this context with so many bytes, and nothing uses it any more.
    pub unsafe fn retire(&self, address: CUdeviceptr, bytes: usize) {
        self.retired.add_memory(address, bytes);
    }

    /// Destroys a graph that can be launched, when the next is made, or some of those that wait if they are many: each time
    /// the gate is shut, launches wait. The context is bound.
    ///
    /// # Safety
    /// It is of this context, and nobody will launch it any more.
    pub unsafe fn retire_graph(&self, graph: CUgraphExec) {
        if self.retired.add([Object::Exec(graph)]) > MOST_RETIRED_GRAPHS {
            let _alone = self.alone();
            self.destroy_some();
        }
    }

    /// Destroys a graph that others were made of. The context is bound.
    ///
    /// # Safety
    /// It is of this context, and nobody uses it any more.
    pub unsafe fn destroy_graph(&self, graph: CUgraph) {
        // SAFETY: the caller vouches for it. This needs the driver's lock for no time.
        if driver::is_refused(unsafe { sys::cuGraphDestroy(graph) }) {
            self.retired.add([Object::Graph(graph)]);
        }
    }

    /// Destroys these now. The context is bound.
    ///
    /// # Safety
    /// They are of this context, work that uses them is over, and nobody does so any more.
    pub unsafe fn destroy(&self, objects: impl IntoIterator<Item = Object>) {
        self.retired.add(objects);
        self.destroy_retired();
    }

    /// Frees the memory that was retired, and lets launches through in between. What the driver keeps now counts, and is
    /// tried again with the next. The context is bound.
    pub fn free_retired(&self) {
        for _ in 0..self.retired.pieces().div_ceil(MOST_AT_ONCE) {
            let _alone = self.alone();
            self.free_some();
        }
    }

    /// Frees some of it, for whoever has the gate shut anyway.
    pub fn free_some(&self) {
        self.retired.free(MOST_AT_ONCE, &self.own);
    }

    /// Destroys what else was retired, as [`free_retired`](Self::free_retired) frees memory.
    pub fn destroy_retired(&self) {
        for _ in 0..self.retired.objects().div_ceil(MOST_AT_ONCE) {
            let _alone = self.alone();
            self.destroy_some();
        }
    }

    /// Destroys some of it, for whoever has the gate shut anyway.
    pub fn destroy_some(&self) {
        self.retired.destroy(MOST_AT_ONCE);
    }

    /// A call of a library that may load its kernels the first time, which takes the driver's lock alone.
    #[inline]
    pub fn call<T, E>(
        &self,
        before: &AtomicBool,
        call: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, E> {
        if before.load(Ordering::Relaxed) {
            return call();
        }
        let _alone = self.alone();
        let done = call()?;
        before.store(true, Ordering::Relaxed);
        Ok(done)
    }

    /// Fails once the device is lost.
    #[inline]
    pub fn check_alive(&self) -> Result<(), Failure> {
        match self.lost.get() {
            None => Ok(()),
            Some(why) => Err(Failure::Lost(why.clone())),
        }
    }

    /// Whether the device is lost.
    pub fn is_lost(&self) -> bool {
        self.lost.get().is_some()
    }

    /// Fails in a process forked from the one that opened the device: the driver does not work there.
    pub fn check_process(&self) -> Result<()> {
        if self.process.is_current() {
            return Ok(());
        }
        Err(Error::DeviceLost(
            "this process is a fork of the one that opened the device: open it after the fork"
                .to_owned(),
        ))
    }

    /// What a driver call came to. A result after which nothing works any more loses the device.
    #[inline]
    pub fn check(&self, call: &'static str, result: CUresult) -> Result<(), Failure> {
        match result {
            CUresult::CUDA_SUCCESS => Ok(()),
            other => Err(self.failure(call, other)),
        }
    }

    #[cold]
    fn failure(&self, call: &'static str, result: CUresult) -> Failure {
        if !driver::is_fatal(result) {
            return Failure::Call(call, result);
        }
        let why = self
            .lost
            .get_or_init(|| format!("{}: {call} reports: {}", self.name, driver::message(result)));
        Failure::Lost(why.clone())
    }

    /// An attribute of the GPU.
    pub fn attribute(&self, attribute: Attribute) -> Result<usize, Failure> {
        let mut value = 0;
        // SAFETY: it writes one integer.
        let result = unsafe { sys::cuDeviceGetAttribute(&mut value, attribute, self.device) };
        self.check("cuDeviceGetAttribute", result)?;
        Ok(usize::try_from(value).unwrap_or(0))
    }

    /// The GPU's compute capability, as `(9, 0)`.
    pub fn capability(&self) -> Result<(usize, usize), Failure> {
        let major = self.attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?;
        let minor = self.attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?;
        Ok((major, minor))
    }

    /// The driver's handle of the GPU.
    pub fn device(&self) -> CUdevice {
        self.device
    }

    /// The driver's handle of the context.
    pub fn raw(&self) -> CUcontext {
        self.raw
    }

    /// A failed call as the contract's error.
    pub fn error(&self, failure: Failure) -> Error {
        match failure {
            Failure::Unprepared(error) => error,
            Failure::Lost(why) => Error::DeviceLost(why),
            Failure::Call(call, result) => Error::Driver {
                device: self.name.clone(),
                call,
                message: driver::message(result),
            },
        }
    }
}

/// The gate of a GPU, which all who open it share, as they share its context.
fn gate_of(device: CUdevice) -> Arc<Gate> {
    static GATES: Mutex<Vec<(CUdevice, Arc<Gate>)>> = Mutex::new(Vec::new());
    let mut gates = GATES.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, gate)) = gates.iter().find(|(known, _)| *known == device) {
        return gate.clone();
    }
    let gate = Arc::new(Gate::default());
    gates.push((device, gate.clone()));
    gate
}

impl Drop for Context {
    fn drop(&mut self) {
        if self.check_process().is_ok() {
            let _alone = self.alone();
            if let Ok(_bound) = self.bind() {
                self.destroy_retired();
                self.free_retired();
            }
            // SAFETY: it was retained once and everything made in it is gone.
            unsafe { sys::cuDevicePrimaryCtxRelease_v2(self.device) };
        }
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Failure::Unprepared(error) => error.fmt(f),
            Failure::Call(call, result) => write!(f, "{call}: {}", driver::message(*result)),
            Failure::Lost(why) => f.write_str(why),
        }
    }
}
