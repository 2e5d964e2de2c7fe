//! Breaches of the rules on what kernels and copies are given.

use std::ffi::c_void;
use std::ptr::NonNull;

use objc2::runtime::ProtocolObject;
use objc2_foundation::NSRange;
use objc2_metal::*;
use streampool_metal_sim::Rule;

use super::Breach;
use super::common::*;

const HUGE: usize = 4 << 30;

fn huge(metal: &Metal) -> Buffer {
    let options = MTLResourceOptions::StorageModePrivate;
    let made = metal.device.newBufferWithLength_options(HUGE, options);
    made.expect("memory that takes none until it is written")
}

pub const BREACHES: &[Breach] = &[
    (Rule::BindingIndex, "a buffer at index 31", |_, metal| {
        encode(metal, |encoder| bind(encoder, &metal.buffer(), 0, 31));
    }),
    (
        Rule::BindingMissing,
        "a kernel's buffer is not set",
        |_, metal| {
            dispatch(
                metal,
                "add",
                |encoder| bind(encoder, &metal.buffer(), 0, 0),
                1,
                1,
            );
        },
    ),
    (
        Rule::BindingOffset,
        "an offset beyond the buffer",
        |_, metal| {
            encode(metal, |encoder| bind(encoder, &metal.buffer(), BYTES, 0));
        },
    ),
    (
        Rule::BindingOffset,
        "an offset within a float",
        |_, metal| {
            let set = |encoder: &Compute| {
                bind(encoder, &metal.buffer(), 2, 0);
                set_bytes(encoder, &[0; 4], 1);
            };
            dispatch(metal, "add", set, 1, 1);
        },
    ),
    (Rule::BytesLength, "no bytes", |_, metal| {
        encode(metal, |encoder| set_bytes(encoder, &[], 0))
    }),
    (Rule::BytesLength, "4,097 bytes", |_, metal| {
        encode(metal, |encoder| set_bytes(encoder, &[0; 4097], 0))
    }),
    (
        Rule::BytesLength,
        "fewer bytes than the kernel reads",
        |_, metal| {
            let set = |encoder: &Compute| {
                bind(encoder, &metal.buffer(), 0, 0);
                set_bytes(encoder, &[0; 2], 1);
            };
            dispatch(metal, "add", set, 1, 1);
        },
    ),
    (
        Rule::PipelineMissing,
        "a dispatch without a pipeline",
        |_, metal| {
            encode(metal, |encoder| {
                encoder.dispatchThreadgroups_threadsPerThreadgroup(size(1), size(1))
            });
        },
    ),
    (
        Rule::ThreadgroupMemory,
        "a length that is no multiple of 16",
        |_, metal| {
            // SAFETY: it is refused.
            encode(metal, |encoder| unsafe {
                encoder.setThreadgroupMemoryLength_atIndex(20, 0)
            });
        },
    ),
    (
        Rule::ThreadgroupMemory,
        "a kernel's threadgroup memory has no length",
        |_, metal| {
            dispatch(metal, "sum", |encoder| bind_two(metal, encoder), 1, 64);
        },
    ),
    (
        Rule::ThreadgroupMemory,
        "more threadgroup memory than there is",
        |_, metal| {
            let set = |encoder: &Compute| {
                bind_two(metal, encoder);
                // SAFETY: the kernel is not run.
                unsafe { encoder.setThreadgroupMemoryLength_atIndex(33 << 10, 0) };
            };
            dispatch(metal, "sum", set, 1, 64);
        },
    ),
    (
        Rule::ThreadgroupSize,
        "groups without threads",
        |_, metal| {
            dispatch(metal, "add", |encoder| set_add(metal, encoder), 1, 0);
        },
    ),
    (
        Rule::ThreadgroupSize,
        "groups of more threads than the pipeline allows",
        |_, metal| {
            dispatch(metal, "add", |encoder| set_add(metal, encoder), 1, 1025);
        },
    ),
    (Rule::GridSize, "a grid without groups", |_, metal| {
        dispatch(metal, "add", |encoder| set_add(metal, encoder), 0, 1);
    }),
    (
        Rule::Kernel,
        "a kernel that writes beside its buffer",
        |_, metal| {
            dispatch(metal, "add", |encoder| set_add(metal, encoder), 5, 64);
        },
    ),
    (Rule::BlitRange, "a fill beyond the end", |_, metal| {
        blit(metal, |encoder| {
            encoder.fillBuffer_range_value(&metal.buffer(), NSRange::new(4, BYTES), 0);
        })
    }),
    (Rule::BlitRange, "a fill of 3 bytes", |_, metal| {
        blit(metal, |encoder| {
            encoder.fillBuffer_range_value(&metal.buffer(), NSRange::new(0, 3), 0);
        })
    }),
    (Rule::BlitRange, "a copy onto itself", |_, metal| {
        blit(metal, |encoder| {
            let buffer = metal.buffer();
            // SAFETY: it is refused.
            unsafe {
                encoder.copyFromBuffer_sourceOffset_toBuffer_destinationOffset_size(
                    &buffer, 0, &buffer, 8, 16,
                );
            }
        })
    }),
    (Rule::BlitLength, "a fill of 4 GiB", |_, metal| {
        blit(metal, |encoder| {
            let buffer = huge(metal);
            encoder.fillBuffer_range_value(&buffer, NSRange::new(0, HUGE), 0);
        })
    }),
    (Rule::BlitLength, "a copy of 4 GiB", |_, metal| {
        blit(metal, |encoder| {
            let (from, to) = (huge(metal), huge(metal));
            // SAFETY: it is refused.
            unsafe {
                encoder.copyFromBuffer_sourceOffset_toBuffer_destinationOffset_size(
                    &from, 0, &to, 0, HUGE,
                );
            }
        })
    }),
    (
        Rule::Argument,
        "a kernel writes to inline bytes",
        |_, metal| {
            let set = |encoder: &Compute| {
                set_bytes(encoder, &[0; 256], 0);
                set_bytes(encoder, &[0; 4], 1);
            };
            dispatch(metal, "add", set, 1, 1);
        },
    ),
    (Rule::Argument, "a pipeline of nothing", |_, metal| {
        let descriptor = MTLComputePipelineDescriptor::new();
        let pipeline = metal
            .device
            .newComputePipelineStateWithDescriptor_options_reflection_error(
                &descriptor,
                MTLPipelineOption::empty(),
                None,
            );
        assert!(pipeline.is_err());
    }),
];

/// Has `step` encode something and ends the encoder.
fn encode(metal: &Metal, step: impl FnOnce(&Compute)) {
    let commands = metal.commands();
    let encoder = compute(&commands);
    step(&encoder);
    encoder.endEncoding();
    finish(&commands);
}

fn dispatch(
    metal: &Metal,
    kernel: &str,
    set: impl FnOnce(&Compute),
    groups: usize,
    threads: usize,
) {
    let pipeline = metal.pipeline(kernel);
    encode(metal, |encoder| {
        encoder.setComputePipelineState(&pipeline);
        set(encoder);
        encoder.dispatchThreadgroups_threadsPerThreadgroup(size(groups), size(threads));
    });
}

fn blit(metal: &Metal, step: impl FnOnce(&ProtocolObject<dyn MTLBlitCommandEncoder>)) {
    let commands = metal.commands();
    let encoder = commands.blitCommandEncoder().expect("an encoder");
    step(&encoder);
    encoder.endEncoding();
    finish(&commands);
}

fn bind(encoder: &Compute, buffer: &Buffer, offset: usize, index: usize) {
    // SAFETY: what is wrong with it is what the imitation has to see.
    unsafe { encoder.setBuffer_offset_atIndex(Some(buffer), offset, index) };
}

fn bind_two(metal: &Metal, encoder: &Compute) {
    bind(encoder, &metal.filled(1.0), 0, 0);
    bind(encoder, &metal.buffer(), 0, 1);
}

fn set_bytes(encoder: &Compute, bytes: &[u8], index: usize) {
    let address = NonNull::from(bytes).cast::<c_void>();
    // SAFETY: there are so many bytes.
    unsafe { encoder.setBytes_length_atIndex(address, bytes.len(), index) };
}

fn set_add(metal: &Metal, encoder: &Compute) {
    bind(encoder, &metal.filled(1.0), 0, 0);
    set_bytes(encoder, &1f32.to_ne_bytes(), 1);
}
