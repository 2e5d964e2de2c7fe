//! What the tests of the imitation share: Metal through `objc2-metal`, as a program calls it.
#![allow(dead_code, reason = "each test program uses its part")]

use objc2::rc::{Retained, autoreleasepool};
use objc2::runtime::ProtocolObject;
use objc2_foundation::NSString;
use objc2_metal::*;

pub use streampool_metal_sim::Sim;

pub type Device = Retained<ProtocolObject<dyn MTLDevice>>;
pub type Queue = Retained<ProtocolObject<dyn MTLCommandQueue>>;
pub type Commands = Retained<ProtocolObject<dyn MTLCommandBuffer>>;
pub type Compute = Retained<ProtocolObject<dyn MTLComputeCommandEncoder>>;
pub type Buffer = Retained<ProtocolObject<dyn MTLBuffer>>;
pub type Pipeline = Retained<ProtocolObject<dyn MTLComputePipelineState>>;
pub type Residency = Retained<ProtocolObject<dyn MTLResidencySet>>;
pub type Event = Retained<ProtocolObject<dyn MTLSharedEvent>>;

/// Kernels for the tests.
pub const TEXT: &str = "
#include <metal_stdlib>
using namespace metal;

kernel void add(device float* values [[buffer(0)]], constant float& more [[buffer(1)]],
                uint at [[thread_position_in_grid]]) {
    values[at] += more;
}

kernel void sum(const device float* values [[buffer(0)]], device float* total [[buffer(1)]],
                threadgroup float* part [[threadgroup(0)]], uint at [[thread_position_in_threadgroup]],
                uint count [[threads_per_threadgroup]]) {
    part[at] = values[at];
    threadgroup_barrier(mem_flags::mem_threadgroup);
    for (uint half_ = count / 2; half_ > 0; half_ /= 2) {
        if (at < half_) part[at] += part[at + half_];
        threadgroup_barrier(mem_flags::mem_threadgroup);
    }
    if (at == 0) total[0] = part[0];
}
";

pub const FLOATS: usize = 256;
pub const BYTES: usize = 4 * FLOATS;

/// A device with a queue.
pub struct Metal {
    pub device: Device,
    pub queue: Queue,
}

pub fn size(width: usize) -> MTLSize {
    MTLSize {
        width,
        height: 1,
        depth: 1,
    }
}

impl Metal {
    pub fn new() -> Metal {
        let device = MTLCreateSystemDefaultDevice().expect("the imitation has a device");
        let queue = device
            .newCommandQueueWithMaxCommandBufferCount(8)
            .expect("a queue");
        Metal { device, queue }
    }

    pub fn buffer(&self) -> Buffer {
        let buffer = self
            .device
            .newBufferWithLength_options(BYTES, MTLResourceOptions::StorageModeShared);
        buffer.expect("memory for a buffer")
    }

    /// A buffer of floats, each `value`.
    pub fn filled(&self, value: f32) -> Buffer {
        let buffer = self.buffer();
        // SAFETY: nobody else knows the buffer.
        unsafe { std::slice::from_raw_parts_mut(buffer.contents().as_ptr().cast::<f32>(), FLOATS) }
            .fill(value);
        buffer
    }

    /// A buffer of zeroes, of which Metal tracks no hazards.
    pub fn untracked(&self) -> Buffer {
        let options =
            MTLResourceOptions::StorageModeShared | MTLResourceOptions::HazardTrackingModeUntracked;
        let buffer = self.device.newBufferWithLength_options(BYTES, options);
        let buffer = buffer.expect("memory for a buffer");
        // SAFETY: it has so many bytes, and nobody else knows it.
        unsafe { buffer.contents().cast::<u8>().write_bytes(0, BYTES) };
        buffer
    }

    pub fn event(&self) -> Event {
        self.device.newSharedEvent().expect("an event")
    }

    pub fn residency_set(&self) -> Residency {
        let descriptor = MTLResidencySetDescriptor::new();
        descriptor.setLabel(Some(&NSString::from_str("a set")));
        let set = self.device.newResidencySetWithDescriptor_error(&descriptor);
        set.expect("a residency set")
    }

    pub fn pipeline(&self, name: &str) -> Pipeline {
        let library = self
            .device
            .newLibraryWithSource_options_error(&NSString::from_str(TEXT), None);
        let library = library.unwrap_or_else(|e| panic!("{}", e.localizedDescription()));
        let function = library
            .newFunctionWithName(&NSString::from_str(name))
            .expect("a kernel of this name");
        self.device
            .newComputePipelineStateWithFunction_error(&function)
            .expect("a pipeline")
    }

    pub fn commands(&self) -> Commands {
        self.queue.commandBuffer().expect("a command buffer")
    }

    pub fn unretained(&self) -> Commands {
        self.queue
            .commandBufferWithUnretainedReferences()
            .expect("a command buffer")
    }
}

pub fn compute(commands: &Commands) -> Compute {
    commands.computeCommandEncoder().expect("an encoder")
}

/// Has `pipeline` add `more` to all of `buffer`.
pub fn add(commands: &Commands, pipeline: &Pipeline, buffer: &Buffer, more: f32) {
    let encoder = compute(commands);
    encoder.setComputePipelineState(pipeline);
    // SAFETY: the buffer and the number are what the kernel declares.
    unsafe {
        encoder.setBuffer_offset_atIndex(Some(buffer), 0, 0);
        encoder.setBytes_length_atIndex(std::ptr::NonNull::from(&more).cast(), 4, 1);
    }
    encoder.dispatchThreadgroups_threadsPerThreadgroup(size(FLOATS / 64), size(64));
    encoder.endEncoding();
}

pub fn fill(commands: &Commands, buffer: &Buffer, value: u8) {
    let encoder = commands.blitCommandEncoder().expect("an encoder");
    encoder.fillBuffer_range_value(buffer, objc2_foundation::NSRange::new(0, BYTES), value);
    encoder.endEncoding();
}

pub fn floats(buffer: &Buffer) -> Vec<f32> {
    // SAFETY: the caller waited for what writes to it.
    unsafe { std::slice::from_raw_parts(buffer.contents().as_ptr().cast::<f32>(), FLOATS) }.to_vec()
}

pub fn finish(commands: &Commands) {
    commands.commit();
    commands.waitUntilCompleted();
}

/// Runs `test` with a device and a pool.
pub fn with_metal(test: impl FnOnce(&Metal)) {
    autoreleasepool(|_| test(&Metal::new()));
}
