//! How long each kind of call of the driver takes while other threads launch: which of them need its lock alone.

use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use cudarc::driver::sys::{
    self, CUDA_KERNEL_NODE_PARAMS, CUcontext, CUevent, CUfunction, CUgraph, CUgraphExec,
    CUgraphNode, CUmodule, CUresult, CUstream, CUstreamCaptureMode as Capture,
};

use streampool_console::Result;
use streampool_cuda::ceiling::{BareStream, TEXT};

/// Each kind of call is made so often.
const TIMES: usize = 20;
/// A call that takes longer than this is helped: launches stop until it returns.
const PATIENCE: Duration = Duration::from_millis(100);
/// A kind of call that had to be helped so often is not made more often.
const ENOUGH: usize = 3;
/// How long threads launch before each call.
const BETWEEN: Duration = Duration::from_millis(2);
/// What is allocated, and what of it is copied.
const BYTES: usize = 1 << 20;
const PART: usize = 4 << 10;

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
    function: CUfunction,
    context: CUcontext,
    mode: Capture,
}

type Call = (&'static str, fn(&mut Hands) -> CUresult);

/// A table of calls, each of which finds `hands`.
macro_rules! calls {
    ($hands:ident; $($name:literal => $call:expr;)*) => {
        &[$(($name, |$hands: &mut Hands| {
            // SAFETY: the context is bound, and calls are made in the order of the table: each finds what those before it made,
            // alive, and what used what it takes apart was waited for. It writes to nothing but what it is given for that.
            #[allow(unused_unsafe)]
            unsafe { $call }
        })),*]
    };
}

/// All kinds of calls, in an order in which each finds what it needs, and nothing is left.
#[rustfmt::skip]
const CALLS: &[Call] = calls! { h;
    "cuCtxGetCurrent" => sys::cuCtxGetCurrent(&mut h.context);
    "cuMemAlloc 1 MiB" => sys::cuMemAlloc_v2(&mut h.address, BYTES);
    "cuMemHostAlloc 1 MiB" => sys::cuMemHostAlloc(&mut h.pinned, BYTES, 0);
    "cuMemcpyHtoDAsync 4 KiB" => sys::cuMemcpyHtoDAsync_v2(h.address, h.pinned, PART, h.bare.stream());
    "cuMemcpyDtoHAsync 4 KiB" => sys::cuMemcpyDtoHAsync_v2(h.pinned, h.address, PART, h.bare.stream());
    "cuMemcpyAsync 4 KiB" => sys::cuMemcpyAsync(h.address + (8 << 10), h.address, PART, h.bare.stream());
    "cuStreamQuery" => ready(sys::cuStreamQuery(h.bare.stream()));
    "cuStreamSynchronize" => sys::cuStreamSynchronize(h.bare.stream());
    "cuMemFreeHost" => sys::cuMemFreeHost(h.pinned);
    "cuMemFree" => sys::cuMemFree_v2(h.address);
    "cuMemAllocAsync 1 MiB" => sys::cuMemAllocAsync(&mut h.address, BYTES, h.bare.stream());
    "cuMemFreeAsync" => sys::cuMemFreeAsync(h.address, h.bare.stream());
    // 1 is for a stream that waits for no other.
    "cuStreamCreateWithPriority" => sys::cuStreamCreateWithPriority(&mut h.stream, 1, 0);
    // 2 is for an event without timing.
    "cuEventCreate" => sys::cuEventCreate(&mut h.event, 2);
    "cuEventRecord" => sys::cuEventRecord(h.event, h.stream);
    "cuStreamWaitEvent" => sys::cuStreamWaitEvent(h.bare.stream(), h.event, 0);
    "cuEventQuery" => ready(sys::cuEventQuery(h.event));
    "cuEventSynchronize" => sys::cuEventSynchronize(h.event);
    "cuStreamBeginCapture" => sys::cuStreamBeginCapture_v2(h.stream, Capture::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
    "cuLaunchKernel, captured" => h.bare.launch_on(h.stream);
    "cuStreamEndCapture" => sys::cuStreamEndCapture(h.stream, &mut h.graph);
    "cuGraphDestroy" => sys::cuGraphDestroy(h.graph);
    "cuEventDestroy" => sys::cuEventDestroy_v2(h.event);
    "cuGraphCreate" => sys::cuGraphCreate(&mut h.graph, 0);
    "cuGraphAddKernelNode" =>
        sys::cuGraphAddKernelNode_v2(&raw mut h.node, h.graph, std::ptr::null(), 0, &h.params());
    "cuGraphInstantiate" => sys::cuGraphInstantiateWithFlags(&mut h.exec, h.graph, 0);
    "cuGraphUpload" => sys::cuGraphUpload(h.exec, h.stream);
    "cuGraphExecKernelNodeSetParams" => sys::cuGraphExecKernelNodeSetParams_v2(h.exec, h.node, &h.params());
    "cuGraphLaunch" => sys::cuGraphLaunch(h.exec, h.stream);
    "cuStreamSynchronize" => sys::cuStreamSynchronize(h.stream);
    "cuGraphExecDestroy" => sys::cuGraphExecDestroy(h.exec);
    "cuGraphDestroy" => sys::cuGraphDestroy(h.graph);
    "cuStreamDestroy" => sys::cuStreamDestroy_v2(h.stream);
    "cuModuleLoadData" => sys::cuModuleLoadData(&mut h.module, TEXT.as_ptr().cast());
    "cuModuleGetFunction, cuFuncLoad" =>
        match sys::cuModuleGetFunction(&mut h.function, h.module, c"nothing".as_ptr()) {
            CUresult::CUDA_SUCCESS => sys::cuFuncLoad(h.function),
            other => other,
        };
    "cuModuleUnload" => sys::cuModuleUnload(h.module);
    // The second call puts back what the first took.
    "cuThreadExchangeStreamCaptureMode" => match sys::cuThreadExchangeStreamCaptureMode(&mut h.mode) {
        CUresult::CUDA_SUCCESS => sys::cuThreadExchangeStreamCaptureMode(&mut h.mode),
        other => other,
    };
};

/// What a question came to, whatever the answer.
fn ready(result: CUresult) -> CUresult {
    match result {
        CUresult::CUDA_ERROR_NOT_READY => CUresult::CUDA_SUCCESS,
        other => other,
    }
}

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
        function: null.cast(),
        context: null.cast(),
        mode: Capture::CU_STREAM_CAPTURE_MODE_RELAXED,
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
