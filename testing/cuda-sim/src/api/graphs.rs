//! Graphs.

use cudarc::driver::sys::CUresult::{self, *};
use cudarc::driver::sys::{CUDA_KERNEL_NODE_PARAMS, CUDA_MEMCPY3D, CUgraphEdgeData, CUmemorytype};

use crate::driver::{How, State, call};
use crate::handle::{Handle, Out, Outcome, find, given, put};
use crate::module::Asked;
use crate::objects::{Graph, Task};
use crate::settings::may_free;

#[unsafe(no_mangle)]
pub extern "C" fn cuGraphCreate(graph: Out<'_, Handle>, flags: u32) -> CUresult {
    call(How::Free, |state| {
        let to = given(graph.filter(|_| flags == 0))?;
        let handle = state.handle();
        state.graphs.insert(handle, Graph(Vec::new()));
        to.write(handle);
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuGraphDestroy(graph: Handle) -> CUresult {
    call(How::Free, |state| {
        find(&mut state.graphs, "graph", graph)?;
        may_free()?;
        state.graphs.remove(&graph);
        Ok(())
    })
}

/// The task of a node that launches a kernel.
fn launch(state: &mut State, params: Option<&CUDA_KERNEL_NODE_PARAMS>) -> Outcome<Task> {
    let params = given(params.filter(|params| params.extra.is_null()))?;
    let asked = Asked {
        function: params.func.addr(),
        groups: [params.gridDimX, params.gridDimY, params.gridDimZ],
        threads: [params.blockDimX, params.blockDimY, params.blockDimZ],
        shared: params.sharedMemBytes,
        arguments: params.kernelParams.expose_provenance(),
    };
    state.asked(&asked).map(Task::Launch)
}

/// The task of a node that copies one row of bytes within the device's memory.
fn copy(params: Option<&CUDA_MEMCPY3D>) -> Outcome<Task> {
    let params = given(params)?;
    let device = CUmemorytype::CU_MEMORYTYPE_DEVICE;
    let one_row = (params.Height, params.Depth) == (1, 1) && params.WidthInBytes > 0;
    if !one_row || (params.srcMemoryType, params.dstMemoryType) != (device, device) {
        return Err(CUDA_ERROR_INVALID_VALUE);
    }
    Ok(Task::Copy {
        to: params.dstDevice as usize + params.dstXInBytes,
        from: params.srcDevice as usize + params.srcXInBytes,
        bytes: params.WidthInBytes,
    })
}

fn child(state: &mut State, graph: Handle) -> Outcome<Task> {
    let Graph(nodes) = find(&mut state.graphs, "graph", graph)?;
    Ok(Task::Child(nodes.clone()))
}

fn add(
    node: Out<'_, Handle>,
    graph: Handle,
    after: *const Handle,
    count: usize,
    task: impl FnOnce(&mut State) -> Outcome<Task>,
) -> CUresult {
    call(How::Free, |state| {
        let after = match (after.is_null(), count) {
            (_, 0) => &[],
            (true, _) => return Err(CUDA_ERROR_INVALID_VALUE),
            // SAFETY: the caller gives so many nodes.
            (false, _) => unsafe { std::slice::from_raw_parts(after, count) },
        };
        let task = task(state)?;
        put(node, state.add_node(graph, after, task)?)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuGraphAddKernelNode_v2(
    node: Out<'_, Handle>,
    graph: Handle,
    after: *const Handle,
    count: usize,
    params: Option<&CUDA_KERNEL_NODE_PARAMS>,
) -> CUresult {
    add(node, graph, after, count, |state| launch(state, params))
}

#[unsafe(no_mangle)]
pub extern "C" fn cuGraphAddMemcpyNode(
    node: Out<'_, Handle>,
    graph: Handle,
    after: *const Handle,
    count: usize,
    params: Option<&CUDA_MEMCPY3D>,
    _context: Handle,
) -> CUresult {
    add(node, graph, after, count, |_| copy(params))
}

#[unsafe(no_mangle)]
pub extern "C" fn cuGraphAddChildGraphNode(
    node: Out<'_, Handle>,
    graph: Handle,
    after: *const Handle,
    count: usize,
    other: Handle,
) -> CUresult {
    add(node, graph, after, count, |state| child(state, other))
}

#[unsafe(no_mangle)]
pub extern "C" fn cuGraphAddEventRecordNode(
    node: Out<'_, Handle>,
    graph: Handle,
    after: *const Handle,
    count: usize,
    event: Handle,
) -> CUresult {
    add(node, graph, after, count, |state| {
        find(&mut state.events, "event", event)?;
        Ok(Task::Record(event))
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuGraphAddDependencies_v2(
    graph: Handle,
    from: Option<&Handle>,
    to: Option<&Handle>,
    edge: Option<&CUgraphEdgeData>,
    count: usize,
) -> CUresult {
    call(How::Free, |state| {
        let (Some(&from), Some(&to), 1) = (from, to, count) else {
            return Err(CUDA_ERROR_INVALID_VALUE);
        };
        let early = match edge.map(|edge| [edge.from_port, edge.to_port, edge.type_]) {
            None | Some([0, 0, 0]) => false,
            // As the groups of the first end, or at its own word.
            Some([1, 0, 1]) => true,
            Some(_) => return Err(CUDA_ERROR_INVALID_VALUE),
        };
        state.add_edge(graph, from, to, early)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuGraphInstantiateWithFlags(
    exec: Out<'_, Handle>,
    graph: Handle,
    flags: u64,
) -> CUresult {
    call(How::Alone, |state| {
        let to = given(exec.filter(|_| flags == 0))?;
        to.write(state.instantiate(graph)?);
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuGraphExecDestroy(exec: Handle) -> CUresult {
    call(How::Alone, |state| {
        find(&mut state.execs, "executable graph", exec)?;
        may_free()?;
        state.execs.remove(&exec);
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuGraphExecKernelNodeSetParams_v2(
    exec: Handle,
    node: Handle,
    params: Option<&CUDA_KERNEL_NODE_PARAMS>,
) -> CUresult {
    call(How::Free, |state| {
        let task = launch(state, params)?;
        state.set_node(exec, node, task)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuGraphExecMemcpyNodeSetParams(
    exec: Handle,
    node: Handle,
    params: Option<&CUDA_MEMCPY3D>,
    _context: Handle,
) -> CUresult {
    call(How::Free, |state| state.set_node(exec, node, copy(params)?))
}

#[unsafe(no_mangle)]
pub extern "C" fn cuGraphExecChildGraphNodeSetParams(
    exec: Handle,
    node: Handle,
    other: Handle,
) -> CUresult {
    call(How::Free, |state| {
        let task = child(state, other)?;
        state.set_node(exec, node, task)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuGraphUpload(exec: Handle, stream: Handle) -> CUresult {
    call(How::Shared, |state| {
        state.not_captured(stream)?;
        find(&mut state.execs, "executable graph", exec).map(drop)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuGraphLaunch(exec: Handle, stream: Handle) -> CUresult {
    call(How::Shared, |state| state.launch_graph(exec, stream))
}
