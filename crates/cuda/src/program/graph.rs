//! A graph of the driver: a chain of nodes, each of which can be given other memory later.

use std::ffi::CStr;
use std::sync::Arc;

use cudarc::driver::sys::{
    self, CUDA_KERNEL_NODE_PARAMS, CUDA_MEMCPY3D, CUfunction, CUgraph, CUgraphEdgeData,
    CUgraphExec, CUgraphNode, CUgraphNodeType, CUmemorytype, CUresult, CUstream,
    CUstreamCaptureMode,
};
use streampool_device::Priority;
use streampool_kernels::Kernel;

use super::tasks::{Bytes, Kind, Task};
use crate::context::{Context, Failure};
use crate::core::Core;
use crate::marks::{Mark, Shelf};
use crate::place::Place;
use crate::step::Launch;
use crate::tracing::Shape;

/// A chain of nodes, each run after the one before it.
pub(super) struct Chain {
    raw: RawGraph,
    last: Option<Node>,
}

/// One node of a chain.
#[derive(Clone, Copy)]
pub(super) struct Node {
    raw: CUgraphNode,
    kind: Kind,
}

// SAFETY: a node is used only through the graph it is of, by whoever has that.
unsafe impl Send for Node {}

impl Chain {
    /// The context is bound.
    pub fn new(context: &Arc<Context>) -> Result<Chain, Failure> {
        let mut raw = std::ptr::null_mut();
        // SAFETY: it writes one handle.
        let result = unsafe { sys::cuGraphCreate(&mut raw, 0) };
        context.check("cuGraphCreate", result)?;
        Ok(Chain {
            raw: RawGraph {
                context: context.clone(),
                raw,
            },
            last: None,
        })
    }

    /// What the next node depends on: the last one, or none of them.
    fn before(&self) -> (CUgraphNode, usize) {
        match self.last {
            // Planted: an edge that is left out.
            Some(node) if !cfg!(planted_edge) => (node.raw, 1),
            _ => (std::ptr::null_mut(), 0),
        }
    }

    /// Appends a node that does `task`. The context is bound.
    ///
    /// # Safety
    /// As for [`Step::submit`](crate::step::Step::submit), each time the graph runs.
    pub unsafe fn append(
        &mut self,
        core: &Core,
        task: &Task<'_>,
        place: &Place<'_>,
    ) -> Result<Node, Failure> {
        let context = &core.context;
        let graph = self.raw.raw;
        let mut raw = std::ptr::null_mut();
        let (before, count) = self.before();
        let dependencies = &raw const before;
        match task {
            Task::Launch(launch) => {
                // The kernel that does nothing does not wait either.
                let waits = core.starts_early && !matches!(launch.dispatch.kernel, Kernel::Nop);
                let is_early = waits && self.last.is_some_and(|node| node.kind == Kind::Launch);
                let count = if is_early { 0 } else { count };
                with_kernel(context, launch, place, |params| {
                    // SAFETY: the handles are alive, and the driver copies the arguments, which are as the
                    // kernel's text declares them.
                    let result = unsafe {
                        sys::cuGraphAddKernelNode_v2(&mut raw, graph, dependencies, count, params)
                    };
                    context.check("cuGraphAddKernelNode", result)
                })?;
                if is_early {
                    // SAFETY: both nodes are of this graph; the kernel waits by itself for what it follows.
                    let result = unsafe {
                        sys::cuGraphAddDependencies_v2(graph, &before, &raw, &AS_IT_ENDS, 1)
                    };
                    context.check("cuGraphAddDependencies", result)?;
                }
            }
            Task::Copy(bytes) => {
                // SAFETY: the handles are alive; the caller vouches for the memory.
                let result = unsafe {
                    sys::cuGraphAddMemcpyNode(
                        &mut raw,
                        graph,
                        dependencies,
                        count,
                        &linear(bytes),
                        context.raw(),
                    )
                };
                context.check("cuGraphAddMemcpyNode", result)?;
            }
            Task::Product(_) | Task::Conv(_) => {
                // SAFETY: the caller vouches for the memory.
                let child = unsafe { captured(core, task, place)? };
                // SAFETY: the handles are alive; the driver copies the child.
                let result = unsafe {
                    sys::cuGraphAddChildGraphNode(&mut raw, graph, dependencies, count, child.raw)
                };
                context.check("cuGraphAddChildGraphNode", result)?;
            }
        }
        let node = Node {
            raw,
            kind: task.kind(),
        };
        self.last = Some(node);
        Ok(node)
    }

    /// Appends a node that notes the time. The context is bound.
    pub fn note(&mut self, shelf: &Arc<Shelf>) -> Result<Arc<Mark>, Failure> {
        let mark = shelf.unset(true)?;
        let mut raw = std::ptr::null_mut();
        let (before, count) = self.before();
        let dependencies = &raw const before;
        // SAFETY: the handles are alive, and whoever launches the graph keeps the mark until that is over.
        let result = unsafe {
            sys::cuGraphAddEventRecordNode(&mut raw, self.raw.raw, dependencies, count, mark.raw())
        };
        self.raw
            .context
            .check("cuGraphAddEventRecordNode", result)?;
        self.last = Some(Node {
            raw,
            kind: Kind::Note,
        });
        Ok(Arc::new(mark))
    }

    /// What the kernels of a node of this chain that does `task` are like: of several, the one that keeps most processors.
    /// The context is bound.
    pub fn shape(&self, node: &Node, task: &Task<'_>) -> Result<Option<Shape>, Failure> {
        let context = &self.raw.context;
        match task {
            Task::Copy(_) => Ok(None),
            Task::Launch(launch) => {
                let groups = launch.dispatch.groups;
                shape(
                    context,
                    launch.function.raw(),
                    groups,
                    launch.dispatch.threads,
                    launch.function.brought(),
                )
                .map(Some)
            }
            Task::Product(_) | Task::Conv(_) => {
                let mut shapes = Vec::new();
                for params in kernels(context, node)? {
                    let groups = [params.gridDimX, params.gridDimY, params.gridDimZ];
                    let threads = [params.blockDimX, params.blockDimY, params.blockDimZ];
                    let threads = threads.into_iter().fold(1, u32::saturating_mul);
                    // The driver takes either handle as the function.
                    let function = match params.func.is_null() {
                        true => params.kern.cast(),
                        false => params.func,
                    };
                    shapes.push(shape(
                        context,
                        function,
                        groups,
                        threads,
                        params.sharedMemBytes,
                    )?);
                }
                let launches = shapes.len();
                let largest = shapes
                    .into_iter()
                    .max_by_key(|shape| shape.groups / u64::from(shape.fit.max(1)));
                Ok(largest.map(|shape| Shape { launches, ..shape }))
            }
        }
    }
}

/// What a kernel is like that is launched so. The context is bound.
fn shape(
    context: &Context,
    function: CUfunction,
    groups: [u32; 3],
    threads: u32,
    shared: u32,
) -> Result<Shape, Failure> {
    let (mut name, mut fit) = (std::ptr::null(), 0);
    // SAFETY: the function is loaded as long as its step or its library has it; it writes one pointer.
    let result = unsafe { sys::cuFuncGetName(&mut name, function) };
    context.check("cuFuncGetName", result)?;
    // SAFETY: as above; it writes one number.
    let result = unsafe {
        let (threads, shared) = (threads as i32, shared as usize);
        sys::cuOccupancyMaxActiveBlocksPerMultiprocessor(&mut fit, function, threads, shared)
    };
    context.check("cuOccupancyMaxActiveBlocksPerMultiprocessor", result)?;
    // SAFETY: the driver gives a name that ends with a zero and lives as long as the function.
    let name = unsafe { CStr::from_ptr(name) };
    Ok(Shape {
        name: name.to_string_lossy().into(),
        launches: 1,
        groups: groups
            .into_iter()
            .map(u64::from)
            .fold(1, u64::saturating_mul),
        fit: fit.max(0) as u32,
    })
}

/// The kernels that a library's node launches. The context is bound.
fn kernels(context: &Context, node: &Node) -> Result<Vec<CUDA_KERNEL_NODE_PARAMS>, Failure> {
    let (mut child, mut count) = (std::ptr::null_mut(), 0);
    // SAFETY: the node is one of a graph that lives and has a child, which lives as long; it writes one handle.
    let result = unsafe { sys::cuGraphChildGraphNodeGetGraph(node.raw, &mut child) };
    context.check("cuGraphChildGraphNodeGetGraph", result)?;
    // SAFETY: without room for nodes, it writes their number only.
    let result = unsafe { sys::cuGraphGetNodes(child, std::ptr::null_mut(), &mut count) };
    context.check("cuGraphGetNodes", result)?;
    let mut nodes = vec![std::ptr::null_mut(); count];
    // SAFETY: there is room for so many.
    let result = unsafe { sys::cuGraphGetNodes(child, nodes.as_mut_ptr(), &mut count) };
    context.check("cuGraphGetNodes", result)?;
    let mut kernels = Vec::new();
    for node in nodes {
        let mut kind = CUgraphNodeType::CU_GRAPH_NODE_TYPE_EMPTY;
        // SAFETY: the node is alive; it writes its type.
        let result = unsafe { sys::cuGraphNodeGetType(node, &mut kind) };
        context.check("cuGraphNodeGetType", result)?;
        if kind == CUgraphNodeType::CU_GRAPH_NODE_TYPE_KERNEL {
            let mut params = NO_KERNEL;
            // SAFETY: the node launches a kernel; it writes how.
            let result = unsafe { sys::cuGraphKernelNodeGetParams_v2(node, &mut params) };
            context.check("cuGraphKernelNodeGetParams", result)?;
            kernels.push(params);
        }
    }
    Ok(kernels)
}

const NO_KERNEL: CUDA_KERNEL_NODE_PARAMS = CUDA_KERNEL_NODE_PARAMS {
    func: std::ptr::null_mut(),
    gridDimX: 0,
    gridDimY: 0,
    gridDimZ: 0,
    blockDimX: 0,
    blockDimY: 0,
    blockDimZ: 0,
    sharedMemBytes: 0,
    kernelParams: std::ptr::null_mut(),
    extra: std::ptr::null_mut(),
    kern: std::ptr::null_mut(),
    ctx: std::ptr::null_mut(),
};

/// The edge to a kernel that is launched when all groups of the one before it are over or about to be: its text begins
/// with a wait for what they wrote.
const AS_IT_ENDS: CUgraphEdgeData = CUgraphEdgeData {
    from_port: sys::CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC as u8,
    to_port: 0,
    type_: sys::CUgraphDependencyType::CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC as u8,
    reserved: [0; 5],
};

/// A chain that can be launched.
pub(super) struct Graph {
    exec: CUgraphExec,
    // What nodes are updated by: it has to stay as it was.
    chain: Chain,
}

// SAFETY: the driver's graphs may be used from any thread, by one at a time: what uses them takes `&mut self`.
unsafe impl Send for Graph {}

impl Graph {
    /// Makes `chain` ready to be launched on `stream`. The context is bound.
    pub fn new(chain: Chain, stream: CUstream) -> Result<Graph, Failure> {
        let context = chain.raw.context.clone();
        let mut exec = std::ptr::null_mut();
        let _alone = context.alone();
        context.destroy_some();
        // SAFETY: the graph is alive; it writes one handle.
        let result = unsafe { sys::cuGraphInstantiateWithFlags(&mut exec, chain.raw.raw, 0) };
        context.check("cuGraphInstantiate", result)?;
        let graph = Graph { exec, chain };
        // SAFETY: both handles are alive and of this context.
        let result = unsafe { sys::cuGraphUpload(exec, stream) };
        context.check("cuGraphUpload", result)?;
        Ok(graph)
    }

    /// Has `node` do `task` instead, from the next launch on; `false` if it cannot do anything of that kind.
    /// The context is bound.
    ///
    /// # Safety
    /// As for [`Chain::append`].
    pub unsafe fn update(
        &mut self,
        core: &Core,
        node: &Node,
        task: &Task<'_>,
        place: &Place<'_>,
    ) -> Result<bool, Failure> {
        if node.kind != task.kind() {
            return Ok(false);
        }
        let (exec, context) = (self.exec, &core.context);
        let result = match task {
            Task::Launch(launch) => with_kernel(context, launch, place, |params| {
                // SAFETY: as where the node was appended.
                Ok(unsafe { sys::cuGraphExecKernelNodeSetParams_v2(exec, node.raw, params) })
            })?,
            Task::Copy(bytes) => {
                let (params, context) = (linear(bytes), context.raw());
                // SAFETY: as where the node was appended.
                unsafe { sys::cuGraphExecMemcpyNodeSetParams(exec, node.raw, &params, context) }
            }
            Task::Product(_) | Task::Conv(_) => {
                // SAFETY: the caller vouches for the memory.
                let child = unsafe { captured(core, task, place)? };
                // SAFETY: as where the node was appended.
                unsafe { sys::cuGraphExecChildGraphNodeSetParams(exec, node.raw, child.raw) }
            }
        };
        match context.check("the update of a graph's node", result) {
            Ok(()) => Ok(true),
            // The driver does not change everything in place.
            Err(Failure::Call(..)) => Ok(false),
            Err(lost) => Err(lost),
        }
    }

    /// Launches it on `stream`. The context is bound.
    ///
    /// # Safety
    /// As for [`Step::submit`](crate::step::Step::submit), for each node.
    pub unsafe fn launch(&mut self, stream: CUstream) -> Result<(), Failure> {
        // SAFETY: both handles are alive, and the caller vouches for the memory.
        let result = unsafe { sys::cuGraphLaunch(self.exec, stream) };
        self.chain.raw.context.check("cuGraphLaunch", result)
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        if let Ok(_bound) = self.chain.raw.context.bind() {
            // SAFETY: it was made by `new`, and whoever launched it is gone.
            unsafe { self.chain.raw.context.retire_graph(self.exec) };
        }
    }
}

struct RawGraph {
    context: Arc<Context>,
    raw: CUgraph,
}

impl Drop for RawGraph {
    fn drop(&mut self) {
        if let Ok(_bound) = self.context.bind() {
            // SAFETY: whoever has this owns the graph.
            unsafe { self.context.destroy_graph(self.raw) };
        }
    }
}

/// Calls `work` with the parameters of a node that launches a kernel.
fn with_kernel<R>(
    context: &Context,
    launch: &Launch,
    place: &Place<'_>,
    work: impl FnOnce(&CUDA_KERNEL_NODE_PARAMS) -> Result<R, Failure>,
) -> Result<R, Failure> {
    launch.with_arguments(context, place, |arguments| {
        let [x, y, z] = launch.dispatch.groups;
        work(&CUDA_KERNEL_NODE_PARAMS {
            func: launch.function.raw(),
            gridDimX: x,
            gridDimY: y,
            gridDimZ: z,
            blockDimX: launch.dispatch.threads,
            blockDimY: 1,
            blockDimZ: 1,
            sharedMemBytes: launch.function.brought(),
            kernelParams: arguments.as_mut_ptr(),
            ..NO_KERNEL
        })
    })
}

/// The parameters of a node that copies bytes within the device's memory.
fn linear(bytes: &Bytes) -> CUDA_MEMCPY3D {
    let (memory, array) = (CUmemorytype::CU_MEMORYTYPE_DEVICE, std::ptr::null_mut());
    CUDA_MEMCPY3D {
        srcXInBytes: 0,
        srcY: 0,
        srcZ: 0,
        srcLOD: 0,
        srcMemoryType: memory,
        srcHost: std::ptr::null(),
        srcDevice: bytes.src,
        srcArray: array,
        reserved0: std::ptr::null_mut(),
        srcPitch: bytes.count,
        srcHeight: 1,
        dstXInBytes: 0,
        dstY: 0,
        dstZ: 0,
        dstLOD: 0,
        dstMemoryType: memory,
        dstHost: std::ptr::null_mut(),
        dstDevice: bytes.dst,
        dstArray: array,
        reserved1: std::ptr::null_mut(),
        dstPitch: bytes.count,
        dstHeight: 1,
        WidthInBytes: bytes.count,
        Height: 1,
        Depth: 1,
    }
}

/// How often a capture is tried again that somebody else has spoilt.
const ATTEMPTS: usize = 4;

/// What a library submits for a task of its own, as a graph. The context is bound.
///
/// Whoever waits for the whole context meanwhile, in this process, spoils the capture. Nothing here does so, but
/// other users of the driver may: then it is tried again, and at last the failure is [`is_spoilt`].
///
/// # Safety
/// As for [`Chain::append`].
unsafe fn captured(core: &Core, task: &Task<'_>, place: &Place<'_>) -> Result<RawGraph, Failure> {
    for _ in 0..ATTEMPTS {
        let context = &core.context;
        let done = match task {
            Task::Launch(_) | Task::Copy(_) => break,
            Task::Product(product) => captured_once(core, |stream| {
                // SAFETY: the caller vouches for the memory whenever it runs; nothing runs now.
                unsafe { product.submit(context, stream, place) }
            }),
            // What a session needs to be opened is not done while it captures.
            Task::Conv(conv) => conv.session().and_then(|mut session| {
                captured_once(core, |stream| {
                    // SAFETY: as above.
                    unsafe { conv.submit(&mut session, context, stream, place) }
                })
            }),
        };
        match done {
            Err(Failure::Call(..)) => {}
            other => return other,
        }
    }
    Err(Failure::Call("cuStreamEndCapture", SPOILT))
}

const SPOILT: CUresult = CUresult::CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;

/// Whether a capture failed that may succeed another time.
pub(super) fn is_spoilt(failure: &Failure) -> bool {
    matches!(failure, Failure::Call(_, SPOILT))
}

/// What `submit` appends to a stream, as a graph.
fn captured_once(
    core: &Core,
    submit: impl FnOnce(CUstream) -> Result<(), Failure>,
) -> Result<RawGraph, Failure> {
    let context = &core.context;
    let stream = core.stock.stream(Priority::Normal)?;
    // The library may load its kernels, and the driver makes a graph.
    let _alone = context.alone();
    let mode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
    // SAFETY: the stream is alive and nobody else uses it.
    let result = unsafe { sys::cuStreamBeginCapture_v2(stream, mode) };
    context.check("cuStreamBeginCapture", result)?;
    let submitted = submit(stream);
    let mut raw = std::ptr::null_mut();
    // SAFETY: the stream captures; it writes one handle, or null.
    let result = unsafe { sys::cuStreamEndCapture(stream, &mut raw) };
    let ended = context.check("cuStreamEndCapture", result);
    let graph = (!raw.is_null()).then(|| RawGraph {
        context: context.clone(),
        raw,
    });
    submitted?;
    ended?;
    // Only a stream that surely does not capture any more is used again.
    // SAFETY: it came from the stock with this priority, its capture has ended well, and nothing ran on it.
    unsafe { core.stock.give_stream(Priority::Normal, stream) };
    graph.ok_or(Failure::Call("cuStreamEndCapture", SPOILT))
}
