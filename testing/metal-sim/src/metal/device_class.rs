//! `MTLDevice`: tells what the device can, and makes everything that works on it.

use std::ffi::c_void;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use super::buffer::Buffer;
use super::device::{Device, MOST_THREADS, REGISTRY_ID, THREADGROUP_MEMORY};
use super::values::{Size, Storage};
use super::{archive, event, library, pipeline, queue, residency};
use crate::foundation::{NSOBJECT, array, autoreleased_string};
use crate::inside::Inside;
use crate::lock::lock;
use crate::method;
use crate::report::{Rule, violation};
use crate::runtime::{Class, Definition, Id};
use crate::settings::{Refusal, is_refused, settings};

pub(super) static DEVICE: Class = Class::fixed(c"_Imitation_Device", Some(&NSOBJECT), define);

const LONGEST_BUFFER: usize = 8 << 30;

/// Families that this device is of, beside Apple's: Mac 2, common 1 to 3, Metal 3.
const FAMILIES: [isize; 5] = [2002, 3001, 3002, 3003, 5001];
/// Apple's are those after this.
const APPLE: isize = 1000;

/// The device, while anybody has it.
static CURRENT: Mutex<Id> = Mutex::new(Id::NULL);

fn the_device() -> Id {
    let mut current = lock(&CURRENT);
    if current.is_null() || !current.try_retain() {
        *current = DEVICE.instance(Device {
            allocated: AtomicU64::new(0),
            in_flight: AtomicUsize::new(0),
            resets: AtomicUsize::new(0),
            hazards: Arc::default(),
            started: Instant::now(),
        });
    }
    *current
}

#[unsafe(no_mangle)]
extern "C-unwind" fn MTLCreateSystemDefaultDevice() -> Id {
    let _inside = Inside::enter();
    match is_refused(Refusal::PreferredDevice) {
        true => Id::NULL,
        false => the_device(),
    }
}

#[unsafe(no_mangle)]
extern "C-unwind" fn MTLCopyAllDevices() -> Id {
    let _inside = Inside::enter();
    array([the_device()].into_iter())
}

fn define(class: &Definition) {
    method!(class, "name", |_this: Device| -> Id {
        autoreleased_string("Imitation of an Apple GPU")
    });
    method!(class, "registryID", |_this: Device| -> u64 { REGISTRY_ID });
    method!(class, "maxThreadsPerThreadgroup", |_this: Device| -> Size {
        Size {
            width: MOST_THREADS,
            height: MOST_THREADS,
            depth: MOST_THREADS,
        }
    });
    method!(
        class,
        "maxThreadgroupMemoryLength",
        |_this: Device| -> usize { THREADGROUP_MEMORY }
    );
    method!(class, "maxBufferLength", |_this: Device| -> usize {
        LONGEST_BUFFER
    });
    method!(
        class,
        "recommendedMaxWorkingSetSize",
        |_this: Device| -> u64 { settings().capacity }
    );
    method!(class, "currentAllocatedSize", |this: Device| -> usize {
        this.allocated.load(Ordering::Acquire) as usize
    });
    method!(class, "hasUnifiedMemory", |_this: Device| -> u8 {
        u8::from(settings().unified)
    });
    method!(class, "supportsFamily:", |_this: Device,
                                       family: isize|
     -> u8 {
        let apple = APPLE + 1..=APPLE + settings().apple_family;
        u8::from(apple.contains(&family) || FAMILIES.contains(&family))
    });
    method!(class, "newCommandQueue", |this: Device| -> Id {
        queue::new(this.body(), 64)
    });
    method!(
        class,
        "newCommandQueueWithMaxCommandBufferCount:",
        |this: Device, count: usize| -> Id {
            if count == 0 {
                violation(Rule::Argument, "a queue for 0 command buffers".to_owned());
            }
            queue::new(this.body(), count.max(1))
        }
    );
    method!(class, "newBufferWithLength:options:", |this: Device,
                                                    length: usize,
                                                    options: usize|
     -> Id {
        if !has_good_length(length) {
            return Id::NULL;
        }
        Buffer::allocate(this.body(), length, options)
    });
    method!(
        class,
        "newBufferWithBytes:length:options:",
        |this: Device, bytes: *mut c_void, length: usize, options: usize| -> Id {
            if Storage::of(options) == Some(Storage::Private) {
                violation(
                    Rule::Contents,
                    "a private buffer is made from bytes".to_owned(),
                );
            }
            if !has_good_length(length) {
                return Id::NULL;
            }
            // SAFETY: the method takes so many bytes.
            Buffer::allocate_with(
                this.body(),
                unsafe { std::slice::from_raw_parts(bytes.cast(), length) },
                options,
            )
        }
    );
    method!(
        class,
        "newBufferWithBytesNoCopy:length:options:deallocator:",
        |this: Device, bytes: *mut c_void, length: usize, options: usize, deallocator: Id| -> Id {
            if !has_good_length(length) {
                return Id::NULL;
            }
            Buffer::adopt(this.body(), bytes, length, options, deallocator)
        }
    );
    method!(class, "newSharedEvent", |_this: Device| -> Id {
        event::new()
    });
    method!(
        class,
        "newLibraryWithSource:options:error:",
        |_this: Device, source: Id, options: Id, error: *mut Id| -> Id {
            library::new(source, options, error)
        }
    );
    method!(
        class,
        "newComputePipelineStateWithFunction:error:",
        |_this: Device, function: Id, _error: *mut Id| -> Id { pipeline::new(function) }
    );
    method!(
        class,
        "newComputePipelineStateWithDescriptor:options:reflection:error:",
        |_this: Device,
         descriptor: Id,
         options: usize,
         _reflection: *mut Id,
         error: *mut Id|
         -> Id { pipeline::new_as_described(descriptor, options, error) }
    );
    method!(
        class,
        "newBinaryArchiveWithDescriptor:error:",
        |_this: Device, descriptor: Id, error: *mut Id| -> Id { archive::new(descriptor, error) }
    );
    method!(
        class,
        "newResidencySetWithDescriptor:error:",
        |this: Device, descriptor: Id, _error: *mut Id| -> Id {
            residency::new(this.body(), descriptor)
        }
    );
    method!(
        class,
        "sampleTimestamps:gpuTimestamp:",
        |this: Device, cpu: *mut u64, gpu: *mut u64| {
            let now = (this.now() * 1e9) as u64;
            // SAFETY: the method takes places for both.
            unsafe {
                *cpu = now;
                *gpu = now;
            }
        }
    );
}

fn has_good_length(length: usize) -> bool {
    let good = (1..=LONGEST_BUFFER).contains(&length);
    if !good {
        violation(
            Rule::BufferLength,
            format!("a buffer of {length} bytes; 1 to {LONGEST_BUFFER} are allowed"),
        );
    }
    good
}
