//! How long each kind of call of the driver takes while other threads launch: which of them need its lock alone.

use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use cudarc::driver::sys::{
    self, CUDA_KERNEL_NODE_PARAMS, CUevent, CUgraph, CUgraphExec, CUgraphNode, CUmodule, CUresult,
    CUstream,
};

use streampool::cuda::ceiling::{BareStream, TEXT};
use streampool_console::Result;

/// Each kind of call is made so often.
const TIMES: usize = 20;
/// A call that takes longer than this is helped: launches stop until it returns.
const PATIENCE: Duration = Duration::from_millis(100);
/// A kind of call that had to be helped so often is not made more often.
const ENOUGH: usize = 3;
/// How long threads launch before each call.
const BETWEEN: Duration = Duration::from_millis(2);
/// What is allocated.
const BYTES: usize = 1 << 20;

/// How long one kind of call took.
#[derive(Debug, Clone)]
pub struct CallTime {
    /// The driver's name of it.
    pub call: &'static str,
    /// Each time it was made.
    pub times: Vec<Duration>,
    /// How often it did not return until the launches stopped.
    pub starved: usize,
}

/// What the calls make and take apart.
struct Hands {
    bare: BareStream,
    address: u64,
    pinned: *mut c_void,
    stream: CUstream,
    event: CUevent,
    graph: CUgraph,
    node: CUgraphNode,
    exec: CUgraphExec,
    module: CUmodule,
}

type Call = (&'static str, fn(&mut Hands) -> CUresult);

/// All kinds of calls, in an order in which each finds what it needs, and nothing is left.
const CALLS: &[Call] = &[
    ("cuCtxGetCurrent", |_| {
        let mut current = std::ptr::null_mut();
        // SAFETY: it writes one pointer.
        unsafe { sys::cuCtxGetCurrent(&mut current) }
    }),
    ("cuMemAlloc 1 MiB", |hands| {
        // SAFETY: the context is bound; it writes one address.
        unsafe { sys::cuMemAlloc_v2(&mut hands.address, BYTES) }
    }),
    ("cuMemHostAlloc 1 MiB", |hands| {
        // SAFETY: as above.
        unsafe { sys::cuMemHostAlloc(&mut hands.pinned, BYTES, 0) }
    }),
    ("cuMemcpyHtoDAsync 4 KiB", |hands| {
        let stream = hands.bare.stream();
        // SAFETY: both are as long, and stay until the copy is waited for, with what follows on the stream.
        unsafe { sys::cuMemcpyHtoDAsync_v2(hands.address, hands.pinned, 4 << 10, stream) }
    }),
    ("cuMemcpyDtoHAsync 4 KiB", |hands| {
        let stream = hands.bare.stream();
        // SAFETY: as above.
        unsafe { sys::cuMemcpyDtoHAsync_v2(hands.pinned, hands.address, 4 << 10, stream) }
    }),
    ("cuMemcpyAsync 4 KiB", |hands| {
        let stream = hands.bare.stream();
        let (to, from) = (hands.address + (8 << 10), hands.address);
        // SAFETY: as above; the ranges are apart.
        unsafe { sys::cuMemcpyAsync(to, from, 4 << 10, stream) }
    }),
    ("cuStreamQuery", |hands| {
        // SAFETY: the stream is alive.
        match unsafe { sys::cuStreamQuery(hands.bare.stream()) } {
            CUresult::CUDA_ERROR_NOT_READY => CUresult::CUDA_SUCCESS,
            other => other,
        }
    }),
    ("cuStreamSynchronize", |hands| {
        // SAFETY: the stream is alive.
        unsafe { sys::cuStreamSynchronize(hands.bare.stream()) }
    }),
    ("cuMemFreeHost", |hands| {
        // SAFETY: it was allocated above, and what used it was waited for.
        unsafe { sys::cuMemFreeHost(hands.pinned) }
    }),
    ("cuMemFree", |hands| {
        // SAFETY: as above.
        unsafe { sys::cuMemFree_v2(hands.address) }
    }),
    ("cuMemAllocAsync 1 MiB", |hands| {
        // SAFETY: the stream is alive; it writes one address.
        unsafe { sys::cuMemAllocAsync(&mut hands.address, BYTES, hands.bare.stream()) }
    }),
    ("cuMemFreeAsync", |hands| {
        // SAFETY: it was allocated above, and nothing uses it.
        unsafe { sys::cuMemFreeAsync(hands.address, hands.bare.stream()) }
    }),
    ("cuStreamCreateWithPriority", |hands| {
        // SAFETY: the context is bound; it writes one handle. 1 is for a stream that waits for no other.
        unsafe { sys::cuStreamCreateWithPriority(&mut hands.stream, 1, 0) }
    }),
    ("cuEventCreate", |hands| {
        // SAFETY: as above; 2 is for an event without timing.
        unsafe { sys::cuEventCreate(&mut hands.event, 2) }
    }),
    ("cuEventRecord", |hands| {
        // SAFETY: both handles are alive.
        unsafe { sys::cuEventRecord(hands.event, hands.stream) }
    }),
    ("cuStreamWaitEvent", |hands| {
        // SAFETY: both handles are alive.
        unsafe { sys::cuStreamWaitEvent(hands.bare.stream(), hands.event, 0) }
    }),
    ("cuEventQuery", |hands| {
        // SAFETY: the handle is alive.
        match unsafe { sys::cuEventQuery(hands.event) } {
            CUresult::CUDA_ERROR_NOT_READY => CUresult::CUDA_SUCCESS,
            other => other,
        }
    }),
    ("cuEventSynchronize", |hands| {
        // SAFETY: the handle is alive.
        unsafe { sys::cuEventSynchronize(hands.event) }
    }),
    ("cuStreamBeginCapture", |hands| {
        let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        // SAFETY: the stream is alive and idle.
        unsafe { sys::cuStreamBeginCapture_v2(hands.stream, mode) }
    }),
    ("cuLaunchKernel, captured", |hands| {
        hands.bare.launch_on(hands.stream)
    }),
    ("cuStreamEndCapture", |hands| {
        // SAFETY: the stream captures; it writes one handle.
        unsafe { sys::cuStreamEndCapture(hands.stream, &mut hands.graph) }
    }),
    ("cuGraphDestroy", |hands| {
        // SAFETY: the graph was just captured.
        unsafe { sys::cuGraphDestroy(hands.graph) }
    }),
    ("cuEventDestroy", |hands| {
        // SAFETY: it was made above, and nothing waits for it.
        unsafe { sys::cuEventDestroy_v2(hands.event) }
    }),
    ("cuGraphCreate", |hands| {
        // SAFETY: it writes one handle.
        unsafe { sys::cuGraphCreate(&mut hands.graph, 0) }
    }),
    ("cuGraphAddKernelNode", |hands| {
        let params = hands.params();
        let (node, graph) = (&raw mut hands.node, hands.graph);
        // SAFETY: the graph is alive; the kernel takes no arguments.
        unsafe { sys::cuGraphAddKernelNode_v2(node, graph, std::ptr::null(), 0, &params) }
    }),
    ("cuGraphInstantiate", |hands| {
        // SAFETY: the graph is alive; it writes one handle.
        unsafe { sys::cuGraphInstantiateWithFlags(&mut hands.exec, hands.graph, 0) }
    }),
    ("cuGraphUpload", |hands| {
        // SAFETY: both handles are alive.
        unsafe { sys::cuGraphUpload(hands.exec, hands.stream) }
    }),
    ("cuGraphExecKernelNodeSetParams", |hands| {
        let params = hands.params();
        // SAFETY: the handles are alive; the kernel takes no arguments.
        unsafe { sys::cuGraphExecKernelNodeSetParams_v2(hands.exec, hands.node, &params) }
    }),
    ("cuGraphLaunch", |hands| {
        // SAFETY: both handles are alive.
        unsafe { sys::cuGraphLaunch(hands.exec, hands.stream) }
    }),
    ("cuStreamSynchronize", |hands| {
        // SAFETY: the stream is alive.
        unsafe { sys::cuStreamSynchronize(hands.stream) }
    }),
    ("cuGraphExecDestroy", |hands| {
        // SAFETY: it was made above, and its launch was waited for.
        unsafe { sys::cuGraphExecDestroy(hands.exec) }
    }),
    ("cuGraphDestroy", |hands| {
        // SAFETY: it was made above.
        unsafe { sys::cuGraphDestroy(hands.graph) }
    }),
    ("cuStreamDestroy", |hands| {
        // SAFETY: it was made above, and its work was waited for.
        unsafe { sys::cuStreamDestroy_v2(hands.stream) }
    }),
    ("cuModuleLoadData", |hands| {
        // SAFETY: the text ends with a zero; it writes one handle.
        unsafe { sys::cuModuleLoadData(&mut hands.module, TEXT.as_ptr().cast()) }
    }),
    ("cuModuleGetFunction, cuFuncLoad", |hands| {
        let mut function = std::ptr::null_mut();
        // SAFETY: the module is loaded; it writes one handle, of a function that stays loaded.
        unsafe {
            match sys::cuModuleGetFunction(&mut function, hands.module, c"nothing".as_ptr()) {
                CUresult::CUDA_SUCCESS => sys::cuFuncLoad(function),
                other => other,
            }
        }
    }),
    ("cuModuleUnload", |hands| {
        // SAFETY: it was loaded above, and nothing of it runs.
        unsafe { sys::cuModuleUnload(hands.module) }
    }),
    ("cuThreadExchangeStreamCaptureMode", |_| {
        let mut mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
        // SAFETY: it exchanges one number for another; the second call puts back what the first took.
        unsafe {
            match sys::cuThreadExchangeStreamCaptureMode(&mut mode) {
                CUresult::CUDA_SUCCESS => sys::cuThreadExchangeStreamCaptureMode(&mut mode),
                other => other,
            }
        }
    }),
];

impl Hands {
    fn params(&self) -> CUDA_KERNEL_NODE_PARAMS {
        let null: *mut c_void = std::ptr::null_mut();
        CUDA_KERNEL_NODE_PARAMS {
            func: self.bare.function(),
            gridDimX: 1,
            gridDimY: 1,
            gridDimZ: 1,
            blockDimX: 32,
            blockDimY: 1,
            blockDimZ: 1,
            sharedMemBytes: 0,
            kernelParams: null.cast(),
            extra: null.cast(),
            kern: null.cast(),
            ctx: null.cast(),
        }
    }
}

/// What the launching threads are told.
#[derive(Default)]
struct Word {
    pauses: AtomicBool,
    ends: AtomicBool,
    launches: AtomicU64,
}

/// Times each kind of call while all `launchers` launch graphs and wait for them, with the gate shut during the call or
/// without it.
pub fn times(
    [bare, gate]: [BareStream; 2],
    launchers: &mut [BareStream],
    gated: bool,
) -> Result<(Vec<CallTime>, f64)> {
    let _bound = bare.bind()?;
    let null: *mut c_void = std::ptr::null_mut();
    let mut hands = Hands {
        bare,
        address: 0,
        pinned: null,
        stream: null.cast(),
        event: null.cast(),
        graph: null.cast(),
        node: null.cast(),
        exec: null.cast(),
        module: null.cast(),
    };
    let word = &Word::default();
    std::thread::scope(|scope| {
        for bare in launchers {
            scope.spawn(move || launch_on(bare, word, gated));
        }
        let slice = Duration::from_millis(300);
        std::thread::sleep(slice);
        let (before, begun) = (word.launches.load(Ordering::Relaxed), Instant::now());
        std::thread::sleep(slice);
        let launches = word.launches.load(Ordering::Relaxed) - before;
        let rate = launches as f64 / begun.elapsed().as_secs_f64();
        let called: Result<Vec<CallTime>> = (0..CALLS.len())
            .map(|place| time(&mut hands, place, word, gated.then_some(&gate)))
            .collect();
        word.ends.store(true, Ordering::Relaxed);
        called.map(|called| (called, rate))
    })
}

fn launch_on(bare: &mut BareStream, word: &Word, gated: bool) {
    while !word.ends.load(Ordering::Relaxed) {
        if word.pauses.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_micros(50));
            continue;
        }
        if gated {
            bare.pass();
        }
        if bare.replay(1).is_err() {
            return;
        }
        word.launches.fetch_add(1, Ordering::Relaxed);
    }
}

/// Makes all calls again and again, that of `place` while others launch and the rest while they pause.
fn time(
    hands: &mut Hands,
    place: usize,
    word: &Word,
    gate: Option<&BareStream>,
) -> Result<CallTime> {
    let mut timed = CallTime {
        call: CALLS[place].0,
        times: Vec::with_capacity(TIMES),
        starved: 0,
    };
    for _ in 0..TIMES {
        word.pauses.store(true, Ordering::Relaxed);
        std::thread::sleep(Duration::from_micros(500));
        for (other, (name, call)) in CALLS.iter().enumerate() {
            if other != place {
                let result = call(hands);
                hands.bare.check(name, result)?;
                continue;
            }
            word.pauses.store(false, Ordering::Relaxed);
            std::thread::sleep(BETWEEN);
            let (took, starved) = patiently(word, || {
                let begun = Instant::now();
                let alone = gate.map(BareStream::alone);
                let result = call(hands);
                let took = begun.elapsed();
                drop(alone);
                hands.bare.check(name, result).map(|()| took)
            });
            timed.times.push(took?);
            timed.starved += usize::from(starved);
            word.pauses.store(true, Ordering::Relaxed);
            std::thread::sleep(Duration::from_micros(500));
        }
        if timed.starved >= ENOUGH {
            break;
        }
    }
    word.pauses.store(false, Ordering::Relaxed);
    timed.times.sort();
    Ok(timed)
}

/// Has launches stop if the call does not return. Says whether they had to.
fn patiently<T>(word: &Word, call: impl FnOnce() -> T) -> (T, bool) {
    let is_back = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let watch = scope.spawn(|| {
            let begun = Instant::now();
            while !is_back.load(Ordering::Acquire) {
                if begun.elapsed() >= PATIENCE {
                    word.pauses.store(true, Ordering::Relaxed);
                    return true;
                }
                std::thread::sleep(Duration::from_micros(200));
            }
            false
        });
        let result = call();
        is_back.store(true, Ordering::Release);
        (result, watch.join().unwrap_or(true))
    })
}
