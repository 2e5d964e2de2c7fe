//! Each rule, when it is broken, ends the process and says which it was.

mod common;

use common::*;
use streampool_cuda_sim::api::*;

macro_rules! breaches {
    ($($name:ident: $rule:literal, $words:literal, $breach:block)*) => {
        $(#[test]
        fn $name() {
            aborts(stringify!($name), $rule, $words, || $breach);
        })*
    };
}

/// A stream that waits for something that does not come while the test looks: a kernel of very many groups.
fn busy() -> usize {
    let text = "\x7fELF of the imitation of NVRTC: slow\0\
        struct Params { unsigned none; };\n\
        extern \"C\" __global__ void slow(unsigned* to, const Params p) {\n\
        for (unsigned i = 0; i < 4000000000u; ++i) ((volatile unsigned*)to)[0] = i;\n}\n\0";
    let module = made(|to| cuModuleLoadData(to, text.as_ptr().cast()));
    let slow = made(|to| cuModuleGetFunction(to, module, c"slow".as_ptr()));
    let (mut address, mut none, stream) = (device_memory(), 0u64, stream());
    let arguments = [
        (&raw mut address).cast_const().cast(),
        (&raw mut none).cast_const().cast(),
    ];
    ok(cuLaunchKernel(
        slow,
        1,
        1,
        1,
        32,
        1,
        1,
        0,
        stream,
        arguments.as_ptr(),
        std::ptr::null(),
    ));
    stream
}

breaches! {
    a_destroyed_stream_is_used: "Handle", "stream", {
        let stream = stream();
        ok(cuStreamDestroy_v2(stream));
        cuStreamQuery(stream);
    }
    a_stream_is_destroyed_twice: "Handle", "stream", {
        let stream = stream();
        ok(cuStreamDestroy_v2(stream));
        cuStreamDestroy_v2(stream);
    }
    an_event_is_used_that_was_never_made: "Handle", "event", { cuEventQuery(0x1234); }
    a_destroyed_event_is_recorded: "Handle", "event", {
        let (stream, event) = (stream(), event());
        ok(cuEventDestroy_v2(event));
        cuEventRecord(event, stream);
    }
    a_graph_is_destroyed_twice: "Handle", "graph", {
        let graph = made(|to| cuGraphCreate(to, 0));
        ok(cuGraphDestroy(graph));
        cuGraphDestroy(graph);
    }
    memory_is_freed_twice: "Memory", "freed twice", {
        let memory = device_memory();
        ok(cuMemFree_v2(memory));
        cuMemFree_v2(memory);
    }
    memory_is_freed_twice_in_order: "Memory", "freed twice", {
        let stream = stream();
        let memory = made(|to| cuMemAllocAsync(to, BYTES, stream));
        ok(cuMemFreeAsync(memory, stream));
        cuMemFree_v2(memory);
    }
    host_memory_is_freed_under_way: "InFlight", "is freed", {
        let (stream, host, memory) = (busy(), host_memory(), device_memory());
        ok(cuMemcpyHtoDAsync_v2(memory, pointer(host), BYTES, stream));
        cuMemFreeHost(host);
    }
    device_memory_is_freed_under_way: "InFlight", "is freed", {
        let (stream, host, memory) = (busy(), host_memory(), device_memory());
        ok(cuMemcpyDtoHAsync_v2(pointer(host), memory, BYTES, stream));
        cuMemFree_v2(memory);
    }
    a_module_is_unloaded_under_way: "InFlight", "nothing", {
        let (stream, (module, nothing)) = (busy(), nothing());
        ok(launch(nothing, [1; 3], [32, 1, 1], stream));
        cuModuleUnload(module);
    }
    a_copy_overlaps_itself: "Overlap", "bytes are copied", {
        let memory = device_memory();
        cuMemcpyDtoDAsync_v2(memory + 8, memory, BYTES - 8, stream());
    }
    a_capturing_stream_is_destroyed: "Capture", "stream", {
        let stream = stream();
        ok(cuStreamBeginCapture_v2(stream, THREAD_LOCAL));
        cuStreamDestroy_v2(stream);
    }
    the_default_stream_is_used: "Imitated", "default stream", { cuStreamSynchronize(0); }
    a_kernel_of_ptx_does_something: "Imitated", "adds", {
        let text = c".version 7.0\n.visible .entry adds() { add.u32 %r1, %r2, %r3; ret; }\n";
        cuModuleLoadData(None, text.as_ptr());
    }
}
